// Recursive-descent parser with one method per rule of the grammar (docs/notation.md). It stops at the first error: a
// method that returns false, nullopt or -1 has set `error_`. The methods are defined in parse.cc (tokens, tensors),
// parse_lines.cc, parse_stacks.cc, parse_extents.cc, parse_expression.cc, parse_routines.cc, sharding.cc and others,
// and check_dimensions.cc (contractions and expressions).
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/program/routine.h"
#include "ridge/program/tokenizer.h"

namespace ridge::program {

inline constexpr int max_nesting = 256;
inline constexpr std::size_t max_dims = 256;
inline constexpr std::size_t max_axes = 16;                     // axes per tensor
inline constexpr std::size_t max_stacks = 256, max_parts = 16;  // limits per program, per stacked input

// Reference to a tensor in a statement: `bf16[B, D]_D`, `A[B, D]`, `x`.
struct TensorRef {
  std::string name;                          // "" if omitted
  std::optional<DType> dtype;                // dtype, if given
  std::vector<Axis> axes;                    // axes, if given here
  bool may_have_computed_size = false;       // true if the leading size may be computed, as 2*F
  std::optional<Polynomial> leading_size{};  // computed leading size, which is then not in `axes`
  bool has_axes = false;                     // true if axes are given here
  std::optional<InputUse> use{};             // word before the name: param, cache, state or data
  std::optional<Token> suffix;
  std::string partial;      // "X" in {U_X}: mesh axes of the partial sums
  TextSpan span = {};       // position of the name, or of the dtype without a name
  TextSpan type_span = {};  // position of the dtype or the bracket
};

// Operand of a statement: the tensor, and positions for messages.
struct ParsedOperand {
  int tensor;
  std::string description;  // "the left operand", "'x'"
  bool unnamed;             // written as a dtype without a name
  TextSpan span;
  std::vector<Axis> axes;  // axes with their positions in this statement
};

// Returns "XY" for D_XY, or "" for a name without mesh axes.
std::string_view mesh_suffix(std::string_view name);

// Returns the function with this name, or nullptr. Operators (+, -, *, /, <) have no name.
const FunctionInfo* find_function(std::string_view name);
std::string function_signature(const FunctionInfo& f);  // "max(a, b) or max(x over D)"
std::vector<std::string> function_names();              // including those without a FunctionInfo: repeat, index, …
bool is_reserved(std::string_view name);                // true if no tensor can have this name
// Returns the routine with this name, or nullopt.
std::optional<RoutineKind> find_routine(std::string_view text);
std::vector<std::string> routine_names();
// Returns what to write instead of a function that the notation lacks, or "".
std::string_view suggest_alternative(std::string_view function);

// The kind of statement that computes a result decides its default dtype.
enum class ResultKind : std::uint8_t { product, quantized, other };

class Parser {
 public:
  Parser(std::string_view text, const ParseOptions& options);
  Result<Program> parse_program();

 private:
  // Tokens: parse.cc.
  const Token& peek(std::size_t offset = 0) const { return tokens_[std::min(next_ + offset, tokens_.size() - 1)]; }
  Token consume_token();
  bool accept_symbol(std::string_view symbol);
  bool expect_symbol(std::string_view symbol, const std::string& what, const std::string& hint = {});
  bool report_error(TextSpan span, std::string message, std::string hint = {});
  bool report_expected(const std::string& what,
                       const std::string& hint = {});  // "expected <what>, found <the next token>"
  bool close_bracket(const Token& open, std::string_view sign, const std::string& expected);
  bool is_at_end_of_line() const;
  bool check_statement_limit();

  // Lines: parse_lines.cc.
  bool parse_item();
  bool parse_declaration_or_definition();
  bool parse_arrow_product();
  bool add_arrow_product(TensorRef& left, TensorRef& right, TensorRef& result, std::size_t first_token);
  bool check_no_suffix(const TensorRef& ref);
  bool parse_definition(const TensorRef& result, std::size_t first_token);
  bool parse_tensor_ref(TensorRef& out);
  bool parse_type(TensorRef& out);
  bool parse_axes(TensorRef& out);
  bool parse_axis(std::vector<Axis>& out);
  bool parse_arrow_types(TensorRef& left, TensorRef& right, TensorRef& result);
  bool check_tensor_name(const Token& token);
  int declare_tensor(const TensorRef& ref, DType dtype, bool declared);
  int resolve_operand(TensorRef& ref);
  ParsedOperand operand_at_node(std::size_t node) const;
  int declare_result(const TensorRef& ref, const std::vector<int>& operands, ResultKind kind = ResultKind::other);
  std::string unused_name(const std::string& base_name) const;
  void add_statement(std::variant<Contraction, Expression> op, std::size_t first_token);
  void set_roles();

  // Use of inputs and results in place: parse_uses.cc.
  bool is_input_use_ahead() const;
  std::optional<InputUse> accept_input_use();
  std::optional<Token> accept_replaced();
  bool parse_replacement(const TensorRef& result, const Token& replaced, std::size_t first_token);
  bool check_replacement(const Token& replaced);
  bool check_elementwise_read(int tensor, const Token& replaced);
  bool check_replaced_last();

