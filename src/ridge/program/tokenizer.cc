#include "ridge/program/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ridge/base/string_util.h"
#include "ridge/base/utf8.h"

namespace ridge::program {
namespace {

constexpr std::size_t max_shown_characters = 40;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word_character(char c) { return is_letter(c) || is_digit(c) || c == '_'; }

// Unicode characters that editors and papers use for operators of the notation.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> lookalikes{{
    {"→", "->"},
    {"×", "*"},
    {"·", "*"},
    {"−", "-"},
    {"–", "-"},
    {"’", "'"},
    {"′", "'"},
}};

class Lexer {
 public:
  explicit Lexer(const SourceText& source) : source_(source), text_(source.text) {}
  Result<std::vector<Token>> read_tokens();

 private:
  char char_at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  TextSpan span_between(std::size_t from, std::size_t to) const {
    return {line_, static_cast<int>(from - line_start_) + 1, static_cast<int>(to - from)};
  }
  void push_token(TokenKind kind, std::size_t to) {
    tokens_.push_back({kind, text_.substr(pos_, to - pos_), span_between(pos_, to)});
    pos_ = to;
  }
  Token make_end_token(TokenKind kind) const;
  void end_line();
  Status skip_comment();
  Status read_number();
  Status read_name();
  Status read_string();
  Status read_next_token();
  Error unprintable_error() const;

