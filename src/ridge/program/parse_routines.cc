// Parses and checks routines: conv(x, w, stride = 2), gather(table, ids over V).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ridge/base/contains.h"
#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

struct RoutineSyntax {
  RoutineKind kind;
  std::size_t operands;
  bool takes_dim;  // has `over` and a dimension
  std::string_view example;
};

constexpr std::array<RoutineSyntax, 15> routine_table{{
    {RoutineKind::conv, 2, false, "conv(x, w, stride = 1, padding = 1, dilation = 1, groups = 1)"},
    {RoutineKind::conv_transpose, 2, false, "conv_transpose(x, w, stride = 2, padding = 1, dilation = 1, groups = 1)"},
    {RoutineKind::gather, 2, true, "gather(table, ids over V)"},
    {RoutineKind::scatter, 2, true, "scatter(x, ids over V)"},
    {RoutineKind::cumsum, 1, true, "cumsum(x over T)"},
    {RoutineKind::topk, 1, true, "i[N, 2] = topk(p over E)"},
    {RoutineKind::routed, 3, true, "routed(x, w, i over E)"},
    {RoutineKind::scan, 0, true, "h[N, T] = scan(a * h + x over T)"},
    {RoutineKind::quantize, 1, false, "quantize(x, e4m3, block = 128)"},
    {RoutineKind::argmax, 1, true, "i[N] = argmax(p over E)"},
    {RoutineKind::sort, 1, true, "sort(x over D, descending = 1)"},
    {RoutineKind::argsort, 1, true, "argsort(x over D, descending = 1)"},
    {RoutineKind::rotary, 2, true, "rotary(q, t over D, base = 10000, interleaved = 1)"},
    {RoutineKind::max_pool, 1, true, "max_pool(x over H, W, window = 3, stride = 2, padding = 1, dilation = 1)"},
    {RoutineKind::avg_pool, 1, true, "avg_pool(x over H, W, window = 3, stride = 2, padding = 1, dilation = 1)"},
}};

const RoutineSyntax& syntax_of(RoutineKind kind) {
  return *std::find_if(routine_table.begin(), routine_table.end(),
                       [&](const RoutineSyntax& r) { return r.kind == kind; });
}

std::vector<std::string> option_names(RoutineKind kind) {
  if (is_conv(kind)) return {"stride", "padding", "dilation", "groups"};
  if (is_pool(kind)) return {"window", "stride", "padding", "dilation"};
  if (kind == RoutineKind::rotary) return {"base", "interleaved"};
  if (kind == RoutineKind::routed) return {"loads", "capacity"};
  if (kind == RoutineKind::sort || kind == RoutineKind::argsort) return {"descending"};
  return {};
}

std::string usage_hint(RoutineKind kind) { return fmt::format("write {}", syntax_of(kind).example); }

}  // namespace

std::optional<RoutineKind> find_routine(std::string_view text) {
  for (const RoutineSyntax& r : routine_table)
    if (routine_name(r.kind) == text) return r.kind;
  return std::nullopt;
}

std::vector<std::string> routine_names() {
  std::vector<std::string> out;
  for (const RoutineSyntax& r : routine_table) out.emplace_back(routine_name(r.kind));
  return out;
}

bool Parser::parse_routine(const TensorRef& result, std::size_t first_token) {
  const Token keyword = consume_token();
  auto out = std::make_shared<Routine>(Routine{.kind = *find_routine(keyword.text)});
  nodes_.clear();
  node_spans_.clear();
  if (!expect_symbol("(", fmt::format("'(' after {}", quote_token(keyword)), usage_hint(out->kind))) return false;
  const Token open = tokens_[next_ - 1];
  if (out->kind == RoutineKind::scan) return parse_scan(result, first_token, open, *out);
  if (!(out->kind == RoutineKind::quantize ? parse_quantize_arguments(*out, keyword)
                                           : parse_routine_arguments(*out, keyword)))
    return false;
  if (!close_bracket(open, ")", "',' or ')'")) return false;
  if (!is_at_end_of_line())
    return report_error(
        peek().span, fmt::format("expected the end of the line, found {}", quote_token(peek())),
        fmt::format("{} must be a statement of its own; use its result in another statement", keyword.text));
  Node last{.kind = Node::Kind::routine};
  for (std::size_t i = 0; i < nodes_.size(); ++i) last.arguments.push_back(static_cast<int>(i));
  if (!check_routine_unsharded(*out, result) || !check_routine(*out, result)) return false;
  Expression e;
  if ((e.result = declare_routine_result(*out, result)) < 0) return false;
  add_node(std::move(last), keyword.span);
  e.nodes = std::move(nodes_);
  e.routine = std::move(out);
  add_statement(std::move(e), first_token);
  return true;
}