  void collect_later_names();

  // Stacked inputs: parse_stacks.cc.
  bool has_computed_size() const;
  bool declare_stacked_input(const TensorRef& ref);
  bool is_slice_ahead() const;
  bool parse_stack_part(const TensorRef& ref);
  bool report_not_stacked(const Token& named);
  bool check_stack_part(const TensorRef& ref, const StackedInput& stack, const Polynomial& from, const Polynomial& to);
  bool check_stacks_complete();
  const StackedInput* find_stack(const std::string& name) const;
  bool report_stack_read(const StackedInput& stack, TextSpan span);

  // Sharding: sharding.cc.
  bool parse_mesh();
  bool use_mesh_axis(char letter, TextSpan span);
  bool parse_sharded_axis(const Token& token, Axis& out, const std::vector<Axis>& previous_axes);
  bool parse_partial_sums(TensorRef& out);
  bool check_product_sharding(const ParsedOperand& left, const ParsedOperand& right, const TensorRef& result,
                              Contraction& out);
  bool check_axis_sharding(const Axis& axis, const ParsedOperand& operand, const TensorRef& result,
                           const std::string& partial);
  bool check_no_partial_sums(int tensor, TextSpan span);
  bool check_result_partial_sums(const std::string& summed_over, const TensorRef& result);
  bool check_expression_sharding(const TensorRef& result);
  bool check_reduction_sharding(const std::vector<Axis>& known_axes, const TensorRef& result);

  // Routines: parse_routines.cc, check_conv.cc, routing.cc, scan.cc.
  bool parse_routine(const TensorRef& result, std::size_t first_token);
  bool parse_routine_arguments(Routine& out, const Token& keyword);
  bool parse_scan(const TensorRef& result, std::size_t first_token, const Token& open, Routine& out);
  bool check_scan_body(const TensorRef& result);
  bool check_is_dimension(const Axis& over, const ParsedOperand& p);
  bool check_topk(const Routine& routine, const TensorRef& result);
  bool check_argmax(const Routine& routine, const TensorRef& result);
  bool check_index_result(const TensorRef& result);
  bool check_rotary_positions(const Routine& routine);
  bool parse_flag(const std::string& option, bool& out);
  bool check_experts(const Routine& routine, const TensorRef& result);
  bool check_routed(const Routine& routine, const TensorRef& result);
  bool parse_routed_option(Routine& out, const std::string& key);
  bool parse_routine_operand(RoutineKind kind);
  bool parse_routine_over(Routine& out, const Token& keyword);
  bool parse_routine_option(Routine& out, const Token& keyword, std::vector<std::string>& seen);
  bool check_routine_unsharded(const Routine& routine, const TensorRef& result);
  bool check_routine(Routine& routine, const TensorRef& result);
  bool check_conv(Routine& routine, const TensorRef& result);
  struct ConvOperands;
  bool find_conv_layout(const Routine& routine, const ConvOperands& operands) const;
  bool check_conv_sizes(const Routine& routine, const ConvOperands& operands, const TensorRef& result);
  bool check_conv_channels(const Routine& routine, const ConvOperands& operands);
  bool parse_pool_dimensions(Routine& out);
  bool check_pool(const Routine& routine, const TensorRef& result);
  bool check_windows(const std::vector<WindowDimension>& windows);
  bool report_window(const WindowDimension& window);
  bool check_gather_or_scatter(const Routine& routine, const TensorRef& result);
  bool check_gather_result(const ParsedOperand& table, const ParsedOperand& ids, const Axis& over,
                           const TensorRef& result);
  bool check_scatter_result(const ParsedOperand& x, const ParsedOperand& ids, const Axis& over,
                            const TensorRef& result);
  // quantize.cc
  bool parse_quantize_arguments(Routine& out, const Token& keyword);
  bool parse_quantize_block(Routine& out, const Token& element, const std::vector<DType>& candidates);
  bool reject_quantize_block(DType format);
  bool is_block_option() const;
  bool check_quantize(const Routine& routine, const TensorRef& result);
  bool check_same_axes(const Routine& routine, const TensorRef& result);
  int declare_routine_result(const Routine& routine, const TensorRef& result);

  // Chains of products and inferred results: parse_chain.cc. Einsum strings: einsum.cc.
  struct ChainOrder;
  bool add_chain(const std::vector<ParsedOperand>& factors, const TensorRef& result);
  bool check_chain_axes(const std::vector<ParsedOperand>& factors, const TensorRef& result);
  bool bind_chain_sizes(const std::vector<ParsedOperand>& factors, Bindings& sizes);
  std::optional<ParsedOperand> add_chain_products(const ChainOrder& order, std::size_t subset, const TensorRef& result);
  std::string format_chain(const ChainOrder& order, std::size_t subset) const;
  bool is_product_chain(const TensorRef& result) const;
  bool infer_result_axes(const TensorRef& left, const TensorRef& right, TensorRef& result);
  bool parse_arrow_chain(std::vector<TensorRef>& factors, TensorRef& result);
  bool parse_einsum();
  bool parse_einsum_axes(const Token& string, std::size_t& at, std::vector<Axis>& out);
  bool add_einsum_product(const std::vector<ParsedOperand>& factors, const TensorRef& result, std::size_t first_token);
  bool add_einsum_of_one_operand(const ParsedOperand& x, const TensorRef& result, std::size_t first_token);
  static TextSpan span_inside(const Token& string, std::size_t at);

