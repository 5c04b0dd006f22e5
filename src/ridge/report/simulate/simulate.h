// Reports of simulations: text, JSON ("ridge.simulate/1", see `ridge simulate --schema`) and SVG.
#pragma once

#include <span>
#include <string>

#include "ridge/plan/kernel_timeline.h"
#include "ridge/plan/model/call_modes.h"
#include "ridge/plan/streaming/metapipe_mapping.h"
#include "ridge/report/report.h"
#include "ridge/simulate/pipe_parser.h"
#include "ridge/simulate/systolic_run.h"
#include "ridge/simulate/weight_loading.h"

namespace ridge {

// One run in detail, several as a table with a line of totals.
std::string render_text(std::span<const SystolicRun> runs, const TextStyle& style = {});
// One run indented, several on one line each.
std::string render_json(std::span<const SystolicRun> runs);
std::string render_json(const SystolicRun& run, bool one_line);
// Draws the timeline of the first folds, and below it, for a small array, every element in every cycle.
std::string render_svg(const SystolicRun& run);
std::string title_of(const SystolicRun& run);

// A pipe of loops. The picture shows the pipeline fill and the whole run.
std::string render_text(const PipeReport& report, const TextStyle& style = {});
std::string render_json(const PipeReport& report);
std::string render_svg(const PipeReport& report);
std::string title_of(const PipeReport& report);

// A program on a dataflow chip. The picture shows the pipeline fill, or, for several call costs, the resulting times.
std::string render_text(const MappedProgram& mapped, const TextStyle& style = {});
std::string render_json(const MappedProgram& mapped);
std::string render_svg(const MappedProgram& mapped);
std::string title_of(const MappedProgram& mapped);
Timeline timeline_of(const MappedProgram& mapped);  // all passes in sequence

// Times of the launch modes for each cost of a call: a table, JSON, and curves over the cost of a call.
std::string call_modes_text(std::span<const CallModeReport> sweep, std::string_view first_header,
                            const TextStyle& style);
std::string render_text(const DecodeReport& report, const TextStyle& style = {});
std::string render_json(const DecodeReport& report);
std::string render_svg(const DecodeReport& report);
std::string call_modes_svg(std::span<const CallModeReport> sweep, std::string_view title, std::string_view subtitle);

// Timeline of one block of a kernel: load, compute and store.
std::string render_text(const KernelTimeline& kernel);
std::string render_json(const KernelTimeline& kernel);
std::string render_svg(const KernelTimeline& kernel);
std::string title_of(const KernelTimeline& kernel);

// TPU v1's applications, modelled and published; simulate/weight_loading.h renders the text.
std::string render_text(std::span<const TpuV1Row> rows, const TextStyle& style = {});
std::string render_tpu_v1_json(std::span<const TpuV1Row> rows);

}  // namespace ridge
