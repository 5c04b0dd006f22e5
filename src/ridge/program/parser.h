// Inside of parse(): a recursive descent, one method a rule of the grammar (docs/notation.md). The first mistake stops
// it: a method that returns false, nothing or -1 has set `error_`. The methods lie in parse.cc (words, and what is
// built), lines.cc (lines of a program), stack.cc (inputs in parts), extent.cc (dims), expression.cc (pointwise),
// words.cc and conv.cc (words that stand alone) and verify.cc (what is what).
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/program/routine.h"
#include "ridge/program/token.h"

namespace ridge::notation {

inline constexpr int max_nesting = 256;
inline constexpr std::size_t max_dims = 256;
inline constexpr std::size_t max_axes = 16;                     // of one tensor
inline constexpr std::size_t max_stacks = 256, max_parts = 16;  // of a program, of one stack

// A tensor as it stands in a statement: `bf16[B, D]_D`, `A[B, D]`, `x`.
struct Mention {
  std::string name;            // empty: none is written
  std::optional<DType> dtype;  // where one is written
  std::vector<Axis> axes;      // as written at this place
  bool may_stack = false;      // the leading size may be computed, 2*F: it is then here and not in `axes`
  std::optional<Polynomial> rows{};
  bool typed = false;  // axes are written at this place
  std::optional<Token> suffix;
  std::string partial;  // "X" of {U_X}
  Span span = {};       // the name, or the dtype where there is none
  Span type_span = {};  // the dtype, or the bracket
};

// An operand of a statement: which tensor, and where messages point.
struct Operand {
  int tensor;
  std::string called;  // "the left operand", "'x'"
  bool unnamed;        // its place holds a dtype
  Span span;
  std::vector<Axis> axes;  // with the spans of this statement, where it writes them
};

// "XY" of D_XY; empty: the name ends otherwise.
std::string_view mesh_of(std::string_view name);

// The functions of expressions by name; none: it is no function's. Signs (+, -, *, /, <) have none.
const FunctionRow* find_function(std::string_view name);
std::string signature(const FunctionRow& f);  // "max(a, b) or max(x over D)"
std::vector<std::string> function_names();    // and the other words that stand before a parenthesis
bool reserved(std::string_view name);         // no tensor can be called so
// The words that are a statement by themselves.
std::optional<Word> find_word(std::string_view text);
std::vector<std::string> word_names();
// What to write instead of a function that the notation lacks; empty: nothing is known.
std::string_view instead_of(std::string_view function);

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options);
  Result<Program> run();

 private:
  // Words.
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(next_ + ahead, tokens_.size() - 1)]; }
  Token take();
  bool take(std::string_view symbol);
  bool expect(std::string_view symbol, const std::string& what, const std::string& hint = {});
  bool fail(Span span, std::string message, std::string hint = {});
  bool expected(const std::string& what, const std::string& hint = {});  // "expected <what>, found <the next token>"
  bool close(const Token& open, std::string_view sign, const std::string& otherwise);
  bool at_end_of_line() const;
  bool few_enough();

  // Lines: lines.cc.
  bool item();
  bool declaration_or_definition();
  bool arrow();
  bool state_product(Mention& left, Mention& right, Mention& result, std::size_t first);
  bool no_suffix(const Mention& mention);
  bool definition(const Mention& result, std::size_t first);
  bool mention(Mention& out);
  bool type(Mention& out);
  bool axes(Mention& out);
  bool axis(std::vector<Axis>& out);
  bool arrow_types(Mention& left, Mention& right, Mention& result);
  bool tensor_name(const Token& token);
  int declare(const Mention& mention, DType dtype, bool declared);
  int operand(Mention& mention);
  Operand operand(std::size_t node) const;
  int write_result(const Mention& mention, const std::vector<int>& operands, bool quantizes = false);
  std::string free_name(const std::string& wanted) const;
  void add_statement(std::variant<Contraction, Expression> op, std::size_t first);
  void set_roles();
  void note_later_names();

  // Inputs in parts: stack.cc.
  bool computed_size() const;
  bool stack(const Mention& mention);
  bool cut_ahead() const;
  bool part(const Mention& mention);
  bool no_stack(const Token& named);
  bool part_fits(const Mention& mention, const Stack& of, const Polynomial& from, const Polynomial& to);
  bool whole_stacks();
  const Stack* stack_named(const std::string& name) const;
  bool read_in_parts(const Stack& stack, Span span);

  // Sharding: shard.cc.
  bool mesh();
  bool use_mesh_axis(char letter, Span span);
  bool sharded_name(const Token& token, Axis& out, const std::vector<Axis>& before);
  bool partial(Mention& out);
  bool shards(const Operand& left, const Operand& right, const Mention& result, Contraction& out);
  bool shard_agrees(const Axis& operand, const Operand& of, const Mention& result, const std::string& partial);
  bool whole_operand(int tensor, Span span);
  bool partial_agrees(const std::string& left, const Mention& result);
  bool expression_shards(const Mention& result);
  bool along_shards(const std::vector<Axis>& lie, const Mention& result);

  // Words that stand alone: words.cc and conv.cc.
  bool routine(const Mention& result, std::size_t first);
  bool routine_arguments(Routine& out, const Token& word);
  bool scan(const Mention& result, std::size_t first, const Token& open, Routine& out);
  bool scan_body(const Mention& result);
  bool topk_agrees(const Routine& routine, const Mention& result);
  bool routed_agrees(const Routine& routine, const Mention& result);
  bool routed_option(Routine& out, const std::string& key);
  bool routine_operand(Word word);
  bool routine_over(Routine& out, const Token& word);
  bool routine_option(Routine& out, const Token& word, std::vector<std::string>& seen);
  bool routine_whole(const Routine& routine, const Mention& result);
  bool routine_agrees(const Routine& routine, const Mention& result);
  bool conv_agrees(const Routine& routine, const Mention& result);
  bool conv_channels(const Routine& routine, const Operand& x, const Operand& w);
  bool conv_windows(const Routine& routine, const Operand& x, const Operand& w, const Mention& result);
  bool repeats(int tensor, Span span);
  bool sizes_differ(const Mention& mention);
  bool size_twice(const Axis& axis);
  bool gather_agrees(const Routine& routine, const Mention& result);
  bool gather_result(const Operand& table, const Operand& ids, const Axis& over, const Mention& result);
  bool scatter_result(const Operand& x, const Operand& ids, const Axis& over, const Mention& result);
  // quantize.cc
  bool quantized(Routine& out, const Token& word);
  bool quantized_block(DType format, const Token& at);
  bool quantize_agrees(const Routine& routine, const Mention& result);
  bool keeps_axes(const Routine& routine, const Mention& result);
  int routine_result(const Routine& routine, const Mention& result);

  // Chains of products and results that are left out: chain.cc. Einsum strings: einsum.cc.
  struct Order;
  bool chain(const std::vector<Operand>& factors, const Mention& result);
  bool chain_found(const std::vector<Operand>& factors, const Mention& result);
  bool chain_sizes(const std::vector<Operand>& factors, Bindings& sizes);
  std::optional<Operand> chain_part(const Order& order, std::size_t subset, const Mention& result);
  std::string chain_text(const Order& order, std::size_t subset) const;
  bool is_chain(const Mention& result) const;
  bool leave_out(const Mention& left, const Mention& right, Mention& result);
  bool arrow_chain(std::vector<Mention>& factors, Mention& result);
  bool einsum();
  bool einsum_axes(const Token& string, std::size_t& at, std::vector<Axis>& out);
  bool einsum_product(const std::vector<Operand>& factors, const Mention& result, std::size_t first);
  bool einsum_of_one(const Operand& x, const Mention& result, std::size_t first);
  static Span inside(const Token& string, std::size_t at);

  // Dimensions: extent.cc.
  bool dims();
  bool lengths(const std::string& name);
  bool dim_name(const Token& token);
  Dimension* dim(const std::string& name, Span span);
  bool whole_number(std::int64_t& out, const std::string& what);
  struct Extent {
    Polynomial value;
    double bound = 0;  // no coefficient of `value` or of a step towards it is larger
  };
  bool extent(Extent& out, int depth);
  bool extent_product(Extent& out, int depth);
  bool extent_factor(Extent& out, int depth);
  bool extent_quotient(Extent& out);
  bool combine(Extent& left, const Extent& right, const Token& sign);
  bool no_cycles();
  bool no_cycle_from(std::size_t start, std::vector<int>& state);

  // Expressions: expression.cc. Each yields the index of its node, or -1.
  int expression(int depth);
  int sum(int depth);
  int product(int depth);
  int unary(int depth);
  int power(int depth);
  int primary(int depth);
  int number();
  int tensor();
  int call(int depth);
  int add_call(Node node, const Token& name, const FunctionRow& f);
  bool over(Node& node, const FunctionRow& f);
  int of_dimension(Node::Kind kind);
  int sequence();
  int repeat(int depth);
  int add_node(Node node, Span span);
  int no_function(const Token& word);
  int unknown_function(const Token& token);
  int unknown_tensor(const Token& token);
  bool unknown_dimension(const Token& token);

  // What is what: verify.cc.
  bool contract(Operand left, Operand right, const Mention& result, Contraction& out);
  void name_groups(Operand& operand, const Operand& other, const Mention& result, Contraction& out) const;
  bool all_found(const Operand& left, const Operand& right, const Mention& result);
  bool lonely(const Operand& operand, const Axis& axis, const Axis* partner);
  bool suffix_agrees(const Mention& written, const Operand& operand, const Contraction& contraction);
  bool suffix_dims(const Token& suffix, const Operand& operand, std::vector<std::string>& out);
  bool summed_product(const Mention& result);
  bool verify(const Mention& result);
  bool runs_along(const Spaces& spaces);
  bool kept(std::size_t node, const Spaces& found, const Mention& result);

  Source source_;
  ParseOptions options_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::optional<Error> error_;
  Program program_;
  std::unordered_map<std::string, int> tensor_index_;
  std::unordered_map<std::string, std::size_t> dim_index_;
  std::unordered_set<std::string> declared_mesh_;
  std::unordered_set<std::string> later_names_;  // tensors that some line declares or writes
  std::unordered_set<std::string> words_;        // names outside of brackets
  std::unordered_set<std::string> windows_;      // second operands of conv, whose sizes may repeat
  bool left_out_ = false;                        // the result of the arrow at hand
  bool sizes_repeat_ = false;                    // in the brackets at hand
  std::unordered_set<std::string> declared_dims_;
  std::string scanned_;      // of a scan at hand: the result's name, in the body its value one step before
  std::vector<Node> nodes_;  // of the expression at hand
  std::vector<Span> node_spans_;
};

// "bf16[B, D]", "[B, 4]": as the notation writes it.
std::string text(const std::vector<Axis>& axes);
std::string text(const Axis& axis);                                          // "D", "D_X", "4"
std::string partial_text(const std::string& partial);                        // "{U_X}"; empty where nothing is partial
bool same_sharding(const std::vector<Axis>& a, const std::vector<Axis>& b);  // of the same axes

}  // namespace ridge::notation
