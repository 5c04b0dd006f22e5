// Parses h[N, T] = scan(a * h + x over T): sequential steps along T. In the body h is the result of the previous step,
// 0 before the first. cumsum(x over T) equals scan(h + x over T).
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

constexpr const char* scan_example = "write h[N, T] = scan(a * h + x over T)";

}  // namespace

bool Parser::parse_scan(const TensorRef& result, std::size_t first_token, const Token& open, Routine& out) {
  if (tensor_index_.contains(result.name) || find_stack(result.name)) return declare_result(result, {0}) >= 0;
  scan_result_ = result.name;
  const int body = parse_expression(0);
  scan_result_.clear();
  if (body < 0) return false;
  if (peek().kind != TokenKind::name || peek().text != "over")
    return report_expected("an operator or 'over' and the dimension of the scan", scan_example);
  const Token keyword = tokens_[next_];
  if (!parse_routine_over(out, keyword)) return false;
  if (!close_bracket(open, ")", "')'")) return false;
  if (!is_at_end_of_line())
    return report_error(peek().span, fmt::format("expected the end of the line, found {}", quote_token(peek())),
                        "scan must be a statement of its own; use its result in another statement");
  const Axis& over = out.over.front();
  if (!contains(result.axes, over))
    return report_error(over.span, fmt::format("'{}' is not in the result {}", over.dim, format_axes(result.axes)),
                        "the result contains all steps along it");
  if (!check_ref_sizes_differ(result) || !check_scan_body(result) || !check_routine_unsharded(out, result) ||
      !check_expression(result))
    return false;
  std::vector<int> values;
  for (const Node& node : nodes_)
    if (node.kind == Node::Kind::tensor) values.push_back(node.tensor);
  Expression e;
  if ((e.result = declare_result(result, values)) < 0) return false;
  add_node({.kind = Node::Kind::routine, .arguments = {body}}, open.span);
  e.nodes = std::move(nodes_);
  e.routine = std::make_shared<Routine>(out);
  add_statement(std::move(e), first_token);
  return true;
}

// Checks that the body uses its result and has no functions over dimensions.
bool Parser::check_scan_body(const TensorRef& result) {
  bool names_itself = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    names_itself = names_itself || node.kind == Node::Kind::previous;
    if (node.kind == Node::Kind::tensor && !check_tensor_sizes_differ(node.tensor, node_spans_[i])) return false;
    if (node.kind == Node::Kind::along_dims)
      return report_error(node_spans_[i],
                          fmt::format("expected elementwise functions in a scan, found {} over dimensions",
                                      function_info(node.function).name),
                          "compute functions over dimensions in a statement of their own before the scan");
  }
  if (names_itself) return true;
  return report_error(
      node_spans_.back(), fmt::format("the body of the scan does not name '{}'", result.name),
      fmt::format("'{}' in it is the result of the previous step; without it no scan is needed", result.name));
}

}  // namespace ridge::program
