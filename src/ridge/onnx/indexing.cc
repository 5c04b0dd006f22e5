// Operators with indices, and those that make constants. A gather reads the rows that it returns, as if all differed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {
namespace {

Status define_gather(Operator& op) {
  RIDGE_TRY(table, op.input(0));
  RIDGE_TRY(indices, op.input(1));
  RIDGE_TRY(axis, op.axis(op.integer("axis", 0), table->shape.size()));
  Shape shape(table->shape.begin(), table->shape.begin() + static_cast<std::ptrdiff_t>(axis));
  shape.insert(shape.end(), indices->shape.begin(), indices->shape.end());
  shape.insert(shape.end(), table->shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, table->shape.end());
  RIDGE_TRY_STATUS(op.set_output(0, shape, table->type));
  set_elements_read(op, 0, count_elements(shape));
  if (!table->values || table->shape.size() != 1 || !indices->values || op.outputs.empty()) return Done{};
  std::vector<double> values;
  for (double index : *indices->values) {
    const auto size = static_cast<double>(table->values->size());
    if (index < 0) index += size;
    if (!(index >= 0 && index < size))
      return op.error(fmt::format("expected an index below {}, found {}", table->values->size(), index));
    values.push_back((*table->values)[static_cast<std::size_t>(index)]);
  }
  op.outputs[0].values = std::move(values);
  return Done{};
}

Status define_gather_elements(Operator& op) {
  RIDGE_TRY(table, op.input(0));
  RIDGE_TRY(indices, op.input(1));
  set_elements_read(op, 0, indices->elements());
  return op.set_output(0, indices->shape, table->type);
}

Status define_gather_nd(Operator& op) {
  RIDGE_TRY(table, op.input(0));
  RIDGE_TRY(indices, op.input(1));
  const std::int64_t batch = op.integer("batch_dims", 0);
  const auto rank = static_cast<std::int64_t>(table->shape.size());
  const std::int64_t named = indices->shape.empty() ? 0 : indices->shape.back();
  if (batch < 0 || indices->shape.empty() || named < 1 || named > rank || batch + named > rank ||
      batch >= static_cast<std::int64_t>(indices->shape.size()))
    return op.error(fmt::format("expected indices of some of the axes of {}, found {}", format_shape(table->shape),
                                format_shape(indices->shape)));
  Shape shape(indices->shape.begin(), indices->shape.end() - 1);
  shape.insert(shape.end(), table->shape.begin() + batch + named, table->shape.end());
  RIDGE_TRY_STATUS(op.set_output(0, shape, table->type));
  set_elements_read(op, 0, count_elements(shape));
  return Done{};
}

// Copies the data and replaces, or adds to, the elements that indices name.
Status define_scatter(Operator& op) {
  RIDGE_TRY(data, op.input(0));
  RIDGE_TRY(updates, op.input(2));
  if (op.text("reduction", "none") != "none") op.flops = updates->elements();
  return op.set_output(0, data->shape, data->type);
}

Status define_shape(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  const auto rank = static_cast<std::int64_t>(from->shape.size());
  const auto clamp = [&](std::int64_t value) {
    return std::clamp<std::int64_t>(value < 0 ? value + rank : value, 0, rank);
  };
  const std::int64_t begin = clamp(op.integer("start", 0)), end = clamp(op.integer("end", rank));
  std::vector<double> values;
  for (std::int64_t i = begin; i < end; ++i)
    values.push_back(static_cast<double>(from->shape[static_cast<std::size_t>(i)]));
  op.is_view = true;
  RIDGE_TRY_STATUS(op.set_output(0, {static_cast<std::int64_t>(values.size())}, int64_type));
  if (!op.outputs.empty()) op.outputs[0].values = std::move(values);
  return Done{};
}

Status define_size(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  op.is_view = true;
  RIDGE_TRY_STATUS(op.set_output(0, {}, int64_type));
  if (!op.outputs.empty()) op.outputs[0].values = std::vector{static_cast<double>(from->elements())};
  return Done{};
}

// Sets a constant from an attribute.
Status define_constant(Operator& op) {
  op.is_view = true;
  for (const Attribute& each : op.node.attributes) {
    Shape shape;
    int type = float_type;
    std::vector<double> values;
    if (each.name == "value" && each.tensor) {
      shape = each.tensor->shape;
      type = each.tensor->type;
      values = each.tensor->values;
    } else if (each.name == "value_int" || each.name == "value_float") {
      const bool is_integer = each.name == "value_int";
      values = {is_integer ? static_cast<double>(each.integer) : each.number};
      if (is_integer) type = int64_type;
    } else if (each.name == "value_ints" || each.name == "value_floats") {
      for (const std::int64_t value : each.integers) values.push_back(static_cast<double>(value));
      if (each.name == "value_floats") values = each.numbers;
      if (each.name == "value_ints") type = int64_type;
      shape = {static_cast<std::int64_t>(values.size())};
    } else {
      continue;
    }
    RIDGE_TRY_STATUS(op.set_output(0, std::move(shape), type));
    if (!op.outputs.empty() && op.outputs[0].elements() == static_cast<Count>(values.size()))
      op.outputs[0].values = std::move(values);
    return Done{};
  }
  return op.error("expected a value, a tensor or numbers, found none");
}

Status define_constant_of_shape(Operator& op) {
  RIDGE_TRY(shape, op.known_integers(0));
  const Attribute* const value = op.node.find_attribute("value");
  const bool has_value = value && value->tensor && value->tensor->values.size() == 1;
  set_elements_read(op, 0, 0);
  RIDGE_TRY_STATUS(op.set_output(0, shape, value && value->tensor ? value->tensor->type : float_type));
  if (!op.outputs.empty() && op.outputs[0].elements() <= static_cast<Count>(max_known_values))
    op.outputs[0].values = std::vector<double>(static_cast<std::size_t>(op.outputs[0].elements()),
                                               has_value ? value->tensor->values.front() : 0);
  return Done{};
}

// Returns the only value of an input. Error: it is unknown.
Result<double> known_number(Operator& op, std::size_t i) {
  RIDGE_TRY_STATUS(op.known_integers(i));
  if (op.inputs[i]->values->size() != 1) return op.error(fmt::format("expected one number as input {}", i));
  return op.inputs[i]->values->front();
}

Status define_range(Operator& op) {
  RIDGE_TRY(start, known_number(op, 0));
  RIDGE_TRY(limit, known_number(op, 1));
  RIDGE_TRY(step, known_number(op, 2));
  const double count = std::max(0.0, std::ceil((limit - start) / step));
  if (!(step != 0 && count <= static_cast<double>(max_axis_size)))
    return op.error(
        fmt::format("expected a step other than 0 and at most 2^48 numbers, found a range from {} to {} by {}", start,
                    limit, step));
  RIDGE_TRY_STATUS(op.set_output(0, {static_cast<std::int64_t>(count)}, op.inputs[0]->type));
  if (count > static_cast<double>(max_known_values) || op.outputs.empty()) return Done{};
  std::vector<double> values;
  for (int i = 0; i < static_cast<int>(count); ++i) values.push_back(start + i * step);
  op.outputs[0].values = std::move(values);
  return Done{};
}

Status define_one_hot(Operator& op) {
  RIDGE_TRY(indices, op.input(0));
  RIDGE_TRY(depth, known_number(op, 1));
  RIDGE_TRY(values, op.input(2));
  RIDGE_TRY(axis, op.axis(op.integer("axis", -1), indices->shape.size() + 1));
  if (!(depth >= 0 && depth <= static_cast<double>(max_axis_size)))
    return op.error(fmt::format("expected a depth from 0 to 2^48, found {}", depth));
  Shape shape = indices->shape;
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::int64_t>(depth));
  return op.set_output(0, std::move(shape), values->type);
}

