// A product on the caller's stream, in the caller's memory. Without a device it says so and ends with 4, as ridge does.
// With an argument its plan is measured (once: ridge keeps the choice), else it is the model's.
#include <ridge/matmul.h>

#include <cstdio>
#include <utility>

#ifdef HAS_CUDA
#include <cuda_runtime.h>
#endif

int main(int argc, char**) {
  const std::int64_t m = 512, n = 768, k = 1024;
  ridge::MatmulCall call;
  call.problem = {1, m, n, k, {ridge::DType::bf16, k, 1}, {ridge::DType::bf16, 1, k}, {ridge::DType::f32, n, 1}};
#ifdef HAS_CUDA
  void *a = nullptr, *b = nullptr, *d = nullptr, *workspace = nullptr;
  for (auto [to, bytes] : {std::pair{&a, m * k * 2}, {&b, n * k * 2}, {&d, m * n * 4}})
    if (const cudaError_t e = cudaMalloc(to, bytes); e != cudaSuccess) {
      std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(e));
      return 4;
    }
  cudaMemset(a, 0, m * k * 2);
  cudaMemset(b, 0, n * k * 2);
  call.a = a;
  call.b = b;
  call.d = d;
#else
  alignas(256) static char somewhere[256];  // to ask with; nothing is read
  call.a = call.b = call.d = somewhere;
#endif
  const ridge::TuneOptions measured{.stored = true, .candidates = 8};
  const auto plan = ridge::plan_matmul(call, 32 << 20, argc > 1 ? measured : ridge::TuneOptions{});
  if (!plan) {
    std::fputs(plan.error().text().c_str(), stderr);
    return static_cast<int>(plan.error().kind);
  }
  std::printf("workspace %zu bytes, %lld tiles\n", plan->workspace_bytes, static_cast<long long>(plan->tiles));
#ifdef HAS_CUDA
  cudaMalloc(&workspace, plan->workspace_bytes + 256);
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const auto queued = ridge::matmul(stream, call, *plan, {workspace, plan->workspace_bytes});
  if (!queued) {
    std::fputs(queued.error().text().c_str(), stderr);
    return static_cast<int>(queued.error().kind);
  }
  std::printf("%s\n", cudaGetErrorString(cudaStreamSynchronize(stream)));
#endif
  return 0;
}
