// Options of `ridge model` that search among layouts of chips.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "ridge/cli/output.h"

namespace ridge::cli {

struct LayoutArgs {
  std::string chips, svg;
  bool best = false;
};
void add_layout_options(CLI::App& verb, LayoutArgs& args);
// Errors (usage): options that cannot be combined, or that need others.
Status check_layout_options(const CLI::App& verb, const LayoutArgs& args, const std::string& phase);

// Returns the numbers of chips of --chips, such as 64, 1..16 or 8,16,32. Errors: other texts.
Result<std::vector<std::int64_t>> parse_chips(const std::string& text);
// True for a range without a step, of which only some numbers are used.
bool is_chip_range(const std::string& text);

struct LayoutSubject {
  const CLI::App& verb;
  const std::string &config, &on;
  const model::ModelCount& count;
};
// Searches and prints. The request lacks only chips and selection.
Result<int> print_layouts(const LayoutSubject& subject, LayoutRequest request, const LayoutArgs& args,
                          const OutputFormat& format);

}  // namespace ridge::cli
