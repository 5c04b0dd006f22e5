#include "ridge/bench/cublaslt.h"

#include <fmt/format.h>

#include "ridge/bench/dynamic_library.h"

namespace ridge {

// The library is column-major, so a row-major D[m, n] is computed as its transpose, with B as the first operand.
// Constants and signatures: cuBLAS 13 reference, "Using the cuBLASLt API".
struct CublasLt::LoadedLibrary : DynamicLibrary {
  using DynamicLibrary::DynamicLibrary;
  struct Algorithm {  // cublasLtMatmulHeuristicResult_t
    std::uint64_t choice[8];
    std::size_t workspace;
    int state;
    float waves;
    int reserved[4];
  };
  using Handle = void*;

  Handle handle = nullptr, product = nullptr, first = nullptr, second = nullptr, result = nullptr, preference = nullptr;
  std::array<Algorithm, max_heuristics> algorithms{};
  std::size_t workspace_bytes = 0;
  bool has_block_scales = false;                // True for e4m3_128
  std::int64_t a_elements = 0, b_elements = 0;  // In the operands of the product
  bool sums_integers = false;

  int (*create)(Handle*) = find("cublasLtCreate");
  std::size_t (*version)() = find("cublasLtGetVersion");
  int (*product_create)(Handle*, int, int) = find("cublasLtMatmulDescCreate");
  int (*product_set)(Handle, int, const void*, std::size_t) = find("cublasLtMatmulDescSetAttribute");
  int (*product_destroy)(Handle) = find("cublasLtMatmulDescDestroy");
  int (*layout_create)(Handle*, int, std::uint64_t, std::uint64_t, std::int64_t) = find("cublasLtMatrixLayoutCreate");
  int (*layout_destroy)(Handle) = find("cublasLtMatrixLayoutDestroy");
  int (*preference_create)(Handle*) = find("cublasLtMatmulPreferenceCreate");
  int (*preference_set)(Handle, int, const void*, std::size_t) = find("cublasLtMatmulPreferenceSetAttribute");
  int (*preference_destroy)(Handle) = find("cublasLtMatmulPreferenceDestroy");
  int (*heuristic)(Handle, Handle, Handle, Handle, Handle, Handle, Handle, int, Algorithm*,
                   int*) = find("cublasLtMatmulAlgoGetHeuristic");
  int (*matmul)(Handle, Handle, const void*, const void*, Handle, const void*, Handle, const void*, const void*, Handle,
                void*, Handle, const Algorithm*, void*, std::size_t, CUstream_st*) = find("cublasLtMatmul");

