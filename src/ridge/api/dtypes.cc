#include "ridge/api/dtypes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/contains.h"

namespace ridge::api {
namespace {

Result<Program> parse_with_dtype(const Program& program, DType dtype, const Bindings& sizes) {
  return parse(program.text, {.source = program.source, .dtype = dtype, .sizes = sizes});
}

// True if some tensor declares no dtype.
bool has_open_dtype(const Program& program, DType dtype, const Bindings& sizes) {
  const auto other = parse_with_dtype(program, dtype == DType::f32 ? DType::bf16 : DType::f32, sizes);
  return !other ||
         !std::equal(program.tensors.begin(), program.tensors.end(), other->tensors.begin(), other->tensors.end(),
                     [](const Tensor& a, const Tensor& b) { return a.dtype == b.dtype; });
}

Error no_open_dtype_error() {
  return usage_error("expected tensors without a dtype with --dtype, found that every tensor declares its own",
                     "--dtype sets all dtypes of A[B, D] * W[D, F] -> C[B, F]; x: bf16[B, D] declares its own");
}

}  // namespace

std::string input_dtypes(const Program& program) {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : program.tensors)
    if (tensor.role == TensorRole::input && !contains(names, dtype_name(tensor.dtype)))
      names.push_back(dtype_name(tensor.dtype));
  return fmt::format("{}", fmt::join(names, " "));
}

Result<LoadedProgram> load_with_dtype(const std::string& program, const std::optional<DType>& dtype,
                                      const Bindings& sizes) {
  auto out = load_program(program, dtype.value_or(DType::bf16), sizes);
  if (out && dtype && !has_open_dtype(out->program, *dtype, sizes)) return no_open_dtype_error();
  return out;
}

Result<std::vector<Program>> parse_with_dtypes(const Program& program, const std::vector<DType>& dtypes,
                                               const Bindings& sizes) {
  std::vector<Program> out;
  for (const DType dtype : dtypes) {
    RIDGE_TRY(read, parse_with_dtype(program, dtype, sizes));
    out.push_back(std::move(read));
  }
  return out;
}

}  // namespace ridge::api
