// From which batch size on is a layer compute-bound on an H200?
#include <ridge/ridge.h>

#include <cstdio>

int main() {
  ridge::Request request;
  request.program = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
  request.on = "h200";
  request.dims = {{"D", 8192}, {"F", 8192}};
  const auto summary = ridge::explain(request);
  if (!summary) {
    std::fputs(summary.error().to_string().c_str(), stderr);
    return static_cast<int>(summary.error().kind);
  }
  const ridge::Threshold& b = summary->ops[0].thresholds[0];
  std::printf("compute-bound for %s >= %lld: %s\n", b.dim.c_str(), static_cast<long long>(b.value.value_or(0)),
              b.exact.c_str());
  return 0;
}
