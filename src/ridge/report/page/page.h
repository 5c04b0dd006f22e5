// An interactive HTML report. Sliders change the sizes, and picture, table and thresholds follow, because the page
// holds the counts as formulas and evaluates them. One file that loads nothing else. Without scripts it shows picture,
// table and derivation for the requested sizes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/report/report.h"
#include "ridge/roofline/sizes/formulas.h"

namespace ridge {

// A program on a machine, at the requested sizes.
struct PageSubject {
  Report report;
  std::optional<Formulas> formulas = {};  // unset if the sizes cannot be changed
};

struct Page {
  std::vector<PageSubject> subjects;   // the main subject, and optionally one to compare with
  std::vector<Machine> machines = {};  // further machines to select from
  std::string sweep_picture = {};      // picture of a sweep, if any
  std::vector<std::vector<std::string>> sweep_changes = {};
};
std::string render_page(const Page& page);

// For more statements the page would be too large, so it shows only the first subject's picture and table.
inline constexpr std::size_t max_page_statements = 128;

// Returns the data that the page evaluates, "ridge.page/2": the values and counts of flat_program.h, kernels as lists
// of counts, and the loads of each machine's links. The scripts know no rule of networks, masks or kernels.
std::string page_data(const Page& page);

// Returns the controls for sizes, machines and saved runs; the scripts show them.
std::string render_controls(const Page& page);

// The page's embedded sources: style.css, skeleton.html and the scripts.
struct EmbeddedFile {
  std::string_view name, text;
};
const std::vector<EmbeddedFile>& embedded_page_files();

}  // namespace ridge
