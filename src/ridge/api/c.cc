#include "ridge/c.h"

#include <fmt/format.h>

#include <cstring>

#include "ridge/api/kept.h"
#include "ridge/ridge.h"

namespace ridge {
namespace {

std::string& last_error() {
  thread_local std::string text;
  return text;
}

int failed(const Error& error) {
  last_error() = error.text();
  return static_cast<int>(error.kind);
}

Error null(const char* what) { return usage_error(fmt::format("expected {}, found NULL", what)); }

// Nothing may be thrown through C: what is left to throw is std::bad_alloc.
template <class F> int guarded(F&& call) {
  try {
    const Status done = call();
    return done ? RIDGE_OK : failed(done.error());
  } catch (const std::exception& e) {
    return failed(input_error(e.what()));
  }
}

Result<Bindings> bindings(const ridge_dim* dims, size_t count) {
  Bindings out;
  if (dims == nullptr && count > 0) return null("dims");
  for (size_t i = 0; i < count; ++i) {
    if (dims[i].name == nullptr) return null("a dimension's name");
    out[dims[i].name] = dims[i].value;
  }
  return out;
}

Result<ArrayView> view(const ridge_array& array) {
  if (array.dtype == nullptr) return null("an array's dtype");
  const auto dtype = dtype_from(array.dtype);
  if (!dtype || bits(*dtype) < 8)
    return usage_error(fmt::format("expected a dtype such as f32, bf16, f16, int8 or int32, found '{}'", array.dtype));
  if (array.rank < 0 || (array.rank > 0 && array.shape == nullptr)) return null("an array's shape");
  const auto rank = static_cast<size_t>(array.rank);
  ArrayView out{array.data, *dtype, {array.shape, rank}, {}};
  if (array.strides != nullptr) out.strides = {array.strides, rank};
  return out;
}

struct Views {
  std::vector<ArrayView> views;
  std::vector<std::string> names;
};
Result<Views> views(const ridge_named_array* arrays, size_t count, const char* what) {
  Views out;
  if (arrays == nullptr && count > 0) return null(what);
  for (size_t i = 0; i < count; ++i) {
    const auto each = view(arrays[i].array);
    if (!each) return each.error();
    out.views.push_back(*each);
    out.names.emplace_back(arrays[i].name == nullptr ? "" : arrays[i].name);
  }
  return out;
}

// In the order of `types`; one without a name is the one at its place.
Result<std::vector<ArrayView>> ordered(const Views& given, const std::vector<ArrayType>& types, const char* what) {
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

Status explain_to(const char* program, const char* on, const Result<Bindings>& dims, char** json) {
  if (program == nullptr) return null("a program");
  if (!dims) return dims.error();
  const auto summary = explain(Request{.program = program, .on = on == nullptr ? "cpu" : on, .dims = *dims});
  if (!summary) return summary.error();
  const std::string text = render_json(*summary);
  *json = static_cast<char*>(std::malloc(text.size() + 1));
  if (*json == nullptr) return input_error("the system refused memory for the text");
  std::memcpy(*json, text.c_str(), text.size() + 1);
  return Done{};
}

Status run_on(const char* program, const Result<Bindings>& dims, const Result<Views>& inputs,
              const Result<Views>& outputs, int threads) {
  if (program == nullptr) return null("a program");
  if (!dims) return dims.error();
  if (!inputs) return inputs.error();
  if (!outputs) return outputs.error();
  std::vector<ArrayType> types;
  for (size_t i = 0; i < inputs->views.size(); ++i) {
    const ArrayView& each = inputs->views[i];
    types.push_back({inputs->names[i], each.dtype, {each.shape.begin(), each.shape.end()}});
  }
  const auto computation = api::kept({.program = program, .dims = *dims}, types);
  if (!computation) return computation.error();
  const auto in = ordered(*inputs, computation->inputs(), "input");
  const auto out = ordered(*outputs, computation->outputs(), "output");
  if (!in) return in.error();
  if (!out) return out.error();
  return (*computation)(*in, *out, threads);
}

Status multiply(const ridge_array* a, const ridge_array* b, const ridge_array* d, int threads) {
  if (a == nullptr || b == nullptr || d == nullptr) return null("a, b and d");
  const auto left = view(*a), right = view(*b), result = view(*d);
  if (!left) return left.error();
  if (!right) return right.error();
  if (!result) return result.error();
  return matmul(*left, *right, *result, threads);
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
  if (json == nullptr) return ridge::failed(ridge::null("a place for the text"));
  *json = nullptr;
  return ridge::guarded([&] { return ridge::explain_to(program, on, ridge::bindings(dims, count), json); });
}

int ridge_run(const char* program, const ridge_dim* dims, size_t dim_count, const ridge_named_array* inputs,
              size_t input_count, const ridge_named_array* outputs, size_t output_count, int threads) {
  return ridge::guarded([&] {
    return ridge::run_on(program, ridge::bindings(dims, dim_count), ridge::views(inputs, input_count, "inputs"),
                         ridge::views(outputs, output_count, "outputs"), threads);
  });
}

int ridge_matmul(const ridge_array* a, const ridge_array* b, const ridge_array* d, int threads) {
  return ridge::guarded([&] { return ridge::multiply(a, b, d, threads); });
}

}  // extern "C"
