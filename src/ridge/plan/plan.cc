#include "ridge/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "ridge/base/contains.h"
#include "ridge/base/dtype_set.h"
#include "ridge/base/operand_type.h"
#include "ridge/plan/lower.h"
#include "ridge/program/contraction.h"
#include "ridge/program/routine.h"

namespace ridge {
namespace {

// tf32 is f32 in memory.
constexpr bool is_float(DType dtype) { return StoredFloats::contains(dtype) || dtype == DType::tf32; }

Error dtype_error(const Tensor& tensor, std::string_view expected) {
  return input_error(fmt::format("cannot run '{}' as {}: expected {}, found {}", tensor.name, dtype_name(tensor.dtype),
                                 expected, dtype_name(tensor.dtype)),
                     "`ridge explain` takes every dtype; to run, declare another one or pass --dtype");
}

// Checks a product with a block-scaled operand.
Status check_scaled_dtypes(const Program& program, const Contraction& c) {
  for (const int i : {c.left, c.right, c.result}) {
    const Tensor& tensor = program.tensors[i];
    const bool scaled = i != c.result && !c.grouped && is_block_scaled(tensor.dtype);
    if (!scaled && !is_float(tensor.dtype)) return dtype_error(tensor, "f32, bf16 or f16");
  }
  return Done{};
}

// Checks the dtypes of a product: floats, operands of tf32 or e4m3, int8 with a float, and two operands of int8, whose
// result may be int32. On a CPU results may also be int8.
Status check_dtypes(const Program& program, const Contraction& c, Target target) {
  if (c.grouped && !is_float(program.tensors[c.grouped->tensor].dtype) &&
      !is_block_scaled(program.tensors[c.grouped->tensor].dtype))
    return dtype_error(program.tensors[c.grouped->tensor], "f32, bf16 or f16 for a grouped operand");
  if (has_block_scaled_factor(program, c)) return check_scaled_dtypes(program, c);
  const bool are_int8 = program.tensors[c.left].dtype == DType::int8 && program.tensors[c.right].dtype == DType::int8 &&
                        (target == Target::cpu || has_sum(c));
  for (const int i : {c.left, c.right, c.result}) {
    const Tensor& tensor = program.tensors[i];
    const bool is_result = i == c.result;
    if (is_float(tensor.dtype) || (!is_result && tensor.dtype == DType::e4m3)) continue;
    if (are_int8 && tensor.dtype == (is_result ? DType::int32 : DType::int8)) continue;
    if (target == Target::cuda) {
      if (is_result) return dtype_error(tensor, are_int8 ? "f32, bf16, f16 or int32" : "f32, bf16 or f16");
      const DType other = program.tensors[i == c.left ? c.right : c.left].dtype;
      if (has_sum(c) && tensor.dtype == DType::int8 && StoredFloats::contains(other)) continue;
      if (has_sum(c) && tensor.dtype == DType::int8)
        return input_error(
            fmt::format("cannot run '{}' as int8: expected f32, bf16, f16 or int8 for the other operand, found {}",
                        tensor.name, dtype_name(other)),
            "declare the other operand as one of these");
      return dtype_error(tensor, has_sum(c) ? "f32, tf32, bf16, f16, e4m3 or int8" : "f32, tf32, bf16, f16 or e4m3");
    }
    if (tensor.dtype != DType::int8 && !(is_result && tensor.dtype == DType::int32))
      return dtype_error(tensor, is_result ? "f32, bf16, f16, int8 or int32" : "f32, tf32, bf16, f16, e4m3 or int8");
  }
  return Done{};
}
// True if the tensor has the indices of a topk, argmax or argsort along this dimension.
bool is_chosen_by_topk(const Program& program, int tensor, const Axis& along) {
  return std::any_of(program.statements.begin(), program.statements.end(), [&](const Statement& statement) {
    const Routine* const routine = routine_of(statement);
    return statement.result() == tensor && routine && gives_indices(routine->kind) && routine->over.front() == along;
  });
}

// True for the dtypes of 8 bits that both operands of a routed product may have.
constexpr bool is_routed_narrow(DType dtype) { return dtype == DType::e4m3 || dtype == DType::e4m3_128; }

// Checks the dtypes of a routine: integers for indices, floats for all else.
Status check_routine_dtypes(const Program& program, const Expression& p) {
  const RoutineKind word = p.routine->kind;
  const bool indexed = word == RoutineKind::gather || word == RoutineKind::scatter || word == RoutineKind::routed;
  const std::vector<int> in = expression_operands(p);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Tensor& tensor = program.tensors[in[i]];
    const bool index = indexed && i + 1 == in.size();
    if (index && tensor.dtype != DType::int32 && tensor.dtype != DType::int8)
      return dtype_error(tensor, "int32 or int8");
    if (index && tensor.role != TensorRole::input && !is_chosen_by_topk(program, in[i], p.routine->over.front()))
      return input_error(
          fmt::format("cannot run with '{}' as indices: expected an input, found a computed tensor", tensor.name),
          "`ridge explain` counts it; to run, give the indices as an input");
    if (word == RoutineKind::rotary && i == 1 && tensor.dtype == DType::int32) continue;  // positions
    if (index || is_float(tensor.dtype)) continue;
    if (word != RoutineKind::routed) return dtype_error(tensor, "f32, bf16 or f16");
    if (!is_routed_narrow(tensor.dtype) || program.tensors[in[0]].dtype != program.tensors[in[1]].dtype)
      return dtype_error(tensor, "f32, bf16 or f16, or two operands of e4m3 or of e4m3_128");
  }
  const Tensor& result = program.tensors[p.result];
  if (gives_indices(word) && result.dtype != DType::int32 && result.dtype != DType::int8)
    return dtype_error(result, "int32 or int8");
  if (!gives_indices(word) && word != RoutineKind::quantize && !is_float(result.dtype))
    return dtype_error(result, "f32, bf16 or f16");
  return Done{};
}

bool is_routine_operand(const Program& program, int tensor) {
  return std::any_of(program.statements.begin(), program.statements.end(), [&](const Statement& statement) {
    const std::vector<int> in = statement_operands(statement);
    return routine_of(statement) && contains(in, tensor);
  });
}
// True for an int32 input that expressions read as values, such as the lengths of sequences.
bool is_integer_input(const Program& program, int tensor) {
  const Tensor& x = program.tensors[tensor];
  return x.dtype == DType::int32 && x.role == TensorRole::input && !is_routine_operand(program, tensor);
}

Status check_dtypes(const Program& program, const Expression& p, Target) {
  if (p.routine) return check_routine_dtypes(program, p);
  const auto check = [&](int i) -> Status {
    const Tensor& tensor = program.tensors[i];
    if (is_float(tensor.dtype) || (i != p.result && is_integer_input(program, i))) return Done{};
    return dtype_error(tensor, "f32, bf16 or f16");
  };
  for (const Node& node : p.nodes)
    if (node.kind == Node::Kind::tensor) RIDGE_TRY_STATUS(check(node.tensor));
  return check(p.result);
}

// Errors: a dimension has no value.
Status check_bound_dims(const Program& program, const Bindings& dims) {
  for (const Dimension& dim : program.dims) {
    if (dims.contains(dim.name)) continue;
    return input_error(fmt::format("dimension '{}' has no value; expected one to run the program", dim.name),
                       fmt::format("-d {}=64", dim.name));
  }
  return Done{};
}

// Errors: index(T) is not exact in f32, whose integers are contiguous up to 2^24.
Status check_index_range(const Program& program, const Bindings& dims) {
  for (const Statement& statement : program.statements)
    if (const auto* expression = std::get_if<Expression>(&statement.op))
      for (const Node& node : expression->nodes)
        if (node.kind == Node::Kind::index && dims.at(node.over[0].dim) > 1 << 24)
          return input_error(fmt::format("cannot run '{}': expected an index below 2^24, found index({}) with {} = {}",
                                         statement.text, node.over[0].dim, node.over[0].dim, dims.at(node.over[0].dim)),
                             fmt::format("-d {}=16777216", node.over[0].dim));
  return Done{};
}

// Adds a conversion to f32 before the first expression kernel that reads an integer input. Attention reads integers.
void convert_integer_inputs(Lowering& to, int index) {
  const FusionGroup& group = to.plan.fusion.groups[index];
  if (group.kind == FusionGroup::GroupKind::attention) return;
  for (const int s : group.statements)
    for (const int t : statement_operands(to.statement_at(s))) {
      View& view = to.tensors[t];
      if (view.dtype != DType::int32 || !is_integer_input(to.program, t)) continue;
      const int converted = convert_tensor(to, index, t, DType::f32);
      view.buffer = converted;
      view.dtype = DType::f32;
    }
}

// Errors: a routed product with a capacity could not become a grouped product.
Status validate_routing(const Program& program, const Plan& plan) {
  for (const PlanStep& step : plan.steps) {
    const auto* const routed = std::get_if<ops::RoutedProductLoops>(&step.kernel);
    if (!routed || routed->capacity == 0) continue;
    const int statement = plan.fusion.groups[step.group].statements.front();
    return input_error(
        fmt::format("cannot run '{}' with a capacity on a device: expected the dimensions of the indices first in the "
                    "result and "
                    "(all, or all but the last) first in the routed tensor; and weights of the same dtype, with a "
                    "matrix for each "
                    "expert that is contiguous along the summed dimensions or along those of the result",
                    program.statements[statement].text),
        "write u[N, 2, F] = routed(x, w, i over E, capacity = 8) with x[N, D], w[E, F, D] and i[N, 2]; `ridge run --on "
        "cpu` takes any order");
  }
  return Done{};
}

void lower_group(Lowering& to, int index) {
  convert_integer_inputs(to, index);
  const FusionGroup& group = to.plan.fusion.groups[index];
  switch (group.kind) {
    case FusionGroup::GroupKind::product: return lower_products(to, index);
    case FusionGroup::GroupKind::pointwise: return lower_pointwise(to, index);
    case FusionGroup::GroupKind::rows: return lower_rows(to, index);
    case FusionGroup::GroupKind::attention: return lower_attention(to, index);
    case FusionGroup::GroupKind::attention_backward: return lower_attention_backward(to, index);
    case FusionGroup::GroupKind::loops: return lower_loops(to, index);
  }
}

}  // namespace

