#include "fit_models/programs.h"

#include <vector>

#include "ridge/base/file.h"
#include "ridge/program/bindings.h"
#include "ridge/program/routine.h"

namespace ridge::fit {
namespace {

Result<Bindings> parse_sizes(const std::string& text) {
  std::vector<std::string> assignments(1);
  for (const char x : text)
    if (x == ' ')
      assignments.emplace_back();
    else
      assignments.back() += x;
  return parse_assignments(assignments);
}

std::string replace_dtype(std::string text, std::string_view dtype) {
  constexpr std::string_view written = "f32[";
  const std::string replaced = std::string(dtype) + "[";
  for (std::size_t at = 0; (at = text.find(written, at)) != std::string::npos; at += replaced.size())
    text.replace(at, written.size(), replaced);
  return text;
}

}  // namespace

Result<Plan> read_device_plan(const std::string& path, std::string_view dtype, const std::string& sizes) {
  RIDGE_TRY(text, read_file(path));
  RIDGE_TRY(program, parse(dtype.empty() ? text : replace_dtype(text, dtype)));
  RIDGE_TRY(given, parse_sizes(sizes));
  RIDGE_TRY(dims, program.bind_sizes(given));
  FuseOptions options{.target = Target::cuda};
  for (int s = 0; s < static_cast<int>(program.statements.size()); ++s)
    if (routine_of(program.statements[s])) options.unsorted_routing.insert(s);  // Of routed products
  return ridge::make_plan(program, dims, options);
}

}  // namespace ridge::fit
