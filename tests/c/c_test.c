/* Uses ridge/c.h from C11. The exit code is the number of failed expectations. */
#include "ridge/c.h"

#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  printf("failed: %s; ridge_last_error(): %s\n", what, ridge_last_error());
  ++failures;
}

static void explain(void) {
  char* json = NULL;
  const ridge_dim dims[] = {{"B", 64}, {"D", 4096}, {"F", 14336}};
  const char* program = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
  expect(ridge_explain_json(program, "h200", dims, 3, &json) == RIDGE_OK, "explain succeeds");
  expect(json != NULL && strstr(json, "\"flops\": 7516192768") != NULL, "2*64*4096*14336 FLOP");
  ridge_free(json);
  expect(ridge_explain_json("bf16[B, D] * bf16[E, F] -> bf16[B, F]", "h200", NULL, 0, &json) == RIDGE_INPUT,
         "an error in the program is bad input");
  expect(json == NULL, "no JSON after an error");
  expect(strstr(ridge_last_error(), "^") != NULL, "the error has a caret");
  expect(ridge_explain_json(program, "h2000", dims, 3, &json) == RIDGE_ABSENT, "an unknown machine is reported as absent");
  expect(ridge_explain_json(NULL, "h200", NULL, 0, &json) == RIDGE_USAGE, "a missing program is a usage error");
  expect(strcmp(ridge_last_error(), "expected a program, found NULL\n") == 0, "NULL is named");
}

static void multiply(void) {
  float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1}, d[4] = {0};
  const int64_t of_a[] = {2, 3}, of_b[] = {3, 2}, of_d[] = {2, 2}, transposed_strides[] = {1, 3};
  const ridge_array x = {a, "f32", 2, of_a, NULL}, y = {b, "f32", 2, of_b, NULL}, z = {d, "f32", 2, of_d, NULL};
  expect(ridge_matmul(&x, &y, &z, 1) == RIDGE_OK, "a product");
  expect(d[0] == 4 && d[1] == 5 && d[2] == 10 && d[3] == 11, "its numbers");
  const ridge_array transposed = {b, "f32", 2, of_b, transposed_strides};
  expect(ridge_matmul(&x, &transposed, &z, 1) == RIDGE_OK, "a product with strides");
  expect(d[0] == 1 && d[1] == 6 && d[2] == 4 && d[3] == 15, "its numbers");
  expect(ridge_matmul(&x, &x, &z, 1) == RIDGE_INPUT, "shapes that do not multiply");
  const ridge_array invalid = {a, "f31", 2, of_a, NULL};
  expect(ridge_matmul(&invalid, &y, &z, 1) == RIDGE_USAGE, "an unknown dtype");
}

static void run(void) {
  float x[] = {1, 2, 3, 4, 5, 6}, y[3] = {0};
  const int64_t of_x[] = {2, 3}, of_y[] = {3};
  const ridge_named_array in[] = {{"x", {x, "f32", 2, of_x, NULL}}}, out[] = {{NULL, {y, "f32", 1, of_y, NULL}}};
  const char* program = "x: f32[N, D]\ny: f32[D] = sum(x over N)";
  expect(ridge_run(program, NULL, 0, in, 1, out, 1, 0) == RIDGE_OK, "a program");
  expect(y[0] == 5 && y[1] == 7 && y[2] == 9, "its numbers");
  expect(ridge_run(program, NULL, 0, in, 1, out, 0, 0) == RIDGE_INPUT, "an output without an array");
  expect(strcmp(ridge_last_error(), "expected an array for output 'y', found none\n") == 0, "the output is named");
  const ridge_dim dims[] = {{"N", 7}};
  expect(ridge_run(program, dims, 1, in, 1, out, 1, 0) == RIDGE_INPUT, "a size that an array contradicts");
}

int main(void) {
  expect(ridge_c_abi() == RIDGE_C_ABI, "the loaded library has the ABI of this header");
  expect(strlen(ridge_version()) > 0, "a version");
  explain();
  multiply();
  run();
  if (failures == 0) printf("no expectation failed\n");
  return failures;
}
