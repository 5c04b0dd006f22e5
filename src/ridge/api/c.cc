#include "ridge/c.h"

#include <fmt/format.h>

#include <cstring>

#include "ridge/api/plan_cache.h"
#include "ridge/ridge.h"

namespace ridge {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int set_last_error(const Error& error) {
  last_error() = error.to_string();
  return static_cast<int>(error.kind);
}

Error null_error(const char* what) { return usage_error(fmt::format("expected {}, found NULL", what)); }

// Calls `call` without letting an exception, such as std::bad_alloc, reach C.
template <class F> int call_guarded(F&& call) {
  try {
    const Status done = call();
    return done ? RIDGE_OK : set_last_error(done.error());
  } catch (const std::exception& e) {
    return set_last_error(input_error(e.what()));
  }
}

Result<Bindings> to_bindings(const ridge_dim* dims, size_t count) {
  Bindings out;
  if (dims == nullptr && count > 0) return null_error("dims");
  for (size_t i = 0; i < count; ++i) {
    if (dims[i].name == nullptr) return null_error("a dimension's name");
    out[dims[i].name] = dims[i].value;
  }
  return out;
}

Result<ArrayView> to_view(const ridge_array& array) {
  if (array.dtype == nullptr) return null_error("an array's dtype");
  const auto dtype = parse_dtype(array.dtype);
  if (!dtype || dtype_bits(*dtype) < 8)
    return usage_error(fmt::format("expected a dtype such as f32, bf16, f16, int8 or int32, found '{}'", array.dtype));
  if (array.rank < 0 || (array.rank > 0 && array.shape == nullptr)) return null_error("an array's shape");
  const auto rank = static_cast<size_t>(array.rank);
  ArrayView out{array.data, *dtype, {array.shape, rank}, {}};
  if (array.strides != nullptr) out.strides = {array.strides, rank};
  return out;
}

struct NamedViews {
  std::vector<ArrayView> views;
  std::vector<std::string> names;
};
Result<NamedViews> to_views(const ridge_named_array* arrays, size_t count, const char* what) {
  NamedViews out;
  if (arrays == nullptr && count > 0) return null_error(what);
  for (size_t i = 0; i < count; ++i) {
    RIDGE_TRY(each, to_view(arrays[i].array));
    out.views.push_back(each);
    out.names.emplace_back(arrays[i].name == nullptr ? "" : arrays[i].name);
  }
  return out;
}

// Returns the arrays in the order of `types`. An array without a name is matched by its position.
Result<std::vector<ArrayView>> order_views(const NamedViews& given, const std::vector<ArrayType>& types,
                                           const char* what) {
  std::vector<ArrayView> out;
  for (size_t i = 0; i < types.size(); ++i) {
    size_t at = 0;
    while (at < given.names.size() && given.names[at] != types[i].name && (!given.names[at].empty() || at != i)) ++at;
    if (at == given.names.size())
      return input_error(fmt::format("expected an array for {} '{}', found none", what, types[i].name));
    out.push_back(given.views[at]);
  }
  if (given.views.size() != types.size())
    return input_error(fmt::format("expected {} {}s, found {}", types.size(), what, given.views.size()));
  return out;
}

Status write_explanation(const char* program, const char* on, const Result<Bindings>& dims, char** json) {
  if (program == nullptr) return null_error("a program");
  RIDGE_TRY_STATUS(dims);
  RIDGE_TRY(summary, explain(Request{.program = program, .on = on == nullptr ? "cpu" : on, .dims = *dims}));
  const std::string text = render_json(summary);
  *json = static_cast<char*>(std::malloc(text.size() + 1));
  if (*json == nullptr) return input_error("out of memory for the text");
  std::memcpy(*json, text.c_str(), text.size() + 1);
  return Done{};
}

Status run_program(const char* program, const Result<Bindings>& dims, const Result<NamedViews>& inputs,
                   const Result<NamedViews>& outputs, int threads) {
  if (program == nullptr) return null_error("a program");
  RIDGE_TRY_STATUS(dims);
  RIDGE_TRY_STATUS(inputs);
  RIDGE_TRY_STATUS(outputs);
  std::vector<ArrayType> types;
  for (size_t i = 0; i < inputs->views.size(); ++i) {
    const ArrayView& each = inputs->views[i];
    types.push_back({inputs->names[i], each.dtype, {each.shape.begin(), each.shape.end()}});
  }
  RIDGE_TRY(computation, api::prepare_cached({.program = program, .dims = *dims}, types));
  RIDGE_TRY(in, order_views(*inputs, computation.inputs(), "input"));
  RIDGE_TRY(out, order_views(*outputs, computation.outputs(), "output"));
  return (computation)(in, out, threads);
}

Status multiply_arrays(const ridge_array* a, const ridge_array* b, const ridge_array* d, int threads) {
  if (a == nullptr || b == nullptr || d == nullptr) return null_error("a, b and d");
  RIDGE_TRY(left, to_view(*a));
  RIDGE_TRY(right, to_view(*b));
  RIDGE_TRY(result, to_view(*d));
  return matmul(left, right, result, threads);
}

}  // namespace
}  // namespace ridge

extern "C" {

int ridge_c_abi(void) { return RIDGE_C_ABI; }
const char* ridge_version(void) {
  static const std::string text(ridge::version());
  return text.c_str();
}
const char* ridge_last_error(void) { return ridge::last_error().c_str(); }
void ridge_free(void* text) { std::free(text); }

int ridge_explain_json(const char* program, const char* on, const ridge_dim* dims, size_t count, char** json) {
  if (json == nullptr) return ridge::set_last_error(ridge::null_error("an address for the text"));
  *json = nullptr;
  return ridge::call_guarded(
      [&] { return ridge::write_explanation(program, on, ridge::to_bindings(dims, count), json); });
}

int ridge_run(const char* program, const ridge_dim* dims, size_t dim_count, const ridge_named_array* inputs,
              size_t input_count, const ridge_named_array* outputs, size_t output_count, int threads) {
  return ridge::call_guarded([&] {
    return ridge::run_program(program, ridge::to_bindings(dims, dim_count),
                              ridge::to_views(inputs, input_count, "inputs"),
                              ridge::to_views(outputs, output_count, "outputs"), threads);
  });
}

int ridge_matmul(const ridge_array* a, const ridge_array* b, const ridge_array* d, int threads) {
  return ridge::call_guarded([&] { return ridge::multiply_arrays(a, b, d, threads); });
}

}  // extern "C"
