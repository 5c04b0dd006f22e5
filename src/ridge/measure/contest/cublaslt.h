// cuBLASLt, the baseline, loaded when `bench` asks for it and by nothing else: the few entry points and constants that
// a product needs, so that neither its header nor its library is needed to build or to run anything but that verb.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"

struct CUstream_st;

namespace ridge {

class CublasLt {
 public:
  struct Product {
    std::int64_t m = 0, n = 0, k = 0;
    bool a_transposed = false, b_transposed = false;  // A[k, m], B[n, k]
    DType dtype = DType::bf16, out = DType::bf16;     // bf16 or f16; out: f32 as well
  };
  static constexpr int most = 8;

  // Errors: the library is not where the loader looks, or lacks an entry point.
  static Result<CublasLt> load();
  CublasLt(CublasLt&&) noexcept;
  ~CublasLt();

  std::size_t version() const;  // 130100: 13.1.0
  // Asks for the first eight heuristics; how many it has.
  Result<int> prepare(const Product& product, std::size_t workspace_bytes);
  // Queues heuristic i of the prepared product; false: the library refuses.
  bool run(int i, const void* a, const void* b, void* d, void* workspace, CUstream_st* stream) const;

 private:
  struct Library;
  explicit CublasLt(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace ridge
