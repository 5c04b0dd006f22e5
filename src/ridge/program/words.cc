// Statements that are one word and nothing else, as they are written: conv(x, w, stride = 2), gather(table, ids over
// V).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

struct WordRow {
  Word word;
  std::size_t operands;
  bool along;  // runs over a dimension
  std::string_view example;
};

constexpr std::array<WordRow, 8> rows{{
    {Word::conv, 2, false, "conv(x, w, stride = 1, padding = 1, dilation = 1, groups = 1)"},
    {Word::gather, 2, true, "gather(table, ids over V)"},
    {Word::scatter, 2, true, "scatter(x, ids over V)"},
    {Word::cumsum, 1, true, "cumsum(x over T)"},
    {Word::topk, 1, true, "i[N, 2] = topk(p over E)"},
    {Word::routed, 3, true, "routed(x, w, i over E)"},
    {Word::scan, 0, true, "h[N, T] = scan(a * h + x over T)"},
    {Word::quantize, 1, false, "quantize(x, e4m3, block = 128)"},
}};

const WordRow& row_of(Word word) {
  return *std::find_if(rows.begin(), rows.end(), [&](const WordRow& r) { return r.word == word; });
}

std::string example_of(Word word) { return fmt::format("write {}", row_of(word).example); }

}  // namespace

std::optional<Word> find_word(std::string_view text) {
  for (const WordRow& r : rows)
    if (name(r.word) == text) return r.word;
  return std::nullopt;
}

std::vector<std::string> word_names() {
  std::vector<std::string> out;
  for (const WordRow& r : rows) out.emplace_back(name(r.word));
  return out;
}

bool Parser::routine(const Mention& result, std::size_t first) {
  const Token word = take();
  auto out = std::make_shared<Routine>(Routine{.word = *find_word(word.text)});
  nodes_.clear();
  node_spans_.clear();
  if (!expect("(", fmt::format("'(' behind {}", quoted(word)), example_of(out->word))) return false;
  const Token open = tokens_[next_ - 1];
  if (out->word == Word::scan) return scan(result, first, open, *out);
  if (!(out->word == Word::quantize ? quantized(*out, word) : routine_arguments(*out, word))) return false;
  if (!close(open, ")", "',' or ')'")) return false;
  if (!at_end_of_line())
    return fail(peek().span, fmt::format("expected the end of the line, found {}", quoted(peek())),
                fmt::format("{} stands alone in its statement; what becomes of its result is another one", word.text));
  Node last{.kind = Node::Kind::routine};
  for (std::size_t i = 0; i < nodes_.size(); ++i) last.arguments.push_back(static_cast<int>(i));
  if (!routine_whole(*out, result) || !routine_agrees(*out, result)) return false;
  Expression e;
  if ((e.result = routine_result(*out, result)) < 0) return false;
  add_node(std::move(last), word.span);
  e.nodes = std::move(nodes_);
  e.routine = std::move(out);
  add_statement(std::move(e), first);
  return true;
}

// Tensors, then a dimension to run over or options.
bool Parser::routine_arguments(Routine& out, const Token& word) {
  const WordRow& row = row_of(out.word);
  std::vector<std::string> seen;
  if (!peek().is(")")) do {
      const bool option = peek().kind == TokenKind::name && peek(1).is("=");
      if (option ? !routine_option(out, word, seen) : !routine_operand(out.word)) return false;
      if (option && nodes_.size() < row.operands) break;
      if (peek().kind == TokenKind::name && peek().text == "over") {
        if (!routine_over(out, word)) return false;
        while (take(","))
          if (!routine_option(out, word, seen)) return false;
        break;
      }
    } while (take(","));
  if (nodes_.size() != row.operands)
    return fail(word.span,
                fmt::format("expected {} tensor{} in {}, found {}", row.operands, row.operands == 1 ? "" : "s",
                            word.text, nodes_.size()),
                example_of(out.word));
  if (row.along && out.over.empty())
    return fail(word.span, fmt::format("expected the dimension that {} runs over, found none", word.text),
                example_of(out.word));
  return true;
}

bool Parser::routine_operand(Word word) {
  if (peek().kind != TokenKind::name) return expected("a tensor", example_of(word));
  if (tensor() < 0) return false;
  if (peek().is(",") || peek().is(")") || (peek().kind == TokenKind::name && peek().text == "over")) return true;
  if (at_end_of_line()) return true;  // the open parenthesis is pointed at
  return fail(peek().span, fmt::format("expected ',' or ')', found {}", quoted(peek())),
              fmt::format("{} takes tensors by name; give what it is to take a statement of its own", name(word)));
}

