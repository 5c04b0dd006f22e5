#include "ridge/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/report/drawing.h"

namespace ridge {
namespace {

// Whole picoseconds since the start, so that what does not overlap in ticks does not overlap in print either.
std::int64_t picoseconds(const Timeline& t, std::int64_t tick) {
  if (t.ticks_per_second <= 0) return tick * 1'000'000;
  return std::llround(static_cast<double>(tick) / t.ticks_per_second * 1e12);
}

std::string microseconds(std::int64_t picoseconds) {
  return fmt::format("{}.{:06}", picoseconds / 1'000'000, picoseconds % 1'000'000);
}

// A lane's events by their beginning, each with a row in which it overlaps none.
struct Placed {
  const Event* event = nullptr;
  int row = 0;
};
struct Rows {
  std::vector<Placed> events;
  int count = 1;
};
std::vector<Rows> placed(const Timeline& t) {
  std::vector<Rows> lanes(t.lanes.size());
  for (const Event& e : t.events)
    if (e.lane >= 0 && e.lane < static_cast<std::int32_t>(lanes.size())) lanes[e.lane].events.push_back({&e});
  for (Rows& lane : lanes) {
    std::stable_sort(lane.events.begin(), lane.events.end(),
                     [](const Placed& a, const Placed& b) { return a.event->begin < b.event->begin; });
    std::vector<std::int64_t> free;  // from when on, of each row
    for (Placed& p : lane.events) {
      const auto row = std::find_if(free.begin(), free.end(), [&](std::int64_t at) { return at <= p.event->begin; });
      p.row = static_cast<int>(row - free.begin());
      if (row == free.end())
        free.push_back(p.event->end);
      else
        *row = p.event->end;
    }
    lane.count = std::max<int>(1, static_cast<int>(free.size()));
  }
  return lanes;
}

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

constexpr std::string_view styles = R"(
text{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px;fill:#1f2328}
.title{font-size:15px;font-weight:600}
.back{fill:#ffffff}
.grid{stroke:#d0d7de}
.load{fill:#54aeff}.fill{fill:#218bff}.compute{fill:#2da44e}.drain{fill:#bf8700}.store{fill:#bc4c00}
.stall{fill:#d0d7de}.sync{fill:#a475f9}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.back{fill:#0d1117}.grid{stroke:#30363d}.stall{fill:#484f58}}
)";

constexpr double left = 170, legend_height = 26, row_height = 16, lane_gap = 6, plot_width = 760;

struct Scale {
  double ticks = 1;
  double x(std::int64_t tick) const { return left + static_cast<double>(tick) / ticks * plot_width; }
};

std::string when(const Timeline& t, double ticks) {
  if (t.ticks_per_second <= 0) return fmt::format("{} ticks", grouped(std::llround(ticks)));
  return engineering(ticks / t.ticks_per_second, "s");
}

std::string axis(const Timeline& t, const Scale& scale, double top, double bottom) {
  std::string out;
  for (int i = 0; i <= 4; ++i) {
    const double x = left + plot_width * i / 4;
    out += fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", x,
                       top - 4, bottom);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, bottom + 16,
                       i == 4   ? "end"
                       : i == 0 ? "start"
                                : "middle",
                       when(t, scale.ticks * i / 4));
  }
  return out;
}

std::string legend(double y) {
  std::string out;
  double x = left;
  for (const std::string_view phase : phase_names) {
    out += fmt::format(
        "<rect class=\"{0}\" x=\"{1:.0f}\" y=\"{3:.0f}\" width=\"12\" height=\"12\"/><text x=\"{2:.0f}\" "
        "y=\"{4:.0f}\">{0}</text>\n",
        phase, x, x + 16, y, y + 10);
    x += 90;
  }
  return out;
}

// Neighbours of one phase that are closer than a quarter of a pixel are drawn as one.
std::string bars(const Rows& lane, const Scale& scale, double y) {
  std::string out;
  for (std::size_t i = 0; i < lane.events.size(); ++i) {
    const Placed& first = lane.events[i];
    std::int64_t end = first.event->end;
    while (i + 1 < lane.events.size() && lane.events[i + 1].row == first.row &&
           lane.events[i + 1].event->phase == first.event->phase &&
           scale.x(lane.events[i + 1].event->begin) - scale.x(end) < 0.25 &&
           scale.x(lane.events[i + 1].event->end) - scale.x(first.event->begin) < 1)
      end = lane.events[++i].event->end;
    const double x = scale.x(first.event->begin);
    out += fmt::format("<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\"/>\n",
                       name(first.event->phase), x, y + first.row * row_height, std::max(0.25, scale.x(end) - x),
                       row_height - 2);
  }
  return out;
}

}  // namespace

std::string chrome_trace(const Timeline& t, std::string_view title) {
  std::string out =
      fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{},\"clock\":{}}},\n", json_text(title),
                  t.ticks_per_second > 0 ? "\"time\"" : "\"ticks, drawn as microseconds\"");
  out += "\"traceEvents\":[\n";
  out += fmt::format(R"({{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{{"name":{}}}}})", json_text(title));
  int thread = 0;
  const std::vector<Rows> lanes = placed(t);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    for (int row = 0; row < lanes[i].count; ++row) {
      const std::string lane = row == 0 ? t.lanes[i] : fmt::format("{} ({})", t.lanes[i], row + 1);
      out += fmt::format(
          ",\n"
          R"({{"name":"thread_name","ph":"M","pid":1,"tid":{},"args":{{"name":{}}}}})",
          thread + row + 1, json_text(lane));
      out += fmt::format(
          ",\n"
          R"({{"name":"thread_sort_index","ph":"M","pid":1,"tid":{0},"args":{{"sort_index":{0}}}}})",
          thread + row + 1);
    }
    for (const Placed& p : lanes[i].events) {
      const std::int64_t begin = picoseconds(t, p.event->begin), end = picoseconds(t, p.event->end);
      out += fmt::format(
          ",\n"
          R"({{"name":"{0} {1}","cat":"{0}","ph":"X","ts":{2},"dur":{3},"pid":1,"tid":{4},"args":{{"step":{1}}}}})",
          name(p.event->phase), p.event->step, microseconds(begin), microseconds(end - begin), thread + p.row + 1);
    }
    thread += lanes[i].count;
  }
  return out + "\n]}\n";
}

std::string_view timeline_styles() { return styles; }

DrawnTimeline draw_timeline(const Timeline& t, double top) {
  const std::vector<Rows> lanes = placed(t);
  const double first = top + legend_height;
  double bottom = first;
  for (const Rows& lane : lanes) bottom += lane.count * row_height + lane_gap;
  const Scale scale{static_cast<double>(std::max<std::int64_t>(1, t.end()))};
  DrawnTimeline drawn{legend(top) + axis(t, scale, first, bottom), bottom + 32};
  double y = first;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    drawn.svg += fmt::format("<text x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", left - 8,
                             y + row_height - 4, escaped(t.lanes[i]));
    drawn.svg += bars(lanes[i], scale, y);
    y += lanes[i].count * row_height + lane_gap;
  }
  return drawn;
}

std::string timeline_svg(const Timeline& t, std::string_view title) {
  const DrawnTimeline drawn = draw_timeline(t, 38);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 {0:.0f}\" width=\"960\" "
             "height=\"{0:.0f}\">\n"
             "<title>{1}</title>\n<style>{2}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n"
             "<text class=\"title\" x=\"16\" y=\"24\">{1}</text>\n",
             drawn.bottom, escaped(title), styles) +
         drawn.svg + "</svg>\n";
}

}  // namespace ridge
