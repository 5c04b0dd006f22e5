// A product on the caller's stream, in the caller's memory. Without a device it prints an error and exits with 4, like
// ridge. With an argument the plan is measured once and stored; otherwise it is the model's.
#include <ridge/matmul.h>

#include <cstdio>
#include <utility>

#ifdef HAS_CUDA
#include <cuda_runtime.h>
#endif

static int failed(const ridge::Error& error) {
  std::fputs(error.to_string().c_str(), stderr);
  return static_cast<int>(error.kind);
}

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
  alignas(256) static char somewhere[256];  // a placeholder address; it is not read
  call.a = call.b = call.d = somewhere;
#endif
  const ridge::Tuning tuning{argc > 1 ? ridge::Tuning::From::measured : ridge::Tuning::From::model};
  const auto plan = ridge::plan_matmul(call, 32 << 20, tuning);
  if (!plan) return failed(plan.error());
  std::printf("%s, workspace %lld bytes, %lld tiles\n", plan->kernel().c_str(),
              static_cast<long long>(plan->workspace_bytes()), static_cast<long long>(plan->tiles()));
#ifdef HAS_CUDA
  cudaMalloc(&workspace, static_cast<std::size_t>(plan->workspace_bytes()) + 256);
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  const auto queued = ridge::matmul(stream, call, *plan, {workspace, plan->workspace_bytes()});
  if (!queued) return failed(queued.error());
  std::printf("%s\n", cudaGetErrorString(cudaStreamSynchronize(stream)));
#endif
  return 0;
}