Status define_eye(Operator& op) {
  RIDGE_TRY(like, op.input(0));
  set_elements_read(op, 0, 0);
  return op.set_output(0, like->shape, static_cast<int>(op.integer("dtype", like->type)));
}

// Random numbers of a given shape, or of the shape of the input.
Status define_random(Operator& op) {
  const auto type = static_cast<int>(op.integer("dtype", float_type));
  if (const auto shape = op.integers("shape")) return op.set_output(0, *shape, type);
  RIDGE_TRY(like, op.input(0));
  set_elements_read(op, 0, 0);
  return op.set_output(0, like->shape, type);
}

constexpr NamedDefinition indexing_table[] = {
    {"Constant", define_constant},
    {"ConstantOfShape", define_constant_of_shape},
    {"EyeLike", define_eye},
    {"Gather", define_gather},
    {"GatherElements", define_gather_elements},
    {"GatherND", define_gather_nd},
    {"OneHot", define_one_hot},
    {"RandomNormal", define_random},
    {"RandomNormalLike", define_random},
    {"RandomUniform", define_random},
    {"RandomUniformLike", define_random},
    {"Range", define_range},
    {"Scatter", define_scatter},
    {"ScatterElements", define_scatter},
    {"ScatterND", define_scatter},
    {"Shape", define_shape},
    {"Size", define_size},
    {"TensorScatter", define_scatter},
};

}  // namespace

std::span<const NamedDefinition> indexing_definitions() { return indexing_table; }

}  // namespace ridge::onnx
