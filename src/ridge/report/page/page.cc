#include "ridge/report/page/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/page/page_html.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/plan.h"
#include "ridge/report/steps.h"
#include "ridge/report/svg/drawing.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

constexpr std::size_t max_derivation_bytes = 100'000;  // limit for its derivation

std::string machine_label(const Machine& machine) { return machine.title.empty() ? machine.name : machine.title; }

std::string sizes_label(const Explanation& e) {
  std::string out;
  for (const std::string& dim : e.dim_names)
    if (const auto value = e.dims.find(dim); value != e.dims.end() && out.size() < 90)
      out += fmt::format(", {} = {}", dim, value->second);
  return out;
}

// Returns the sections below picture and table: sweep, kernel plan, summary and derivation.
std::string extra_sections(const Page& page, const std::string& derivation) {
  const Report& report = page.subjects.front().report;
  std::string out;
  if (!page.sweep_picture.empty()) out += section_html("sweep", "Sweep", page.sweep_picture);
  if (!page.sweep_changes.empty())
    out += section_html("swept", "Limiter changes along the sweep",
                        scrolling_html("swept", table_html(page.sweep_changes)));
  if (report.planned)
    out += section_html("planned", "Kernel plan", scrolling_html("planned", table_html(plan_table(report))));
  const std::string answer = report.measured ? std::string() : summary_text(report, TextStyler({}));
  const std::string sizes = sizes_label(report.explanation), at = sizes.empty() ? "" : " at" + sizes.substr(1);
  if (!answer.empty())
    out += details_html("Summary of the command line" + at, answer.substr(0, answer.size() - 1), true);
  if (!derivation.empty()) out += details_html("Derivation" + at, derivation);
  return out;
}

// Returns the first sentence of the summary; the script replaces it.
std::string first_sentence(const Report& report) {
  const std::string answer = report.measured ? std::string() : summary_text(report, TextStyler({}));
  return answer.substr(0, answer.find('\n'));
}

std::string fill_page(const Page& page, bool is_interactive, const std::string& derivation) {
  const Report& report = page.subjects.front().report;
  const std::string title = truncate_text(report.title, 160);
  const std::string data = is_interactive ? page_data(page) : "{\"subjects\": []}";
  const TemplateFields fields{
      {"title", escape_xml(title)},
      {"style", std::string(find_embedded_file("style"))},
      {"subtitle", escape_xml("on " + machine_label(report.explanation.machine) + sizes_label(report.explanation))},
      {"summary", escape_xml(first_sentence(report))},
      {"controls", is_interactive ? render_controls(page) : ""},
      {"picture", render_svg(report)},
      {"table", table_html(report_cells(report))},
      {"more", extra_sections(page, derivation)},
      {"data", escape_script_ends(data)},
      {"script", join_embedded_files({"program", "search", "numbers", "description", "answer", "saved", "picture",
                                      "table", "controls", "page"})}};
  return fill_template(find_embedded_file("skeleton"), fields);
}

}  // namespace

std::string render_page(const Page& page) {
  const Report& report = page.subjects.front().report;
  const bool is_interactive = page.subjects.front().formulas && report.explanation.ops.size() <= max_page_statements;
  std::string derivation = report.measured || !is_interactive ? std::string() : render_steps(report);
  if (derivation.size() > max_derivation_bytes) derivation.clear();
  for (const bool with_data : {is_interactive, false})
    for (const std::string& steps : {derivation, std::string()})
      if (std::string out = fill_page(page, with_data, steps); out.size() <= max_page_bytes) return out;
  return fill_page(page, false, {});
}

}  // namespace ridge
