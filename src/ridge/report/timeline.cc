#include "ridge/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"
#include "ridge/report/svg/drawing.h"

namespace ridge {
namespace {

// Picoseconds since the start. Rounded to integers, so that events that do not overlap in ticks do not overlap here.
std::int64_t to_picoseconds(const Timeline& t, std::int64_t tick) {
  if (t.ticks_per_second <= 0) return tick * 1'000'000;
  return std::llround(static_cast<double>(tick) / t.ticks_per_second * 1e12);
}

std::string format_microseconds(std::int64_t picoseconds) {
  return fmt::format("{}.{:06}", picoseconds / 1'000'000, picoseconds % 1'000'000);
}

// A lane's events, sorted by begin. Events in one row do not overlap.
struct PlacedEvent {
  const Event* event = nullptr;
  int row = 0;
};
struct LaneRows {
  std::vector<PlacedEvent> events;
  int count = 1;
};
std::vector<LaneRows> place_events(const Timeline& t) {
  std::vector<LaneRows> lanes(t.lanes.size());
  for (const Event& e : t.events)
    if (e.lane >= 0 && e.lane < static_cast<std::int32_t>(lanes.size())) lanes[e.lane].events.push_back({&e});
  for (LaneRows& lane : lanes) {
    std::stable_sort(lane.events.begin(), lane.events.end(),
                     [](const PlacedEvent& a, const PlacedEvent& b) { return a.event->begin < b.event->begin; });
    std::vector<std::int64_t> row_ends;  // end of the last event of each row
    for (PlacedEvent& p : lane.events) {
      const auto row =
          std::find_if(row_ends.begin(), row_ends.end(), [&](std::int64_t at) { return at <= p.event->begin; });
      p.row = static_cast<int>(row - row_ends.begin());
      if (row == row_ends.end())
        row_ends.push_back(p.event->end);
      else
        *row = p.event->end;
    }
    lane.count = std::max<int>(1, static_cast<int>(row_ends.size()));
  }
  return lanes;
}

std::string quote_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

constexpr std::string_view timeline_css = R"(
text{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px;fill:#1f2328}
.title{font-size:15px;font-weight:600}
.back{fill:#ffffff}
.grid{stroke:#d0d7de}
.load{fill:#54aeff}.fill{fill:#218bff}.compute{fill:#2da44e}.drain{fill:#bf8700}.store{fill:#bc4c00}
.stall{fill:#d0d7de}.sync{fill:#a475f9}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}.grid{stroke:#30363d}.stall{fill:#484f58}}
)";

constexpr double left = 170, legend_height = 26, row_height = 16, lane_gap = 6, plot_width = 760;

struct TimeScale {
  double ticks = 1;
  double x_of(std::int64_t tick) const { return left + static_cast<double>(tick) / ticks * plot_width; }
};

// Returns "250 us": engineering() without trailing zeros.
std::string time_text(const Timeline& t, double ticks, bool unit = true) {
  if (t.ticks_per_second <= 0) return group_digits(std::llround(ticks)) + (unit ? " cycles" : "");
  std::string text = format_with_prefix(ticks / t.ticks_per_second, "s");
  const std::size_t space = text.find(' ');
  std::size_t digits = space;
  while (text.find('.') < space && (text[digits - 1] == '0' || text[digits - 1] == '.') && digits > 1)
    if (text[--digits] == '.') break;
  return text.erase(digits, space - digits);
}

// Returns 1, 2 or 5 times a power of ten, so that at most six steps fit; at least 1 if `whole`.
double axis_step(double ticks, bool whole_ticks) {
  const double min_step = ticks / 6, power = std::pow(10.0, std::floor(std::log10(min_step)));
  double step = 10 * power;
  for (const double digit : {5.0, 2.0, 1.0})
    if (digit * power >= min_step * (1 - 1e-9)) step = digit * power;
  return whole_ticks ? std::max(1.0, step) : step;
}

std::string draw_axis(const Timeline& t, const TimeScale& scale, double top, double bottom) {
  constexpr double last_label = 96;  // width of the last label, px
  const auto mark = [&](double x, std::string_view anchor, const std::string& text) {
    return fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", x,
                       top - 4, bottom) +
           (text.empty() ? ""
                         : fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, bottom + 16,
                                       anchor, text));
  };
  const double rate = t.ticks_per_second;  // with a clock rate, steps are round numbers of seconds
  const double step = rate > 0 ? axis_step(scale.ticks / rate, false) * rate : axis_step(scale.ticks, true);
  std::string out = mark(left, "start", "0");
  for (int i = 1; i * step < scale.ticks; ++i) {
    const double x = left + i * step / scale.ticks * plot_width;
    out += mark(x, "middle", left + plot_width - x < last_label ? "" : time_text(t, i * step, false));
  }
  return out + mark(left + plot_width, "end", time_text(t, scale.ticks));
}

// Lists the phases that occur.
std::string draw_legend(const Timeline& t, double y) {
  std::string out;
  double x = left;
  for (const std::string_view phase : phase_names) {
    if (std::ranges::none_of(t.events, [&](const Event& e) { return phase_name(e.phase) == phase; })) continue;
    out += fmt::format(
        "<rect class=\"{0}\" x=\"{1:.0f}\" y=\"{3:.0f}\" width=\"12\" height=\"12\"/><text x=\"{2:.0f}\" "
        "y=\"{4:.0f}\">{0}</text>\n",
        phase, x, x + 16, y, y + 10);
    x += 90;
  }
  return out;
}

// Merges events of one phase whose gap is below a quarter of a pixel.
std::string draw_bars(const LaneRows& lane, const TimeScale& scale, double y) {
  std::string out;
  for (std::size_t i = 0; i < lane.events.size(); ++i) {
    const PlacedEvent& first = lane.events[i];
    std::int64_t end = first.event->end;
    while (i + 1 < lane.events.size() && lane.events[i + 1].row == first.row &&
           lane.events[i + 1].event->phase == first.event->phase &&
           scale.x_of(lane.events[i + 1].event->begin) - scale.x_of(end) < 0.25 &&
           scale.x_of(lane.events[i + 1].event->end) - scale.x_of(first.event->begin) < 1)
      end = lane.events[++i].event->end;
    const double x = scale.x_of(first.event->begin);
    out += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"/>\n",
                       phase_name(first.event->phase), x, y + first.row * row_height,
                       std::max(0.25, scale.x_of(end) - x), row_height - 2);
  }
  return out;
}

}  // namespace

std::string chrome_trace(const Timeline& t, std::string_view title) {
  std::string out =
      fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{},\"clock\":{}}},\n", quote_json(title),
                  t.ticks_per_second > 0 ? "\"time\"" : "\"ticks, drawn as microseconds\"");
  out += "\"traceEvents\":[\n";
  out += fmt::format(R"({{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{{"name":{}}}}})", quote_json(title));
  int thread = 0;
  const std::vector<LaneRows> lanes = place_events(t);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    for (int row = 0; row < lanes[i].count; ++row) {
      const std::string lane = row == 0 ? t.lanes[i] : fmt::format("{} ({})", t.lanes[i], row + 1);
      out += fmt::format(
          ",\n"
          R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":{}}}}})",
          thread + row + 1, quote_json(lane));
      out += fmt::format(
          ",\n"
          R"({{"name":"thread_sort_index","ph":"M","pid":1,"tid":{0},"args":{{"sort_index":{0}}}}})",
          thread + row + 1);
    }
    for (const PlacedEvent& p : lanes[i].events) {
      const std::int64_t begin = to_picoseconds(t, p.event->begin), end = to_picoseconds(t, p.event->end);
      out += fmt::format(
          ",\n"
          R"({{"name":"{0} {1}","cat":"{0}","ph":"X","ts":{2},"dur":{3},"pid":1,"tid":{4},"args":{{"step":{1}}}}})",
          phase_name(p.event->phase), p.event->step, format_microseconds(begin), format_microseconds(end - begin),
          thread + p.row + 1);
    }
    thread += lanes[i].count;
  }
  return out + "\n]}\n";
}

