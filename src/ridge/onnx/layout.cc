// Operators that change a shape or an order. Reshaping moves nothing; the others copy what their result holds.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ridge/onnx/operator.h"

namespace ridge::onnx {
namespace {

// Sets a result with the elements of input 0 in another shape, in the same memory.
Status set_view(Operator& op, Shape shape) {
  RIDGE_TRY(from, op.input(0));
  op.is_view = true;
  RIDGE_TRY_STATUS(op.set_output(0, std::move(shape), from->type));
  if (op.outputs.empty()) return Done{};
  if (op.outputs[0].elements() != from->elements())
    return op.error(fmt::format("expected the number of elements of {}, found {}", format_shape(from->shape),
                                format_shape(op.outputs[0].shape)));
  op.outputs[0].values = from->values;
  return Done{};
}

Status define_reshape(Operator& op) {
  op.is_view = true;
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(given, op.integers_of("shape", 1));
  if (!given) return op.error("expected a shape, found none");
  Shape shape = *given;
  Count known = 1;
  std::ptrdiff_t open = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && op.integer("allowzero", 0) == 0) {
      if (i >= from->shape.size()) return op.error("expected an axis of the input for a size 0, found none");
      shape[i] = from->shape[i];
    }
    if (shape[i] == -1 && open >= 0) return op.error("expected one size -1, found two");
    if (shape[i] == -1)
      open = static_cast<std::ptrdiff_t>(i);
    else
      known = multiply_counts(known, std::max<std::int64_t>(shape[i], 0));
  }
  if (open >= 0) {
    const Count all = from->elements();
    if (known == 0 || all % known != 0)
      return op.error(fmt::format("expected sizes that divide the elements of {}, found {}", format_shape(from->shape),
                                  format_shape(shape)));
    shape[static_cast<std::size_t>(open)] =
        static_cast<std::int64_t>(std::min<Count>(all / known, Count{max_axis_size} + 1));
  }
  return set_view(op, std::move(shape));
}

Status define_flatten(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  const std::int64_t given = op.integer("axis", 1), rank = static_cast<std::int64_t>(from->shape.size());
  if (given < -rank || given > rank)
    return op.error(fmt::format("expected an axis from {} to {}, found {}", -rank, rank, given));
  const auto axis = static_cast<std::size_t>(given < 0 ? given + rank : given);
  const auto product = [&](std::size_t begin, std::size_t end) {
    return static_cast<std::int64_t>(
        std::min<Count>(count_elements(std::span(from->shape).subspan(begin, end - begin)), Count{max_axis_size} + 1));
  };
  return set_view(op, {product(0, axis), product(axis, from->shape.size())});
}

// Returns axes from 0 to rank - 1, sorted, of an attribute or of input 1.
Result<std::vector<std::size_t>> find_axes(Operator& op, const std::vector<std::int64_t>& given, std::size_t rank) {
  std::vector<std::size_t> out;
  for (const std::int64_t each : given) {
    RIDGE_TRY(axis, op.axis(each, rank));
    out.push_back(axis);
  }
  std::sort(out.begin(), out.end());
  if (std::adjacent_find(out.begin(), out.end()) != out.end())
    return op.error("expected each axis once, found one twice");
  return out;
}

Status define_unsqueeze(Operator& op) {
  op.is_view = true;
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(given, op.integers_of("axes", 1));
  if (!given || given->size() > max_tensor_rank) return op.error("expected axes, at most 32");
  RIDGE_TRY(axes, find_axes(op, *given, from->shape.size() + given->size()));
  Shape shape = from->shape;
  for (const std::size_t axis : axes) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  return set_view(op, std::move(shape));
}

Status define_squeeze(Operator& op) {
  op.is_view = true;
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(given, op.integers_of("axes", 1));
  Shape shape;
  std::vector<std::size_t> axes;
  if (given) {
    RIDGE_TRY(found, find_axes(op, *given, from->shape.size()));
    axes = found;
  }
  for (std::size_t i = 0; i < from->shape.size(); ++i) {
    const bool is_removed = given ? std::binary_search(axes.begin(), axes.end(), i) : from->shape[i] == 1;
    if (!is_removed) shape.push_back(from->shape[i]);
  }
  return set_view(op, std::move(shape));
}

