#include "ridge/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ridge/plan/lower.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

Error refused(const Tensor& tensor, std::string_view expected) {
  return input_error(fmt::format("cannot run '{}' as {}: expected {}, found {}", tensor.name, name(tensor.dtype),
                                 expected, name(tensor.dtype)),
                     "`ridge explain` takes every dtype; to run, declare another one or pass --dtype");
}

// Checks a product with a block-scaled operand, which CPU loops compute.
std::optional<Error> unable_scaled(const Program& program, const Contraction& c, Target target) {
  for (const int i : {c.left, c.right, c.result}) {
    const Tensor& tensor = program.tensors[static_cast<std::size_t>(i)];
    const bool scaled = i != c.result && target == Target::cpu && !c.grouped && is_scaled(tensor.dtype);
    if (!scaled && !is_float(tensor.dtype)) return refused(tensor, "f32, bf16 or f16");
  }
  return std::nullopt;
}

// Checks the dtypes of a product: floats, and on a CPU also int8 with a float, int8 or int32 result.
std::optional<Error> unable(const Program& program, const Contraction& c, Target target) {
  if (c.grouped && program.tensors[static_cast<std::size_t>(c.grouped->tensor)].dtype == DType::int8)
    return refused(program.tensors[static_cast<std::size_t>(c.grouped->tensor)],
                   "f32, bf16 or f16 for a grouped operand");
  if (takes_scaled(program, c)) return unable_scaled(program, c, target);
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
// True if the tensor is the result of a topk along this dimension.
bool chosen_along(const Program& program, int tensor, const Axis& along) {
  return std::any_of(program.statements.begin(), program.statements.end(), [&](const Statement& statement) {
    const Routine* const routine = routine_of(statement);
    return statement.result() == tensor && routine && routine->word == Word::topk && routine->over.front() == along;
  });
}

// Checks the dtypes of a routine: integers for indices, floats for all else.
std::optional<Error> unable_routine(const Program& program, const Expression& p) {
  const Word word = p.routine->word;
  const bool indexed = word == Word::gather || word == Word::scatter || word == Word::routed;
  const std::vector<int> in = operands_of(p);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Tensor& tensor = program.tensors[static_cast<std::size_t>(in[i])];
    const bool index = indexed && i + 1 == in.size();
    if (index && tensor.dtype != DType::int32 && tensor.dtype != DType::int8) return refused(tensor, "int32 or int8");
    if (index && tensor.role != Role::input && !chosen_along(program, in[i], p.routine->over.front()))
      return input_error(
          fmt::format("cannot run with '{}' as indices: expected an input, found a computed tensor", tensor.name),
          "`ridge explain` counts it; to run, give the indices as an input");
    if (!index && !is_float(tensor.dtype)) return refused(tensor, "f32, bf16 or f16");
  }
  const Tensor& result = program.tensors[static_cast<std::size_t>(p.result)];
  if (word == Word::topk)
    return result.dtype == DType::int32 || result.dtype == DType::int8
               ? std::nullopt
               : std::optional(refused(result, "int32 or int8"));
  if (word == Word::quantize) return std::nullopt;
  return is_float(result.dtype) ? std::nullopt : std::optional(refused(result, "f32, bf16 or f16"));
}

bool is_index(const Program& program, int tensor) {
  return std::any_of(program.statements.begin(), program.statements.end(), [&](const Statement& statement) {
    const std::vector<int> in = operands(statement);
    return routine_of(statement) && std::find(in.begin(), in.end(), tensor) != in.end();
  });
}
// True for an int32 input that expressions read as values, such as the lengths of sequences.
bool is_counted(const Program& program, int tensor) {
  const Tensor& x = program.tensors[static_cast<std::size_t>(tensor)];
  return x.dtype == DType::int32 && x.role == Role::input && !is_index(program, tensor);
}

std::optional<Error> unable(const Program& program, const Expression& p, Target) {
  if (p.routine) return unable_routine(program, p);
  const auto check = [&](int i) -> std::optional<Error> {
    const Tensor& tensor = program.tensors[static_cast<std::size_t>(i)];
    if (is_float(tensor.dtype) || (i != p.result && is_counted(program, i))) return std::nullopt;
    return refused(tensor, "f32, bf16 or f16");
  };
  for (const Node& node : p.nodes)
    if (node.kind == Node::Kind::tensor)
      if (auto error = check(node.tensor)) return error;
  return check(p.result);
}

// Returns an error for the first dimension without a value.
std::optional<Error> unbound(const Program& program, const Bindings& dims) {
  for (const Dimension& dim : program.dims) {
    if (dims.contains(dim.name)) continue;
    return input_error(fmt::format("dimension '{}' has no value; expected one to run the program", dim.name),
                       fmt::format("-d {}=64", dim.name));
  }
  return std::nullopt;
}

// Returns an error if index(T) is not exact in f32, whose integers are contiguous up to 2^24.
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

