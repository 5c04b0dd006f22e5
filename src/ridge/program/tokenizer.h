// Tokenizer of the notation. Each token has its position and length, so that errors can underline it.
//   `A[B, D]_D -> X'`  is  name A, symbol [, name B, symbol `,`, name D, symbol ], suffix _D, symbol ->, name X'
// Blanks and comments (# to the end of the line) are skipped. A line end is a token, because it ends a statement.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/error.h"
#include "ridge/base/result.h"
#include "ridge/program/program.h"

namespace ridge::program {

inline constexpr std::size_t max_name_characters = 64;

// True for the letters of ASCII.
inline bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

enum class TokenKind {
  name,     // letter, then letters, digits, underscores; primes at the end: X', d_ff
  number,   // 64, 0.5, 1e-6; without sign
  suffix,   // underscore and name: _D in int8[B, D]_D
  string,   // 'bshd,bthd->bsht', including the quotes
  symbol,   // -> <= >= == or one printable ASCII character
  newline,  // one or more line ends
  end,
};

struct Token {
  TokenKind kind;
  std::string_view text;  // view into the source text
  TextSpan span;
  bool is_symbol(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
};

// Text of a program, and its name in messages ("program" or a path).
struct SourceText {
  std::string_view text;
  std::string name;
  // Returns an error with this position and its line. Lines of more than 400 characters are omitted.
  Error error_at(TextSpan span, std::string message, std::string hint = {}) const;
};

// Returns the tokens, the last of kind `end`. Errors: more than max_program_bytes or max_tokens, invalid or unprintable
// UTF-8, a number followed by letters, a name of more than 64 characters.
Result<std::vector<Token>> tokenize(const SourceText& source);

// Returns the token for messages: "'->'", "end of line", "end of the program"; long names are truncated.
std::string quote_token(const Token& token);
std::string quote_word(std::string_view word);
// Returns the most similar known name, or "" if none is similar. Single letters get no suggestion, because all are
// similar; lists of more than 1000 names are not searched.
std::string suggest_name(std::string_view word, const std::vector<std::string>& known);

}  // namespace ridge::program
