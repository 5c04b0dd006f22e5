#include "ridge/plan/plan.h"

#include <fmt/format.h>

#include "ridge/plan/lower.h"

namespace ridge {
namespace {

constexpr bool runs(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

Error refused(const Tensor& tensor) {
  return input_error(fmt::format("cannot run '{}' as {}: expected f32, bf16 or f16, found {}", tensor.name,
                                 name(tensor.dtype), name(tensor.dtype)),
                     "`ridge explain` takes every dtype; to run, declare another one or pass --dtype");
}

// The first dimension of the program that has no value.
std::optional<Error> unbound(const Program& program, const Bindings& dims) {
  for (const Dimension& dim : program.dims) {
    if (dims.contains(dim.name)) continue;
    return input_error(fmt::format("dimension '{}' has no value; expected one to run the program", dim.name),
                       fmt::format("-d {}=64", dim.name));
  }
  return std::nullopt;
}

}  // namespace

int Lowering::add_buffer(DType dtype, std::int64_t elements) {
  plan.buffers.push_back({dtype, elements});
  return static_cast<int>(plan.buffers.size()) - 1;
}

Result<Plan> plan(const Program& program, const Bindings& dims, Target target) {
  if (auto missing = unbound(program, dims)) return *missing;
  Lowering lowering{program, target, {}, {}};
  for (const Tensor& tensor : program.tensors) {
    if (!runs(tensor.dtype)) return refused(tensor);
    auto sized = shape(tensor, dims);
    if (!sized) return sized.error();
    lowering.add_buffer(tensor.dtype, elements(*sized));
    lowering.shapes.push_back(*std::move(sized));
  }
  for (std::size_t i = 0; i < program.statements.size(); ++i)
    std::visit([&](const auto& op) { lower(lowering, static_cast<int>(i), op); }, program.statements[i].op);
  for (const Buffer& buffer : lowering.plan.buffers)
    if (__builtin_add_overflow(lowering.plan.memory_bytes, buffer.bytes(), &lowering.plan.memory_bytes))
      return input_error("the program's tensors together take more than 2^63 bytes");
  return std::move(lowering.plan);
}

}  // namespace ridge
