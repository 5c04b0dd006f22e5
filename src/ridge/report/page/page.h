// One page with everything that a report says, to play with: sliders move the sizes, and picture, table and thresholds
// follow, because the page has the counts as formulas and evaluates them itself. One file, nothing to fetch; without a
// script it shows picture, table and working of the sizes asked for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/report/report.h"
#include "ridge/roofline/sizes/formulas.h"

namespace ridge {

// A program on a machine, at the sizes asked for.
struct PageSubject {
  Report report;
  std::optional<Formulas> formulas = {};  // none: its sizes cannot be moved
};

struct Page {
  std::vector<PageSubject> subjects;   // the first is what it is about, a second one stands beside it
  std::vector<Machine> machines = {};  // to choose from, beside the subjects' own
  std::string curves = {};             // of a sweep: its picture, and its table
  std::vector<std::vector<std::string>> changes = {};
};
std::string render_page(const Page& page);

// Of more statements one page would be larger than anybody loads: the first subject's picture and table, no sliders.
inline constexpr std::size_t most_page_statements = 128;

// The data that the page evaluates: "ridge.page/1".
std::string page_data(const Page& page);

// The page's own sources: style.css, skeleton.html and the scripts, in the order in which they are put together.
struct EmbeddedPart {
  std::string_view name, text;
};
const std::vector<EmbeddedPart>& embedded_page();

}  // namespace ridge
