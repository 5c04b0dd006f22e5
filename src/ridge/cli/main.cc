#include <cstdio>

int main() {
  std::fputs("ridge: no verb is built yet\n", stderr);
  return 2;
}
