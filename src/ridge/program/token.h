// The text cut into words. A token knows its place, so that every message can point at the whole of it.
//   `A[B, D]_D -> X'`  is  name A, symbol [, name B, symbol `,`, name D, symbol ], suffix _D, symbol ->, name X'
// Blanks and comments (# to the end of the line) are dropped; the end of a line is a token, because it ends a
// statement.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/error.h"
#include "ridge/base/result.h"
#include "ridge/program/program.h"

namespace ridge::notation {

inline constexpr std::size_t max_name_characters = 64;

enum class TokenKind {
  name,     // a letter, then letters, digits, underscores; at the end primes: X', d_ff
  number,   // 64, 0.5, 1e-6; never with a sign
  suffix,   // an underscore and what follows it: the _D of int8[B, D]_D
  string,   // 'bshd,bthd->bsht', with its quotes
  symbol,   // -> <= >= == or one printable ASCII character
  newline,  // one or more line ends
  end,
};

struct Token {
  TokenKind kind;
  std::string_view text;  // a part of the source text
  Span span;
  bool is(std::string_view symbol) const { return kind == TokenKind::symbol && text == symbol; }
};

// A text and what it is called in messages ("program" or a path).
struct Source {
  std::string_view text;
  std::string name;
  // The Error at a place, with its line. Lines longer than 400 characters are not repeated.
  Error error(Span span, std::string message, std::string hint = {}) const;
};

// Ends with a token of kind end. Errors: a text of more than max_program_bytes or max_words, bytes that are no
// printable UTF-8, a number that runs into letters, a name of more than 64 characters.
Result<std::vector<Token>> tokenize(const Source& source);

// As messages say it: "'->'", "end of line", "end of the program"; long words are cut.
std::string quoted(const Token& token);
std::string quoted(std::string_view word);
// What was probably meant; empty: nothing is near. A single letter is near to every other, so it suggests nothing; nor
// are more than a thousand names searched.
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace ridge::notation
