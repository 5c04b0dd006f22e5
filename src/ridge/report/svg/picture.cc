// Arranges the roofline. Labels are placed greedily, one after the other (placer.h).
#include "ridge/report/svg/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/base/text.h"
#include "ridge/report/svg/placer.h"
#include "ridge/report/used.h"

namespace ridge {
namespace {

struct Axes {
  Box plot;
  int x_low = 0, x_high = 0, y_low = 0, y_high = 0;  // decades
  Point place(double intensity, double rate) const {
    const double x = (std::log10(intensity) - x_low) / (x_high - x_low);
    const double y = (std::log10(rate) - y_low) / (y_high - y_low);
    return {plot.left + x * (plot.right - plot.left), plot.bottom - y * (plot.bottom - plot.top)};
  }
};

struct Drawable {  // an operation with numbers
  const Prediction* prediction;
  const OpMeasurement* measured;
  double intensity, attainable;
  bool sent = false;  // the network binds: intensity is that of the bytes sent
};

double bandwidth_of(const Explanation& e) {
  const auto bandwidth = e.machine.bandwidth();
  return bandwidth ? bandwidth->value : 0;
}

// On the link's roof, where the network binds.
std::optional<Drawable> on_link(const Explanation& e, const Prediction& p, const OpMeasurement* measured) {
  if (p.limiter != Limiter::network || !p.flops || *p.flops <= 0 || !p.time_network_s) return std::nullopt;
  const double sent = p.work.bytes_sent.real({e.dims.begin(), e.dims.end()}), flops = static_cast<double>(*p.flops);
  return Drawable{&p, measured, flops / sent, flops / *p.time_network_s, true};
}

std::vector<Drawable> drawable(const Report& report, std::vector<std::string>& not_drawn) {
  std::vector<Drawable> out;
  const Explanation& e = report.explanation;
  for (std::size_t i = 0; i < e.ops.size(); ++i) {
    const Prediction& p = e.ops[i];
    const OpMeasurement* const measured = report.measured ? &report.measured->ops[i] : nullptr;
    if (const auto linked = on_link(e, p, measured)) {
      out.push_back(*linked);
    } else if (p.intensity && *p.intensity > 0 && p.peak && p.bandwidth) {
      out.push_back({&p, measured, *p.intensity, std::min(p.peak->rate.value, *p.intensity * *p.bandwidth)});
    } else {
      not_drawn.push_back(p.work.name + (p.missing.empty() ? ": its dimensions have no values" : ": no " + p.missing));
    }
  }
  return out;
}

double achieved(const Drawable& d) { return static_cast<double>(*d.prediction->flops) / d.measured->time.median; }

Axes axes_for(const Explanation& e, const std::vector<Drawable>& ops, const Box& plot) {
  const double bandwidth = bandwidth_of(e);
  double x_low = 1, x_high = 10, y_low = INFINITY, y_high = 0;
  for (const Peak* peak : used_peaks(e)) {
    x_low = std::min(x_low, peak->rate.value / bandwidth);
    x_high = std::max(x_high, 4 * peak->rate.value / bandwidth);
    y_high = std::max(y_high, peak->rate.value);
  }
  for (const Drawable& d : ops) {
    x_low = std::min(x_low, d.intensity);
    x_high = std::max(x_high, d.sent ? 4 * d.intensity : d.intensity);
    y_low = std::min(y_low, d.measured ? std::min(achieved(d), d.attainable) : d.attainable);
    y_high = std::max(y_high, d.measured ? std::max(achieved(d), d.attainable) : d.attainable);
  }
  Axes axes{plot};
  axes.x_low = static_cast<int>(std::floor(std::log10(x_low / 1.5)));
  axes.x_high = static_cast<int>(std::ceil(std::log10(x_high * 1.5)));
  if (y_high <= 0) y_high = bandwidth * x_high;
  // The slope's foot is shown, but never more than eighteen decades of it.
  y_low = std::min(y_low, std::pow(10, axes.x_low) * bandwidth);
  axes.y_high = static_cast<int>(std::ceil(std::log10(y_high * 1.6)));
  axes.y_low = std::max(static_cast<int>(std::floor(std::log10(y_low / 1.6))), axes.y_high - 18);
  return axes;
}

std::vector<Tick> decades(int low, int high, const std::function<double(double)>& place) {
  std::vector<Tick> ticks;
  for (int decade = low; decade <= high; ++decade) {
    const double value = std::pow(10.0, decade);
    std::string text = decade >= -3 && decade < 3 ? significant(value, 1) : engineering(value, "");
    const std::size_t point = text.find('.');
    if (decade >= 3 && point != std::string::npos)  // "1.000 G" is "1G", "100.0 k" is "100k"
      text = text.substr(0, point) + text.substr(text.find(' ') + 1);
    ticks.push_back({place(value), text});
    for (int i = 2; i < 10 && decade < high && high - low <= 8; ++i) ticks.push_back({place(i * value), ""});
  }
  return ticks;
}

void add_roofs(Picture& picture, const Explanation& e, const Axes& axes, Placer& placer) {
  const double bandwidth = bandwidth_of(e);
  const double low = std::max(std::pow(10.0, axes.x_low), std::pow(10.0, axes.y_low) / bandwidth);
  const double high = std::pow(10.0, axes.x_high);
  for (const Peak* peak : used_peaks(e)) {
    const double rate = peak->rate.value, ridge = rate / bandwidth;
    DrawnRoof roof{axes.place(low, low * bandwidth), axes.place(ridge, rate), axes.place(high, rate), ""};
    roof.text = fmt::format("{} {} {}", engineering(rate, info(peak->dtype).integer ? "OP/s" : "FLOP/s"),
                            name(peak->unit), name(peak->dtype));
    placer.block_line(roof.from, roof.corner);
    placer.block_line(roof.corner, roof.to);
    picture.roofs.push_back(roof);
  }
  if (picture.roofs.empty()) {
    DrawnRoof roof{axes.place(low, low * bandwidth), axes.place(high, high * bandwidth),
                   axes.place(high, high * bandwidth), ""};
    placer.block_line(roof.from, roof.corner);
    picture.roofs.push_back(roof);
  }
}

// A peak's name stands on its line, as far to the right as there is room.
void label_roofs(Picture& picture, const Axes& axes, Placer& placer) {
  for (const DrawnRoof& roof : picture.roofs) {
    const double width = text_width(roof.text);
    for (double left = axes.plot.right - width - 6; !roof.text.empty() && left > axes.plot.left; left -= 12) {
      const Point start{std::round(left), std::round(roof.corner.y - 8)};
      if (!placer.take(text_box(start, roof.text))) continue;
      picture.roof_labels.push_back({roof.text, text_box(start, roof.text), start, start, false});
      break;
    }
  }
}

// Boxes along a text that runs so far up a line, 8 px off it.
std::vector<Box> boxes_along(const Along& label, Point along, Point up, double length) {
  std::vector<Box> boxes;
  for (double s = 0; s < length; s += 6) {
    const Point middle{label.at.x + along.x * s + up.x / 2, label.at.y + along.y * s + up.y / 2};
    boxes.push_back({middle.x - 5, middle.y - 5, middle.x + 5, middle.y + 5});
  }
  return boxes;
}

// A name above a line, or below it, from the first place on where nothing else is.
Along name_along(const std::string& name, Point from, Point to, Placer& placer) {
  const double dx = to.x - from.x, dy = to.y - from.y, length = std::hypot(dx, dy), text = text_width(name);
  const Point along{dx / length, dy / length}, up{along.y * 8, -along.x * 8};
  for (const double off : {1.0, -2.2})
    for (double begin = 20; begin + text < length; begin += 15) {
      Along label{name, {from.x + along.x * begin + off * up.x, from.y + along.y * begin + off * up.y}};
      label.angle = std::atan2(dy, dx) * 180 / 3.14159265358979;
      label.boxes = boxes_along(label, along, up, text);
      if (!std::all_of(label.boxes.begin(), label.boxes.end(), [&](const Box& box) { return placer.free(box); }))
        continue;
      for (const Box& box : label.boxes) placer.block(box);
      return label;
    }
  return {};
}

void label_bandwidth(Picture& picture, const Explanation& e, Placer& placer) {
  const MemoryLevel& level = e.machine.memory.front();
  const DrawnRoof* longest = &picture.roofs.front();
  for (const DrawnRoof& roof : picture.roofs)
    if (roof.corner.x > longest->corner.x) longest = &roof;
  picture.bandwidth = name_along(fmt::format("{} {}", engineering(level.bandwidth->value, "B/s"), level.name),
                                 longest->from, longest->corner, placer);
}

// The rates of other memory levels and of the link, each with its name.
std::vector<std::pair<double, std::string>> other_rates(const Report& report, const std::vector<Drawable>& ops) {
  std::vector<std::pair<double, std::string>> out;
  const Machine& machine = report.explanation.machine;
  for (std::size_t i = 1; report.roofs && i < machine.memory.size(); ++i)
    if (const auto& rate = machine.memory[i].bandwidth)
      out.emplace_back(rate->value, fmt::format("{} {}", engineering(rate->value, "B/s"), machine.memory[i].name));
  for (const Drawable& d : ops) {
    if (!d.sent || !d.prediction->link) continue;
    const std::string link = machine.links.empty() ? "link" : machine.links.front().name;
    out.emplace_back(*d.prediction->link, fmt::format("{} {}, sent", engineering(*d.prediction->link, "B/s"), link));
    break;
  }
  return out;
}

// From the frame's lower left up to the highest peak.
void add_slopes(Picture& picture, const Report& report, const std::vector<Drawable>& ops, const Axes& axes,
                Placer& placer) {
  double top = 0;
  for (const Peak* peak : used_peaks(report.explanation)) top = std::max(top, peak->rate.value);
  for (const auto& [rate, name] : other_rates(report, ops)) {
    const double low = std::max(std::pow(10.0, axes.x_low), std::pow(10.0, axes.y_low) / rate);
    const double high = std::min(std::pow(10.0, axes.x_high), top / rate);
    if (low >= high) continue;
    Slope slope{axes.place(low, low * rate), axes.place(high, high * rate), {}};
    placer.block_line(slope.from, slope.to);
    slope.label.text = name;
    picture.slopes.push_back(std::move(slope));
  }
}

void label_slopes(Picture& picture, Placer& placer) {
  for (Slope& slope : picture.slopes) slope.label = name_along(slope.label.text, slope.from, slope.to, placer);
}

void label_ridges(Picture& picture, const Explanation& e, const Axes& axes, Placer& placer) {
  const std::vector<const Peak*> peaks = used_peaks(e);
  const auto foot_of = [&](const Peak* peak) {
    return axes.place(peak->rate.value / bandwidth_of(e), std::pow(10.0, axes.y_low));
  };
  for (std::size_t i = 0; i < peaks.size(); ++i) placer.block_line(picture.roofs[i].corner, foot_of(peaks[i]));
  std::set<std::string> put;  // two peaks may be as high as each other
  for (const Peak* peak : peaks) {
    const std::string text = fmt::format("ridge {}", significant(peak->rate.value / bandwidth_of(e)));
    if (!put.insert(text).second) continue;
    const Point foot = foot_of(peak);
    if (auto label = placer.put(text, {foot.x, foot.y - 10})) {
      label->leader = false;
      picture.ridge_labels.push_back(*label);
    }
  }
}

std::string tip(const Drawable& d) {
  std::string out = fmt::format("{}: {} FLOP/B{}, at most {}", d.prediction->work.name, significant(d.intensity),
                                d.sent ? " sent" : "", engineering(d.attainable, "FLOP/s"));
  if (d.measured) out += fmt::format(", measured {}", engineering(achieved(d), "FLOP/s"));
  return out;
}

// The names that belong to each dot.
std::vector<std::string> add_dots(Picture& picture, const std::vector<Drawable>& ops, const Axes& axes,
                                  Placer& placer) {
  std::vector<std::string> names;
  for (const Drawable& d : ops) {
    const Point place = axes.place(d.intensity, d.attainable);
    const auto same = std::find_if(picture.dots.begin(), picture.dots.end(), [&](const Dot& dot) {
      return std::hypot(dot.predicted.x - place.x, dot.predicted.y - place.y) < 3;
    });
    const std::size_t index = static_cast<std::size_t>(same - picture.dots.begin());
    if (same == picture.dots.end()) {
      picture.dots.push_back({"", place, {}});
      names.emplace_back();
    }
    Dot& dot = picture.dots[index];
    dot.tip += (dot.tip.empty() ? "" : "\n") + tip(d);
    names[index] += (names[index].empty() ? "" : ", ") + d.prediction->work.name;
    if (d.measured) dot.measured.push_back(axes.place(d.intensity, achieved(d)));
  }
  constexpr double around = dot_radius + 2;
  const auto block_dot = [&](Point p) { placer.block({p.x - around, p.y - around, p.x + around, p.y + around}); };
  for (const Dot& dot : picture.dots) {
    block_dot(dot.predicted);
    for (const Point& p : dot.measured) {
      block_dot(p);
      placer.block_line(dot.predicted, p);
    }
  }
  return names;
}

void label_dots(Picture& picture, const std::vector<std::string>& names, Placer& placer) {
  const auto anchor = [](const Dot& dot) { return dot.measured.empty() ? dot.predicted : dot.measured.front(); };
  for (std::size_t i = 0; i < picture.dots.size(); ++i) {
    std::vector<Point> others;
    for (std::size_t j = 0; j < picture.dots.size(); ++j) {
      if (j == i) continue;
      others.push_back(picture.dots[j].predicted);
      others.insert(others.end(), picture.dots[j].measured.begin(), picture.dots[j].measured.end());
    }
    if (auto label = placer.put(shortened(names[i], 28), anchor(picture.dots[i]), true, others))
      picture.dot_labels.push_back(*label);
  }
}

}  // namespace

double text_width(std::string_view text, bool bold) {
  struct Class {
    std::string_view members;
    double regular, bold;  // em: the widest member in DejaVu Sans, the widest of the fonts asked for
  };
  static constexpr Class classes[] = {{" !'(),-./:;I[\\]fijlrt|", 0.42, 0.50},
                                      {"#%&+<=>@MWmw~", 1.00, 1.11},
                                      {"ABCDEFGHJKLNOPQRSTUVXYZ", 0.79, 0.86},
                                      {"\"$*0123456789?^_`abcdeghknopqsuvxyz{}", 0.64, 0.72}};
  double em = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;  // goes on with a character that is counted
    double wide = bold ? 1.11 : 1.0;                               // no ASCII
    for (const Class& each : classes)
      if (each.members.find(c) != std::string_view::npos) wide = bold ? each.bold : each.regular;
    em += wide;
  }
  return font_size * em;
}

