// Report of a pipe of loops: simulated cycles, closed form, and the reasons why stages waited.
#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/table.h"
#include "ridge/report/timeline.h"

namespace ridge {
namespace {

void add_buffer_rows(const Metapipe& pipe, const std::string& prefix, std::vector<std::vector<std::string>>& rows) {
  for (const PipeBuffer& b : effective_buffers(pipe))
    rows.push_back({fmt::format("{}{} to {}", prefix, pipe.stages[b.producer].name, pipe.stages[b.consumer].name),
                    std::to_string(b.tile_count()), std::to_string(b.bytes)});
  for (const PipeStage& stage : pipe.stages)
    if (!stage.body.empty()) add_buffer_rows(stage.body[0], prefix + stage.name + "/", rows);
}

double pipelining_speedup(const PipeReport& r) {
  return static_cast<double>(r.sequential_cycles) / static_cast<double>(std::max<std::int64_t>(1, r.run.cycles));
}

}  // namespace

std::string title_of(const PipeReport& r) {
  return fmt::format("{}: {} iterations, {}", r.pipe.name, r.pipe.iterations, schedule_name(r.pipe.schedule));
}

std::string render_text(const PipeReport& r, const TextStyle& style) {
  std::string out = title_of(r) + "\n";
  out += fmt::format("  cycles       {}\n", r.run.cycles);
  out += fmt::format("  closed form  {}\n", r.closed_form ? std::to_string(*r.closed_form) : "none for this pipe");
  out += fmt::format("  sequential   {}, {} times as long\n", r.sequential_cycles,
                     format_significant(pipelining_speedup(r), 3));
  out += fmt::format("  bottleneck   {}, busy {} % of the time\n\n", r.run.bottleneck,
                     format_significant(100 * r.run.bottleneck_busy, 3));
  std::vector<std::vector<std::string>> rows{{"stage", "runs", "busy", "starved", "blocked", "contended"}};
  for (const StageActivity& s : r.run.stages)
    rows.push_back({s.name, std::to_string(s.runs), std::to_string(s.busy), std::to_string(s.starved),
                    std::to_string(s.blocked), std::to_string(s.contended)});
  out += text_table(rows, {{false, true, true, true, true, true}}, style);
  rows = {{"buffer", "tiles", "bytes each"}};
  add_buffer_rows(r.pipe, "", rows);
  if (rows.size() == 1) return out;
  return out + "\n" + text_table(rows, {.right = {false, true, true}, .is_in_csv = false}, style) +
         fmt::format("{} bytes of buffers\n", r.buffer_bytes);
}

std::string render_json(const PipeReport& r) {
  Json out{{"schema", "ridge.simulate/1"},
           {"verb", "simulate metapipe"},
           {"name", r.pipe.name},
           {"schedule", schedule_name(r.pipe.schedule)},
           {"iterations", r.pipe.iterations},
           {"cycles", r.run.cycles},
           {"closed_form_cycles", or_null(r.closed_form)},
           {"sequential_cycles", r.sequential_cycles},
           {"bottleneck", r.run.bottleneck},
           {"bottleneck_busy", r.run.bottleneck_busy},
           {"buffer_bytes", r.buffer_bytes},
           {"stages", Json::array()}};
  for (const StageActivity& s : r.run.stages)
    out["stages"].push_back({{"name", s.name},
                             {"runs", s.runs},
                             {"busy", s.busy},
                             {"starved", s.starved},
                             {"blocked", s.blocked},
                             {"contended", s.contended}});
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_svg(const PipeReport& r) {
  return pipeline_fill_svg(r.run.timeline, title_of(r),
                           fmt::format("{} cycles; stages in sequence {}, {} times as long", r.run.cycles,
                                       r.sequential_cycles, format_significant(pipelining_speedup(r), 3)));
}

}  // namespace ridge