Status define_transpose(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  const std::size_t rank = from->shape.size();
  std::vector<std::int64_t> order(rank);
  for (std::size_t i = 0; i < rank; ++i) order[i] = static_cast<std::int64_t>(rank - 1 - i);
  if (const auto given = op.integers("perm")) order = *given;
  RIDGE_TRY(axes, find_axes(op, order, rank));
  if (axes.size() != rank)
    return op.error(fmt::format("expected a permutation of {} axes, found {}", rank, axes.size()));
  Shape shape;
  std::vector<std::int64_t> moved;  // Axes with more than one element, in their new order
  for (const std::int64_t each : order) {
    RIDGE_TRY(axis, op.axis(each, rank));
    shape.push_back(from->shape[axis]);
    if (from->shape[axis] != 1) moved.push_back(static_cast<std::int64_t>(axis));
  }
  op.is_view = std::is_sorted(moved.begin(), moved.end());
  return op.set_output(0, std::move(shape), from->type);
}

// Reads only what the result holds.
Status set_copied_part(Operator& op, Shape shape) {
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY_STATUS(op.set_output(0, shape, from->type));
  set_elements_read(op, 0, count_elements(shape));
  for (std::size_t i = 1; i < op.inputs.size(); ++i) set_elements_read(op, i, 0);
  return Done{};
}

struct SliceRange {
  std::int64_t start = 0, step = 1, count = 0;
};

// Returns the elements that a slice takes of an axis, by the rules of NumPy.
SliceRange find_slice(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  if (start < 0) start += size;
  if (end < 0) end += size;
  start = std::clamp(start, step > 0 ? low : std::int64_t{0}, std::max<std::int64_t>(high, 0));
  end = std::clamp(end, low, high);
  const std::int64_t length = step > 0 ? end - start : start - end;
  const std::int64_t stride = step > 0 ? step : -step;
  return {start, step, length <= 0 || size == 0 ? 0 : (length - 1) / stride + 1};
}

Status define_slice(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(starts, op.integers_of("starts", 1));
  RIDGE_TRY(ends, op.integers_of("ends", 2));
  RIDGE_TRY(axes, op.integers_of("axes", 3));
  RIDGE_TRY(steps, op.integers_of("steps", 4));
  if (!starts || !ends || starts->size() != ends->size() || (axes && axes->size() != starts->size()) ||
      (steps && steps->size() != starts->size()))
    return op.error("expected equal numbers of starts, ends, axes and steps");
  Shape shape = from->shape;
  SliceRange last;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    RIDGE_TRY(axis, op.axis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), shape.size()));
    const std::int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0 || step > max_axis_size || step < -max_axis_size)
      return op.error(fmt::format("expected a step other than 0, at most 2^48, found {}", step));
    last = find_slice((*starts)[i], (*ends)[i], step, from->shape[axis]);
    shape[axis] = last.count;
  }
  RIDGE_TRY_STATUS(set_copied_part(op, shape));
  if (from->values && from->shape.size() == 1 && starts->size() == 1 && !op.outputs.empty()) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < last.count; ++i)
      values.push_back((*from->values)[static_cast<std::size_t>(last.start + i * last.step)]);
    op.outputs[0].values = std::move(values);
  }
  op.is_view = shape == from->shape;
  return Done{};
}

Status define_split(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(axis, op.axis(op.integer("axis", 0), from->shape.size()));
  RIDGE_TRY(given, op.integers_of("split", 1));
  const auto parts = static_cast<std::int64_t>(op.outputs.size());
  const std::int64_t size = from->shape[axis];
  if (parts == 0) return Done{};
  const std::int64_t each = (size + parts - 1) / parts;
  if (given && given->size() != op.outputs.size())
    return op.error(fmt::format("expected {} sizes of parts, found {}", parts, given->size()));
  Count all = 0;
  for (std::int64_t i = 0; i < parts; ++i) {
    Shape shape = from->shape;
    shape[axis] = given ? (*given)[static_cast<std::size_t>(i)] : std::clamp<std::int64_t>(size - i * each, 0, each);
    all += shape[axis];
    RIDGE_TRY_STATUS(op.set_output(static_cast<std::size_t>(i), std::move(shape), from->type));
  }
  set_elements_read(op, 1, 0);
  if (all == size) return Done{};
  return op.error(fmt::format("expected parts that add up to {}, found {}", size, static_cast<double>(all)));
}

Status define_concat(Operator& op) {
  RIDGE_TRY(first, op.input(0));
  RIDGE_TRY(axis, op.axis(op.integer("axis", op.opset < 4 ? 1 : 0), first->shape.size()));
  Shape shape = first->shape;
  bool is_known = true;
  std::vector<double> values;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    RIDGE_TRY(part, op.input(i));
    if (part->shape.size() != shape.size())
      return op.error(fmt::format("expected parts of equal rank, found {} and {}", format_shape(first->shape),
                                  format_shape(part->shape)));
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (d != axis && part->shape[d] != shape[d])
        return op.error(fmt::format("expected parts that differ along axis {} only, found {} and {}", axis,
                                    format_shape(first->shape), format_shape(part->shape)));
    if (i > 0) shape[axis] = std::min(shape[axis] + part->shape[axis], max_axis_size + 1);
    is_known = is_known && part->values && shape.size() == 1 && values.size() <= max_known_values;
    if (is_known) values.insert(values.end(), part->values->begin(), part->values->end());
  }
  RIDGE_TRY_STATUS(op.set_output(0, std::move(shape), first->type));
  op.is_view = op.inputs.size() == 1;
  if (is_known && values.size() <= max_known_values && !op.outputs.empty()) op.outputs[0].values = std::move(values);
  return Done{};
}

