// Error bounds. u = 2^-24 is f32's unit roundoff, v that of the dtype in which the result is stored.
//   contraction over K:  c*u*(|A||B|) + v*|C|, c = K + 2; for random data min(K + 2, 16*sqrt(K) + 16), since rounding
//                        errors of random sign grow like a random walk (Higham and Mary, SIAM J. Sci. Comput. 41, 2019)
//                        int8 * int8 is exact in int32; a float result is rounded once more, an int8 result saturates
//   expressions:         propagated through the expression, see `ExpressionEvaluator`
#include "ridge/measure/reference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ridge/measure/expression_evaluator.h"
#include "ridge/measure/routines/routine_reference.h"
#include "ridge/plan/shape.h"
#include "ridge/program/contraction.h"
#include "ridge/run/parallel_for.h"

namespace ridge {
namespace {

constexpr double u = 0x1p-24;
constexpr double min_normal = 0x1p-126;  // below it, f32 and bf16 lose digits or a kernel may flush to 0

constexpr double max_evaluated_nodes = 2e7;  // about a second of work

double subnormal_error(DType dtype) {
  if (dtype_info(dtype).is_integer) return 0;
  if (dtype == DType::f16) return 0x1p-25;
  return min_normal;
}
// Returns the operand's offset at a result's element, with all summed indices 0.
std::int64_t operand_offset(const Shape& operand, const Shape& result, std::int64_t index) {
  std::int64_t out = 0;
  for (const SizedAxis& axis : result) {
    const std::int64_t position = index / axis.stride % axis.extent;
    if (!axis.dim.empty()) out += position * axis_along(operand, axis.dim).stride;
  }
  return out;
}

struct SummedAxis {
  std::int64_t extent, left, right;  // strides in the two operands
  std::string dim;
};

std::vector<SummedAxis> list_summed_axes(const Shape& left, const Shape& right, const Shape& result) {
  std::vector<SummedAxis> out;
  for (const SizedAxis& axis : left)
    if (!axis.dim.empty() && !has_axis(result, axis.dim))
      out.push_back({axis.extent, axis.stride, axis_along(right, axis.dim).stride, axis.dim});
  return out;
}

// Calls step(left offset, right offset) for every point of the summed axes.
template <class Step> void for_each_summed_point(const std::vector<SummedAxis>& axes, const Step& step) {
  std::int64_t points = 1;
  for (const SummedAxis& axis : axes) points *= axis.extent;
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = point, left = 0, right = 0;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      left += rest % axis->extent * axis->left;
      right += rest % axis->extent * axis->right;
      rest /= axis->extent;
    }
    step(left, right);
  }
}

class ElementEvaluator {
 public:
  ElementEvaluator(const Reference& reference, const std::vector<std::int64_t>& indices)
      : reference_(reference), indices_(indices) {
    for (const Tensor& tensor : reference.program.tensors)
      shapes_.push_back(make_shape(tensor, reference.dims).value());
    out_.resize(indices.size());
  }

