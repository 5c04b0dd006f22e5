#include "ridge/api/dtypes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ridge::api {
namespace {

Result<Program> read_in(const Program& program, DType dtype) {
  return parse(program.text, {.source = program.source, .dtype = dtype});
}

// Whether another dtype would make another program of it.
bool takes_one(const Program& program, DType dtype) {
  const auto other = read_in(program, dtype == DType::f32 ? DType::bf16 : DType::f32);
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

Result<LoadedProgram> load_in(const std::string& program, const std::optional<DType>& dtype) {
  auto out = load_program(program, dtype.value_or(DType::bf16));
  if (out && dtype && !takes_one(out->program, *dtype)) return nothing_to_fill_in();
  return out;
}

Result<std::vector<Program>> in_dtypes(const Program& program, const std::vector<DType>& dtypes) {
  std::vector<Program> out;
  for (const DType dtype : dtypes) {
    auto read = read_in(program, dtype);
    if (!read) return read.error();
    out.push_back(*std::move(read));
  }
  return out;
}

}  // namespace ridge::api
