#include "ridge/api/dtypes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ridge::api {
namespace {

Result<Program> read_in(const Program& program, DType dtype, const Bindings& sizes) {
  return parse(program.text, {.source = program.source, .dtype = dtype, .sizes = sizes});
}

// Whether another dtype would make another program of it.
bool takes_one(const Program& program, DType dtype, const Bindings& sizes) {
  const auto other = read_in(program, dtype == DType::f32 ? DType::bf16 : DType::f32, sizes);
  return !other ||
         !std::equal(program.tensors.begin(), program.tensors.end(), other->tensors.begin(), other->tensors.end(),
                     [](const Tensor& a, const Tensor& b) { return a.dtype == b.dtype; });
}

Error nothing_to_fill_in() {
  return usage_error("expected tensors without a dtype for --dtype to fill in, found that every one names its own",
                     "A[B, D] * W[D, F] -> C[B, F] leaves all to --dtype; x: bf16[B, D] does not");
}

}  // namespace

std::string dtypes_of(const Program& program) {
  std::vector<std::string_view> names;
  for (const Tensor& tensor : program.tensors)
    if (tensor.role == Role::input && std::find(names.begin(), names.end(), name(tensor.dtype)) == names.end())
      names.push_back(name(tensor.dtype));
  return fmt::format("{}", fmt::join(names, " "));
}

Result<LoadedProgram> load_in(const std::string& program, const std::optional<DType>& dtype, const Bindings& sizes) {
  auto out = load_program(program, dtype.value_or(DType::bf16), sizes);
  if (out && dtype && !takes_one(out->program, *dtype, sizes)) return nothing_to_fill_in();
  return out;
}

Result<std::vector<Program>> in_dtypes(const Program& program, const std::vector<DType>& dtypes,
                                       const Bindings& sizes) {
  std::vector<Program> out;
  for (const DType dtype : dtypes) {
    auto read = read_in(program, dtype, sizes);
    if (!read) return read.error();
    out.push_back(*std::move(read));
  }
  return out;
}

}  // namespace ridge::api
