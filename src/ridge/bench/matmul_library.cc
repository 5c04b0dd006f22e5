#include "ridge/bench/matmul_library.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <utility>

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

// Returns the file that a variable of the environment names, or the files that the loader searches.
std::vector<std::string> choose_files(const char* variable, std::vector<std::string> files) {
  const char* const path = std::getenv(variable);
  return path && *path ? std::vector<std::string>{path} : std::move(files);
}

// A library with CBLAS, whose functions may have the prefix and suffix of SciPy's builds. With the suffix, sizes have
// 64 bits.
class Cblas : public MatmulLibrary {
 public:
  Cblas(const std::vector<std::string>& files, std::string name) : library_(files), description_(std::move(name)) {
    for (const auto& [prefix, suffix] : {std::pair{"", ""}, {"scipy_", ""}, {"", "64_"}, {"scipy_", "64_"}}) {
      prefix_ = prefix;
      suffix_ = suffix;
      gemm_ = find("cblas_sgemm");
      gemv_ = find("cblas_sgemv");
      if (gemm_ && gemv_) return;
    }
  }
  bool is_loaded() const { return library_.is_loaded(); }
  bool is_usable() const { return gemm_ && gemv_; }
  std::function<void()> bind(const ops::MatmulProblem& p, const void* a, const void* b, void* d) override {
    if (p.a.dtype != DType::f32 || p.b.dtype != DType::f32 || p.d.dtype != DType::f32 || p.batch != 1) return {};
    if (p.d.col_stride != 1) return {};
    return suffix_.empty() ? bind_sized<int>(p, a, b, d) : bind_sized<std::int64_t>(p, a, b, d);
  }
  std::string describe() const override { return description_; }

 protected:
  void* find(const std::string& name) { return library_.find((prefix_ + name + suffix_).c_str(), true).address; }
  template <class F> F* find_function(const char* name) { return reinterpret_cast<F*>(find(name)); }
  void set_description(std::string text) { description_ = std::move(text); }

 private:
  static constexpr int row_major = 101, no_trans = 111, trans = 112;  // constants of the CBLAS standard
  template <class Int>
  using Gemm = void(int, int, int, Int, Int, Int, float, const float*, Int, const float*, Int, float, float*, Int);
  template <class Int>
  using Gemv = void(int, int, Int, Int, float, const float*, Int, const float*, Int, float, float*, Int);
  template <class Int>
  std::function<void()> bind_sized(const ops::MatmulProblem& p, const void* a, const void* b, void* d) const {
    const auto *x = static_cast<const float*>(a), *w = static_cast<const float*>(b);
    auto* y = static_cast<float*>(d);
    const bool ta = p.a.col_stride != 1, tb = p.b.col_stride != 1;
    const Int m = static_cast<Int>(p.size.m), n = static_cast<Int>(p.size.n), k = static_cast<Int>(p.size.k);
    const Int lda = static_cast<Int>(ta ? p.a.col_stride : p.a.row_stride),
              ldb = static_cast<Int>(tb ? p.b.col_stride : p.b.row_stride), ldd = static_cast<Int>(p.d.row_stride);
    if (m == 1)  // gemv is the faster call for one row: y = op(B)^T x
      return [=, gemv = reinterpret_cast<Gemv<Int>*>(gemv_)] {
        gemv(row_major, tb ? no_trans : trans, tb ? n : k, tb ? k : n, 1.0F, w, ldb, x, 1, 0.0F, y, 1);
      };
    return [=, gemm = reinterpret_cast<Gemm<Int>*>(gemm_)] {
      gemm(row_major, ta ? trans : no_trans, tb ? trans : no_trans, m, n, k, 1.0F, x, lda, w, ldb, 0.0F, y, ldd);
    };
  }

  DynamicLibrary library_;
  std::string prefix_ = {}, suffix_ = {}, description_;
  void *gemm_ = nullptr, *gemv_ = nullptr;
};

class OpenBlas : public Cblas {
 public:
  static constexpr const char* variable = "RIDGE_OPENBLAS";
  explicit OpenBlas(int threads) : Cblas(choose_files(variable, {"libopenblas.so.0"}), "OpenBLAS") {
    if (auto* set = find_function<void(int)>("openblas_set_num_threads")) set(threads);
    auto* config = find_function<char*()>("openblas_get_config");
    auto* core = find_function<char*()>("openblas_get_corename");
    if (config) set_description(fmt::format("{} (core {})", config(), core ? core() : "unknown"));
  }
};

class Mkl : public Cblas {
 public:
  static constexpr const char* variable = "RIDGE_MKL";
  explicit Mkl(int threads) : Cblas(choose_files(variable, {"libmkl_rt.so.3", "libmkl_rt.so.2"}), "MKL") {
    constexpr int intel_threads = 0, sequential = 1, gnu_threads = 3;  // Constants of MKL_Set_Threading_Layer
    if (auto* set_layer = find_function<int(int)>("MKL_Set_Threading_Layer")) {
      const bool has_intel_threads = dlopen("libiomp5.so", RTLD_NOW | RTLD_GLOBAL) != nullptr;
      const int parallel = has_intel_threads ? intel_threads : gnu_threads;
      set_layer(threads == 1 ? sequential : parallel);
    }
    if (auto* set = find_function<void(int)>("MKL_Set_Num_Threads")) set(threads);
    char version[256] = {};
    if (auto* get_version = find_function<void(char*, int)>("MKL_Get_Version_String")) {
      get_version(version, sizeof version - 1);
      const std::string text = version;
      set_description(text.substr(0, text.find_last_not_of(' ') + 1));
    }
  }
};

template <class Library>
Result<std::unique_ptr<MatmulLibrary>> load_cblas(int threads, const char* file, const char* hint) {
  auto library = std::make_unique<Library>(threads);
  const std::string searched = choose_files(Library::variable, {file}).front();
  if (!library->is_loaded() && searched != file)
    return absent_error(
        fmt::format("{}: expected a library that can be loaded, found '{}'", Library::variable, searched),
        "set it to the path of the library, with its directory in LD_LIBRARY_PATH");
  if (!library->is_loaded()) return absent_error(fmt::format("expected {}, found none", file), hint);
  if (!library->is_usable()) return absent_error(fmt::format("{} lacks cblas_sgemm or cblas_sgemv", searched));
  return std::unique_ptr<MatmulLibrary>(std::move(library));
}

}  // namespace

Result<std::unique_ptr<MatmulLibrary>> load_matmul_library(const std::string& name, int threads) {
  if (name == "ridge") return std::unique_ptr<MatmulLibrary>(std::make_unique<RidgeLibrary>(threads));
  if (name == "openblas")
    return load_cblas<OpenBlas>(threads, "libopenblas.so.0",
                                "apt-get install libopenblas0, or RIDGE_OPENBLAS with its path");
  if (name == "mkl") return load_cblas<Mkl>(threads, "libmkl_rt.so", "pip install mkl, and RIDGE_MKL with its path");
  if (name == "onednn") return load_onednn(threads);
  if (name == "torch") return load_torch(threads);
  return usage_error(
      fmt::format("expected a library among {}, found '{}'", fmt::join(list_matmul_libraries(), ", "), name));
}

std::vector<std::string> list_matmul_libraries() { return {"ridge", "openblas", "mkl", "onednn", "torch"}; }

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