int Lowering::add_buffer(DType dtype, std::int64_t elements) {
  plan.buffers.push_back({.dtype = dtype, .elements = elements});
  return static_cast<int>(plan.buffers.size()) - 1;
}

std::vector<float> index_values(const PlanBuffer& buffer) {
  std::vector<float> out(buffer.elements);
  if (buffer.dtype == DType::int32) {  // returned as the bits of floats
    std::int32_t start = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      std::memcpy(&out[i], &start, sizeof start);
      if (i < buffer.sequence_lengths.size()) start += static_cast<std::int32_t>(buffer.sequence_lengths[i]);
    }
    return out;
  }
  std::iota(out.begin(), out.end(), 0.0F);
  std::size_t at = 0;
  for (std::size_t i = 0; i < buffer.sequence_lengths.size(); ++i)
    for (std::int64_t n = 0; n < buffer.sequence_lengths[i] && at < out.size(); ++n) out[at++] = static_cast<float>(i);
  return out;
}

Status check_no_added_rows(const Program& program) {
  for (const Statement& statement : program.statements) {
    const Routine* const routine = routine_of(statement);
    const Tensor& result = program.tensors[statement.result()];
    if (routine && routine->kind == RoutineKind::scatter && result.replaced >= 0)
      return input_error(
          fmt::format("cannot run '{}': expected a scatter into a new tensor, found one that adds rows to '{}'",
                      result.name, program.tensors[result.replaced].name),
          "`ridge explain` counts it; to run, scatter into a new tensor and add that");
  }
  return Done{};
}

