#include "ridge/bench/matmul_library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "ridge/bench/dynamic_library.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/pool/isa.h"

extern char** environ;

namespace ridge {
namespace {

class RidgeLibrary : public MatmulLibrary {
 public:
  explicit RidgeLibrary(int threads) : threads_(threads) {}
  std::function<void()> bind(const ops::MatmulProblem& p, const void* a, const void* b, void* d) override {
    if (ops::unsupported_reason(p)) return {};
    return [p, a, b, d, threads = threads_] { ops::matmul(p, a, b, d, threads); };
  }
  std::string describe() const override { return "ridge (" + std::string(isa_name(pool::active_isa())) + ")"; }

 private:
  int threads_;
};

class OpenBlas : public MatmulLibrary {
 public:
  explicit OpenBlas(int threads) {
    if (void (*set)(int) = library_.find("openblas_set_num_threads", true)) set(threads);
    char* (*get_config)() = library_.find("openblas_get_config", true);
    char* (*get_core)() = library_.find("openblas_get_corename", true);
    if (get_config) description_ = fmt::format("{} (core {})", get_config(), get_core ? get_core() : "unknown");
  }
  bool is_loaded() const { return library_.is_loaded(); }
  bool is_usable() const { return library_.missing().empty(); }
  std::function<void()> bind(const ops::MatmulProblem& p, const void* a, const void* b, void* d) override {
    if (p.a.dtype != DType::f32 || p.b.dtype != DType::f32 || p.d.dtype != DType::f32 || p.batch != 1) return {};
    if (p.d.col_stride != 1) return {};
    const auto *x = static_cast<const float*>(a), *w = static_cast<const float*>(b);
    auto* y = static_cast<float*>(d);
    const bool ta = p.a.col_stride != 1, tb = p.b.col_stride != 1;
    const int m = static_cast<int>(p.size.m), n = static_cast<int>(p.size.n), k = static_cast<int>(p.size.k);
    const int lda = static_cast<int>(ta ? p.a.col_stride : p.a.row_stride),
              ldb = static_cast<int>(tb ? p.b.col_stride : p.b.row_stride);
    const int ldd = static_cast<int>(p.d.row_stride);
    if (m == 1)  // gemv is the faster call for one row: y = op(B)^T x
      return [=, this] {
        gemv_(row_major, tb ? no_trans : trans, tb ? n : k, tb ? k : n, 1.0F, w, ldb, x, 1, 0.0F, y, 1);
      };
    return [=, this] {
      gemm_(row_major, ta ? trans : no_trans, tb ? trans : no_trans, m, n, k, 1.0F, x, lda, w, ldb, 0.0F, y, ldd);
    };
  }
  std::string describe() const override { return description_; }

 private:
  static constexpr int row_major = 101, no_trans = 111, trans = 112;  // constants of the CBLAS standard
  using Gemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  using Gemv = void (*)(int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
  DynamicLibrary library_{{"libopenblas.so.0"}};
  Gemm gemm_ = library_.find("cblas_sgemm");
  Gemv gemv_ = library_.find("cblas_sgemv");
  std::string description_ = "OpenBLAS";
};

}  // namespace

Result<std::unique_ptr<MatmulLibrary>> load_matmul_library(const std::string& name, int threads) {
  if (name == "ridge") return std::unique_ptr<MatmulLibrary>(std::make_unique<RidgeLibrary>(threads));
  if (name == "openblas") {
    auto library = std::make_unique<OpenBlas>(threads);
    if (!library->is_loaded())
      return absent_error("expected libopenblas.so.0, found none", "apt-get install libopenblas0");
    if (!library->is_usable()) return absent_error("libopenblas.so.0 lacks cblas_sgemm or cblas_sgemv");
    return std::unique_ptr<MatmulLibrary>(std::move(library));
  }
  if (name == "onednn") return load_onednn(threads);
  if (name == "torch") return load_torch(threads);
  return usage_error(
      fmt::format("expected a library among {}, found '{}'", fmt::join(list_matmul_libraries(), ", "), name));
}

std::vector<std::string> list_matmul_libraries() { return {"ridge", "openblas", "onednn", "torch"}; }

std::vector<std::string> remove_library_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    for (std::string_view prefix : {"OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "OMP_", "GOMP_", "KMP_", "MKL_", "GOTO_"})
      if (text.starts_with(prefix)) names.emplace_back(text.substr(0, text.find('=')));
  }
  for (const std::string& name : names) unsetenv(name.c_str());
  return names;
}

}  // namespace ridge