// Parses tensors, then `over` and a dimension, or options.
bool Parser::parse_routine_arguments(Routine& out, const Token& keyword) {
  const RoutineSyntax& row = syntax_of(out.kind);
  std::vector<std::string> seen;
  if (!peek().is_symbol(")")) do {
      const bool option = peek().kind == TokenKind::name && peek(1).is_symbol("=");
      if (option ? !parse_routine_option(out, keyword, seen) : !parse_routine_operand(out.kind)) return false;
      if (option && nodes_.size() < row.operands) break;
      if (peek().kind == TokenKind::name && peek().text == "over") {
        if (!parse_routine_over(out, keyword)) return false;
        while (accept_symbol(","))
          if (!parse_routine_option(out, keyword, seen)) return false;
        break;
      }
    } while (accept_symbol(","));
  if (nodes_.size() != row.operands)
    return report_error(keyword.span,
                        fmt::format("expected {} tensor{} in {}, found {}", row.operands, row.operands == 1 ? "" : "s",
                                    keyword.text, nodes_.size()),
                        usage_hint(out.kind));
  if (row.takes_dim && out.over.empty())
    return report_error(keyword.span, fmt::format("expected the dimension that {} runs over, found none", keyword.text),
                        usage_hint(out.kind));
  if (is_pool(out.kind) && out.window == 0)
    return report_error(keyword.span, fmt::format("expected the size of the window of {}, found none", keyword.text),
                        usage_hint(out.kind));
  return true;
}

bool Parser::parse_routine_operand(RoutineKind kind) {
  if (peek().kind != TokenKind::name) return report_expected("a tensor", usage_hint(kind));
  if (parse_tensor_name() < 0) return false;
  if (peek().is_symbol(",") || peek().is_symbol(")") || (peek().kind == TokenKind::name && peek().text == "over"))
    return true;
  if (is_at_end_of_line()) return true;  // the error will show the open parenthesis
  return report_error(peek().span, fmt::format("expected ',' or ')', found {}", quote_token(peek())),
                      fmt::format("{} takes names of tensors; compute other arguments in a statement of their own",
                                  routine_name(kind)));
}

bool Parser::parse_routine_over(Routine& out, const Token& keyword) {
  if (!syntax_of(out.kind).takes_dim)
    return report_error(peek().span, fmt::format("expected no dimension to run over, found 'over' in {}", keyword.text),
                        usage_hint(out.kind));
  consume_token();
  if (is_pool(out.kind)) return parse_pool_dimensions(out);
  if (peek().kind != TokenKind::name) return report_expected("a dimension", usage_hint(out.kind));
  const Token dimension = peek();
  if (!dim_index_.contains(std::string(dimension.text))) return report_unknown_dimension(dimension);
  if (!parse_axis(out.over)) return false;
  if (!peek().is_symbol(",") || (!option_names(out.kind).empty() && peek(2).is_symbol("="))) return true;
  return report_error(peek().span, fmt::format("expected one dimension that {} runs over, found several", keyword.text),
                      usage_hint(out.kind));
}

bool Parser::parse_routine_option(Routine& out, const Token& keyword, std::vector<std::string>& seen) {
  const Token option = consume_token();
  const std::string key(option.text);
  const std::vector<std::string> known = option_names(out.kind);
  if (!contains(known, key)) {
    if (out.kind == RoutineKind::conv_transpose && key == "output_padding")
      return report_error(option.span, fmt::format("{} has no option {}", keyword.text, quote_token(option)),
                          "the declared size of the result implies it");
    const std::string suggestion = suggest_name(key, known);
    return report_error(option.span, fmt::format("{} has no option {}", keyword.text, quote_token(option)),
                        suggestion.empty() ? usage_hint(out.kind) : fmt::format("did you mean '{}'?", suggestion));
  }
  if (contains(seen, key))
    return report_error(option.span, fmt::format("{} is given twice", quote_token(option)), "remove one of them");
  seen.push_back(key);
  consume_token();
  if (out.kind == RoutineKind::routed) return parse_routed_option(out, key);
  if (key == "groups") {
    ExtentExpression groups;
    if (!parse_extent(groups, 0)) return false;
    out.groups = std::move(groups.value);
    return true;
  }
  if (key == "descending") return parse_flag(key, out.descending);
  if (key == "interleaved") return parse_flag(key, out.interleaved);
  if (key == "base") return parse_positive_integer(out.base, "the base");
  std::int64_t& value = key == "window"    ? out.window
                        : key == "stride"  ? out.stride
                        : key == "padding" ? out.padding
                                           : out.dilation;
  const Token number = peek();
  const bool none = key == "padding" && number.text == "0";
  if (none) {
    consume_token();
    value = 0;
  } else if (!parse_positive_integer(value, fmt::format("the {}", key))) {
    return false;
  }
  if (value <= max_window) return true;
  return report_error(number.span, fmt::format("expected a {} of at most {}, found {}", key, max_window, value),
                      "use a smaller one");
}

