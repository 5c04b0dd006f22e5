// Checks the CUDA kernels on a device. `check` (products), `weights`, `gated`, `attention`, `attention_backward` and
// `rows` compare with f64, `loops` with a CPU, `functions` checks elementwise functions, `rows_times` and
// `grouped_times` time rows and grouped products, `facts` prints properties of the compiled kernels. Without a device
// it exits with 77, which the test runner shows as skipped.
#include <cstring>

#include "support.h"

int main(int argc, char** argv) {
  using namespace ridge;
  using namespace ridge::ops;
  if (argc < 2) {
    std::fprintf(
        stderr,
        "expected check, weights, gated, attention, attention_backward, rows, loops, rows_times, grouped_times, "
        "weights_times, functions or facts\n");
    return 2;
  }
  if (const auto why = device::unavailable_reason()) {
    std::printf("SKIPPED: %s\n", why.text().c_str());
    return 77;
  }
  if (std::strcmp(argv[1], "check") == 0) return gpu::check_matmul(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "weights") == 0) return gpu::check_weights(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "weights_times") == 0) return gpu::time_weights(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "gated") == 0) return gpu::check_gated(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "attention") == 0) return gpu::check_attention(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "attention_backward") == 0) return gpu::check_attention_backward(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "rows") == 0) return gpu::check_rows(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "loops") == 0) return gpu::check_loops(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "rows_times") == 0) return gpu::time_rows(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "grouped_times") == 0) return gpu::time_grouped(argc - 2, argv + 2);
  if (std::strcmp(argv[1], "functions") == 0) return gpu::check_functions();
  for (int config = 0; config < static_cast<int>(sm90_kernel_configs.size()); ++config) {
    const auto facts = cuda::kernel_resources(config, DType::bf16);
    const MatmulConfig& c = sm90_kernel_configs[static_cast<std::size_t>(config)];
    if (facts)
      std::printf("config %d: %dx%dx%d stages %d registers %d local %d shared %d\n", config, c.m, c.n, c.k, c.stages,
                  facts->registers, facts->local_bytes, facts->shared_bytes);
  }
  return 0;
}
