#include "ridge/report/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "ridge/base/text.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/plan.h"
#include "ridge/report/steps.h"
#include "ridge/report/svg/drawing.h"
#include "ridge/report/words.h"

namespace ridge {
namespace {

constexpr std::size_t most_bytes = 300'000;    // of a page
constexpr std::size_t most_working = 100'000;  // of them

using Fields = std::map<std::string, std::string, std::less<>>;

std::string_view part(std::string_view name) {
  for (const EmbeddedPart& each : embedded_page())
    if (each.name == name) return each.text;
  return {};
}

std::string scripts() {
  static constexpr std::array order{"formulas", "bounds", "thresholds", "words", "description",
                                    "answer",   "saved",  "picture",    "table", "page"};
  std::string out;
  for (const char* const name : order) out += part(name);
  return out;
}

// The skeleton with every {{name}} replaced by its field.
std::string filled(std::string_view text, const Fields& fields) {
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

std::string table_of(const Cells& cells) {
  std::string out = "<table>\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += i == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t k = 0; k < cells[i].size(); ++k) {
      const std::string text = escaped(cells[i][k]);
      if (i == 0)
        out += "<th scope=\"col\">" + text + "</th>";
      else
        out += k == 0 ? "<th scope=\"row\">" + text + "</th>" : "<td>" + text + "</td>";
    }
    out += i == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string section(const std::string& id, const std::string& heading, const std::string& content) {
  return fmt::format("<section>\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n", id, heading, content);
}

std::string folded(const std::string& summary, const std::string& text, bool open = false) {
  return fmt::format("<details{}>\n<summary>{}</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
                     open ? " open" : "", escaped(summary), escaped(text));
}

std::string scrolling(const std::string& name, const std::string& table) {
  return fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{}\">\n{}</div>\n", name,
                     table);
}

std::string machine_called(const Machine& machine) { return machine.title.empty() ? machine.name : machine.title; }

std::string sizes_called(const Explanation& e) {
  std::string out;
  for (const std::string& dim : e.dim_names)
    if (const auto value = e.dims.find(dim); value != e.dims.end() && out.size() < 90)
      out += fmt::format(", {} = {}", dim, value->second);
  return out;
}

// What stands below picture and table: what to do next, kernels of a plan, a sweep's curves, the working.
std::string more(const Page& page, const std::string& working) {
  const Report& report = page.subjects.front().report;
  std::string out;
  if (!page.curves.empty()) out += section("sweep", "Over many sizes", page.curves);
  if (!page.changes.empty())
    out += section("swept", "Changes of the limiter along the sweep", scrolling("swept", table_of(page.changes)));
  if (report.planned) out += section("planned", "What would run", scrolling("planned", table_of(plan_table(report))));
  const std::string answer = report.measured ? std::string() : answer_text(report, Styled({}));
  const std::string sizes = sizes_called(report.explanation), at = sizes.empty() ? "" : " at" + sizes.substr(1);
  if (!answer.empty()) out += folded("What the command line says" + at, answer.substr(0, answer.size() - 1), true);
  if (!working.empty()) out += folded("The working" + at, working);
  return out;
}

// The first sentence, until the script says its own.
std::string verdict(const Report& report) {
  const std::string answer = report.measured ? std::string() : answer_text(report, Styled({}));
  return answer.substr(0, answer.find('\n'));
}

std::string rendered(const Page& page, bool plays, const std::string& working) {
  const Report& report = page.subjects.front().report;
  const std::string title = shortened(report.title, 160);
  std::string data = plays ? page_data(page) : "{\"subjects\": []}";
  for (std::size_t at = data.find('<'); at != data.npos; at = data.find('<', at)) data.replace(at, 1, "\\u003c");
  const Fields fields{
      {"title", escaped(title)},
      {"style", std::string(part("style"))},
      {"subtitle", escaped("on " + machine_called(report.explanation.machine) + sizes_called(report.explanation))},
      {"verdict", escaped(verdict(report))},
      {"picture", render_svg(report)},
      {"table", table_of(report_cells(report))},
      {"more", more(page, working)},
      {"data", data},
      {"script", scripts()}};
  return filled(part("skeleton"), fields);
}

}  // namespace

std::string render_page(const Page& page) {
  const Report& report = page.subjects.front().report;
  const bool plays = page.subjects.front().formulas && report.explanation.ops.size() <= most_page_statements;
  std::string working = report.measured || !plays ? std::string() : render_steps(report);
  if (working.size() > most_working) working.clear();
  for (const bool with_data : {plays, false})
    for (const std::string& steps : {working, std::string()})
      if (std::string out = rendered(page, with_data, steps); out.size() <= most_bytes) return out;
  return rendered(page, false, {});
}

}  // namespace ridge