  // Dimensions: parse_extents.cc.
  bool parse_dims();
  bool parse_lengths(const std::string& name);
  bool check_dim_name(const Token& token);
  Dimension* find_or_add_dim(const std::string& name, TextSpan span);
  bool parse_positive_integer(std::int64_t& out, const std::string& what);
  struct ExtentExpression {
    Polynomial value;
    double bound = 0;  // upper bound on all coefficients of `value` and of intermediate results
  };
  bool parse_extent(ExtentExpression& out, int depth);
  bool parse_extent_product(ExtentExpression& out, int depth);
  bool parse_extent_factor(ExtentExpression& out, int depth);
  bool parse_extent_quotient(ExtentExpression& out);
  bool combine_extents(ExtentExpression& left, const ExtentExpression& right, const Token& sign);
  bool check_no_cycles();
  bool check_no_cycle_from(std::size_t start, std::vector<int>& state);

  // Expressions: parse_expression.cc. Each method returns the index of its node, or -1.
  int parse_expression(int depth);
  int parse_sum(int depth);
  int parse_product(int depth);
  int parse_unary(int depth);
  int parse_power(int depth);
  int parse_primary(int depth);
  int parse_number();
  int parse_tensor_name();
  int parse_call(int depth);
  int add_call(Node node, const Token& name, const FunctionInfo& f);
  bool parse_over(Node& node, const FunctionInfo& f);
  int parse_dimension_call(Node::Kind kind);
  int parse_sequence_call();
  int parse_repeat(int depth);
  int parse_batch_norm(int depth);
  int add_node(Node node, TextSpan span);
  int report_no_function(const Token& keyword);
  int report_unknown_function(const Token& token);
  int report_unknown_tensor(const Token& token);
  bool report_unknown_dimension(const Token& token);

  // Sizes that occur several times in a tensor: repeated_sizes.cc.
  struct AxesOfOperand {
    std::vector<Axis> axes;
    std::string description;
    TextSpan span;
  };
  bool report_repeated_size(const Axis& axis);
  bool check_ref_sizes_differ(const TensorRef& ref);
  bool check_tensor_sizes_differ(int tensor, TextSpan span);
  bool check_repeated_sizes(const TensorRef& result);
  bool check_size_count(const std::vector<AxesOfOperand>& all, const AxesOfOperand& most, const Axis& size);
  bool check_factor_sizes();

  // Roles of dimensions: check_dimensions.cc.
  bool make_contraction(ParsedOperand left, ParsedOperand right, const TensorRef& result, Contraction& out);
  void match_grouped_dim(ParsedOperand& operand, const ParsedOperand& other, const TensorRef& result,
                         Contraction& out) const;
  bool check_axes_matched(const ParsedOperand& left, const ParsedOperand& right, const TensorRef& result);
  bool report_unmatched_axis(const ParsedOperand& operand, const Axis& axis, const Axis* partner);
  bool check_suffix(const TensorRef& written, const ParsedOperand& operand, const Contraction& contraction);
  bool parse_suffix(const Token& suffix, const ParsedOperand& operand, std::vector<std::string>& out);
  bool is_summed_product(const TensorRef& result);
  bool check_expression(const TensorRef& result);
  bool check_reduced_axes(const IndexSpaces& spaces);
  bool check_node_axes(std::size_t node, const IndexSpaces& found, const TensorRef& result);

  SourceText source_;
  ParseOptions options_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  std::optional<Error> error_;
  Program program_;
  std::unordered_map<std::string, int> tensor_index_;
  std::unordered_map<std::string, std::size_t> dim_index_;
  std::unordered_set<std::string> declared_mesh_;
  std::unordered_set<std::string> later_names_;  // tensors declared or written anywhere
  std::unordered_set<std::string> used_names_;   // names outside brackets
  bool infers_result_ = false;                   // the current product has no explicit result
  std::unordered_set<std::string> declared_dims_;
  std::string scan_result_;  // result of the current scan; in the body its name is the previous step
  std::vector<Node> nodes_;  // nodes of the current expression
  std::vector<TextSpan> node_spans_;
};

// Return text in the notation: "[B, 4]"; "D", "D_X" or "4".
std::string format_axes(const std::vector<Axis>& axes);
std::string format_axis(const Axis& axis);
std::string format_partial(const std::string& partial);                          // "{U_X}" or ""
bool has_same_sharding(const std::vector<Axis>& a, const std::vector<Axis>& b);  // true if axes and mesh axes are equal

}  // namespace ridge::program
