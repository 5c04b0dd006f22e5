#include "ridge/report/page/model_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ridge/base/string_util.h"
#include "ridge/report/model.h"
#include "ridge/report/page/page_html.h"
#include "ridge/report/svg/drawing.h"

namespace ridge {
namespace {

std::string select_html(const std::string& id, const std::string& label, const std::string& options) {
  return fmt::format("<label>{} <select id=\"{}\">{}</select></label>\n", label, id, options);
}

std::string choice_html(const std::string& value, const std::string& text) {
  return fmt::format("<option value=\"{}\">{}</option>", escape_xml(value), escape_xml(text));
}

std::string number_slider_html(const std::string& id, const std::string& label, int min = 1) {
  return fmt::format(
      "<div class=\"size\"><label for=\"{0}\">{1}</label><div class=\"track\"><input type=\"range\" id=\"{0}slide\" "
      "min=\"0\" step=\"1\" aria-label=\"{1}, slider\"></div><input type=\"number\" id=\"{0}\" min=\"{2}\" "
      "step=\"1\"></div>\n",
      id, label, min);
}

// Returns the choices of formats that the formulas have.
std::string format_choices(const ModelFormulas& formulas, DType StepFormulas::*format) {
  std::set<DType> seen;
  std::string out;
  for (const StepFormulas& step : formulas.steps)
    if (seen.insert(step.*format).second)
      out += choice_html(std::string(dtype_name(step.*format)), std::string(dtype_name(step.*format)));
  return out;
}

std::string machine_choices(const ModelPage& page) {
  constexpr std::size_t max_columns = 44;
  std::string requested, others;
  for (std::size_t i = 0; i < page.machines.size(); ++i) {
    const Machine& machine = page.machines[i];
    const std::string title = truncate_text(machine.title, max_columns);
    (i < page.answers.size() ? requested : others) +=
        choice_html(machine.name, machine.name + (title.empty() ? "" : " \u2013 " + title));
  }
  return fmt::format("<optgroup label=\"this report\">{}</optgroup><optgroup label=\"catalog\">{}</optgroup>",
                     requested, others);
}

std::string model_controls(const ModelPage& page) {
  std::string chips = choice_html("", "the fewest that fit");
  for (const ChipFormulas& each : page.formulas.chips)
    chips += choice_html(std::to_string(each.chips), std::to_string(each.chips));
  const std::string phases = choice_html("decode", "decoding") + choice_html("prefill", "prefill");
  return "<h2 style=\"margin-top:0\">Sizes, formats and machines</h2>\n<div class=\"sizes\">" +
         number_slider_html("batch", "Sequences") + number_slider_html("context", "Tokens of each") +
         (page.formulas.images.empty() ? "" : number_slider_html("images", "Images", 0)) +
         "</div>\n<p id=\"error\" role=\"status\"></p>\n<div class=\"choices\">\n" +
         select_html("machine", "Machine", machine_choices(page)) + select_html("chips", "Chips", chips) +
         select_html("weights", "Weights", format_choices(page.formulas, &StepFormulas::weight_dtype)) +
         select_html("cache", "Cache", format_choices(page.formulas, &StepFormulas::cache_dtype)) +
         select_html("phase", "Phase", phases) + "<button type=\"button\" id=\"reset\">Reset</button></div>\n";
}

}  // namespace

std::string render_page(const ModelPage& page) {
  const std::string text = render_text(page.count, page.answers);
  const std::string counts = render_text(page.count);
  const TemplateFields fields{
      {"title", escape_xml(page.count.name)},
      {"style", join_embedded_files({"style", "model_style"})},
      {"subtitle",
       escape_xml(counts.substr(page.count.name.size() + 2, counts.find('\n') - page.count.name.size() - 2))},
      {"summary", escape_xml(text.substr(0, text.find('\n')))},
      {"controls", model_controls(page)},
      {"more", details_html("Text of the command line", text)},
      {"data", escape_script_ends(model_page_data(page))},
      {"script", join_embedded_files({"program", "numbers", "description", "picture", "table", "controls",
                                      "model_steps", "model_sentences", "model_served", "model_front", "model_page"})}};
  return fill_template(find_embedded_file("model_skeleton"), fields);
}

}  // namespace ridge