std::string_view timeline_styles() { return timeline_css; }

DrawnTimeline draw_timeline(const Timeline& t, double top) {
  const std::vector<LaneRows> lanes = place_events(t);
  const double first = top + legend_height;
  double bottom = first;
  for (const LaneRows& lane : lanes) bottom += lane.count * row_height + lane_gap;
  const TimeScale scale{static_cast<double>(std::max<std::int64_t>(1, t.end_tick()))};
  DrawnTimeline drawn{draw_legend(t, top) + draw_axis(t, scale, first, bottom), bottom + 32};
  double y = first;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    drawn.svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 8,
                             y + row_height - 4, escape_xml(truncate_text(t.lanes[i], 24)));
    drawn.svg += draw_bars(lanes[i], scale, y);
    y += lanes[i].count * row_height + lane_gap;
  }
  return drawn;
}

namespace {

std::string svg_page(double height, std::string_view title, const std::string& body) {
  return svg_head(960, height) +
         fmt::format(
             "<title>{0}</title>\n<style>{1}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n"
             "<text class=\"title\" x=\"16\" y=\"24\">{0}</text>\n{2}</svg>\n",
             escape_xml(title), timeline_css, body);
}

std::string draw_note(double y, std::string_view text) {
  return fmt::format("<text x=\"16\" y=\"{:.0f}\">{}</text>\n", y, escape_xml(text));
}

Timeline cut_timeline(const Timeline& t, std::int64_t end) {
  Timeline out{t.ticks_per_second, t.lanes, {}};
  for (const Event& e : t.events) out.add_event(e.lane, e.phase, e.begin, std::min(e.end, end), e.step);
  return out;
}

// Returns twice the time at which the last lane finishes its first event.
std::int64_t find_fill_end(const Timeline& t) {
  std::vector<std::int64_t> first(t.lanes.size(), 0);
  for (const Event& e : t.events) {
    std::int64_t& end = first[e.lane];
    if (e.phase != Phase::stall && (end == 0 || e.end < end)) end = e.end;
  }
  return 2 * *std::max_element(first.begin(), first.end());
}

}  // namespace

std::string timeline_svg(const Timeline& t, std::string_view title) {
  const DrawnTimeline drawn = draw_timeline(t, 38);
  return svg_page(drawn.bottom, title, drawn.svg);
}

std::string pipeline_fill_svg(const Timeline& t, std::string_view title, std::string_view subtitle) {
  std::string body = draw_note(46, subtitle);
  const std::int64_t fill = t.lanes.empty() ? 0 : find_fill_end(t);
  double top = 60;
  if (fill > 0 && fill < t.end_tick() * 2 / 3) {
    const DrawnTimeline first = draw_timeline(cut_timeline(t, fill), top + 26);
    body += draw_note(top + 14, "Pipeline fill") + first.svg + draw_note(first.bottom + 14, "Whole run");
    top = first.bottom + 26;
  }
  const DrawnTimeline all = draw_timeline(t, top);
  return svg_page(all.bottom, title, body + all.svg);
}

}  // namespace ridge
