// Throughput against latency: a curve for each machine through its layouts, a dot for each with a description on hover.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/report/language_model/answer_texts.h"
#include "ridge/report/layouts/layouts.h"
#include "ridge/report/svg/curves.h"

namespace ridge {
namespace {

constexpr double front_width = 1100, front_height = 600;
constexpr std::size_t machine_name_length = 24;

// Machines beyond the number of colours have dashed curves.
std::string_view find_dashes(std::size_t number) { return number < series_colours ? "" : " stroke-dasharray=\"6 4\""; }

struct FrontScales {
  LogScale x, y;
  PicturePoint locate(const LayoutTimes& layout) const {
    return {x.position(1 / layout.token_s), y.position(layout.tokens_per_s_per_chip())};
  }
};

FrontScales make_scales(const std::vector<LayoutRanking>& rankings, const PictureBox& plot) {
  double slowest = HUGE_VAL, fastest = 0, least = HUGE_VAL, most = 0;
  for (const LayoutRanking& ranking : rankings)
    for (const LayoutTimes& layout : ranking.layouts) {
      slowest = std::min(slowest, 1 / layout.token_s);
      fastest = std::max(fastest, 1 / layout.token_s);
      least = std::min(least, layout.tokens_per_s_per_chip());
      most = std::max(most, layout.tokens_per_s_per_chip());
    }
  return {{std::log10(slowest / 1.2), std::log10(fastest * 1.2), plot.left, plot.right},
          {std::log10(least / 1.3), std::log10(most * 1.3), plot.bottom, plot.top}};
}

// Returns a machine's name to the right of the plot, with a piece of its curve; `spacing` is the height of a name.
std::string draw_name(const LayoutRanking& ranking, std::size_t number, double spacing, const PictureBox& plot) {
  const std::size_t series = number % series_colours;
  const double y = plot.top + 14 + spacing * static_cast<double>(number);
  return draw_polyline(series, {{plot.right + 18, y - 4}, {plot.right + 42, y - 4}}, find_dashes(number)) +
         draw_text(fmt::format("n{}", series), {plot.right + 50, y},
                   truncate_text(ranking.machine, machine_name_length) + (ranking.not_on_record.empty() ? "" : " *"));
}

std::string draw_front(const LayoutRanking& ranking, std::size_t number, const FrontScales& scales) {
  const std::size_t series = number % series_colours;
  std::vector<PicturePoint> points;
  for (const LayoutTimes& layout : ranking.layouts) points.push_back(scales.locate(layout));
  std::string out = draw_polyline(series, points, find_dashes(number));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const LayoutTimes& x = ranking.layouts[i];
    const std::string tip = fmt::format("{}, {}, {} sequence{}: {} tokens/s a sequence, {} a chip", describe_chips(x),
                                        describe_layout(x.layout), group_digits(x.batch), x.batch == 1 ? "" : "s",
                                        rate_text(1 / x.token_s), rate_text(x.tokens_per_s_per_chip(), 4));
    out += fmt::format("<circle class=\"dot s{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\"><title>{}</title></circle>\n",
                       series, points[i].x, points[i].y, escape_xml(tip));
  }
  return out;
}

// Returns a line that explains the star after machines with `not_on_record`.
std::string draw_remark(const std::vector<LayoutRanking>& rankings, double left) {
  const bool has_star =
      std::any_of(rankings.begin(), rankings.end(), [](const LayoutRanking& x) { return !x.not_on_record.empty(); });
  if (!has_star) return {};
  return draw_text("soft", {left, front_height - 10},
                   "* the time of a launch or the latency of links is not on record and counts as 0: "
                   "these machines look faster than they are");
}

}  // namespace

std::string render_svg(const LayoutReport& report) {
  const PictureBox plot{84, 66, front_width - 220, front_height - 72};
  const std::string title = fmt::format("{}: tokens/s of a chip over tokens/s of a sequence", report.count.name);
  const auto [fewest, most] = std::minmax_element(report.request.chips.begin(), report.request.chips.end());
  std::string out = svg_head(front_width, front_height) + fmt::format("<title>{}</title>\n", escape_xml(title)) +
                    curve_styles() +
                    fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", front_width, front_height) +
                    draw_text("title", {plot.left, 28}, title) +
                    draw_text("soft", {plot.left, 48},
                              fmt::format("sequences of {} tokens, {} to {} chips; bounds of the machines' rates",
                                          group_digits(*report.request.counts.context), *fewest, *most));
  const bool has_layouts = std::any_of(report.rankings.begin(), report.rankings.end(),
                                       [](const LayoutRanking& x) { return !x.layouts.empty(); });
  if (!has_layouts) return out + draw_text("soft", {plot.left, 90}, "no layout fits") + "</svg>\n";
  const FrontScales scales = make_scales(report.rankings, plot);
  out += draw_grid(plot, scales.x, scales.y, {"tokens/s of a sequence", "tokens/s of a chip"});
  const double spacing = std::min(22.0, (plot.bottom - plot.top - 14) / static_cast<double>(report.rankings.size()));
  std::size_t number = 0;
  for (const LayoutRanking& ranking : report.rankings) {
    if (ranking.layouts.empty()) continue;
    out += draw_front(ranking, number, scales) + draw_name(ranking, number, spacing, plot);
    ++number;
  }
  return out + draw_remark(report.rankings, plot.left) + "</svg>\n";
}

}  // namespace ridge
