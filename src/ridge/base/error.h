// What went wrong, said so that a user can mend it: the place, what was expected and found, the cure. An Error is a
// value; below the doors nothing prints, exits or throws one. Rendered:
//
//   program:1:19: dimension 'E' of the right operand appears nowhere else; contracted dimensions must share a name
//     bf16[B, D] * bf16[E, F] -> bf16[B, F]
//                       ^
//     hint: did you mean bf16[D, F]?
#pragma once

#include <string>

namespace ridge {

struct Span {
  int line = 0;    // 1-based; 0: the error has no place in a text
  int column = 0;  // 1-based, in characters
  int length = 1;  // how many characters the caret underlines
  bool operator==(const Span&) const = default;
};

// The kinds are the exit codes of the command line (README.md has the list).
enum class ErrorKind { finding = 1, usage = 2, input = 3, absent = 4, mismatch = 5 };

struct Error {
  ErrorKind kind = ErrorKind::input;
  std::string message;      // lower case, "expected …, found …"
  std::string hint = {};    // the cure; empty: none is known
  std::string source = {};  // "program" or a file's path; empty: not about a text
  Span span = {};
  std::string line_text = {};  // the line that span points into

  std::string text() const;  // as above, ends with a newline
  bool operator==(const Error&) const = default;
};

inline Error usage_error(std::string message, std::string hint = {}) {
  return {.kind = ErrorKind::usage, .message = std::move(message), .hint = std::move(hint)};
}
inline Error input_error(std::string message, std::string hint = {}) {
  return {.kind = ErrorKind::input, .message = std::move(message), .hint = std::move(hint)};
}
inline Error absent_error(std::string message, std::string hint = {}) {
  return {.kind = ErrorKind::absent, .message = std::move(message), .hint = std::move(hint)};
}

}  // namespace ridge