bool Parser::routine_over(Routine& out, const Token& word) {
  if (!row_of(out.word).along)
    return fail(peek().span, fmt::format("expected no dimension to run over, found 'over' in {}", word.text),
                example_of(out.word));
  take();
  if (peek().kind != TokenKind::name) return expected("a dimension", example_of(out.word));
  const Token dimension = peek();
  if (!dim_index_.contains(std::string(dimension.text))) return unknown_dimension(dimension);
  if (!axis(out.over)) return false;
  if (!peek().is(",") || (out.word == Word::routed && peek(2).is("="))) return true;
  return fail(peek().span, fmt::format("expected one dimension that {} runs over, found several", word.text),
              example_of(out.word));
}

bool Parser::routine_option(Routine& out, const Token& word, std::vector<std::string>& seen) {
  const Token option = take();
  const std::string key(option.text);
  std::vector<std::string> known;
  if (out.word == Word::conv) known = {"stride", "padding", "dilation", "groups"};
  if (out.word == Word::routed) known = {"loads", "capacity"};
  if (std::find(known.begin(), known.end(), key) == known.end()) {
    const std::string meant = suggestion(key, known);
    return fail(option.span, fmt::format("{} has no option {}", word.text, quoted(option)),
                meant.empty() ? example_of(out.word) : fmt::format("did you mean '{}'?", meant));
  }
  if (std::find(seen.begin(), seen.end(), key) != seen.end())
    return fail(option.span, fmt::format("{} is given twice", quoted(option)), "once will do");
  seen.push_back(key);
  take();
  if (out.word == Word::routed) return routed_option(out, key);
  if (key == "groups") {
    Extent groups;
    if (!extent(groups, 0)) return false;
    out.groups = std::move(groups.value);
    return true;
  }
  std::int64_t& value = key == "stride" ? out.stride : key == "padding" ? out.padding : out.dilation;
  const Token number = peek();
  const bool none = key == "padding" && number.text == "0";
  if (none) {
    take();
    value = 0;
  } else if (!whole_number(value, fmt::format("the {}", key))) {
    return false;
  }
  if (value <= longest_window) return true;
  return fail(number.span, fmt::format("expected a {} of at most {}, found {}", key, longest_window, value),
              "use a smaller one");
}

// Nothing is said of how these words are shared out by hand.
bool Parser::routine_whole(const Routine& routine, const Mention& result) {
  const auto sharded = [](const std::vector<Axis>& axes) {
    return std::any_of(axes.begin(), axes.end(), [](const Axis& a) { return !a.mesh.empty(); });
  };
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].kind != Node::Kind::tensor) continue;
    const Tensor& t = program_.tensors[static_cast<std::size_t>(nodes_[i].tensor)];
    if (!t.partial.empty()) return whole_operand(nodes_[i].tensor, node_spans_[i]);
    if (sharded(t.axes))
      return fail(node_spans_[i], fmt::format("{} takes no operand that is split over devices", name(routine.word)),
                  "--split N=4 counts what each of several chips does");
  }
  if (!sharded(result.axes) && result.partial.empty()) return true;
  return fail(result.span, fmt::format("{} makes no result that is split over devices", name(routine.word)),
              "--split N=4 counts what each of several chips does");
}

bool Parser::routine_agrees(const Routine& routine, const Mention& result) {
  if (routine.word == Word::conv) return conv_agrees(routine, result);
  if (routine.word == Word::quantize) return quantize_agrees(routine, result);
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].kind == Node::Kind::tensor && !repeats(nodes_[i].tensor, node_spans_[i])) return false;
  if (routine.word == Word::gather || routine.word == Word::scatter) return gather_agrees(routine, result);
  if (routine.word == Word::topk) return topk_agrees(routine, result);
  if (routine.word == Word::routed) return routed_agrees(routine, result);
  return keeps_axes(routine, result);
}