Status define_expand(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(shape, op.known_integers(1));
  RIDGE_TRY(both, broadcast_shapes(op, from->shape, shape));
  set_elements_read(op, 1, 0);
  op.is_view = both == from->shape;
  RIDGE_TRY_STATUS(op.set_output(0, std::move(both), from->type));
  if (from->values && from->values->size() == 1 && !op.outputs.empty() &&
      op.outputs[0].elements() <= static_cast<Count>(max_known_values))
    op.outputs[0].values =
        std::vector<double>(static_cast<std::size_t>(op.outputs[0].elements()), from->values->front());
  return Done{};
}

Status define_tile(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(repeats, op.known_integers(1));
  if (repeats.size() != from->shape.size()) return op.error("expected one number of repeats for each axis");
  Shape shape = from->shape;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] < 0) return op.error(fmt::format("expected repeats of at least 0, found {}", repeats[i]));
    shape[i] = static_cast<std::int64_t>(std::min<Count>(Count{shape[i]} * repeats[i], Count{max_axis_size} + 1));
  }
  set_elements_read(op, 1, 0);
  return op.set_output(0, std::move(shape), from->type);
}

Status define_pad(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  RIDGE_TRY(pads, op.integers_of("pads", 1));
  std::vector<std::int64_t> axes(from->shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (op.has_input(3)) {
    RIDGE_TRY(given, op.known_integers(3));
    axes = given;
  }
  if (!pads || pads->size() != 2 * axes.size())
    return op.error("expected two numbers of elements for each padded axis");
  Shape shape = from->shape;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    RIDGE_TRY(axis, op.axis(axes[i], shape.size()));
    const Count size = Count{shape[axis]} + (*pads)[i] + (*pads)[axes.size() + i];
    shape[axis] = static_cast<std::int64_t>(std::clamp<Count>(size, -1, Count{max_axis_size} + 1));
  }
  set_elements_read(op, 1, 0);
  return op.set_output(0, std::move(shape), from->type);
}

// Moves blocks of elements between the channels and the two spatial axes.
template <bool to_space> Status define_block_move(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  const std::int64_t block = op.integer("blocksize", 0);
  constexpr std::int64_t max_block = 1 << 16;
  if (from->shape.size() != 4 || block < 1 || block > max_block)
    return op.error(fmt::format("expected an input [N, C, H, W] and a block size from 1 to 2^16, found {} and {}",
                                format_shape(from->shape), block));
  const Shape& s = from->shape;
  const bool divides = to_space ? s[1] % (block * block) == 0 : s[2] % block == 0 && s[3] % block == 0;
  if (!divides) return op.error(fmt::format("expected sizes that {} divides, found {}", block, format_shape(s)));
  const Count channels = to_space ? Count{s[1]} / (block * block) : multiply_counts(Count{s[1]}, Count{block} * block);
  const auto resize = [&](std::int64_t size) { return to_space ? size * block : size / block; };
  if (channels > max_axis_size) return op.error("expected at most 2^48 channels in the result, found more");
  return op.set_output(0, {s[0], static_cast<std::int64_t>(channels), resize(s[2]), resize(s[3])}, from->type);
}

// Copies its input in the same shape: Trilu, ReverseSequence.
Status define_copy(Operator& op) {
  RIDGE_TRY(from, op.input(0));
  return op.set_output(0, from->shape, from->type);
}

constexpr NamedDefinition layout_table[] = {
    {"Concat", define_concat},
    {"DepthToSpace", define_block_move<true>},
    {"Expand", define_expand},
    {"Flatten", define_flatten},
    {"Pad", define_pad},
    {"Reshape", define_reshape},
    {"ReverseSequence", define_copy},
    {"Slice", define_slice},
    {"SpaceToDepth", define_block_move<false>},
    {"Split", define_split},
    {"Squeeze", define_squeeze},
    {"Tile", define_tile},
    {"Transpose", define_transpose},
    {"Trilu", define_copy},
    {"Unsqueeze", define_unsqueeze},
};

}  // namespace

std::span<const NamedDefinition> layout_definitions() { return layout_table; }

}  // namespace ridge::onnx