bool Parser::parse_flag(const std::string& option, bool& out) {
  const Token number = consume_token();
  out = number.text == "1";
  return out || number.text == "0" ||
         report_error(number.span, fmt::format("expected 0 or 1 after {} =, found {}", option, quote_token(number)),
                      "1 means yes, 0 no");
}

// Rejects sharded operands and results, which routines do not support.
bool Parser::check_routine_unsharded(const Routine& routine, const TensorRef& result) {
  const auto sharded = [](const std::vector<Axis>& axes) {
    return std::any_of(axes.begin(), axes.end(), [](const Axis& a) { return !a.mesh.empty(); });
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind != Node::Kind::tensor) continue;
    const Tensor& t = program_.tensors[nodes_[i].tensor];
    if (!t.partial.empty()) return check_no_partial_sums(nodes_[i].tensor, node_spans_[i]);
    if (sharded(t.axes))
      return report_error(
          node_spans_[i], fmt::format("{} takes no operand that is split over devices", routine_name(routine.kind)),
          "`ridge explain --split N=4` counts what each of several chips does if the program is not split");
  }
  if (!sharded(result.axes) && result.partial.empty()) return true;
  return report_error(result.span,
                      fmt::format("{} makes no result that is split over devices", routine_name(routine.kind)),
                      "`ridge explain --split N=4` counts what each of several chips does if the program is not split");
}

// May complete the routine: a convolution's tensors determine where its channels are.
bool Parser::check_routine(Routine& routine, const TensorRef& result) {
  if (is_conv(routine.kind)) return check_conv(routine, result);
  if (is_pool(routine.kind)) return check_pool(routine, result);
  if (!check_ref_sizes_differ(result)) return false;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].kind == Node::Kind::tensor && !check_tensor_sizes_differ(nodes_[i].tensor, node_spans_[i]))
      return false;
  if (routine.kind == RoutineKind::quantize) return check_quantize(routine, result);
  if (routine.kind == RoutineKind::gather || routine.kind == RoutineKind::scatter)
    return check_gather_or_scatter(routine, result);
  if (routine.kind == RoutineKind::topk) return check_topk(routine, result);
  if (routine.kind == RoutineKind::argmax) return check_argmax(routine, result);
  if (routine.kind == RoutineKind::rotary && !check_rotary_positions(routine)) return false;
  if (routine.kind == RoutineKind::argsort && !check_index_result(result)) return false;
  if (routine.kind == RoutineKind::routed) return check_routed(routine, result);
  return check_same_axes(routine, result);
}

// gather: row ids[n] of the table; scatter: adds row n to row ids[n].
bool Parser::check_gather_or_scatter(const Routine& routine, const TensorRef& result) {
  const bool gathers = routine.kind == RoutineKind::gather;
  const ParsedOperand values = operand_at_node(0), ids = operand_at_node(1);
  const Tensor& id = program_.tensors[ids.tensor];
  const Axis& over = routine.over.front();
  if (!dtype_info(id.dtype).is_integer)
    return report_error(ids.span,
                        fmt::format("expected indices in an integer dtype, found '{}', which is {}", id.name,
                                    ridge::dtype_name(id.dtype)),
                        fmt::format("declare {}: int32{}", id.name, format_axes(id.axes)));
  if (contains(ids.axes, over))
    return report_error(ids.span,
                        fmt::format("{} of '{}' is the one that {} runs over", describe_axis(over), id.name,
                                    routine_name(routine.kind)),
                        "the indices must have other dimensions than the one they index");
  if (contains(gathers ? values.axes : result.axes, over) == false)
    return report_error(over.span,
                        fmt::format("{} is not in {}", describe_axis(over),
                                    gathers ? fmt::format("{}{}", values.description, format_axes(values.axes))
                                            : fmt::format("the result {}", format_axes(result.axes))),
                        usage_hint(routine.kind));
  if (contains(gathers ? result.axes : values.axes, over))
    return report_error(over.span,
                        fmt::format("{} is still in {}", describe_axis(over),
                                    gathers ? fmt::format("the result {}", format_axes(result.axes))
                                            : fmt::format("{}{}", values.description, format_axes(values.axes))),
                        usage_hint(routine.kind));
  return gathers ? check_gather_result(values, ids, over, result) : check_scatter_result(values, ids, over, result);
}

