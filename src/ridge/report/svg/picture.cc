// Arranges the roofline. Labels are placed greedily, one after the other (placer.h).
#include "ridge/report/svg/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/base/text.h"
#include "ridge/report/svg/placer.h"
#include "ridge/report/svg/roofline.h"

namespace ridge {
namespace {

struct Axes {
  Box plot;
  int x_low = 0, x_high = 0, y_low = 0, y_high = 0;  // decades, of Roofline
  Point place(double intensity, double rate) const {
    const double x = (std::log10(intensity) - x_low) / (x_high - x_low);
    const double y = (std::log10(rate) - y_low) / (y_high - y_low);
    return {plot.left + x * (plot.right - plot.left), plot.bottom - y * (plot.bottom - plot.top)};
  }
};

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

void add_roofs(Picture& picture, const Roofline& r, const Axes& axes, Placer& placer) {
  const double low = std::max(std::pow(10.0, axes.x_low), std::pow(10.0, axes.y_low) / r.bandwidth);
  const double high = std::pow(10.0, axes.x_high);
  for (const Roofline::Rate& peak : r.peaks) {
    const double ridge = peak.rate / r.bandwidth;
    const DrawnRoof roof{axes.place(low, low * r.bandwidth), axes.place(ridge, peak.rate), axes.place(high, peak.rate),
                         peak.name};
    placer.block_line(roof.from, roof.corner);
    placer.block_line(roof.corner, roof.to);
    picture.roofs.push_back(roof);
  }
  if (picture.roofs.empty()) {
    const Point end = axes.place(high, high * r.bandwidth);
    const DrawnRoof roof{axes.place(low, low * r.bandwidth), end, end, ""};
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

void label_bandwidth(Picture& picture, const Roofline& r, Placer& placer) {
  const DrawnRoof* longest = &picture.roofs.front();
  for (const DrawnRoof& roof : picture.roofs)
    if (roof.corner.x > longest->corner.x) longest = &roof;
  picture.bandwidth = name_along(r.bandwidth_name, longest->from, longest->corner, placer);
}

// From the frame's lower left up to the highest peak.
void add_slopes(Picture& picture, const Roofline& r, const Axes& axes, Placer& placer) {
  double top = 0;
  for (const Roofline::Rate& peak : r.peaks) top = std::max(top, peak.rate);
  for (const auto& [rate, name] : r.slopes) {
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

void label_ridges(Picture& picture, const Roofline& r, const Axes& axes, Placer& placer) {
  const auto foot_of = [&](const Roofline::Rate& peak) {
    return axes.place(peak.rate / r.bandwidth, std::pow(10.0, axes.y_low));
  };
  for (std::size_t i = 0; i < r.peaks.size(); ++i) placer.block_line(picture.roofs[i].corner, foot_of(r.peaks[i]));
  std::set<std::string> put;  // two peaks may be as high as each other
  for (const Roofline::Rate& peak : r.peaks) {
    const std::string text = fmt::format("ridge {}", significant(peak.rate / r.bandwidth));
    if (!put.insert(text).second) continue;
    const Point foot = foot_of(peak);
    if (auto label = placer.put(text, {foot.x, foot.y - 10})) {
      label->leader = false;
      picture.ridge_labels.push_back(*label);
    }
  }
}

// The names that belong to each dot. Operations at one point share a dot as large as all their shares.
std::vector<std::string> add_dots(Picture& picture, const Roofline& r, const Axes& axes, Placer& placer) {
  std::vector<std::string> names;
  std::vector<std::optional<double>> shares;
  for (const RooflineDot& d : r.dots) {
    const Point place = axes.place(d.intensity, d.rate);
    const auto same = std::find_if(picture.dots.begin(), picture.dots.end(), [&](const Dot& dot) {
      return std::hypot(dot.predicted.x - place.x, dot.predicted.y - place.y) < 3;
    });
    const std::size_t index = static_cast<std::size_t>(same - picture.dots.begin());
    if (same == picture.dots.end()) {
      picture.dots.push_back({.tip = "", .predicted = place, .measured = {}});
      names.emplace_back();
      shares.emplace_back();
    }
    Dot& dot = picture.dots[index];
    dot.tip += (dot.tip.empty() ? "" : "\n") + d.tip;
    names[index] += (names[index].empty() ? "" : ", ") + d.name;
    if (d.share) shares[index] = shares[index].value_or(0) + *d.share;
    dot.radius = radius_of(shares[index]);
    if (d.measured) dot.measured.push_back(axes.place(d.intensity, *d.measured));
  }
  const auto block_dot = [&](Point p, double radius) {
    const double around = radius + 2;
    placer.block({p.x - around, p.y - around, p.x + around, p.y + around});
  };
  for (const Dot& dot : picture.dots) {
    block_dot(dot.predicted, dot.radius);
    for (const Point& p : dot.measured) {
      block_dot(p, dot_radius);
      placer.block_line(dot.predicted, p);
    }
  }
  return names;
}

void label_dots(Picture& picture, const std::vector<std::string>& names, Placer& placer) {
  const auto anchor = [](const Dot& dot) { return dot.measured.empty() ? dot.predicted : dot.measured.front(); };
  const auto edge = [](const Dot& dot) { return dot.measured.empty() ? dot.radius : dot_radius; };
  for (std::size_t i = 0; i < picture.dots.size(); ++i) {
    std::vector<Point> others;
    for (std::size_t j = 0; j < picture.dots.size(); ++j) {
      if (j == i) continue;
      others.push_back(picture.dots[j].predicted);
      others.insert(others.end(), picture.dots[j].measured.begin(), picture.dots[j].measured.end());
    }
    if (auto label = placer.put(shortened(names[i], 28), anchor(picture.dots[i]), true, others, edge(picture.dots[i])))
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

Picture arrange(const Roofline& r) {
  Picture picture;
  picture.plot = {84, 66, picture.width - 24, picture.height - 92};
  picture.title = r.title;
  picture.subtitle = r.subtitle;
  picture.measured = r.measured;
  picture.sent = r.sent;
  picture.not_drawn = r.not_drawn;
  if (r.bandwidth <= 0) return picture;
  const Axes axes{picture.plot, r.x_low, r.x_high, r.y_low, r.y_high};
  picture.x_ticks = decades(axes.x_low, axes.x_high, [&](double v) { return axes.place(v, 1).x; });
  picture.y_ticks = decades(axes.y_low, axes.y_high, [&](double v) { return axes.place(1, v).y; });
  Placer placer(picture.plot);
  add_roofs(picture, r, axes, placer);
  add_slopes(picture, r, axes, placer);
  const std::vector<std::string> names = add_dots(picture, r, axes, placer);
  label_roofs(picture, axes, placer);
  label_bandwidth(picture, r, placer);
  label_slopes(picture, placer);
  label_ridges(picture, r, axes, placer);
  label_dots(picture, names, placer);
  return picture;
}

Picture arrange(const Report& report) { return arrange(describe(report)); }

}  // namespace ridge
