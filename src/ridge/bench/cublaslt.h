// cuBLASLt as the device's comparison library. `bench` loads it at run time and declares the few functions and
// constants that it needs, so that no other verb, and no build, needs the library or its header.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "ridge/base/dtype.h"
#include "ridge/base/product_size.h"
#include "ridge/base/result.h"

struct CUstream_st;

namespace ridge {

class CublasLt {
 public:
  struct Product {
    ProductSize size;
    bool a_transposed = false, b_transposed = false;  // A[k, m], B[n, k]
    DType dtype = DType::bf16, out = DType::bf16;     // out may also be f32, or int32 of int8
  };
  static constexpr int max_heuristics = 8;

  // Errors: the loader does not find the library, or a function is missing.
  static Result<CublasLt> load();
  CublasLt(CublasLt&&) noexcept;
  ~CublasLt();

  std::size_t version() const;  // 130100 is version 13.1.0
  // Requests the first eight heuristics and returns how many exist. Sums of e4m3 have no fast accumulation, which keeps
  // 13 bits. Products of int8 have results of int32. The scales of e4m3_128 follow the elements (base/block_scale.h);
  // the library reads them in another order, the scales of a block of k for all lines one after the other, so that its
  // results are other numbers.
  Result<int> prepare_product(const Product& product, std::size_t workspace_bytes);
  // Queues heuristic i of the prepared product. Returns false if the library refuses it.
  bool queue_heuristic(int i, const void* a, const void* b, void* d, void* workspace, CUstream_st* stream) const;

 private:
  struct LoadedLibrary;
  explicit CublasLt(std::unique_ptr<LoadedLibrary> library);
  std::unique_ptr<LoadedLibrary> library_;
};

}  // namespace ridge