bool Parser::check_gather_result(const ParsedOperand& table, const ParsedOperand& ids, const Axis& over,
                                 const TensorRef& result) {
  for (const ParsedOperand* o : {&table, &ids})
    for (const Axis& a : o->axes)
      if (!is_literal_one(a) && !(a == over) && !contains(result.axes, a))
        return report_error(
            o->span,
            fmt::format("{} of {} is not in the result {}", describe_axis(a), o->description, format_axes(result.axes)),
            "the result has the dimensions of the indices and of a row");
  for (const Axis& a : result.axes)
    if (!is_literal_one(a) && !contains(table.axes, a) && !contains(ids.axes, a))
      return report_error(a.span, fmt::format("{} of the result is in no operand", describe_axis(a)),
                          "a dimension of the result comes from an operand");
  return true;
}

bool Parser::check_scatter_result(const ParsedOperand& x, const ParsedOperand& ids, const Axis& over,
                                  const TensorRef& result) {
  for (const Axis& a : ids.axes)
    if (!is_literal_one(a) && !contains(x.axes, a))
      return report_error(
          ids.span,
          fmt::format("{} of {} is not in {}{}", describe_axis(a), ids.description, x.description, format_axes(x.axes)),
          "each row that is scattered has an index");
  for (const Axis& a : x.axes)
    if (!is_literal_one(a) && !contains(ids.axes, a) && !contains(result.axes, a))
      return report_error(
          x.span,
          fmt::format("{} of {} is not in the result {}", describe_axis(a), x.description, format_axes(result.axes)),
          "the result has the dimensions of a row, and the one that is scattered over");
  for (const Axis& a : result.axes)
    if (!is_literal_one(a) && !(a == over) && !contains(x.axes, a))
      return report_error(a.span, fmt::format("{} of the result is in no operand", describe_axis(a)),
                          "a dimension of the result comes from an operand");
  return true;
}

bool Parser::check_same_axes(const Routine& routine, const TensorRef& result) {
  const ParsedOperand x = operand_at_node(0);
  if (!routine.over.empty() && !check_is_dimension(routine.over.front(), x)) return false;
  for (const Axis& a : x.axes)
    if (!is_literal_one(a) && !contains(result.axes, a))
      return report_error(
          x.span,
          fmt::format("{} of {} is not in the result {}", describe_axis(a), x.description, format_axes(result.axes)),
          fmt::format("{} keeps every dimension", routine_name(routine.kind)));
  for (const Axis& a : result.axes)
    if (!is_literal_one(a) && !contains(x.axes, a))
      return report_error(a.span, fmt::format("{} of the result is in no operand", describe_axis(a)),
                          "a dimension of the result comes from an operand");
  return true;
}

// Checks that all elements along the dimension have one position.
bool Parser::check_rotary_positions(const Routine& routine) {
  const ParsedOperand x = operand_at_node(0), positions = operand_at_node(1);
  for (const Axis& a : positions.axes) {
    if (is_literal_one(a) || (!(a == routine.over.front()) && contains(x.axes, a))) continue;
    return report_error(positions.span,
                        fmt::format("expected positions with dimensions of {}{} other than {}, found {}{}",
                                    x.description, format_axes(x.axes), format_axis(routine.over.front()),
                                    positions.description, format_axes(positions.axes)),
                        "each element has one position: t: int32[S]");
  }
  return true;
}

int Parser::declare_routine_result(const Routine& routine, const TensorRef& result) {
  std::vector<int> values;
  for (const Node& node : nodes_)
    if (node.kind == Node::Kind::tensor) values.push_back(node.tensor);
  const bool indexed = routine.kind == RoutineKind::gather || routine.kind == RoutineKind::scatter ||
                       routine.kind == RoutineKind::routed || routine.kind == RoutineKind::rotary;
  if (indexed) values.pop_back();  // the indices or positions
  if (gives_indices(routine.kind) && !result.dtype) {
    TensorRef made = result;
    made.dtype = DType::int32;
    const int index = declare_result(made, values);
    if (index >= 0) program_.tensors[index].declared = false;
    return index;
  }
  if (routine.kind == RoutineKind::quantize) {
    TensorRef made = result;
    made.dtype = routine.format;
    const int index = declare_result(made, values, ResultKind::quantized);
    if (index >= 0) program_.tensors[index].declared = result.dtype.has_value();
    return index;
  }
  return declare_result(result, values);
}

}  // namespace ridge::program
