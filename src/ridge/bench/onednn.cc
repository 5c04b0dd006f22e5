#include "ridge/bench/matmul_library.h"

#ifdef RIDGE_HAS_ONEDNN
#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_version.h>

#include "ridge/bench/dynamic_library.h"
#endif

namespace ridge {

#if defined(DNNL_VERSION_MAJOR) && DNNL_VERSION_MAJOR == 2
namespace {

struct Functions : DynamicLibrary {
  using DynamicLibrary::DynamicLibrary;
  decltype(&dnnl_version) version = find("dnnl_version");
  decltype(&dnnl_engine_create) engine_create = find("dnnl_engine_create");
  decltype(&dnnl_stream_create) stream_create = find("dnnl_stream_create");
  decltype(&dnnl_stream_wait) stream_wait = find("dnnl_stream_wait");
  decltype(&dnnl_memory_desc_init_by_strides) memory_desc_init = find("dnnl_memory_desc_init_by_strides");
  decltype(&dnnl_matmul_desc_init) matmul_desc_init = find("dnnl_matmul_desc_init");
  decltype(&dnnl_primitive_desc_create) primitive_desc_create = find("dnnl_primitive_desc_create");
  decltype(&dnnl_primitive_desc_destroy) primitive_desc_destroy = find("dnnl_primitive_desc_destroy");
  decltype(&dnnl_primitive_desc_query) primitive_desc_query = find("dnnl_primitive_desc_query");
  decltype(&dnnl_primitive_create) primitive_create = find("dnnl_primitive_create");
  decltype(&dnnl_primitive_destroy) primitive_destroy = find("dnnl_primitive_destroy");
  decltype(&dnnl_primitive_execute) primitive_execute = find("dnnl_primitive_execute");
  decltype(&dnnl_memory_create) memory_create = find("dnnl_memory_create");
  decltype(&dnnl_memory_destroy) memory_destroy = find("dnnl_memory_destroy");
};

std::optional<dnnl_data_type_t> data_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return dnnl_f32;
    case DType::bf16: return dnnl_bf16;
    case DType::f16: return dnnl_f16;
    case DType::int8: return dnnl_s8;
    case DType::int32: return dnnl_s32;
    default: return std::nullopt;
  }
}

// A product's primitive and three memory objects, freed with the last copy of the callable.
struct Product {
  const Functions& f;
  dnnl_stream_t stream;
  dnnl_primitive_t primitive = nullptr;
  dnnl_exec_arg_t args[3] = {};

  ~Product() {
    for (auto& arg : args)
      if (arg.memory) f.memory_destroy(arg.memory);
    if (primitive) f.primitive_destroy(primitive);
  }
  void run() const {
    f.primitive_execute(primitive, stream, 3, args);
    f.stream_wait(stream);
  }
};

class OneDnn : public MatmulLibrary {
 public:
  bool is_loaded() const { return f_.is_loaded(); }
  bool open() {
    return f_.missing().empty() && f_.engine_create(&engine_, dnnl_cpu, 0) == dnnl_success &&
           f_.stream_create(&stream_, engine_, dnnl_stream_default_flags) == dnnl_success;
  }

  std::function<void()> bind(const ops::MatmulProblem& p, const void* a, const void* b, void* d) override {
    dnnl_memory_desc_t da, db, dd;
    if (!describe_matrix(da, p.a, p.batch, p.size.m, p.size.k) ||
        !describe_matrix(db, p.b, p.batch, p.size.k, p.size.n) ||
        !describe_matrix(dd, p.d, p.batch, p.size.m, p.size.n))
      return {};
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t chosen = nullptr;
    if (f_.matmul_desc_init(&desc, &da, &db, nullptr, &dd) != dnnl_success) return {};
    if (f_.primitive_desc_create(&chosen, &desc, nullptr, engine_, nullptr) != dnnl_success) return {};
    auto product = std::make_shared<Product>(Product{f_, stream_});
    const char* how = nullptr;
    f_.primitive_desc_query(chosen, dnnl_query_impl_info_str, 0, &how);
    if (how) kernel_ = how;
    const bool made = f_.primitive_create(&product->primitive, chosen) == dnnl_success;
    f_.primitive_desc_destroy(chosen);
    if (!made) return {};
    const int names[3] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const dnnl_memory_desc_t* descs[3] = {&da, &db, &dd};
    void* data[3] = {const_cast<void*>(a), const_cast<void*>(b), d};
    for (int i = 0; i < 3; ++i) {
      product->args[i].arg = names[i];
      if (f_.memory_create(&product->args[i].memory, descs[i], engine_, data[i]) != dnnl_success) return {};
    }
    return [product] { product->run(); };
  }

  std::string describe() const override {
    const dnnl_version_t* v = f_.version();
    return fmt::format("oneDNN {}.{}.{} ({})", v->major, v->minor, v->patch,
                       kernel_.empty() ? "no kernel yet" : kernel_);
  }

 private:
  bool describe_matrix(dnnl_memory_desc_t& desc, const ops::MatrixLayout& l, std::int64_t batch, std::int64_t rows,
                       std::int64_t cols) {
    const auto type = data_type(l.dtype);
    if (!type) return false;
    if (batch == 1) {
      const dnnl_dims_t dims = {rows, cols}, strides = {l.row_stride, l.col_stride};
      return f_.memory_desc_init(&desc, 2, dims, *type, strides) == dnnl_success;
    }
    const dnnl_dims_t dims = {batch, rows, cols}, strides = {l.batch_stride, l.row_stride, l.col_stride};
    return l.batch_stride != 0 && f_.memory_desc_init(&desc, 3, dims, *type, strides) == dnnl_success;
  }

  Functions f_{{"libdnnl.so.2"}, RTLD_GLOBAL};
  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  std::string kernel_;
};

}  // namespace

Result<std::unique_ptr<MatmulLibrary>> load_onednn(int threads) {
  auto library = std::make_unique<OneDnn>();
  if (!library->is_loaded()) return absent_error("expected libdnnl.so.2, found none", "apt-get install libdnnl2");
  if (auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))) set(threads);
  if (!library->open()) return absent_error("libdnnl.so.2 is there but its CPU engine could not be made");
  return std::unique_ptr<MatmulLibrary>(std::move(library));
}

#else

Result<std::unique_ptr<MatmulLibrary>> load_onednn(int) {
  return absent_error("this build of ridge was made without oneDNN's headers",
                      "apt-get install libdnnl-dev, then build again");
}

#endif

}  // namespace ridge
