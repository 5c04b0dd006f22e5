// h[N, T] = scan(a * h + x over T): along T, one step after the other, where h in the body is the result one step
// before, 0 before the first one. cumsum(x over T) is scan's h + x with a word of its own.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr const char* example = "write h[N, T] = scan(a * h + x over T)";

}  // namespace

bool Parser::scan(const Mention& result, std::size_t first, const Token& open, Routine& out) {
  if (tensor_index_.contains(result.name) || stack_named(result.name)) return write_result(result, {0}) >= 0;
  scanned_ = result.name;
  const int body = expression(0);
  scanned_.clear();
  if (body < 0) return false;
  if (peek().kind != TokenKind::name || peek().text != "over")
    return expected("an operator or 'over' and the dimension of the scan", example);
  const Token word = tokens_[next_];
  if (!routine_over(out, word)) return false;
  if (!close(open, ")", "')'")) return false;
  if (!at_end_of_line())
    return fail(peek().span, fmt::format("expected the end of the line, found {}", quoted(peek())),
                "scan stands alone in its statement; what becomes of its result is another one");
  const Axis& over = out.over.front();
  if (std::find(result.axes.begin(), result.axes.end(), over) == result.axes.end())
    return fail(over.span, fmt::format("'{}' is not in the result {}", over.dim, text(result.axes)),
                "the result has every step along it");
  if (!scan_body(result) || !routine_whole(out, result) || !verify(result)) return false;
  std::vector<int> values;
  for (const Node& node : nodes_)
    if (node.kind == Node::Kind::tensor) values.push_back(node.tensor);
  Expression e;
  if ((e.result = write_result(result, values)) < 0) return false;
  add_node({.kind = Node::Kind::routine, .arguments = {body}}, open.span);
  e.nodes = std::move(nodes_);
  e.routine = std::make_shared<Routine>(out);
  add_statement(std::move(e), first);
  return true;
}

// It names its result, and nothing in it runs along dimensions.
bool Parser::scan_body(const Mention& result) {
  bool names_itself = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    names_itself = names_itself || node.kind == Node::Kind::previous;
    if (node.kind == Node::Kind::tensor && !repeats(node.tensor, node_spans_[i])) return false;
    if (node.kind == Node::Kind::along)
      return fail(node_spans_[i],
                  fmt::format("expected functions of each element in a scan, found {} along dimensions",
                              row(node.function).name),
                  "give what runs along dimensions a statement of its own, before the scan");
  }
  if (names_itself) return true;
  return fail(node_spans_.back(), fmt::format("the body of the scan does not name '{}'", result.name),
              fmt::format("'{}' in it is the result one step before; without it no scan is needed", result.name));
}

}  // namespace ridge::notation
