// Parses and checks top-k routing: i[N, 2] = topk(p over E) selects 2 of E experts per row, and u[N, 2, F] = routed(x,
// w, i over E) multiplies each row with the weights w: bf16[E, F, D] of its experts. Rows are evenly distributed unless
// a list of loads is given; rows beyond the capacity are dropped.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ridge/base/contains.h"
#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

constexpr const char* topk_example = "write i[N, 2] = topk(p over E)";
constexpr const char* routed_example = "write u[N, 2, F] = routed(x, w, i over E)";

}  // namespace

bool Parser::check_is_dimension(const Axis& over, const ParsedOperand& p) {
  if (contains(p.axes, over)) return true;
  return report_error(over.span,
                      fmt::format("{} is not in {}{}", describe_axis(over), p.description, format_axes(p.axes)),
                      "name a dimension of its argument");
}

// Checks that the result has the dimensions of p with one other dimension instead of E.
bool Parser::check_topk(const Routine& routine, const TensorRef& result) {
  const ParsedOperand p = operand_at_node(0);
  const Axis& over = routine.over.front();
  if (!check_is_dimension(over, p)) return false;
  for (const Axis& a : p.axes)
    if (!is_literal_one(a) && !(a == over) && !contains(result.axes, a))
      return report_error(
          p.span,
          fmt::format("{} of {} is not in the result {}", describe_axis(a), p.description, format_axes(result.axes)),
          topk_example);
  std::vector<Axis> chosen;
  for (const Axis& a : result.axes)
    if (!contains(p.axes, a)) chosen.push_back(a);
  if (contains(result.axes, over) || chosen.size() != 1)
    return report_error(result.span,
                        fmt::format("expected a result with one dimension instead of {}, found {}", format_axis(over),
                                    format_axes(result.axes)),
                        topk_example);
  return check_index_result(result);
}

bool Parser::check_index_result(const TensorRef& result) {
  if (dtype_info(result.dtype.value_or(DType::int32)).is_integer) return true;
  return report_error(result.type_span,
                      fmt::format("expected indices in an integer dtype, found {}", dtype_name(*result.dtype)),
                      fmt::format("write {}: int32{}", result.name, format_axes(result.axes)));
}

// Checks that the result has the dimensions of p without E.
bool Parser::check_argmax(const Routine& routine, const TensorRef& result) {
  const ParsedOperand p = operand_at_node(0);
  const Axis& over = routine.over.front();
  if (!check_is_dimension(over, p)) return false;
  const auto is_kept = [&](const Axis& a) { return is_literal_one(a) || (!(a == over) && contains(p.axes, a)); };
  const auto is_covered = [&](const Axis& a) { return is_literal_one(a) || a == over || contains(result.axes, a); };
  if (std::all_of(result.axes.begin(), result.axes.end(), is_kept) &&
      std::all_of(p.axes.begin(), p.axes.end(), is_covered))
    return check_index_result(result);
  return report_error(result.span,
                      fmt::format("expected a result with the dimensions of {}{} without {}, found {}", p.description,
                                  format_axes(p.axes), format_axis(over), format_axes(result.axes)),
                      "write i[N] = argmax(p over E); topk gives the indices of several elements");
}

bool Parser::parse_routed_option(Routine& out, const std::string& key) {
  if (key == "capacity") return parse_positive_integer(out.capacity, "the capacity");
  const Token open = peek();
  if (!expect_symbol("(", "'(' and the load of each expert", "such as loads = (12, 0, 7, 13)")) return false;
  std::int64_t total = 0;
  do {
    const Token number = peek();
    std::int64_t load = 0;
    const bool none = number.text == "0";
    if (none) consume_token();
    if (!none && !parse_positive_integer(load, "a load")) return false;
    if (__builtin_add_overflow(total, load, &total))
      return report_error(number.span, "expected loads whose sum is below 2^63, found more", "use smaller ones");
    out.loads.push_back(load);
  } while (accept_symbol(","));
  return close_bracket(open, ")", "',' or ')'");
}

// Checks the indices and which operands have the dimension of the experts.
bool Parser::check_experts(const Routine& routine, const TensorRef& result) {
  const ParsedOperand x = operand_at_node(0), w = operand_at_node(1), ids = operand_at_node(2);
  const Tensor& id = program_.tensors[ids.tensor];
  const Axis& over = routine.over.front();
  if (!dtype_info(id.dtype).is_integer)
    return report_error(ids.span,
                        fmt::format("expected indices in an integer dtype, found '{}', which is {}", id.name,
                                    ridge::dtype_name(id.dtype)),
                        fmt::format("declare {}: int32{}", id.name, format_axes(id.axes)));
  if (!contains(w.axes, over))
    return report_error(over.span,
                        fmt::format("{} is not in {}{}", describe_axis(over), w.description, format_axes(w.axes)),
                        fmt::format("the weights are a matrix per expert: w[{}, F, D]", format_axis(over)));
  for (const auto& [axes, called, span] :
       {std::tuple(x.axes, x.description, x.span), std::tuple(ids.axes, ids.description, ids.span),
        std::tuple(result.axes, std::string("the result"), result.span)})
    if (contains(axes, over))
      return report_error(span, fmt::format("{} is in {}{}, too", describe_axis(over), called, format_axes(axes)),
                          "the indices replace the dimension of the experts");
  for (const Axis& a : ids.axes)
    if (!is_literal_one(a) && !contains(result.axes, a))
      return report_error(
          ids.span,
          fmt::format("{} of {} is not in the result {}", describe_axis(a), ids.description, format_axes(result.axes)),
          "each row and each of its experts has a result; sum them in a statement of their own");
  return true;
}

// Checks routed like a contraction of x with the weights of the selected experts, which lack E.
bool Parser::check_routed(const Routine& routine, const TensorRef& result) {
  if (!check_experts(routine, result)) return false;
  const ParsedOperand x = operand_at_node(0), w = operand_at_node(1), ids = operand_at_node(2);
  const Axis& over = routine.over.front();
  for (const auto& [operand, other] : {std::pair(&x, &w), {&w, &x}})
    for (const Axis& a : operand->axes)
      if (!is_literal_one(a) && !(a == over) && !contains(other->axes, a) && !contains(result.axes, a))
        return report_error(operand->span,
                            fmt::format("{} of {} appears nowhere else; contracted dimensions must share a name",
                                        describe_axis(a), operand->description),
                            routed_example);
  for (const Axis& a : result.axes)
    if (!is_literal_one(a) && !contains(x.axes, a) && !contains(w.axes, a) && !contains(ids.axes, a))
      return report_error(a.span, fmt::format("{} of the result is in no operand", describe_axis(a)),
                          "a dimension of the result comes from an operand");
  if (routine.loads.empty() || over.is_named()) return true;
  if (static_cast<std::int64_t>(routine.loads.size()) == over.literal) return true;
  return report_error(over.span, fmt::format("{} loads are given for {} experts", routine.loads.size(), over.literal),
                      "give one load per expert, 0 for an unused expert");
}

}  // namespace ridge::program