Result<Plan> make_plan(const Program& program, const Bindings& dims, const FuseOptions& options) {
  RIDGE_TRY_STATUS(check_no_added_rows(program));
  RIDGE_TRY_STATUS(check_bound_dims(program, dims));
  RIDGE_TRY_STATUS(require_unsharded(program, "run"));
  RIDGE_TRY_STATUS(check_index_range(program, dims));
  std::vector<Shape> shapes;
  for (const Tensor& tensor : program.tensors) {
    RIDGE_TRY(sized, make_shape(tensor, dims));
    shapes.push_back(std::move(sized));
  }
  RIDGE_TRY_STATUS(check_transposed_columns(program, shapes));
  for (const Statement& statement : program.statements)
    RIDGE_TRY_STATUS(
        std::visit([&](const auto& op) { return check_dtypes(program, op, options.target); }, statement.op));
  Lowering lowering{program, dims, dims, {}, {}};
  lowering.channel_axes = order_channels_last(program, shapes, options.target);
  lowering.plan.fusion = fuse_statements(program, shapes, options);
  lowering.plan.fusion.unsorted_routing = options.unsorted_routing;
  std::vector<bool> is_internal(program.tensors.size());
  for (const FusionGroup& group : lowering.plan.fusion.groups)
    for (const int tensor : group.internal_tensors) is_internal[tensor] = true;
  for (std::size_t t = 0; t < shapes.size(); ++t) {
    DType dtype = program.tensors[t].dtype;
    if (dtype == DType::tf32) dtype = DType::f32;  // in memory
    const int buffer = lowering.add_buffer(dtype, is_internal[t] ? 0 : count_elements(shapes[t]));
    lowering.tensors.push_back({buffer, dtype, std::move(shapes[t])});
  }
  for (int t = 0; t < static_cast<int>(program.tensors.size()); ++t)
    if (lowering.channel_axes[t] > 0 && !is_internal[t])
      add_channels_last_buffer(
          lowering, t, program.tensors[t].role != TensorRole::intermediate || contains(options.stored_tensors, t));
  for (std::size_t i = 0; i < lowering.plan.fusion.groups.size(); ++i) {
    copy_inputs_to_channels_last(lowering, static_cast<int>(i));
    lower_group(lowering, static_cast<int>(i));
    copy_results_from_channels_last(lowering, static_cast<int>(i));
  }
  if (options.target == Target::cuda) RIDGE_TRY_STATUS(validate_routing(program, lowering.plan));
  for (const PlanBuffer& buffer : lowering.plan.buffers)
    if (__builtin_add_overflow(lowering.plan.memory_bytes, buffer.size_bytes(), &lowering.plan.memory_bytes))
      return input_error("the program's tensors together take more than 2^63 bytes");
  return std::move(lowering.plan);
}

}  // namespace ridge