  void release_descriptors() {
    if (product != nullptr) product_destroy(product);
    if (preference != nullptr) preference_destroy(preference);
    for (Handle* each : {&first, &second, &result}) {
      if (*each != nullptr) layout_destroy(*each);
      *each = nullptr;
    }
    product = preference = nullptr;
  }
};

namespace {
constexpr int real_32f = 0, real_16bf = 14, real_16f = 2, real_8f_e4m3 = 28, integer_8 = 3, integer_32 = 10;
constexpr int compute_32f = 68, compute_32f_tf32 = 77, compute_32i = 72;
constexpr int transpose_a = 3, transpose_b = 4, max_workspace_attribute = 1;
constexpr int scale_pointer_a = 17, scale_pointer_b = 18, scale_mode_a = 31, scale_mode_b = 32, one_scale_for_128 = 4;
int cuda_data_type(DType x) {
  if (x == DType::f32 || x == DType::tf32) return real_32f;
  if (x == DType::bf16) return real_16bf;
  if (x == DType::int8) return integer_8;
  if (x == DType::int32) return integer_32;
  return x == DType::e4m3 || x == DType::e4m3_128 ? real_8f_e4m3 : real_16f;
}
}  // namespace

CublasLt::CublasLt(std::unique_ptr<LoadedLibrary> library) : library_(std::move(library)) {}
CublasLt::CublasLt(CublasLt&&) noexcept = default;
CublasLt::~CublasLt() {
  if (library_) library_->release_descriptors();
}

Result<CublasLt> CublasLt::load() {
  auto library = std::make_unique<LoadedLibrary>(
      std::vector<std::string>{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});
  if (!library->is_loaded())
    return absent_error("cuBLASLt was not found: expected libcublasLt.so.13 or .so.12 where the loader looks",
                        "install CUDA's libcublas, or name its folder in LD_LIBRARY_PATH");
  if (!library->missing().empty())
    return absent_error(fmt::format("libcublasLt lacks {}", library->missing()),
                        "install CUDA 12 or later's libcublas");
  if (const int status = library->create(&library->handle); status != 0)
    return absent_error(fmt::format("cublasLtCreate failed with status {}", status));
  return CublasLt(std::move(library));
}

std::size_t CublasLt::version() const { return library_->version(); }

Result<int> CublasLt::prepare_product(const Product& p, std::size_t workspace_bytes) {
  LoadedLibrary& lt = *library_;
  lt.release_descriptors();
  lt.workspace_bytes = workspace_bytes;
  const int type = cuda_data_type(p.dtype), first = p.b_transposed ? 1 : 0, second = p.a_transposed ? 1 : 0;
  const std::int64_t fr = p.b_transposed ? p.size.k : p.size.n, fc = p.b_transposed ? p.size.n : p.size.k;
  const std::int64_t sr = p.a_transposed ? p.size.m : p.size.k, sc = p.a_transposed ? p.size.k : p.size.m;
  const auto size = [](std::int64_t x) { return static_cast<std::uint64_t>(x); };
  lt.sums_integers = p.dtype == DType::int8;
  int compute = p.dtype == DType::tf32 ? compute_32f_tf32 : compute_32f;
  if (lt.sums_integers) compute = compute_32i;
  int found = 0, status = lt.product_create(&lt.product, compute, lt.sums_integers ? integer_32 : real_32f);
  if (status == 0) status = lt.product_set(lt.product, transpose_a, &first, sizeof first);
  if (status == 0) status = lt.product_set(lt.product, transpose_b, &second, sizeof second);
  lt.has_block_scales = p.dtype == DType::e4m3_128;
  lt.a_elements = p.size.m * p.size.k;
  lt.b_elements = p.size.n * p.size.k;
  if (lt.has_block_scales)
    for (const int attribute : {scale_mode_a, scale_mode_b})
      if (status == 0) status = lt.product_set(lt.product, attribute, &one_scale_for_128, sizeof one_scale_for_128);
  if (status == 0) status = lt.layout_create(&lt.first, type, size(fr), size(fc), fr);
  if (status == 0) status = lt.layout_create(&lt.second, type, size(sr), size(sc), sr);
  if (status == 0)
    status = lt.layout_create(&lt.result, cuda_data_type(p.out), size(p.size.n), size(p.size.m), p.size.n);
  if (status == 0) status = lt.preference_create(&lt.preference);
  if (status == 0)
    status = lt.preference_set(lt.preference, max_workspace_attribute, &workspace_bytes, sizeof workspace_bytes);
  if (status != 0) return absent_error(fmt::format("cuBLASLt refused to describe a product: status {}", status));
  status = lt.heuristic(lt.handle, lt.product, lt.first, lt.second, lt.result, lt.result, lt.preference, max_heuristics,
                        lt.algorithms.data(), &found);
  return status == 0 ? found : 0;  // an unsupported product has no heuristic
}

bool CublasLt::queue_heuristic(int i, const void* a, const void* b, void* d, void* workspace,
                               CUstream_st* stream) const {
  const LoadedLibrary& lt = *library_;
  if (lt.has_block_scales) {
    const void *const first = static_cast<const char*>(b) + lt.b_elements, *const second = static_cast<const char*>(a) +
                                                                                           lt.a_elements;
    if (lt.product_set(lt.product, scale_pointer_a, &first, sizeof first) != 0 ||
        lt.product_set(lt.product, scale_pointer_b, &second, sizeof second) != 0)
      return false;
  }
  const float one = 1;
  const std::int32_t integer_one = 1, zero = 0;  // Also the zero of floats
  const void* const alpha = lt.sums_integers ? static_cast<const void*>(&integer_one) : &one;
  return lt.matmul(lt.handle, lt.product, alpha, b, lt.first, a, lt.second, &zero, d, lt.result, d, lt.result,
                   &lt.algorithms[i], workspace, lt.workspace_bytes, stream) == 0;
}

}  // namespace ridge
