// Picture of a systolic run: the timeline of its folds, and for a small array one grid of elements per cycle.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/string_util.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/svg/drawing.h"
#include "ridge/report/timeline.h"

namespace ridge {
namespace {

constexpr double cell = 38, margin = 24, frame_gap = 30, caption = 24, page_width = 960;
constexpr std::int64_t max_drawn_folds = 8;

constexpr std::string_view pipe_styles = R"(.soft{fill:#57606a}
.idle{fill:#f6f8fa;stroke:#d0d7de}
.busy{fill:#ffd8b5;stroke:#bc4c00}
.cellheld{font-size:10px;fill:#57606a}
.cellleft{font-size:13px;font-weight:600;fill:#0550ae}
.celldown{font-size:10px;fill:#8a3800}
@media (prefers-color-scheme:dark){
.soft{fill:#9198a1}
.idle{fill:#161b22;stroke:#30363d}
.busy{fill:#5a2e0c;stroke:#f69d50}
.cellheld{fill:#9198a1}
.cellleft{fill:#a5d6ff}
.celldown{fill:#ffb77c}
}
)";

std::string number_text(float value) { return fmt::format("{:g}", value); }

// Top left: the stationary value; centre: the value moving right; bottom right: the value moving down.
struct CellText {
  std::string stationary, moving_right, moving_down;
  bool busy = false;
};
std::string draw_cell(const CellText& text, PicturePoint at) {
  std::string out = draw_box(text.busy ? "busy" : "idle", {at.x, at.y, at.x + cell, at.y + cell});
  if (!text.stationary.empty()) out += draw_text("cellheld", {at.x + 3, at.y + 11}, text.stationary);
  if (!text.moving_right.empty())
    out += draw_text("cellleft", {at.x + cell / 2 - 2, at.y + 24}, text.moving_right, " text-anchor=\"middle\"");
  if (!text.moving_down.empty())
    out += draw_text("celldown", {at.x + cell - 3, at.y + cell - 4}, text.moving_down, " text-anchor=\"end\"");
  return out;
}

std::string draw_frame(const SystolicRun& run, const ArrayFrame& frame, PicturePoint at) {
  const std::int64_t rows = run.task.array.rows, cols = run.task.array.cols;
  const std::int64_t busy = std::count(frame.busy.begin(), frame.busy.end(), 1);
  std::string out =
      draw_text("soft", {at.x, at.y - 6}, fmt::format("cycle {}: {} of {}", frame.cycle, busy, rows * cols));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::size_t i = r * cols + c;
      CellText text{"", "", "", frame.busy[i] != 0};
      if (frame.stationary[i] != 0) text.stationary = number_text(frame.stationary[i]);
      if (text.busy) text.moving_right = number_text(frame.left[i]);
      if (text.busy) text.moving_down = number_text(frame.down[i]);
      out += draw_cell(text, {at.x + static_cast<double>(c) * cell, at.y + static_cast<double>(r) * cell});
    }
  return out;
}

std::string frame_legend(const SystolicRun& run, double y) {
  const SystolicMapping& m = run.mapping;
  const std::string_view operand = m.is_transposed ? "A, stays" : "B (weights), stays";
  const std::string_view stationary_text = m.is_output_stationary ? "sum of C, stays" : operand;
  const std::string_view moving_right = m.is_transposed ? "B, moves right" : "A, moves right";
  const std::string_view moving_down = m.is_output_stationary ? "B, moves down" : "sum, moves down";
  std::string out = draw_cell({"s", "r", "d", true}, {margin, y});
  double x = margin + cell + 14;
  for (const auto& [kind, letter, meaning] : {std::tuple{"cellheld", "s", stationary_text},
                                              {"cellleft", "r", moving_right},
                                              {"celldown", "d", moving_down}}) {
    out += draw_text(kind, {x, y + 24}, letter) + draw_text("soft", {x + 12, y + 24}, meaning);
    x += 40 + 7 * static_cast<double>(meaning.size());
  }
  out += draw_cell({"", "", "", false}, {x, y}) + draw_text("soft", {x + cell + 8, y + 24}, "idle");
  return out;
}

struct DrawnSection {
  std::string svg;
  double height = 0;
};

DrawnSection draw_frames(const SystolicRun& run, const ElementRun& elements, double top) {
  const double width = static_cast<double>(run.task.array.cols) * cell,
               height = static_cast<double>(run.task.array.rows) * cell;
  const double step = std::max(width, 112.0) + frame_gap;
  const std::size_t frames_per_row =
      std::max<std::size_t>(1, static_cast<std::size_t>((page_width - 2 * margin + frame_gap) / step));
  DrawnSection part{draw_text("name", {margin, top + 16}, "Every element, every cycle") + frame_legend(run, top + 28),
                    28 + cell + 16};
  for (std::size_t i = 0; i < elements.frames.size(); ++i) {
    const PicturePoint at{
        margin + static_cast<double>(i % frames_per_row) * step,
        top + part.height + caption + static_cast<double>(i / frames_per_row) * (height + caption + 12)};
    part.svg += draw_frame(run, elements.frames[i], at);
  }
  const std::size_t rows = (elements.frames.size() + frames_per_row - 1) / frames_per_row;
  part.height += static_cast<double>(rows) * (height + caption + 12) + margin;
  return part;
}

}  // namespace

std::string title_of(const SystolicRun& run) {
  const SystolicReport& r = run.report;
  return fmt::format("M {} N {} K {} on {}×{} elements, {}{}", r.product.m, r.product.n, r.product.k, r.array.rows,
                     r.array.cols, dataflow_name(r.array.dataflow), r.array.preload ? ", preloaded" : "");
}

std::string render_svg(const SystolicRun& run) {
  const SystolicReport& r = run.report;
  const std::string title = title_of(run);
  std::string subtitle =
      fmt::format("{} cycles, {} fold{} of {}", r.cycles, r.folds, r.folds == 1 ? "" : "s", run.mapping_formula());
  if (r.utilization) subtitle += fmt::format(", {:.2f} % busy", 100 * *r.utilization);
  std::string drawn = r.folds == 1 ? "The fold" : "Every fold";
  if (r.folds > max_drawn_folds) drawn = fmt::format("The first {} folds of {}", max_drawn_folds, r.folds);
  const DrawnTimeline folds =
      draw_timeline(first_folds_timeline(run.task.array, run.task.product, max_drawn_folds), 68);
  std::string body = draw_text("title", {margin, 28}, title) + draw_text("soft", {margin, 48}, subtitle) +
                     draw_text("soft", {margin, 78}, drawn) + folds.svg;
  double bottom = folds.bottom;
  if (run.is_drawable())
    if (const auto elements = compute_frames(run)) {
      const DrawnSection frames = draw_frames(run, *elements, bottom);
      body += frames.svg;
      bottom += frames.height;
    }
  return svg_head(page_width, bottom) +
         fmt::format("<title>{}</title>\n<style>{}{}</style>\n", escape_xml(title), timeline_styles(), pipe_styles) +
         draw_box("back", {0, 0, page_width, bottom}) + body + "</svg>\n";
}

}  // namespace ridge
