#include "ridge/plan/plan.h"

#include <fmt/format.h>

#include "ridge/plan/lower.h"

namespace ridge {
namespace {

constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

Error refused(const Tensor& tensor, std::string_view expected) {
  return input_error(fmt::format("cannot run '{}' as {}: expected {}, found {}", tensor.name, name(tensor.dtype),
                                 expected, name(tensor.dtype)),
                     "`ridge explain` takes every dtype; to run, declare another one or pass --dtype");
}

// On a CPU a contraction also takes int8 and gives it, or int32; all else is floats.
std::optional<Error> unable(const Program& program, const Contraction& c, Target target) {
  for (const int i : {c.left, c.right, c.result}) {
    const Tensor& tensor = program.tensors[static_cast<std::size_t>(i)];
    if (is_float(tensor.dtype)) continue;
    if (target == Target::cuda) return refused(tensor, "f32, bf16 or f16");
    const bool gives = i == c.result;
    if (tensor.dtype != DType::int8 && !(gives && tensor.dtype == DType::int32))
      return refused(tensor, gives ? "f32, bf16, f16, int8 or int32" : "f32, bf16, f16 or int8");
  }
  return std::nullopt;
}
std::optional<Error> unable(const Program& program, const Expression& p, Target) {
  const auto check = [&](int i) -> std::optional<Error> {
    const Tensor& tensor = program.tensors[static_cast<std::size_t>(i)];
    return is_float(tensor.dtype) ? std::nullopt : std::optional(refused(tensor, "f32, bf16 or f16"));
  };
  for (const Node& node : p.nodes)
    if (node.kind == Node::Kind::tensor)
      if (auto error = check(node.tensor)) return error;
  return check(p.result);
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

// f32 counts to 2^24 without a gap.
std::optional<Error> uncountable(const Program& program, const Bindings& dims) {
  for (const Statement& statement : program.statements)
    if (const auto* expression = std::get_if<Expression>(&statement.op))
      for (const Node& node : expression->nodes)
        if (node.kind == Node::Kind::index && dims.at(node.over[0].dim) > 1 << 24)
          return input_error(fmt::format("cannot run '{}': expected an index below 2^24, found index({}) with {} = {}",
                                         statement.text, node.over[0].dim, node.over[0].dim, dims.at(node.over[0].dim)),
                             fmt::format("-d {}=16777216", node.over[0].dim));
  return std::nullopt;
}

void lower_group(Lowering& to, int index) {
  const Group& group = to.plan.fusion.groups[static_cast<std::size_t>(index)];
  switch (group.kind) {
    case Group::Kind::product: return lower_products(to, index);
    case Group::Kind::pointwise: return lower_pointwise(to, index);
    case Group::Kind::rows: return lower_rows(to, index);
    case Group::Kind::attention: return lower_attention(to, index);
  }
}

}  // namespace

int Lowering::add_buffer(DType dtype, std::int64_t elements) {
  plan.buffers.push_back({.dtype = dtype, .elements = elements});
  return static_cast<int>(plan.buffers.size()) - 1;
}

Result<Plan> plan(const Program& program, const Bindings& dims, const FuseOptions& options) {
  if (auto missing = unbound(program, dims)) return *missing;
  if (auto refused = refuse_sharded(program, "run")) return *refused;
  if (auto refused = uncountable(program, dims)) return *refused;
  std::vector<Shape> shapes;
  for (const Tensor& tensor : program.tensors) {
    auto sized = shape(tensor, dims);
    if (!sized) return sized.error();
    shapes.push_back(*std::move(sized));
  }
  for (const Statement& statement : program.statements)
    if (auto error = std::visit([&](const auto& op) { return unable(program, op, options.target); }, statement.op))
      return *error;
  Lowering lowering{program, dims, dims, {}, {}};
  lowering.plan.fusion = fuse(program, shapes, options);
  std::vector<bool> inside(program.tensors.size());
  for (const Group& group : lowering.plan.fusion.groups)
    for (const int tensor : group.inside) inside[static_cast<std::size_t>(tensor)] = true;
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const DType dtype = program.tensors[t].dtype;
    const int buffer = lowering.add_buffer(dtype, inside[t] ? 0 : elements(shapes[t]));
    lowering.tensors.push_back({buffer, dtype, std::move(shapes[t])});
  }
  for (std::size_t i = 0; i < lowering.plan.fusion.groups.size(); ++i) lower_group(lowering, static_cast<int>(i));
  for (const Buffer& buffer : lowering.plan.buffers)
    if (__builtin_add_overflow(lowering.plan.memory_bytes, buffer.bytes(), &lowering.plan.memory_bytes))
      return input_error("the program's tensors together take more than 2^63 bytes");
  return std::move(lowering.plan);
}

}  // namespace ridge