// True if every routine statement is part of an attention kernel.
bool gathers_in_attention(const Program& program, const Fusion& fusion) {
  return std::all_of(fusion.groups.begin(), fusion.groups.end(), [&](const Group& group) {
    return group.kind == Group::Kind::attention ||
           std::none_of(group.statements.begin(), group.statements.end(),
                        [&](int s) { return routine_of(program.statements[static_cast<std::size_t>(s)]) != nullptr; });
  });
}

// Adds a conversion to f32 before the first expression kernel that reads an integer input. Attention reads integers.
void convert_counted(Lowering& to, int index) {
  const Group& group = to.plan.fusion.groups[static_cast<std::size_t>(index)];
  if (group.kind == Group::Kind::attention) return;
  for (const int s : group.statements)
    for (const int t : operands(to.statement(s))) {
      View& view = to.tensors[static_cast<std::size_t>(t)];
      if (view.dtype != DType::int32 || !is_counted(to.program, t)) continue;
      const std::int64_t count = elements(view.shape);
      Step step;
      step.group = index;
      step.kernel = ops::RunningLoops{DType::int32, DType::f32, {{count, 1, 0, 1}}, {}};  // sums of one element each
      step.copy = fmt::format("{} to f32", to.tensor_name(t));
      const int converted = to.add_buffer(DType::f32, count);
      step.buffers = {view.buffer, converted};
      to.plan.steps.push_back(std::move(step));
      view.buffer = converted;
      view.dtype = DType::f32;
    }
}

// Returns an error for a routed product that could not become a grouped product: a device has no other kernel for it.
std::optional<Error> refuse_routed_loops(const Program& program, const Plan& plan) {
  for (const Step& step : plan.steps) {
    if (!std::holds_alternative<ops::RoutedLoops>(step.kernel)) continue;
    const int statement = plan.fusion.groups[static_cast<std::size_t>(step.group)].statements.front();
    return input_error(
        fmt::format(
            "cannot run '{}' on a device: expected the dimensions of the indices first in the result and (all, or all "
            "but the last) first in the routed tensor; and weights of the same dtype, with a matrix for each expert "
            "that is contiguous along the summed dimensions or along those of the result",
            program.statements[static_cast<std::size_t>(statement)].text),
        "write u[N, 2, F] = routed(x, w, i over E) with x[N, D], w[E, F, D] and i[N, 2]; `ridge run --on cpu` takes "
        "any "
        "order");
  }
  return std::nullopt;
}

void lower_group(Lowering& to, int index) {
  convert_counted(to, index);
  const Group& group = to.plan.fusion.groups[static_cast<std::size_t>(index)];
  switch (group.kind) {
    case Group::Kind::product: return lower_products(to, index);
    case Group::Kind::pointwise: return lower_pointwise(to, index);
    case Group::Kind::rows: return lower_rows(to, index);
    case Group::Kind::attention: return lower_attention(to, index);
    case Group::Kind::attention_backward: return lower_attention_backward(to, index);
    case Group::Kind::loops: return lower_loops(to, index);
  }
}

}  // namespace

int Lowering::add_buffer(DType dtype, std::int64_t elements) {
  plan.buffers.push_back({.dtype = dtype, .elements = elements});
  return static_cast<int>(plan.buffers.size()) - 1;
}

std::vector<float> counts_of(const Buffer& buffer) {
  std::vector<float> out(static_cast<std::size_t>(buffer.elements));
  if (buffer.dtype == DType::int32) {  // returned as the bits of floats
    std::int32_t start = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&out[i], &start, sizeof start);
      if (i < buffer.lengths.size()) start += static_cast<std::int32_t>(buffer.lengths[i]);
    }
    return out;
  }
  std::iota(out.begin(), out.end(), 0.0F);
  std::size_t at = 0;
  for (std::size_t i = 0; i < buffer.lengths.size(); ++i)
    for (std::int64_t n = 0; n < buffer.lengths[i] && at < out.size(); ++n) out[at++] = static_cast<float>(i);
  return out;
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
  if (options.target == Target::cuda && !gathers_in_attention(program, lowering.plan.fusion))
    if (auto refused = refuse_routines(program, "run")) return *refused;
  std::vector<bool> inside(program.tensors.size());
  for (const Group& group : lowering.plan.fusion.groups)
    for (const int tensor : group.inside) inside[static_cast<std::size_t>(tensor)] = true;
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    const DType dtype = program.tensors[t].dtype;
    const int buffer = lowering.add_buffer(dtype, inside[t] ? 0 : elements(shapes[t]));
    lowering.tensors.push_back({buffer, dtype, std::move(shapes[t])});
  }
  for (std::size_t i = 0; i < lowering.plan.fusion.groups.size(); ++i) lower_group(lowering, static_cast<int>(i));
  if (options.target == Target::cuda)
    if (auto refused = refuse_routed_loops(program, lowering.plan)) return *refused;
  for (const Buffer& buffer : lowering.plan.buffers)
    if (__builtin_add_overflow(lowering.plan.memory_bytes, buffer.bytes(), &lowering.plan.memory_bytes))
      return input_error("the program's tensors together take more than 2^63 bytes");
  return std::move(lowering.plan);
}

}  // namespace ridge
