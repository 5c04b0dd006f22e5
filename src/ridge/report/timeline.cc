#include "ridge/report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/report/svg/drawing.h"

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

// "250 us": engineering() without zeros that say nothing.
std::string when(const Timeline& t, double ticks, bool unit = true) {
  if (t.ticks_per_second <= 0) return grouped(std::llround(ticks)) + (unit ? " cycles" : "");
  std::string text = engineering(ticks / t.ticks_per_second, "s");
  const std::size_t space = text.find(' ');
  std::size_t digits = space;
  while (text.find('.') < space && (text[digits - 1] == '0' || text[digits - 1] == '.') && digits > 1)
    if (text[--digits] == '.') break;
  return text.erase(digits, space - digits);
}

// 1, 2 or 5 times a power of ten, at most six of them; whole where a tick is a cycle.
double axis_step(double ticks, bool whole) {
  const double least = ticks / 6, power = std::pow(10.0, std::floor(std::log10(least)));
  double step = 10 * power;
  for (const double digit : {5.0, 2.0, 1.0})
    if (digit * power >= least * (1 - 1e-9)) step = digit * power;
  return whole ? std::max(1.0, step) : step;
}

std::string axis(const Timeline& t, const Scale& scale, double top, double bottom) {
  constexpr double last_label = 96;  // pixels that the end's own label takes
  const auto mark = [&](double x, std::string_view anchor, const std::string& text) {
    return fmt::format("<line class=\"grid\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1:.1f}\" y2=\"{2:.1f}\"/>\n", x,
                       top - 4, bottom) +
           (text.empty() ? ""
                         : fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, bottom + 16,
                                       anchor, text));
  };
  const double rate = t.ticks_per_second;  // steps are round in seconds where there are seconds
  const double step = rate > 0 ? axis_step(scale.ticks / rate, false) * rate : axis_step(scale.ticks, true);
  std::string out = mark(left, "start", "0");
  for (int i = 1; i * step < scale.ticks; ++i) {
    const double x = left + i * step / scale.ticks * plot_width;
    out += mark(x, "middle", left + plot_width - x < last_label ? "" : when(t, i * step, false));
  }
  return out + mark(left + plot_width, "end", when(t, scale.ticks));
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
                             y + row_height - 4, escaped(shortened(t.lanes[i], 24)));
    drawn.svg += bars(lanes[i], scale, y);
    y += lanes[i].count * row_height + lane_gap;
  }
  return drawn;
}

namespace {

std::string page(double height, std::string_view title, const std::string& body) {
  return svg_head(960, height) +
         fmt::format(
             "<title>{0}</title>\n<style>{1}</style>\n<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n"
             "<text class=\"title\" x=\"16\" y=\"24\">{0}</text>\n{2}</svg>\n",
             escaped(title), styles, body);
}

std::string note(double y, std::string_view text) {
  return fmt::format("<text x=\"16\" y=\"{:.0f}\">{}</text>\n", y, escaped(text));
}

Timeline beginning(const Timeline& t, std::int64_t end) {
  Timeline out{t.ticks_per_second, t.lanes, {}};
  for (const Event& e : t.events) out.add(e.lane, e.phase, e.begin, std::min(e.end, end), e.step);
  return out;
}

// Twice the time until each lane that ever works has worked once.
std::int64_t filled(const Timeline& t) {
  std::vector<std::int64_t> first(t.lanes.size(), 0);
  for (const Event& e : t.events) {
    std::int64_t& end = first[static_cast<std::size_t>(e.lane)];
    if (e.phase != Phase::stall && (end == 0 || e.end < end)) end = e.end;
  }
  return 2 * *std::max_element(first.begin(), first.end());
}

}  // namespace

std::string timeline_svg(const Timeline& t, std::string_view title) {
  const DrawnTimeline drawn = draw_timeline(t, 38);
  return page(drawn.bottom, title, drawn.svg);
}

std::string filling_svg(const Timeline& t, std::string_view title, std::string_view subtitle) {
  std::string body = note(46, subtitle);
  const std::int64_t fill = t.lanes.empty() ? 0 : filled(t);
  double top = 60;
  if (fill > 0 && fill < t.end() * 2 / 3) {
    const DrawnTimeline first = draw_timeline(beginning(t, fill), top + 26);
    body += note(top + 14, "Filling up") + first.svg + note(first.bottom + 14, "All of it");
    top = first.bottom + 26;
  }
  const DrawnTimeline all = draw_timeline(t, top);
  return page(all.bottom, title, body + all.svg);
}

}  // namespace ridge
