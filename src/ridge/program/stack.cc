// Inputs that are read in parts: one matrix of weights for two products, the first one's rows first, as PyTorch keeps
// them and its chunk takes them apart.
//   w: bf16[2*F, D]
//   up[F, D] = w[0:F]   and, on a line of its own,   gate[F, D] = w[F:2*F]
// The parts are the stack, row for row and in order, whatever the dimensions are: bounds are compared as polynomials,
// so that no part can overlap another or leave the stack, and what is counted for two matrices holds for one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ridge/program/parser.h"

namespace ridge {

const Stack* stack_of(const Program& program, int tensor) {
  for (const Stack& stack : program.stacks)
    if (std::find(stack.parts.begin(), stack.parts.end(), tensor) != stack.parts.end()) return &stack;
  return nullptr;
}

namespace notation {
namespace {

bool sharded(const Mention& m) {
  return !m.partial.empty() || std::any_of(m.axes.begin(), m.axes.end(), [](const Axis& a) { return !a.mesh.empty(); });
}

}  // namespace

// Whether the size that comes next is more than a name or a number.
bool Parser::computed_size() const {
  for (std::size_t i = 0;; ++i) {
    const Token& token = peek(i);
    if (token.kind == TokenKind::newline || token.kind == TokenKind::end || token.is(",") || token.is("]"))
      return false;
    for (const char* sign : {"+", "-", "*", "("})
      if (token.is(sign)) return i > 0 || !token.is("-");  // a sign alone is no sum: "a size is at least 1"
  }
}

const Stack* Parser::stack_named(const std::string& name) const {
  for (const Stack& stack : program_.stacks)
    if (stack.name == name) return &stack;
  return nullptr;
}

bool Parser::read_in_parts(const Stack& stack, Span span) {
  std::vector<std::string> names;
  for (const int part : stack.parts) names.push_back(program_.tensors[static_cast<std::size_t>(part)].name);
  return fail(span, fmt::format("'{}' is read in parts", stack.name),
              names.empty() ? fmt::format("name them first: up[F, D] = {}[0:F]", stack.name)
                            : fmt::format("use {}", fmt::join(names, " or ")));
}

bool Parser::stack(const Mention& m) {
  const std::string rows = m.rows->text(program_.dim_names());
  if (peek().is("="))
    return fail(m.type_span, fmt::format("expected a dimension, found the computed size {}", rows),
                fmt::format("a computed size has a name: dims G = {}", rows));
  if (rows.find_first_of("+-*") == std::string::npos)
    return fail(m.type_span, fmt::format("expected a computed size, found one that comes to {}", rows),
                "an input in parts has more rows than a part: 2*F, or F + G");
  if (m.suffix) return no_suffix(m);
  if (sharded(m))
    return fail(m.type_span, fmt::format("'{}' is read in parts and cannot be split over devices", m.name),
                "declare each part as an input of its own");
  if (tensor_index_.contains(m.name) || stack_named(m.name))
    return fail(m.span, fmt::format("tensor '{}' is declared twice", m.name), "use another name");
  if (program_.stacks.size() == max_stacks)
    return fail(m.span, fmt::format("expected at most {} inputs that are read in parts", max_stacks));
  program_.stacks.push_back(
      {.name = m.name, .dtype = m.dtype.value_or(options_.dtype), .rows = *m.rows, .behind = m.axes, .span = m.span});
  const bool more = peek().kind == TokenKind::name;
  return more || at_end_of_line() ||
         expected("another declaration or the end of the line",
                  fmt::format("a computed size has a name: dims G = {}", rows));
}

// w[0:F]; x[N] alone is no part.
bool Parser::cut_ahead() const {
  if (peek().kind != TokenKind::name || !peek(1).is("[")) return false;
  for (std::size_t i = 2;; ++i) {
    const Token& token = peek(i);
    if (token.is(":")) return true;
    if (token.kind == TokenKind::newline || token.kind == TokenKind::end || token.is("]")) return false;
  }
}

// A part of what is no stack: an input of another kind, or a result.
bool Parser::no_stack(const Token& named) {
  const int index = tensor_index_.at(std::string(named.text));
  const bool written = std::any_of(program_.statements.begin(), program_.statements.end(),
                                   [&](const Statement& s) { return s.result() == index; });
  if (written)
    return fail(named.span, fmt::format("expected an input, found '{}', which the program writes", named.text),
                "only inputs have parts; take the weights apart and write a product for each part");
  return fail(named.span,
              fmt::format("expected an input whose leading size is computed, found '{}', which is {}", named.text,
                          text(program_.tensors[static_cast<std::size_t>(index)].axes)),
              "declare w: bf16[2*F, D]; then up[F, D] = w[0:F] are its first F rows");
}

bool Parser::part(const Mention& m) {
  const Token whole = take();
  const Stack* const found = stack_named(std::string(whole.text));
  if (!found && tensor_index_.contains(std::string(whole.text))) return no_stack(whole);
  if (!found) return unknown_tensor(whole) >= 0;
  const Token open = take();
  Extent from, to;
  if (!extent(from, 0) || !expect(":", "':' and where the part ends", "such as w[0:F]") || !extent(to, 0)) return false;
  if (peek().is(",")) return expected("']'", "a part has whole rows");
  if (!close(open, "]", "an operator or ']'")) return false;
  if (!at_end_of_line()) return expected("the end of the line", "a part ends its line");
  if (!part_fits(m, *found, from.value, to.value)) return false;
  if (found->parts.size() == max_parts)
    return fail(m.span, fmt::format("expected at most {} parts of '{}'", max_parts, found->name));
  const int index = declare(m, found->dtype, true);
  program_.stacks[static_cast<std::size_t>(found - program_.stacks.data())].parts.push_back(index);
  return true;
}

bool Parser::part_fits(const Mention& m, const Stack& of, const Polynomial& from, const Polynomial& to) {
  const std::vector<std::string> order = program_.dim_names();
  Polynomial end;
  for (const int part : of.parts) end += program_.tensors[static_cast<std::size_t>(part)].axes.front().extent();
  if (tensor_index_.contains(m.name) || stack_named(m.name))
    return fail(m.span, fmt::format("tensor '{}' is declared twice", m.name), "use another name");
  if (sharded(m))
    return fail(m.type_span, fmt::format("'{}' is a part of '{}' and cannot be split over devices", m.name, of.name),
                "declare each part as an input of its own");
  if (m.dtype.value_or(of.dtype) != of.dtype)
    return fail(m.type_span,
                fmt::format("'{}' is {}, a part of '{}' is {}", m.name, name(*m.dtype), of.name, name(of.dtype)),
                "a part has the dtype of the whole; it may be left out");
  if (!(from == end))
    return fail(m.span,
                fmt::format("expected the part of '{}' that begins at {}, found one at {}", of.name, end.text(order),
                            from.text(order)),
                "parts are named in the order in which they lie, one behind the other");
  if (m.axes.empty() || !(m.axes.front().extent() + from == to))
    return fail(m.type_span,
                fmt::format("'{}' has {} rows, {}[{}:{}] has {}", m.name, text(m.axes.front()), of.name,
                            from.text(order), to.text(order), (to - from).text(order)),
                "the leading size of a part is its end less its begin");
  const std::vector<Axis> behind(m.axes.begin() + 1, m.axes.end());
  if (behind != of.behind)
    return fail(m.type_span,
                fmt::format("expected the sizes of '{}' behind the first, found {}", of.name, text(m.axes)),
                fmt::format("a part has whole rows: [{}{}]", text(m.axes.front()),
                            of.behind.empty() ? "" : ", " + text(of.behind).substr(1, text(of.behind).size() - 2)));
  return true;
}

// Every row belongs to a part.
bool Parser::whole_stacks() {
  const std::vector<std::string> order = program_.dim_names();
  for (const Stack& stack : program_.stacks) {
    Polynomial end;
    for (const int part : stack.parts) end += program_.tensors[static_cast<std::size_t>(part)].axes.front().extent();
    if (stack.parts.empty())
      return fail(
          stack.span,
          fmt::format("'{}' has the computed size {}, and no part of it is named", stack.name, stack.rows.text(order)),
          fmt::format("name its parts, up[F, D] = {}[0:F]; or the size, dims G = {}", stack.name,
                      stack.rows.text(order)));
    if (!(end == stack.rows))
      return fail(stack.span,
                  fmt::format("expected parts of '{}' up to its end at {}, found them up to {}", stack.name,
                              stack.rows.text(order), end.text(order)),
                  "name every row's part, or correct the size");
  }
  std::sort(program_.stacks.begin(), program_.stacks.end(),
            [](const Stack& a, const Stack& b) { return a.parts.front() < b.parts.front(); });
  return true;
}

}  // namespace notation
}  // namespace ridge
