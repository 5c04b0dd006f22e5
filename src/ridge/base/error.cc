#include "ridge/base/error.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "ridge/base/check.h"

namespace ridge {

std::string Error::to_string() const {
  std::string out;
  if (span.line > 0)
    out += fmt::format("{}:{}:{}: ", source.empty() ? "program" : source, span.line, span.column);
  else if (!source.empty())
    out += source + ": ";
  out += message + "\n";
  if (span.line > 0 && !line_text.empty()) {
    out += "  " + line_text + "\n  ";
    // To align the caret, tabs are copied and UTF-8 continuation bytes take no column.
    int column = 0;
    for (std::size_t i = 0; i < line_text.size() && column + 1 < span.column; ++i) {
      if ((static_cast<unsigned char>(line_text[i]) & 0xC0) == 0x80) continue;
      out += line_text[i] == '\t' ? '\t' : ' ';
      ++column;
    }
    out += std::string(static_cast<std::size_t>(span.length > 0 ? span.length : 1), '^') + "\n";
  }
  if (!hint.empty()) out += "  hint: " + hint + "\n";
  return out;
}

void abort_failed_check(const char* file, int line, const char* condition, std::string_view values) {
  std::fprintf(stderr, "%s:%d: a bug in ridge: %s does not hold: %.*s\n", file, line, condition,
               static_cast<int>(values.size()), values.data());
  std::abort();
}

}  // namespace ridge
