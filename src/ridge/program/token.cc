#include "ridge/program/token.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "ridge/base/text.h"
#include "ridge/base/utf8.h"

namespace ridge::notation {
namespace {

constexpr std::size_t longest_shown_word = 40;

bool letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool word(char c) { return letter(c) || digit(c) || c == '_'; }

// What an editor or a paper writes for a sign of the notation.
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
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {}
  Result<std::vector<Token>> run();

 private:
  char at(std::size_t i) const { return i < text_.size() ? text_[i] : '\0'; }
  Span span(std::size_t from, std::size_t to) const {
    return {line_, static_cast<int>(from - line_start_) + 1, static_cast<int>(to - from)};
  }
  void push(TokenKind kind, std::size_t to) {
    tokens_.push_back({kind, text_.substr(pos_, to - pos_), span(pos_, to)});
    pos_ = to;
  }
  Token ending(TokenKind kind) const;
  void end_line();
  std::optional<Error> comment();
  std::optional<Error> number();
  std::optional<Error> name();
  std::optional<Error> string();
  std::optional<Error> next();
  Error unprintable() const;

  const Source& source_;
  std::string_view text_;
  std::size_t pos_ = 0, line_start_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

Error Lexer::unprintable() const {
  const std::string_view rest = text_.substr(pos_);
  int column = 1;  // counted in characters: a comment may hold any
  for (std::size_t i = line_start_; i < pos_; i += std::max<std::size_t>(1, character_bytes(text_.substr(i)))) ++column;
  const Span place{line_, column, 1};
  const std::size_t size = character_bytes(rest);
  if (size < 2)
    return source_.error(place,
                         fmt::format("expected text, found the byte 0x{:02x}", static_cast<unsigned char>(rest[0])),
                         "save the program as plain UTF-8 text");
  const std::string_view character = rest.substr(0, size);
  for (const auto& [seen, meant] : lookalikes)
    if (character == seen)
      return source_.error(place, fmt::format("expected ASCII, found '{}'", character), fmt::format("write {}", meant));
  return source_.error(place, fmt::format("expected ASCII, found '{}'", character),
                       "other characters may stand in comments only");
}

// The end of a line or of the text is pointed at right behind the last word, whatever blanks and comments follow it.
Token Lexer::ending(TokenKind kind) const {
  const bool first = tokens_.empty() || tokens_.back().kind == TokenKind::newline;
  const Span place = first ? Span{line_, 1, 1} : tokens_.back().span;
  return {kind, text_.substr(pos_, 0), first ? place : Span{place.line, place.column + place.length, 1}};
}

void Lexer::end_line() {
  if (!tokens_.empty() && tokens_.back().kind != TokenKind::newline) tokens_.push_back(ending(TokenKind::newline));
  ++line_;
  line_start_ = ++pos_;
}

std::optional<Error> Lexer::comment() {
  while (pos_ < text_.size() && text_[pos_] != '\n') {
    const char c = text_[pos_];
    if (c >= ' ' && c <= '~') {  // nearly all of them: 64 MB of comments are read in a tenth of a second
      ++pos_;
      continue;
    }
    const std::size_t size = character_bytes(text_.substr(pos_));
    const bool line_end = c == '\r' && at(pos_ + 1) == '\n';
    if (size == 0 || (size == 1 && c != '\t' && !line_end && (c < ' ' || c == '\x7F'))) return unprintable();
    pos_ += size;
  }
  return std::nullopt;
}

std::optional<Error> Lexer::number() {
  std::size_t to = pos_;
  while (digit(at(to))) ++to;
  if (at(to) == '.' && digit(at(to + 1)))
    for (++to; digit(at(to));) ++to;
  if (at(to) == 'e' || at(to) == 'E') {
    const std::size_t sign = at(to + 1) == '+' || at(to + 1) == '-' ? 1 : 0;
    if (digit(at(to + 1 + sign)))
      for (to += 1 + sign; digit(at(to));) ++to;
  }
  std::size_t end = to;
  while (word(at(end))) ++end;
  if (end == to) {
    push(TokenKind::number, to);
    return std::nullopt;
  }
  const std::string_view digits = text_.substr(pos_, to - pos_), rest = text_.substr(to, end - to);
  const std::string hint = letter(rest[0]) && end - pos_ <= longest_shown_word
                               ? fmt::format("a product is written {}*{}", digits, rest)
                               : "a name begins with a letter, a number holds digits only";
  return source_.error(span(pos_, end),
                       fmt::format("expected a number or a name, found {}", quoted(text_.substr(pos_, end - pos_))),
                       hint);
}

std::optional<Error> Lexer::name() {
  std::size_t to = pos_;
  const TokenKind kind = at(to) == '_' ? TokenKind::suffix : TokenKind::name;
  while (word(at(to))) ++to;
  while (at(to) == '\'') ++to;
  if (to - pos_ > max_name_characters)
    return source_.error(span(pos_, to), fmt::format("expected a name of at most {} characters, found one of {}",
                                                     max_name_characters, to - pos_));
  push(kind, to);
  return std::nullopt;
}

// An einsum string; its letters are looked at by the parser.
std::optional<Error> Lexer::string() {
  std::size_t to = pos_ + 1;
  while (at(to) >= ' ' && at(to) <= '~' && at(to) != '\'') ++to;
  if (at(to) != '\'')
    return source_.error(span(pos_, pos_ + 1), "expected the end of the einsum string on the same line, found none",
                         "write 'ij,jk->ik'");
  push(TokenKind::string, to + 1);
  return std::nullopt;
}

std::optional<Error> Lexer::next() {
  const char c = text_[pos_];
  if (c == ' ' || c == '\t' || (c == '\r' && at(pos_ + 1) == '\n')) return ++pos_, std::nullopt;
  if (c == '\n') return end_line(), std::nullopt;
  if (c == '#') return comment();
  if (digit(c) || (c == '.' && digit(at(pos_ + 1)))) return number();
  if (letter(c) || c == '_') return name();
  if (c == '\'') return string();
  if (c < ' ' || c > '~') return unprintable();
  const char after = at(pos_ + 1);
  const bool two =
      (c == '-' && after == '>') || (c == '*' && after == '*') || ((c == '<' || c == '>' || c == '=') && after == '=');
  push(TokenKind::symbol, two ? pos_ + 2 : pos_ + 1);
  return std::nullopt;
}

Result<std::vector<Token>> Lexer::run() {
  if (text_.size() > max_program_bytes)
    return Error{
        .message = fmt::format("expected a program of at most {} bytes, found {}", max_program_bytes, text_.size()),
        .hint = "split it into several programs",
        .source = source_.name};
  if (text_.starts_with("\xEF\xBB\xBF")) pos_ = line_start_ = 3;  // the mark that some editors put in front of UTF-8
  while (pos_ < text_.size()) {
    if (std::optional<Error> error = next()) return *error;
    if (tokens_.size() > max_words)
      return source_.error(tokens_.back().span,
                           fmt::format("expected a program of at most {} words and signs, found more", max_words),
                           "split it into several programs");
  }
  tokens_.push_back(ending(TokenKind::end));
  return std::move(tokens_);
}

// The line that `number` (1-based) names, fit to be printed.
std::string shown_line(std::string_view text, int number) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (int i = 1; i < number; ++i) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return printable(text);
}

}  // namespace

Error Source::error(Span span, std::string message, std::string hint) const {
  return {.message = std::move(message),
          .hint = std::move(hint),
          .source = name,
          .span = span,
          .line_text = shown_line(text, span.line)};
}

Result<std::vector<Token>> tokenize(const Source& source) { return Lexer(source).run(); }

std::string quoted(std::string_view text) {
  if (text.size() > longest_shown_word) return fmt::format("'{}…'", text.substr(0, longest_shown_word));
  return fmt::format("'{}'", text);
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  return word.size() < 2 || known.size() > 1000 ? "" : nearest(word, known);
}

std::string quoted(const Token& token) {
  if (token.kind == TokenKind::newline) return "end of line";
  if (token.kind == TokenKind::end) return "end of the program";
  return quoted(token.text);
}

}  // namespace ridge::notation
