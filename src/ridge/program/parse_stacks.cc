// Parses stacked inputs: the weights of several products concatenated along the first axis, as in PyTorch, where chunk
// splits them.
//   w: bf16[2*F, D]
//   up[F, D] = w[0:F]   and, on a line of its own,   gate[F, D] = w[F:2*F]
// The parts must cover the stacked input in order for all sizes. Bounds are compared as polynomials, so that parts
// neither overlap nor exceed it, and the counts of the parts are those of the stacked input.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/program/parser.h"

namespace ridge {

const StackedInput* stack_of(const Program& program, int tensor) {
  for (const StackedInput& stack : program.stacks)
    if (contains(stack.parts, tensor)) return &stack;
  return nullptr;
}

namespace program {
namespace {

bool is_sharded(const TensorRef& m) {
  return !m.partial.empty() || std::any_of(m.axes.begin(), m.axes.end(), [](const Axis& a) { return !a.mesh.empty(); });
}

}  // namespace

// True if the next size is an expression, not only a name or a number.
bool Parser::has_computed_size() const {
  for (std::size_t i = 0;; ++i) {
    const Token& token = peek(i);
    if (token.kind == TokenKind::newline || token.kind == TokenKind::end || token.is_symbol(",") ||
        token.is_symbol("]"))
      return false;
    for (const char* sign : {"+", "-", "*", "("})
      if (token.is_symbol(sign))
        return i > 0 || !token.is_symbol("-");  // a leading sign is reported as "a size is at least 1"
  }
}

const StackedInput* Parser::find_stack(const std::string& name) const {
  for (const StackedInput& stack : program_.stacks)
    if (stack.name == name) return &stack;
  return nullptr;
}

bool Parser::report_stack_read(const StackedInput& stack, TextSpan span) {
  std::vector<std::string> names;
  for (const int part : stack.parts) names.push_back(program_.tensors[part].name);
  return report_error(span, fmt::format("'{}' is read in parts", stack.name),
                      names.empty() ? fmt::format("name them first: up[F, D] = {}[0:F]", stack.name)
                                    : fmt::format("use {}", fmt::join(names, " or ")));
}

bool Parser::declare_stacked_input(const TensorRef& m) {
  const std::string rows = m.leading_size->to_string(program_.dim_names());
  if (peek().is_symbol("="))
    return report_error(m.type_span, fmt::format("expected a dimension, found the computed size {}", rows),
                        fmt::format("a computed size has a name: dims G = {}", rows));
  if (rows.find_first_of("+-*") == std::string::npos)
    return report_error(m.type_span, fmt::format("expected a computed size, found one equal to {}", rows),
                        "an input in parts has more rows than a part: 2*F, or F + G");
  if (m.suffix) return check_no_suffix(m);
  if (!check_ref_sizes_differ(m)) return false;
  if (is_sharded(m))
    return report_error(m.type_span, fmt::format("'{}' is read in parts and cannot be split over devices", m.name),
                        "declare each part as an input of its own");
  if (tensor_index_.contains(m.name) || find_stack(m.name))
    return report_error(m.span, fmt::format("tensor '{}' is declared twice", m.name), "use another name");
  if (program_.stacks.size() == max_stacks)
    return report_error(m.span, fmt::format("expected at most {} inputs that are read in parts", max_stacks));
  program_.stacks.push_back({.name = m.name,
                             .dtype = m.dtype.value_or(options_.dtype),
                             .rows = *m.leading_size,
                             .other_axes = m.axes,
                             .span = m.span,
                             .declared_use = m.use});
  const bool more = peek().kind == TokenKind::name;
  return more || is_at_end_of_line() ||
         report_expected("another declaration or the end of the line",
                         fmt::format("a computed size has a name: dims G = {}", rows));
}

// True before a slice such as w[0:F], but not before x[N].
bool Parser::is_slice_ahead() const {
  if (peek().kind != TokenKind::name || !peek(1).is_symbol("[")) return false;
  for (std::size_t i = 2;; ++i) {
    const Token& token = peek(i);
    if (token.is_symbol(":")) return true;
    if (token.kind == TokenKind::newline || token.kind == TokenKind::end || token.is_symbol("]")) return false;
  }
}

// Reports a slice of a tensor that is no stacked input: another input or a result.
bool Parser::report_not_stacked(const Token& named) {
  const int index = tensor_index_.at(std::string(named.text));
  const bool written = std::any_of(program_.statements.begin(), program_.statements.end(),
                                   [&](const Statement& s) { return s.result() == index; });
  if (written)
    return report_error(named.span, fmt::format("expected an input, found '{}', which the program writes", named.text),
                        "only inputs have parts; split the weights and write a product for each part");
  return report_error(named.span,
                      fmt::format("expected an input whose leading size is computed, found '{}', which is {}",
                                  named.text, format_axes(program_.tensors[index].axes)),
                      "declare w: bf16[2*F, D]; then up[F, D] = w[0:F] are its first F rows");
}

bool Parser::parse_stack_part(const TensorRef& m) {
  if (!check_ref_sizes_differ(m)) return false;
  const Token stack_name = consume_token();
  const StackedInput* const found = find_stack(std::string(stack_name.text));
  if (!found && tensor_index_.contains(std::string(stack_name.text))) return report_not_stacked(stack_name);
  if (!found) return report_unknown_tensor(stack_name) >= 0;
  const Token open = consume_token();
  ExtentExpression from, to;
  if (!parse_extent(from, 0) || !expect_symbol(":", "':' and the end of the part", "such as w[0:F]") ||
      !parse_extent(to, 0))
    return false;
  if (peek().is_symbol(",")) return report_expected("']'", "a part has complete rows");
  if (!close_bracket(open, "]", "an operator or ']'")) return false;
  if (!is_at_end_of_line()) return report_expected("the end of the line", "a part ends its line");
  if (!check_stack_part(m, *found, from.value, to.value)) return false;
  if (found->parts.size() == max_parts)
    return report_error(m.span, fmt::format("expected at most {} parts of '{}'", max_parts, found->name));
  const int index = declare_tensor(m, found->dtype, true);
  program_.tensors[index].declared_use = found->declared_use;
  program_.stacks[found - program_.stacks.data()].parts.push_back(index);
  return true;
}

bool Parser::check_stack_part(const TensorRef& m, const StackedInput& stack, const Polynomial& from,
                              const Polynomial& to) {
  const std::vector<std::string> order = program_.dim_names();
  Polynomial end;
  for (const int part : stack.parts) end += program_.tensors[part].axes.front().extent();
  if (tensor_index_.contains(m.name) || find_stack(m.name))
    return report_error(m.span, fmt::format("tensor '{}' is declared twice", m.name), "use another name");
  if (is_sharded(m))
    return report_error(m.type_span,
                        fmt::format("'{}' is a part of '{}' and cannot be split over devices", m.name, stack.name),
                        "declare each part as an input of its own");
  if (m.use)
    return report_error(m.span, fmt::format("expected a part of '{}' without a word before it", stack.name),
                        fmt::format("write {} where '{}' is declared", input_use_word(*m.use), stack.name));
  if (m.dtype.value_or(stack.dtype) != stack.dtype)
    return report_error(m.type_span,
                        fmt::format("'{}' is {}, a part of '{}' is {}", m.name, dtype_name(*m.dtype), stack.name,
                                    dtype_name(stack.dtype)),
                        "a part has the dtype of the full input; it may be omitted");
  if (!(from == end))
    return report_error(m.span,
                        fmt::format("expected the part of '{}' that begins at {}, found one at {}", stack.name,
                                    end.to_string(order), from.to_string(order)),
                        "name the parts in order, each starting where the previous one ends");
  if (m.axes.empty() || !(m.axes.front().extent() + from == to))
    return report_error(
        m.type_span,
        fmt::format("'{}' has {} rows, {}[{}:{}] has {}", m.name, format_axis(m.axes.front()), stack.name,
                    from.to_string(order), to.to_string(order), (to - from).to_string(order)),
        "the leading size of a part is its end minus its begin");
  if (std::vector<Axis>(m.axes.begin() + 1, m.axes.end()) != stack.other_axes)
    return report_error(
        m.type_span,
        fmt::format("expected the sizes of '{}' after the first, found {}", stack.name, format_axes(m.axes)),
        fmt::format("a part has complete rows: [{}{}]", format_axis(m.axes.front()),
                    stack.other_axes.empty()
                        ? ""
                        : ", " + format_axes(stack.other_axes).substr(1, format_axes(stack.other_axes).size() - 2)));
  return true;
}

// Checks that the parts of each stacked input cover all rows.
bool Parser::check_stacks_complete() {
  const std::vector<std::string> order = program_.dim_names();
  for (const StackedInput& stack : program_.stacks) {
    Polynomial end;
    for (const int part : stack.parts) end += program_.tensors[part].axes.front().extent();
    if (stack.parts.empty())
      return report_error(stack.span,
                          fmt::format("'{}' has the computed size {}, and no part of it is named", stack.name,
                                      stack.rows.to_string(order)),
                          fmt::format("name its parts, up[F, D] = {}[0:F]; or the size, dims G = {}", stack.name,
                                      stack.rows.to_string(order)));
    if (!(end == stack.rows))
      return report_error(stack.span,
                          fmt::format("expected parts of '{}' up to its end at {}, found them up to {}", stack.name,
                                      stack.rows.to_string(order), end.to_string(order)),
                          "name parts for all rows, or correct the size");
  }
  std::sort(program_.stacks.begin(), program_.stacks.end(),
            [](const StackedInput& a, const StackedInput& b) { return a.parts.front() < b.parts.front(); });
  return true;
}

}  // namespace program
}  // namespace ridge
