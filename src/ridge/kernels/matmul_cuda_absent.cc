// The CUDA product where the build has no CUDA: it says so. Plans can still be made and read.
#include "ridge/kernels/matmul_cuda.h"

#if !RIDGE_HAS_CUDA
namespace ridge::kernels::cuda {
namespace {
constexpr const char* absent = "this build has no CUDA kernels: nvcc was not found when ridge was built";
}  // namespace

std::optional<std::string> unavailable() { return absent; }
int multiprocessors() { return 0; }
std::optional<std::string> launch(const MatmulCall&, const MatmulPlan&, const Workspace&, CUstream_st*) {
  return absent;
}
std::optional<RowFacts> row_facts(int, DType) { return std::nullopt; }

}  // namespace ridge::kernels::cuda
#endif
