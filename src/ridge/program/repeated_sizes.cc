// Checks literal sizes that occur several times in a tensor, as 56 in x: f32[N, 64, 56, 56]. The axes are matched in
// order, the first 56 with the first 56 of another tensor, which is clear only if all tensors of a statement have the
// size equally often or not at all. Products of two tensors that both have it would be unclear: y[8, 8] = x * w.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

std::int64_t count_axes_of_size(const std::vector<Axis>& axes, const Axis& size) {
  return std::count_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.has_same_size(size); });
}

std::string format_times(std::int64_t count) {
  return count == 1 ? "once" : count == 2 ? "twice" : fmt::format("{} times", count);
}

std::string name_hint(const Axis& axis) {
  return fmt::format("give one of them a name, to distinguish them: dims W = {}", axis.literal);
}

}  // namespace

bool Parser::report_repeated_size(const Axis& axis) {
  return report_error(axis.span, fmt::format("the size {} appears twice in one tensor", axis.literal), name_hint(axis));
}

// Rejects repeated literal sizes in brackets.
bool Parser::check_ref_sizes_differ(const TensorRef& m) {
  for (const Axis& a : m.axes)
    if (a.repetition > 0) return report_repeated_size(a);
  return true;
}

// Rejects a tensor with repeated sizes in a statement that cannot distinguish them.
bool Parser::check_tensor_sizes_differ(int tensor, TextSpan span) {
  const Tensor& t = program_.tensors[tensor];
  for (const Axis& a : t.axes)
    if (a.repetition > 0)
      return report_error(
          span, fmt::format("'{}' has the {} twice, which this statement cannot distinguish", t.name, describe_axis(a)),
          name_hint(a));
  return true;
}

// Checks that the operands and the result of an expression have each repeated size equally often or not at all.
bool Parser::check_repeated_sizes(const TensorRef& result) {
  std::vector<AxesOfOperand> all{{result.axes, fmt::format("'{}'", result.name), result.span}};
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind == Node::Kind::tensor) {
      const ParsedOperand operand = operand_at_node(i);
      all.push_back({operand.axes, operand.description, operand.span});
    }
    if (nodes_[i].kind == Node::Kind::along_dims)
      all.push_back({nodes_[i].over, fmt::format("'{}'", function_info(nodes_[i].function).name), node_spans_[i]});
  }
  for (const AxesOfOperand& most : all)
    for (const Axis& size : most.axes)
      if (size.repetition > 0 && !check_size_count(all, most, size)) return false;
  return true;
}

bool Parser::check_size_count(const std::vector<AxesOfOperand>& all, const AxesOfOperand& most, const Axis& size) {
  const std::int64_t expected = count_axes_of_size(most.axes, size);
  for (const AxesOfOperand& other : all) {
    const std::int64_t found = count_axes_of_size(other.axes, size);
    if (found == 0 || found >= expected) continue;
    return report_error(
        other.span,
        fmt::format("{} has the size {} {}, and {} has it {}, so it is unclear which of them match", other.description,
                    size.literal, format_times(found), most.description, format_times(expected)),
        name_hint(size));
  }
  return true;
}

// Rejects a product of tensors of which two have a size several times: it could be elementwise or a matrix product.
bool Parser::check_factor_sizes() {
  const bool is_product = std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.kind == Node::Kind::tensor || node.function == Function::multiply || node.function == Function::sum;
  });
  std::vector<ParsedOperand> factors;
  for (std::size_t i = 0; is_product && i < nodes_.size(); ++i)
    if (nodes_[i].kind == Node::Kind::tensor) factors.push_back(operand_at_node(i));
  for (std::size_t right = 1; right < factors.size(); ++right)
    for (const Axis& a : factors[right].axes)
      for (std::size_t left = 0; a.repetition > 0 && left < right; ++left)
        if (count_axes_of_size(factors[left].axes, a) > 0)
          return report_error(factors[right].span,
                              fmt::format("{} and {} have the size {} several times, so it is unclear what is summed",
                                          factors[left].description, factors[right].description, a.literal),
                              name_hint(a));
  return true;
}

}  // namespace ridge::program
