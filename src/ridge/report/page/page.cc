#include "ridge/report/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "ridge/base/string_util.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/plan.h"
#include "ridge/report/steps.h"
#include "ridge/report/svg/drawing.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

constexpr std::size_t max_page_bytes = 300'000;        // limit for a page
constexpr std::size_t max_derivation_bytes = 100'000;  // limit for its derivation

using TemplateFields = std::map<std::string, std::string, std::less<>>;

std::string_view find_embedded_file(std::string_view name) {
  for (const EmbeddedFile& each : embedded_page_files())
    if (each.name == name) return each.text;
  return {};
}

std::string join_scripts() {
  static constexpr std::array order{"program", "search",  "numbers", "description", "answer",
                                    "saved",   "picture", "table",   "page"};
  std::string out;
  for (const char* const name : order) out += find_embedded_file(name);
  return out;
}

// Replaces every {{name}} in `text` by its field.
std::string fill_template(std::string_view text, const TemplateFields& fields) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find("{{", at), text.size()), close = text.find("}}", open);
    out += text.substr(at, open - at);
    if (close == text.npos) break;
    const auto field = fields.find(text.substr(open + 2, close - open - 2));
    if (field != fields.end()) out += field->second;
    at = close + 2;
  }
  return out;
}

std::string table_html(const Cells& cells) {
  std::string out = "<table>\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += i == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t k = 0; k < cells[i].size(); ++k) {
      const std::string text = escape_xml(cells[i][k]);
      if (i == 0)
        out += "<th scope=\"col\">" + text + "</th>";
      else
        out += k == 0 ? "<th scope=\"row\">" + text + "</th>" : "<td>" + text + "</td>";
    }
    out += i == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string section_html(const std::string& id, const std::string& heading, const std::string& content) {
  return fmt::format("<section>\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n", id, heading, content);
}

std::string details_html(const std::string& summary, const std::string& text, bool open = false) {
  return fmt::format("<details{}>\n<summary>{}</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
                     open ? " open" : "", escape_xml(summary), escape_xml(text));
}

std::string scrolling_html(const std::string& name, const std::string& table) {
  return fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{}\">\n{}</div>\n", name,
                     table);
}

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
  std::string data = is_interactive ? page_data(page) : "{\"subjects\": []}";
  for (std::size_t at = data.find('<'); at != data.npos; at = data.find('<', at)) data.replace(at, 1, "\\u003c");
  const TemplateFields fields{
      {"title", escape_xml(title)},
      {"style", std::string(find_embedded_file("style"))},
      {"subtitle", escape_xml("on " + machine_label(report.explanation.machine) + sizes_label(report.explanation))},
      {"summary", escape_xml(first_sentence(report))},
      {"controls", is_interactive ? render_controls(page) : ""},
      {"picture", render_svg(report)},
      {"table", table_html(report_cells(report))},
      {"more", extra_sections(page, derivation)},
      {"data", data},
      {"script", join_scripts()}};
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