  // Evaluates a product of which one operand is computed inside the kernel. The kernel may round that operand to the
  // dtype of the other before it multiplies.
  std::vector<Expected> evaluate_fused_product(const Contraction& c, const Expression& made, bool is_left) {
    const ExpressionEvaluator interpreter(reference_, shapes_, made);
    const Array& other = array_at(is_left ? c.right : c.left);
    const std::vector<SummedAxis> axes = list_summed_axes(shape_of(c.left), shape_of(c.right), shape_of(c.result));
    double k = 1;
    for (const SummedAxis& axis : axes) k *= static_cast<double>(axis.extent);
    parallel_for(
        static_cast<std::int64_t>(indices_.size()), 1, reference_.threads, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const std::int64_t index = indices_[i];
            const std::int64_t left = operand_offset(shape_of(c.left), shape_of(c.result), index),
                               right = operand_offset(shape_of(c.right), shape_of(c.result), index);
            ExpressionEvaluator::EvaluationCache memo;
            Expected& out = out_[i];
            double error = 0;
            for_each_summed_point(axes, [&](std::int64_t l, std::int64_t r) {
              const ValueWithError x = interpreter.evaluate_element(is_left ? left + l : right + r, memo);
              const double y = read_element(other, is_left ? right + r : left + l);
              out.value += x.value * y;
              out.scale += std::fabs(x.value * y);
              error += (x.error + unit_roundoff(other.dtype) * std::fabs(x.value)) * std::fabs(y);
            });
            out.bound =
                sum_error_growth(k, reference_.random_data) * out.scale + error + storage_error(c.result, out.value);
          }
        });
    return std::move(out_);
  }

  // Splits an axis H into (G, index in its group) where an operand has only G.
  void split_group_axis(const Contraction::GroupedOperand& grouped) {
    for (Shape& shape : shapes_)
      for (std::size_t i = 0; i < shape.size(); ++i) {
        if (shape[i].dim != grouped.dim) continue;
        const SizedAxis axis = shape[i];
        shape[i] = {grouped.group, axis.extent / grouped.group_size, axis.stride * grouped.group_size};
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     {"1/" + grouped.group, grouped.group_size, axis.stride});
        break;
      }
  }

  std::vector<Expected> evaluate_op(const Contraction& c) {
    if (reference_.find_kernel_expression(c.left) && reference_.find_kernel_expression(c.right))
      return evaluate_op(to_expression(c));
    for (const int operand : {c.left, c.right})
      if (const auto made = reference_.find_kernel_expression(operand))
        return evaluate_fused_product(c, *made, operand == c.left);
    if (c.grouped) split_group_axis(*c.grouped);
    const Array &left = array_at(c.left), &right = array_at(c.right);
    const Shape& result = shape_of(c.result);
    const std::vector<SummedAxis> axes = list_summed_axes(shape_of(c.left), shape_of(c.right), result);
    double k = 1;
    for (const SummedAxis& axis : axes) k *= static_cast<double>(axis.extent);
    const bool integers = left.dtype == DType::int8 && right.dtype == DType::int8;
    const double sum_error =
        integers ? 0 : sum_error_growth(k, reference_.random_data) + tensor_core_error(reference_, c.left, c.right, k);
    const DType stored_as = array_at(c.result).dtype;
    for_each_block([&](std::size_t begin, std::size_t end) {
      std::vector<std::int64_t> left_at, right_at;
      for (std::size_t i = begin; i < end; ++i) {
        left_at.push_back(operand_offset(shape_of(c.left), result, indices_[i]));
        right_at.push_back(operand_offset(shape_of(c.right), result, indices_[i]));
      }
      // The sum's index is the outer loop, so that samples of the same rows reuse cached operands.
      for_each_summed_point(axes, [&](std::int64_t l, std::int64_t r) {
        for (std::size_t i = begin; i < end; ++i) {
          const double product =
              read_element(left, left_at[i - begin] + l) * read_element(right, right_at[i - begin] + r);
          out_[i].value += product;
          out_[i].scale += std::fabs(product);
        }
      });
      for (std::size_t i = begin; i < end; ++i) {
        if (stored_as == DType::int8) limit_value(out_[i], -128, 127);
        const double converted = integers && !dtype_info(stored_as).is_integer ? u * std::fabs(out_[i].value) : 0;
        out_[i].bound = sum_error * out_[i].scale + converted + storage_error(c.result, out_[i].value);
      }
    });
    return std::move(out_);
  }

  std::vector<Expected> evaluate_op(const Expression& p) {
    if (p.routine) {
      out_ = evaluate_routine(reference_, p, indices_);
      if (gives_indices(p.routine->kind)) return std::move(out_);  // integers need no rounding error
      for (Expected& e : out_) e.bound += storage_error(p.result, std::fabs(e.value) + e.bound);
      return std::move(out_);
    }
    const ExpressionEvaluator interpreter(reference_, shapes_, p);
    for_each_block([&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) {
        const ValueWithError value = interpreter.evaluate_element(indices_[i]);
        const double rounding = storage_error(p.result, std::fabs(value.value) + value.error);
        out_[i] = {value.value, 0, value.error + rounding * (1 + midpoint_margin(array_at(p.result).dtype))};
      }
    });
    return std::move(out_);
  }

 private:
  static void limit_value(Expected& expected, double least, double most) {
    if (expected.value < least || expected.value > most) expected.before_limit = expected.value;
    expected.value = std::clamp(expected.value, least, most);
  }
  double storage_error(int tensor, double value) const {
    const DType dtype = array_at(tensor).dtype;
    return unit_roundoff(dtype) * std::fabs(value) + subnormal_error(dtype);
  }
  // 16-bit results may come from approximate functions (device_math.h) that are accurate to 2^-18. Such a value may
  // round the other way if it is within this fraction of half a step from the midpoint.
  static double midpoint_margin(DType dtype) { return dtype == DType::f32 ? 0 : 1.0 / 64; }
  const Array& array_at(int tensor) const { return reference_.tensors[tensor]; }
  const Shape& shape_of(int tensor) const { return shapes_[tensor]; }

  template <class Work> void for_each_block(const Work& work) const {
    parallel_for(static_cast<std::int64_t>(indices_.size()), 1024, reference_.threads,
                 [&](std::int64_t begin, std::int64_t end) {
                   work(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
                 });
  }

  const Reference& reference_;
  const std::vector<std::int64_t>& indices_;
  std::vector<Shape> shapes_;
  std::vector<Expected> out_;
};

