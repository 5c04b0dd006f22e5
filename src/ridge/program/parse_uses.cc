// Parses what an input is used for, and results that take over the memory of an input:
//   param w: f32[P]   state m: f32[P]   data g: bf16[P]
//   m2: f32[P] replaces m = 0.9 * m + 0.1 * g
// A result that replaces an input overwrites it element by element, so no other element of it may be needed.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ridge/base/contains.h"
#include "ridge/program/parser.h"

namespace ridge {
namespace {

constexpr std::array<std::pair<std::string_view, InputUse>, 4> input_use_words{{{"param", InputUse::parameter},
                                                                                {"cache", InputUse::cache},
                                                                                {"state", InputUse::state},
                                                                                {"data", InputUse::activation}}};

}  // namespace

std::string_view input_use_word(InputUse use) {
  for (const auto& [word, meaning] : input_use_words)
    if (meaning == use) return word;
  return {};
}

namespace program {

// True before a word such as param and the name or the dtype of an input.
bool Parser::is_input_use_ahead() const {
  if (peek().kind != TokenKind::name || peek(1).kind != TokenKind::name) return false;
  return std::any_of(input_use_words.begin(), input_use_words.end(),
                     [&](const auto& entry) { return entry.first == peek().text; });
}

std::optional<InputUse> Parser::accept_input_use() {
  if (!is_input_use_ahead()) return std::nullopt;
  const Token word = consume_token();
  for (const auto& [text, use] : input_use_words)
    if (text == word.text) return use;
  return std::nullopt;
}

// Accepts `replaces m` and returns the token of m.
std::optional<Token> Parser::accept_replaced() {
  if (peek().kind != TokenKind::name || peek().text != "replaces" || peek(1).kind != TokenKind::name)
    return std::nullopt;
  if (peek(2).is_symbol(":") || peek(2).is_symbol("[")) return std::nullopt;  // declarations of other inputs
  consume_token();
  return consume_token();
}

bool Parser::parse_replacement(const TensorRef& result, const Token& replaced, std::size_t first_token) {
  if (!expect_symbol("=", fmt::format("'=' and the new value of {}", quote_token(replaced)),
                     "such as m2: f32[P] replaces m = 0.9 * m + 0.1 * g"))
    return false;
  return parse_definition(result, first_token) && check_replacement(replaced);
}

bool Parser::check_replacement(const Token& replaced) {
  const std::string name(replaced.text);
  const auto found = tensor_index_.find(name);
  if (found == tensor_index_.end()) return report_unknown_tensor(replaced) >= 0;
  const int index = found->second;
  Tensor& result = program_.tensors[program_.statements.back().result()];
  const Tensor& input = program_.tensors[index];
  for (const Statement& statement : program_.statements)
    if (statement.result() == index)
      return report_error(replaced.span,
                          fmt::format("expected an input after 'replaces', found '{}', which the "
                                      "program computes",
                                      name),
                          "only inputs are replaced; the memory of intermediates is reused anyway");
  for (const Tensor& other : program_.tensors)
    if (other.replaced == index)
      return report_error(replaced.span, fmt::format("'{}' is replaced already, by '{}'", name, other.name),
                          "each input is replaced at most once");
  if (!has_same_sharding(result.axes, input.axes) || result.partial != input.partial || result.dtype != input.dtype)
    return report_error(replaced.span,
                        fmt::format("expected '{}' as {}{}, like '{}' that it replaces; found {}{}", result.name,
                                    dtype_name(input.dtype), format_axes(input.axes), name, dtype_name(result.dtype),
                                    format_axes(result.axes)),
                        "both need the same dtype and the same sizes in the same order");
  result.replaced = index;
  return check_elementwise_read(index, replaced);
}

// Rejects a statement that needs other elements of the input than the one that it overwrites.
bool Parser::check_elementwise_read(int tensor, const Token& replaced) {
  const Statement& statement = program_.statements.back();
  bool elementwise = true;
  if (const auto* expression = std::get_if<Expression>(&statement.op)) {
    const std::vector<int> spaces = find_index_spaces(program_.tensors, expression->nodes).space_of_node;
    for (std::size_t i = 0; i < expression->nodes.size(); ++i) {
      const Node& node = expression->nodes[i];
      if (node.kind == Node::Kind::tensor && node.tensor == tensor)
        elementwise = elementwise && !expression->routine && spaces[i] == 0;
    }
  } else {
    const auto& product = std::get<Contraction>(statement.op);
    const bool sums = !product.contracted.empty() || product.literal_contracted != 1;
    elementwise = !sums || (product.left != tensor && product.right != tensor);
  }
  if (elementwise) return true;
  return report_error(
      replaced.span,
      fmt::format("expected a statement that reads '{}' element by element, because it overwrites it", replaced.text),
      "compute the new value in a statement of its own first");
}

// Rejects statements that read an input after it is overwritten.
bool Parser::check_replaced_last() {
  std::vector<int> replacing(program_.tensors.size(), -1);
  for (const Statement& statement : program_.statements) {
    for (const int operand : statement_operands(statement))
      if (const int by = replacing[operand]; by >= 0)
        return report_error(statement.span,
                            fmt::format("expected no statement that reads '{}' after '{}' replaces it",
                                        program_.tensors[operand].name, program_.tensors[by].name),
                            fmt::format("read '{}', or move the statement above it", program_.tensors[by].name));
    if (const int input = program_.tensors[statement.result()].replaced; input >= 0)
      replacing[input] = statement.result();
  }
  return true;
}

}  // namespace program
}  // namespace ridge
