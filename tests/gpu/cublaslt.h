// cuBLASLt, the baseline, by dlopen: the few entry points and constants that a product needs, so that neither its
// header nor its library is needed to build. Column-major, so D[m, n] row-major is computed as its transpose: B's side
// first. Constants: cuBLAS 13 reference, "cuBLASLt data types".
#pragma once

#include <dlfcn.h>

#include <array>
#include <string>

#include "support.h"

namespace ridge::gpu {

class CublasLt {
 public:
  struct Algorithm {  // cublasLtMatmulHeuristicResult_t
    std::uint64_t choice[8];
    std::size_t workspace;
    int state;
    float waves;
    int reserved[4];
  };
  struct Shape {
    std::int64_t m, n, k;
    bool a_transposed, b_transposed;  // a[k, m], b[n, k]
    DType dtype;
  };
  static constexpr int most = 8;

  CublasLt() {
    for (const char* name : {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"})
      if ((library_ = dlopen(name, RTLD_NOW | RTLD_GLOBAL))) break;
    if (!library_) {
      std::fprintf(stderr, "bench: expected libcublasLt.so.13 where the loader looks, found none (%s)\n", dlerror());
      std::exit(4);
    }
    status(call<int (*)(void**)>("cublasLtCreate")(&handle_), "cublasLtCreate");
  }
  std::size_t version() const { return call<std::size_t (*)()>("cublasLtGetVersion")(); }

  void prepare(const Shape& s, std::size_t workspace) {
    release();
    const int real32 = 0, compute32 = 68, type = s.dtype == DType::bf16 ? 14 : 2;
    const int first = s.b_transposed ? 1 : 0, second = s.a_transposed ? 1 : 0;
    status(call<int (*)(void**, int, int)>("cublasLtMatmulDescCreate")(&product_, compute32, real32), "product");
    const auto set = call<int (*)(void*, int, const void*, std::size_t)>("cublasLtMatmulDescSetAttribute");
    status(set(product_, 3, &first, 4), "first operand"), status(set(product_, 4, &second, 4), "second operand");
    const auto layout =
        call<int (*)(void**, int, std::uint64_t, std::uint64_t, std::int64_t)>("cublasLtMatrixLayoutCreate");
    const std::int64_t fr = s.b_transposed ? s.k : s.n, fc = s.b_transposed ? s.n : s.k;
    const std::int64_t sr = s.a_transposed ? s.m : s.k, sc = s.a_transposed ? s.k : s.m;
    status(layout(&first_, type, fr, fc, fr), "layout"), status(layout(&second_, type, sr, sc, sr), "layout");
    status(layout(&result_, type, s.n, s.m, s.n), "layout");
    status(call<int (*)(void**)>("cublasLtMatmulPreferenceCreate")(&preference_), "preference");
    status(call<int (*)(void*, int, const void*, std::size_t)>("cublasLtMatmulPreferenceSetAttribute")(preference_, 1,
                                                                                                       &workspace, 8),
           "preference");
    found = 0;
    call<int (*)(void*, void*, void*, void*, void*, void*, void*, int, Algorithm*, int*)>(
        "cublasLtMatmulAlgoGetHeuristic")(handle_, product_, first_, second_, result_, result_, preference_, most,
                                          algorithms.data(), &found);
    workspace_bytes_ = workspace;
  }
  bool run(int i, const void* a, const void* b, void* d, void* workspace, cudaStream_t stream) const {
    const float one = 1, zero = 0;
    return matmul_(handle_, product_, &one, b, first_, a, second_, &zero, d, result_, d, result_,
                   &algorithms[static_cast<std::size_t>(i)], workspace, workspace_bytes_, stream) == 0;
  }
  void release() {
    if (product_)
      call<int (*)(void*)>("cublasLtMatmulDescDestroy")(product_),
          call<int (*)(void*)>("cublasLtMatmulPreferenceDestroy")(preference_);
    for (void** x : {&first_, &second_, &result_}) {
      if (*x) call<int (*)(void*)>("cublasLtMatrixLayoutDestroy")(*x);
      *x = nullptr;
    }
    product_ = preference_ = nullptr;
  }

  std::array<Algorithm, most> algorithms{};
  int found = 0;

 private:
  template <class F> F call(const char* name) const {
    void* const f = dlsym(library_, name);
    if (!f) std::fprintf(stderr, "bench: libcublasLt lacks %s\n", name), std::exit(4);
    return reinterpret_cast<F>(f);
  }
  static void status(int s, const char* what) {
    if (s != 0) std::fprintf(stderr, "bench: cuBLASLt refused: %s (%d)\n", what, s), std::exit(4);
  }
  void* library_ = nullptr;
  void *handle_ = nullptr, *product_ = nullptr, *first_ = nullptr, *second_ = nullptr, *result_ = nullptr,
       *preference_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  using Matmul = int (*)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*,
                         void*, void*, void*, const Algorithm*, void*, std::size_t, cudaStream_t);
  struct Lazy {
    mutable Matmul f = nullptr;
  } lazy_;
  template <class... X> int matmul_(X... x) const {
    if (!lazy_.f) lazy_.f = call<Matmul>("cublasLtMatmul");
    return lazy_.f(x...);
  }
};

}  // namespace ridge::gpu