  const SourceText& source_;
  std::string_view text_;
  std::size_t pos_ = 0, line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

Error Lexer::unprintable_error() const {
  const std::string_view rest = text_.substr(pos_);
  int column = 1;  // in characters, because comments may hold any UTF-8
  for (std::size_t i = line_start_; i < pos_; i += std::max<std::size_t>(1, character_bytes(text_.substr(i)))) ++column;
  const TextSpan place{line_, column, 1};
  const std::size_t size = character_bytes(rest);
  if (size < 2)
    return source_.error_at(place,
                            fmt::format("expected text, found the byte 0x{:02x}", static_cast<unsigned char>(rest[0])),
                            "save the program as plain UTF-8 text");
  const std::string_view character = rest.substr(0, size);
  for (const auto& [seen, meant] : lookalikes)
    if (character == seen)
      return source_.error_at(place, fmt::format("expected ASCII, found '{}'", character),
                              fmt::format("write {}", meant));
  return source_.error_at(place, fmt::format("expected ASCII, found '{}'", character),
                          "other characters are allowed only in comments");
}

// The token of a line end or text end has the position after the last token, before blanks and comments.
Token Lexer::make_end_token(TokenKind kind) const {
  const bool first = tokens_.empty() || tokens_.back().kind == TokenKind::newline;
  const TextSpan place = first ? TextSpan{line_, 1, 1} : tokens_.back().span;
  return {kind, text_.substr(pos_, 0), first ? place : TextSpan{place.line, place.column + place.length, 1}};
}

void Lexer::end_line() {
  if (!tokens_.empty() && tokens_.back().kind != TokenKind::newline)
    tokens_.push_back(make_end_token(TokenKind::newline));
  ++line_;
  line_start_ = ++pos_;
}

Status Lexer::skip_comment() {
  while (pos_ < text_.size() && text_[pos_] != '\n') {
    const char c = text_[pos_];
    if (c >= ' ' && c <= '~') {  // fast path: 64 MB of comments take 0.1 s
      ++pos_;
      continue;
    }
    const std::size_t size = character_bytes(text_.substr(pos_));
    const bool line_end = c == '\r' && char_at(pos_ + 1) == '\n';
    if (size == 0 || (size == 1 && c != '\t' && !line_end && (c < ' ' || c == '\x7F'))) return unprintable_error();
    pos_ += size;
  }
  return Done{};
}

Status Lexer::read_number() {
  std::size_t to = pos_;
  while (is_digit(char_at(to))) ++to;
  if (char_at(to) == '.' && is_digit(char_at(to + 1)))
    for (++to; is_digit(char_at(to));) ++to;
  if (char_at(to) == 'e' || char_at(to) == 'E') {
    const std::size_t sign = char_at(to + 1) == '+' || char_at(to + 1) == '-' ? 1 : 0;
    if (is_digit(char_at(to + 1 + sign)))
      for (to += 1 + sign; is_digit(char_at(to));) ++to;
  }
  std::size_t end = to;
  while (is_word_character(char_at(end))) ++end;
  if (end == to) {
    push_token(TokenKind::number, to);
    return Done{};
  }
  const std::string_view digits = text_.substr(pos_, to - pos_), rest = text_.substr(to, end - to);
  const std::string hint = is_letter(rest[0]) && end - pos_ <= max_shown_characters
                               ? fmt::format("a product is written {}*{}", digits, rest)
                               : "a name begins with a letter, a number holds digits only";
  return source_.error_at(
      span_between(pos_, end),
      fmt::format("expected a number or a name, found {}", quote_word(text_.substr(pos_, end - pos_))), hint);
}

Status Lexer::read_name() {
  std::size_t to = pos_;
  const TokenKind kind = char_at(to) == '_' ? TokenKind::suffix : TokenKind::name;
  while (is_word_character(char_at(to))) ++to;
  while (char_at(to) == '\'') ++to;
  if (to - pos_ > max_name_characters)
    return source_.error_at(
        span_between(pos_, to),
        fmt::format("expected a name of at most {} characters, found one of {}", max_name_characters, to - pos_));
  push_token(kind, to);
  return Done{};
}

// Reads an einsum string; the parser checks its letters.
Status Lexer::read_string() {
  std::size_t to = pos_ + 1;
  while (char_at(to) >= ' ' && char_at(to) <= '~' && char_at(to) != '\'') ++to;
  if (char_at(to) != '\'')
    return source_.error_at(span_between(pos_, pos_ + 1),
                            "expected the end of the einsum string on the same line, found none", "write 'ij,jk->ik'");
  push_token(TokenKind::string, to + 1);
  return Done{};
}

Status Lexer::read_next_token() {
  const char c = text_[pos_];
  if (c == ' ' || c == '\t' || (c == '\r' && char_at(pos_ + 1) == '\n')) return ++pos_, Done{};
  if (c == '\n') return end_line(), Done{};
  if (c == '#') return skip_comment();
  if (is_digit(c) || (c == '.' && is_digit(char_at(pos_ + 1)))) return read_number();
  if (is_letter(c) || c == '_') return read_name();
  if (c == '\'') return read_string();
  if (c < ' ' || c > '~') return unprintable_error();
  const char after = char_at(pos_ + 1);
  const bool two =
      (c == '-' && after == '>') || (c == '*' && after == '*') || ((c == '<' || c == '>' || c == '=') && after == '=');
  push_token(TokenKind::symbol, two ? pos_ + 2 : pos_ + 1);
  return Done{};
}

Result<std::vector<Token>> Lexer::read_tokens() {
  if (text_.size() > max_program_bytes)
    return Error{
        .message = fmt::format("expected a program of at most {} bytes, found {}", max_program_bytes, text_.size()),
        .hint = "split it into several programs",
        .source = source_.name};
  if (text_.starts_with("\xEF\xBB\xBF")) pos_ = line_start_ = 3;  // UTF-8 byte order mark
  while (pos_ < text_.size()) {
    RIDGE_TRY_STATUS(read_next_token());
    if (tokens_.size() > max_tokens)
      return source_.error_at(tokens_.back().span,
                              fmt::format("expected a program of at most {} tokens, found more", max_tokens),
                              "split it into several programs");
  }
  tokens_.push_back(make_end_token(TokenKind::end));
  return std::move(tokens_);
}

// Returns line `number` (1-based) in printable form.
std::string printable_line(std::string_view text, int number) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (int i = 1; i < number; ++i) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return make_printable(text);
}

}  // namespace

Error SourceText::error_at(TextSpan span, std::string message, std::string hint) const {
  return {.message = std::move(message),
          .hint = std::move(hint),
          .source = name,
          .span = span,
          .line_text = printable_line(text, span.line)};
}

Result<std::vector<Token>> tokenize(const SourceText& source) { return Lexer(source).read_tokens(); }

std::string quote_word(std::string_view text) {
  if (text.size() > max_shown_characters) return fmt::format("'{}…'", text.substr(0, max_shown_characters));
  return fmt::format("'{}'", text);
}

std::string suggest_name(std::string_view word, const std::vector<std::string>& known) {
  return word.size() < 2 || known.size() > 1000 ? "" : find_nearest(word, known);
}

std::string quote_token(const Token& token) {
  if (token.kind == TokenKind::newline) return "end of line";
  if (token.kind == TokenKind::end) return "end of the program";
  return quote_word(token.text);
}

}  // namespace ridge::program
