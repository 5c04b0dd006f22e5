#include "ridge/report/parts/serving_fit.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/report/text_parts.h"

namespace ridge {
namespace {

std::vector<std::string> median_row(const char* what, const ServingErrors& errors) {
  return {what, format_percent(errors.token_median), format_percent(errors.first_token_median)};
}

std::string constants_table(const ServingConstants& constants, const TextStyle& style) {
  Cells cells{{"constant", "unit", "fitted", "built in", "meaning"}};
  for (const CsvLine& line : read_csv(serving_csv()))
    for (const NamedNumber<ServingConstants>& each : named_serving_constants())
      if (line.cells[0].text == each.name)
        cells.push_back({line.cells[0].text, line.cells[1].text, format_significant(constants.*each.member, 3),
                         format_significant(serving_constants().*each.member, 3), line.cells.back().text});
  return text_table(cells, {.right = {false, false, true, true, false}, .is_in_csv = false}, style);
}

}  // namespace

std::string render_text(const ServingFit& fit, const std::string& written, const TextStyle& style) {
  const ServingErrors& errors = fit.cross_validation.value_or(fit.fitted);
  std::string out;
  const auto add_line = [&](const std::string& line) { out += wrap_words(line, style.line_width, 2) + "\n"; };
  add_line(fmt::format(
      "{}: time per token within {}, to the first token within {} (median{}), from {} point{} of {} configuration{}",
      fit.source, format_percent(errors.token_median), format_percent(errors.first_token_median),
      fit.cross_validation ? ", held out" : " of the fitted points", fit.points, fit.points == 1 ? "" : "s",
      fit.configurations, fit.configurations == 1 ? "" : "s"));
  for (const ImpossiblePoint& point : fit.impossible)
    add_line(fmt::format("line {}: impossible or mislabelled, left out: {}", point.line, point.reason));
  if (fit.built_in.token_median <= errors.token_median && fit.built_in.first_token_median <= errors.first_token_median)
    add_line("the built-in constants are as close: these points need no others");
  if (fit.has_wide_intervals) add_line("too few points for intervals of their own: they include the built-in ones");
  Cells cells{{"median error", "time per token", "time to the first token"},
              median_row("built-in constants", fit.built_in),
              median_row("fitted to all points", fit.fitted)};
  if (fit.cross_validation) cells.push_back(median_row("each half, fitted to the other", *fit.cross_validation));
  out += "\n" + text_table(cells, {.right = {false, true, true}, .is_in_csv = false}, style);
  out += "\n" + constants_table(fit.constants, style);
  return out + (written.empty() ? "--out FILE writes the constants\n" : fmt::format("written to {}\n", written));
}

}  // namespace ridge