std::uint64_t mix_bits(std::uint64_t x) {
  x = (x + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace

double unit_roundoff(DType dtype) {
  if (dtype_info(dtype).is_integer) return 0;  // integers are stored exactly
  if (dtype == DType::bf16) return 0x1p-8;
  if (dtype == DType::f16) return 0x1p-11;
  return u;
}

std::vector<Expected> Reference::evaluate_elements(const Statement& statement,
                                                   const std::vector<std::int64_t>& indices) const {
  const auto* c = std::get_if<Contraction>(&statement.op);
  if (c && !has_sum(*c) && kernel_statements.size() > 1)
    return ElementEvaluator(*this, indices).evaluate_op(expression_of_contraction(*c));
  return std::visit([&](const auto& op) { return ElementEvaluator(*this, indices).evaluate_op(op); }, statement.op);
}

std::optional<Expression> Reference::find_kernel_expression(int tensor) const {
  for (const int s : kernel_statements) {
    const Statement& statement = program.statements[s];
    if (statement.result() != tensor) continue;
    if (const auto* e = std::get_if<Expression>(&statement.op)) return *e;
    const auto& c = std::get<Contraction>(statement.op);
    if (!has_sum(c)) return expression_of_contraction(c);
  }
  return std::nullopt;
}

namespace {

// Returns how many rows one element of a product sums, if functions along other dimensions compute its operand.
double count_summed_rows(const Reference& reference, const std::vector<Shape>& shapes, const Contraction& c) {
  std::set<std::string> along;
  for (const int s : reference.kernel_statements)
    if (const auto* e = std::get_if<Expression>(&reference.program.statements[s].op))
      for (const Node& node : e->nodes)
        if (node.kind == Node::Kind::along_dims)
          for (const Axis& axis : node.over) along.insert(axis.dim);
  double rows = 1;
  for (const SummedAxis& axis : list_summed_axes(shapes[c.left], shapes[c.right], shapes[c.result]))
    if (!along.empty() && !along.contains(axis.dim)) rows *= static_cast<double>(axis.extent);
  return rows;
}

}  // namespace

std::int64_t Reference::max_affordable_elements(const Statement& statement, std::int64_t requested) const {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : program.tensors) shapes.push_back(make_shape(tensor, dims).value());
  double element_nodes = 0;
  std::int64_t min_elements = 64;
  if (const auto* expression = std::get_if<Expression>(&statement.op); expression && expression->routine) {
    element_nodes = estimate_routine_cost(*this, *expression);
  } else if (expression) {
    element_nodes = ExpressionEvaluator(*this, shapes, *expression).evaluation_cost();
  } else {
    const auto& c = std::get<Contraction>(statement.op);
    for (const int operand : {c.left, c.right})
      if (const auto made =
              find_kernel_expression(operand))  // functions along dimensions run once for the operand's row
        element_nodes = 2 * ExpressionEvaluator(*this, shapes, *made).evaluation_cost();
    if (element_nodes == 0) return requested;
    const double rows = count_summed_rows(*this, shapes, c);
    element_nodes *= rows;
    if (rows > 1) min_elements = 8;
  }
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(max_evaluated_nodes / element_nodes), min_elements,
                                  requested);
}

std::vector<std::int64_t> sample_indices(const std::vector<std::int64_t>& extents, std::int64_t requested,
                                         std::uint64_t seed) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) elements *= extent;
  std::vector<std::int64_t> out;
  if (elements <= requested) {
    for (std::int64_t i = 0; i < elements; ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t i = 0; i < requested; ++i) {
    const auto edge = [&](std::int64_t j) {
      return static_cast<std::int64_t>(static_cast<__int128>(elements) * j / requested);
    };
    const std::int64_t begin = edge(i), length = edge(i + 1) - begin;
    const std::uint64_t hash = mix_bits(mix_bits(seed) + static_cast<std::uint64_t>(i));
    out.push_back(begin + static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(length)));
  }
  for (std::size_t corner = 0; corner < std::size_t{1} << std::min<std::size_t>(extents.size(), 6); ++corner) {
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      index = index * extents[axis] + (axis < 6 && (corner >> axis & 1) ? extents[axis] - 1 : 0);
    out.push_back(index);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace ridge
