// Controls of the page: sliders for the sizes, lists of machines and programs, and buttons for saved runs.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/report/page/page.h"
#include "ridge/report/svg/drawing.h"

namespace ridge {
namespace {

std::string option_html(const std::string& value, const std::string& text) {
  return fmt::format("<option value=\"{}\">{}</option>", escape_xml(value), escape_xml(text));
}

constexpr std::size_t max_option_columns = 44;

// Returns the options of machines that are not in `seen`, as one group.
std::string machine_options(const char* label, const std::vector<Machine>& machines, std::vector<std::string>& seen) {
  std::string options;
  for (const Machine& machine : machines) {
    if (contains(seen, machine.name)) continue;
    seen.push_back(machine.name);
    const std::string title = truncate_text(machine.title, max_option_columns);
    options += option_html(machine.name, machine.name + (title.empty() ? "" : " \u2013 " + title));
  }
  return fmt::format("<optgroup label=\"{}\">{}</optgroup>", label, options);
}

std::string all_machine_options(const Page& page) {
  std::vector<std::string> seen;
  std::vector<Machine> reported;
  for (const PageSubject& subject : page.subjects) reported.push_back(subject.report.explanation.machine);
  const std::string first = machine_options("this report", reported, seen);
  return first + machine_options("catalog", page.machines, seen);
}

// Returns the options of other programs; their value is "#" and the program's index.
std::string program_options(const Page& page) {
  std::string out;
  const auto text = [](const PageSubject& subject) { return subject.report.explanation.program_text; };
  for (std::size_t i = 1; i < page.subjects.size(); ++i)
    if (text(page.subjects[i]) != text(page.subjects[0]))
      out += option_html(fmt::format("#{}", i), truncate_text(page.subjects[i].report.title, max_option_columns));
  return out;
}

std::string slider_html(std::size_t index, const std::string& name) {
  return fmt::format(
      "<div class=\"size\"><label for=\"size{0}\">{1}</label><div class=\"track\"><input type=\"range\" "
      "id=\"slide{0}\" "
      "min=\"0\" step=\"1\" data-size=\"{0}\" aria-label=\"{1}, slider\"><i class=\"mark\" id=\"mark{0}\" "
      "hidden></i></div>"
      "<input type=\"number\" id=\"size{0}\" min=\"1\" step=\"1\" data-size=\"{0}\"></div>\n",
      index, escape_xml(name));
}

}  // namespace

std::string render_controls(const Page& page) {
  const PageSubject& subject = page.subjects.front();
  if (!subject.formulas) return {};
  std::string sliders, dims;
  std::size_t count = 0;
  for (const SizeFormula& size : subject.formulas->sizes) {
    if (size.formula || size.shard || size.mask) continue;
    sliders += slider_html(count, size.name);
    dims += option_html(std::to_string(count++), size.name);
  }
  const std::string machines = all_machine_options(page);
  std::string out = "<h2 style=\"margin-top:0\">Sizes and machine</h2>\n<div class=\"sizes\">" + sliders + "</div>\n";
  out +=
      "<p class=\"soft follows\" id=\"follows\"></p>\n<p class=\"soft follows\">The mark below a slider is the size "
      "from which compute time exceeds memory time.</p>\n"
      "<p id=\"error\" role=\"status\"></p>\n<div class=\"choices\">\n";
  out += fmt::format("<label>Machine <select id=\"machine\">{}</select></label>\n", machines);
  out += fmt::format(
      "<label>Compare with <select id=\"comparison\"><option value=\"\">nothing</option>{}{}</select></label>\n",
      program_options(page), machines);
  if (count > 1) out += fmt::format("<label>Thresholds for <select id=\"dim\">{}</select></label>\n", dims);
  out +=
      "<span><input type=\"file\" id=\"saved\" accept=\".json,application/json\" multiple>"
      "<label class=\"file\" for=\"saved\">Add a saved run</label></span>\n"
      "<button type=\"button\" id=\"reset\">Reset</button></div>\n<div class=\"choices\" id=\"runs\"></div>\n"
      "<p class=\"soft follows\" id=\"note\" role=\"status\"></p>\n";
  return out;
}

}  // namespace ridge
