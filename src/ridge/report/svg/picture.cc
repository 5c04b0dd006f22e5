// Computes the layout. Labels are placed greedily, one at a time (placer.h).
#include "ridge/report/svg/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "ridge/base/string_util.h"
#include "ridge/report/svg/placer.h"
#include "ridge/report/svg/roofline.h"

namespace ridge {
namespace {

struct LogAxes {
  PictureBox plot;
  int x_low = 0, x_high = 0, y_low = 0, y_high = 0;  // decades, from Roofline
  PicturePoint position(double intensity, double rate) const {
    const double x = (std::log10(intensity) - x_low) / (x_high - x_low);
    const double y = (std::log10(rate) - y_low) / (y_high - y_low);
    return {plot.left + x * (plot.right - plot.left), plot.bottom - y * (plot.bottom - plot.top)};
  }
};

std::vector<AxisTick> decade_ticks(int low, int high, const std::function<double(double)>& position) {
  std::vector<AxisTick> ticks;
  for (int decade = low; decade <= high; ++decade) {
    const double value = std::pow(10.0, decade);
    std::string text = decade >= -3 && decade < 3 ? format_significant(value, 1) : format_with_prefix(value, "");
    const std::size_t point = text.find('.');
    if (decade >= 3 && point != std::string::npos)  // "1.000 G" is "1G", "100.0 k" is "100k"
      text = text.substr(0, point) + text.substr(text.find(' ') + 1);
    ticks.push_back({position(value), text});
    for (int i = 2; i < 10 && decade < high && high - low <= 8; ++i) ticks.push_back({position(i * value), ""});
  }
  return ticks;
}

void add_roofs(Picture& picture, const Roofline& r, const LogAxes& axes, LabelPlacer& placer) {
  const double low = std::max(std::pow(10.0, axes.x_low), std::pow(10.0, axes.y_low) / r.bandwidth);
  const double high = std::pow(10.0, axes.x_high);
  for (const Roofline::Rate& peak : r.peaks) {
    const double ridge = peak.rate / r.bandwidth;
    const DrawnRoof roof{axes.position(low, low * r.bandwidth), axes.position(ridge, peak.rate),
                         axes.position(high, peak.rate), peak.name};
    placer.block_line(roof.from, roof.corner);
    placer.block_line(roof.corner, roof.to);
    picture.roofs.push_back(roof);
  }
  if (picture.roofs.empty()) {
    const PicturePoint end = axes.position(high, high * r.bandwidth);
    const DrawnRoof roof{axes.position(low, low * r.bandwidth), end, end, ""};
    placer.block_line(roof.from, roof.corner);
    picture.roofs.push_back(roof);
  }
}

// Places each peak's name above its line, as far to the right as possible.
void label_roofs(Picture& picture, const LogAxes& axes, LabelPlacer& placer) {
  for (const DrawnRoof& roof : picture.roofs) {
    const double width = text_width(roof.text);
    for (double left = axes.plot.right - width - 6; !roof.text.empty() && left > axes.plot.left; left -= 12) {
      const PicturePoint start{std::round(left), std::round(roof.corner.y - 8)};
      if (!placer.reserve(text_box(start, roof.text))) continue;
      picture.roof_labels.push_back({roof.text, text_box(start, roof.text), start, start, false});
      break;
    }
  }
}

// Returns boxes that cover a rotated text of this length, 8 px from its line.
std::vector<PictureBox> cover_line_label(const LineLabel& label, PicturePoint along, PicturePoint up, double length) {
  std::vector<PictureBox> boxes;
  for (double s = 0; s < length; s += 6) {
    const PicturePoint middle{label.at.x + along.x * s + up.x / 2, label.at.y + along.y * s + up.y / 2};
    boxes.push_back({middle.x - 5, middle.y - 5, middle.x + 5, middle.y + 5});
  }
  return boxes;
}

// Places a name above or below a line, at the first position that touches nothing else.
LineLabel place_line_label(const std::string& name, PicturePoint from, PicturePoint to, LabelPlacer& placer) {
  const double dx = to.x - from.x, dy = to.y - from.y, length = std::hypot(dx, dy), text = text_width(name);
  const PicturePoint along{dx / length, dy / length}, up{along.y * 8, -along.x * 8};
  for (const double off : {1.0, -2.2})
    for (double begin = 20; begin + text < length; begin += 15) {
      LineLabel label{name, {from.x + along.x * begin + off * up.x, from.y + along.y * begin + off * up.y}};
      label.angle = std::atan2(dy, dx) * 180 / 3.14159265358979;
      label.boxes = cover_line_label(label, along, up, text);
      if (!std::all_of(label.boxes.begin(), label.boxes.end(),
                       [&](const PictureBox& box) { return placer.is_free(box); }))
        continue;
      for (const PictureBox& box : label.boxes) placer.block_box(box);
      return label;
    }
  return {};
}

void label_bandwidth(Picture& picture, const Roofline& r, LabelPlacer& placer) {
  const DrawnRoof* longest = &picture.roofs.front();
  for (const DrawnRoof& roof : picture.roofs)
    if (roof.corner.x > longest->corner.x) longest = &roof;
  picture.bandwidth = place_line_label(r.bandwidth_name, longest->from, longest->corner, placer);
}

// Adds the bandwidths other than the memory's, from the lower left of the frame up to the highest peak.
void add_bandwidth_lines(Picture& picture, const Roofline& r, const LogAxes& axes, LabelPlacer& placer) {
  double top = 0;
  for (const Roofline::Rate& peak : r.peaks) top = std::max(top, peak.rate);
  for (const auto& [rate, name] : r.other_bandwidths) {
    const double low = std::max(std::pow(10.0, axes.x_low), std::pow(10.0, axes.y_low) / rate);
    const double high = std::min(std::pow(10.0, axes.x_high), top / rate);
    if (low >= high) continue;
    BandwidthLine slope{axes.position(low, low * rate), axes.position(high, high * rate), {}};
    placer.block_line(slope.from, slope.to);
    slope.label.text = name;
    picture.bandwidth_lines.push_back(std::move(slope));
  }
}

void label_bandwidth_lines(Picture& picture, LabelPlacer& placer) {
  for (BandwidthLine& slope : picture.bandwidth_lines)
    slope.label = place_line_label(slope.label.text, slope.from, slope.to, placer);
}

void label_ridges(Picture& picture, const Roofline& r, const LogAxes& axes, LabelPlacer& placer) {
  const auto foot_of = [&](const Roofline::Rate& peak) {
    return axes.position(peak.rate / r.bandwidth, std::pow(10.0, axes.y_low));
  };
  for (std::size_t i = 0; i < r.peaks.size(); ++i) placer.block_line(picture.roofs[i].corner, foot_of(r.peaks[i]));
  std::set<std::string> labelled;  // two peaks may be equal
  for (const Roofline::Rate& peak : r.peaks) {
    const std::string text = fmt::format("ridge {}", format_significant(peak.rate / r.bandwidth));
    if (!labelled.insert(text).second) continue;
    const PicturePoint foot = foot_of(peak);
    if (auto label = placer.place_label(text, {foot.x, foot.y - 10})) {
      label->draw_leader = false;
      picture.ridge_labels.push_back(*label);
    }
  }
}

// Adds the dots and returns their names. Operations at one point share a dot; its size shows the sum of their fractions
// of the time.
std::vector<std::string> add_dots(Picture& picture, const Roofline& r, const LogAxes& axes, LabelPlacer& placer) {
  std::vector<std::string> names;
  std::vector<std::optional<double>> fractions;
  const auto has_statements = [](const RooflineDot& d) { return d.name.find(',') != std::string::npos; };
  const char* const separator = std::ranges::any_of(r.dots, has_statements) ? "; " : ", ";
  for (const RooflineDot& d : r.dots) {
    const PicturePoint position = axes.position(d.intensity, d.rate);
    const auto same = std::find_if(picture.dots.begin(), picture.dots.end(), [&](const PictureDot& dot) {
      return std::hypot(dot.predicted.x - position.x, dot.predicted.y - position.y) < 3;
    });
    const std::size_t index = same - picture.dots.begin();
    if (same == picture.dots.end()) {
      picture.dots.push_back({.tip = "", .predicted = position, .measured = {}});
      names.emplace_back();
      fractions.emplace_back();
    }
    PictureDot& dot = picture.dots[index];
    dot.tip += (dot.tip.empty() ? "" : "\n") + d.tip;
    names[index] += (names[index].empty() ? "" : separator) + d.name;
    if (d.time_fraction) fractions[index] = fractions[index].value_or(0) + *d.time_fraction;
    dot.radius = dot_radius_px(fractions[index]);
    if (d.measured) dot.measured.push_back(axes.position(d.intensity, *d.measured));
  }
  const auto block_dot = [&](PicturePoint p, double radius) {
    const double around = radius + 2;
    placer.block_box({p.x - around, p.y - around, p.x + around, p.y + around});
  };
  for (const PictureDot& dot : picture.dots) {
    block_dot(dot.predicted, dot.radius);
    for (const PicturePoint& p : dot.measured) {
      block_dot(p, dot_radius);
      placer.block_line(dot.predicted, p);
    }
  }
  return names;
}

void label_dots(Picture& picture, const std::vector<std::string>& names, LabelPlacer& placer) {
  const auto anchor = [](const PictureDot& dot) { return dot.measured.empty() ? dot.predicted : dot.measured.front(); };
  const auto edge = [](const PictureDot& dot) { return dot.measured.empty() ? dot.radius : dot_radius; };
  for (std::size_t i = 0; i < picture.dots.size(); ++i) {
    std::vector<PicturePoint> others;
    for (std::size_t j = 0; j < picture.dots.size(); ++j) {
      if (j == i) continue;
      others.push_back(picture.dots[j].predicted);
      others.insert(others.end(), picture.dots[j].measured.begin(), picture.dots[j].measured.end());
    }
    if (auto label = placer.place_label(truncate_text(names[i], 28), anchor(picture.dots[i]), true, others,
                                        edge(picture.dots[i])))
      picture.dot_labels.push_back(*label);
  }
}

}  // namespace

double text_width(std::string_view text, bool bold) {
  struct CharacterClass {
    std::string_view members;
    double regular, bold;  // em; the widest character in DejaVu Sans, the widest of the listed fonts
  };
  static constexpr CharacterClass classes[] = {{" !'(),-./:;I[\\]fijlrt|", 0.42, 0.50},
                                               {"#%&+<=>@MWmw~", 1.00, 1.11},
                                               {"ABCDEFGHJKLNOPQRSTUVXYZ", 0.79, 0.86},
                                               {"\"$*0123456789?^_`abcdeghknopqsuvxyz{}", 0.64, 0.72}};
  double em = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80)
      continue;                        // continuation byte of a character that is already counted
    double width = bold ? 1.11 : 1.0;  // default for non-ASCII
    for (const CharacterClass& each : classes)
      if (each.members.find(c) != std::string_view::npos) width = bold ? each.bold : each.regular;
    em += width;
  }
  return font_size * em;
}