// A tensor whose sizes repeat is the weights of a convolution and nothing else.
bool Parser::repeats(int tensor, Span span) {
  const Tensor& t = program_.tensors[static_cast<std::size_t>(tensor)];
  for (std::size_t i = 0; i < t.axes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (t.axes[i] == t.axes[j] && !one(t.axes[i]))
        return fail(span, fmt::format("'{}' has the {} twice; only conv takes it", t.name, described(t.axes[i])),
                    "give one of them a name, so that the two can be told apart");
  return true;
}

// gather: the table's row along V for each index; scatter: each row to where its index says.
bool Parser::gather_agrees(const Routine& routine, const Mention& result) {
  const bool gathers = routine.word == Word::gather;
  const Operand values = operand(0), ids = operand(1);
  const Tensor& id = program_.tensors[static_cast<std::size_t>(ids.tensor)];
  const Axis& over = routine.over.front();
  if (!info(id.dtype).integer)
    return fail(
        ids.span,
        fmt::format("expected indices in an integer dtype, found '{}', which is {}", id.name, ridge::name(id.dtype)),
        fmt::format("declare {}: int32{}", id.name, text(id.axes)));
  if (has(ids.axes, over))
    return fail(ids.span,
                fmt::format("{} of '{}' is the one that {} runs over", described(over), id.name, name(routine.word)),
                "an index says where along it, and lies along others");
  if (has(gathers ? values.axes : result.axes, over) == false)
    return fail(over.span,
                fmt::format("{} is not in {}", described(over),
                            gathers ? fmt::format("{}{}", values.called, text(values.axes))
                                    : fmt::format("the result {}", text(result.axes))),
                example_of(routine.word));
  if (has(gathers ? result.axes : values.axes, over))
    return fail(over.span,
                fmt::format("{} is still in {}", described(over),
                            gathers ? fmt::format("the result {}", text(result.axes))
                                    : fmt::format("{}{}", values.called, text(values.axes))),
                example_of(routine.word));
  return gathers ? gather_result(values, ids, over, result) : scatter_result(values, ids, over, result);
}

bool Parser::gather_result(const Operand& table, const Operand& ids, const Axis& over, const Mention& result) {
  for (const Operand* o : {&table, &ids})
    for (const Axis& a : o->axes)
      if (!one(a) && !(a == over) && !has(result.axes, a))
        return fail(o->span,
                    fmt::format("{} of {} is not in the result {}", described(a), o->called, text(result.axes)),
                    "the result has the dimensions of the indices and of a row");
  for (const Axis& a : result.axes)
    if (!one(a) && !has(table.axes, a) && !has(ids.axes, a))
      return fail(a.span, fmt::format("{} of the result is in no operand", described(a)),
                  "a dimension of the result comes from an operand");
  return true;
}

bool Parser::scatter_result(const Operand& x, const Operand& ids, const Axis& over, const Mention& result) {
  for (const Axis& a : ids.axes)
    if (!one(a) && !has(x.axes, a))
      return fail(ids.span, fmt::format("{} of {} is not in {}{}", described(a), ids.called, x.called, text(x.axes)),
                  "each row that is scattered has an index");
  for (const Axis& a : x.axes)
    if (!one(a) && !has(ids.axes, a) && !has(result.axes, a))
      return fail(x.span, fmt::format("{} of {} is not in the result {}", described(a), x.called, text(result.axes)),
                  "the result has the dimensions of a row, and the one that is scattered over");
  for (const Axis& a : result.axes)
    if (!one(a) && !(a == over) && !has(x.axes, a))
      return fail(a.span, fmt::format("{} of the result is in no operand", described(a)),
                  "a dimension of the result comes from an operand");
  return true;
}

bool Parser::keeps_axes(const Routine& routine, const Mention& result) {
  const Operand x = operand(0);
  if (!routine.over.empty() && !has(x.axes, routine.over.front()))
    return fail(routine.over.front().span,
                fmt::format("{} is not in {}{}", described(routine.over.front()), x.called, text(x.axes)),
                "name a dimension of its argument");
  for (const Axis& a : x.axes)
    if (!one(a) && !has(result.axes, a))
      return fail(x.span, fmt::format("{} of {} is not in the result {}", described(a), x.called, text(result.axes)),
                  fmt::format("{} keeps every dimension", name(routine.word)));
  for (const Axis& a : result.axes)
    if (!one(a) && !has(x.axes, a))
      return fail(a.span, fmt::format("{} of the result is in no operand", described(a)),
                  "a dimension of the result comes from an operand");
  return true;
}

int Parser::routine_result(const Routine& routine, const Mention& result) {
  std::vector<int> values;
  for (const Node& node : nodes_)
    if (node.kind == Node::Kind::tensor) values.push_back(node.tensor);
  const bool indexed = routine.word == Word::gather || routine.word == Word::scatter || routine.word == Word::routed;
  if (indexed) values.pop_back();  // the indices
  if (routine.word == Word::topk && !result.dtype) {
    Mention made = result;
    made.dtype = DType::int32;
    const int index = write_result(made, values);
    if (index >= 0) program_.tensors[static_cast<std::size_t>(index)].declared = false;
    return index;
  }
  if (routine.word == Word::quantize) {
    Mention made = result;
    made.dtype = routine.format;
    const int index = write_result(made, values, true);
    if (index >= 0) program_.tensors[static_cast<std::size_t>(index)].declared = result.dtype.has_value();
    return index;
  }
  return write_result(result, values);
}

}  // namespace ridge::notation