Picture arrange(const Report& report) {
  Picture picture;
  const Explanation& e = report.explanation;
  picture.plot = {84, 66, picture.width - 24, picture.height - 92};
  picture.title = shortened(report.title, 90);
  picture.subtitle = "on " + (e.machine.title.empty() ? e.machine.name : e.machine.title);
  for (const std::string& dim : e.dim_names)
    if (const auto value = e.dims.find(dim); value != e.dims.end() && picture.subtitle.size() < 90)
      picture.subtitle += fmt::format(", {} = {}", dim, value->second);
  picture.measured = report.measured.has_value();
  const std::vector<Drawable> ops = drawable(report, picture.not_drawn);
  if (bandwidth_of(e) <= 0) return picture;
  const Axes axes = axes_for(e, ops, picture.plot);
  picture.x_ticks = decades(axes.x_low, axes.x_high, [&](double v) { return axes.place(v, 1).x; });
  picture.y_ticks = decades(axes.y_low, axes.y_high, [&](double v) { return axes.place(1, v).y; });
  Placer placer(picture.plot);
  add_roofs(picture, e, axes, placer);
  add_slopes(picture, report, ops, axes, placer);
  picture.sent = std::any_of(ops.begin(), ops.end(), [](const Drawable& d) { return d.sent; });
  const std::vector<std::string> names = add_dots(picture, ops, axes, placer);
  label_roofs(picture, axes, placer);
  label_bandwidth(picture, e, placer);
  label_slopes(picture, placer);
  label_ridges(picture, e, axes, placer);
  label_dots(picture, names, placer);
  return picture;
}

}  // namespace ridge