Picture arrange_picture(const Roofline& r) {
  Picture picture;
  picture.plot = {84, 66, picture.width - 24, picture.height - 92};
  picture.title = r.title;
  picture.subtitle = r.subtitle;
  picture.measured = r.measured;
  picture.has_link_dots = r.has_link_dots;
  picture.not_drawn = r.not_drawn;
  if (r.bandwidth <= 0) return picture;
  const LogAxes axes{picture.plot, r.x_low, r.x_high, r.y_low, r.y_high};
  picture.x_ticks = decade_ticks(axes.x_low, axes.x_high, [&](double v) { return axes.position(v, 1).x; });
  picture.y_ticks = decade_ticks(axes.y_low, axes.y_high, [&](double v) { return axes.position(1, v).y; });
  LabelPlacer placer(picture.plot);
  add_roofs(picture, r, axes, placer);
  add_bandwidth_lines(picture, r, axes, placer);
  const std::vector<std::string> names = add_dots(picture, r, axes, placer);
  label_roofs(picture, axes, placer);
  label_bandwidth(picture, r, placer);
  label_bandwidth_lines(picture, placer);
  label_ridges(picture, r, axes, placer);
  label_dots(picture, names, placer);
  return picture;
}

Picture arrange_picture(const Report& report) { return arrange_picture(describe_roofline(report)); }

}  // namespace ridge
