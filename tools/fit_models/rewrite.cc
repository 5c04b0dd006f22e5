#include "fit_models/rewrite.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <sstream>

#include "ridge/base/file.h"

namespace ridge::fit {

Result<std::string> rewritten(const std::string& path, const std::string& facts,
                              const std::function<std::string(const std::string&)>& line_of) {
  const auto text = read_file(path);
  if (!text) return text.error();
  std::istringstream lines(*text);
  std::string out;
  bool below = false, said = false;
  for (std::string line; std::getline(lines, line);) {
    const bool is_fact =
        line.starts_with("# ") && line.find(": ") != std::string::npos && line.find(' ', 2) > line.find(": ");
    if (!is_fact && !line.starts_with("#") && !said) {
      out += facts;
      said = true;
    }
    if (is_fact) continue;
    out += (below ? line_of(line) : line) + "\n";
    below = below || !line.starts_with("#");
  }
  return out;
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> out(1);
  for (const char x : line)
    if (x == ',')
      out.emplace_back();
    else
      out.back() += x;
  return out;
}
std::string line_of(const std::vector<std::string>& cells) { return fmt::format("{}", fmt::join(cells, ",")); }

}  // namespace ridge::fit
