// An error for the user: its position, what was expected and found, and a hint. Errors are values: only the command
// line and the public API print them, exit or throw. Rendered:
//
//   program:1:19: dimension 'E' of the right operand appears nowhere else; contracted dimensions must share a name
//     bf16[B, D] * bf16[E, F] -> bf16[B, F]
//                       ^
//     hint: did you mean bf16[D, F]?
#pragma once

#include <string>

namespace ridge {

struct TextSpan {
  int line = 0;    // 1-based; 0 if the error has no position
  int column = 0;  // 1-based, in characters
  int length = 1;  // number of characters to underline
  bool operator==(const TextSpan&) const = default;
};

// The values are the exit codes of the command line (see docs/scripting.md). `absent`: a machine, driver or tool is
// missing.
enum class ErrorKind { finding = 1, usage = 2, input = 3, absent = 4, mismatch = 5 };

struct Error {
  ErrorKind kind = ErrorKind::input;
  std::string message;      // lower case, "expected …, found …"
  std::string hint = {};    // what to do; "" if unknown
  std::string source = {};  // "program" or a path; "" if the error concerns no text
  TextSpan span = {};
  std::string line_text = {};  // line that `span` refers to

  std::string to_string() const;  // rendered text, ends with a newline
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
