// Simulations rendered: text for eyes, one line of JSON a run ("ridge.simulate/1", `ridge simulate --schema`: cycles,
// folds, utilization, sram_words), a page of SVG.
#pragma once

#include <span>
#include <string>

#include "ridge/plan/as_metapipe.h"
#include "ridge/plan/decode.h"
#include "ridge/plan/kernel_timeline.h"
#include "ridge/report/report.h"
#include "ridge/simulate/pipe_text.h"
#include "ridge/simulate/systolic_run.h"
#include "ridge/simulate/weights.h"

namespace ridge {

// One run in full, several as a table with a line of totals.
std::string render_text(std::span<const SystolicRun> runs);
// One run indented, several on a line each.
std::string render_json(std::span<const SystolicRun> runs);
std::string render_json(const SystolicRun& run, bool one_line);
// Where the cycles of the first folds go; below, for a small array, every cycle of every element.
std::string render_svg(const SystolicRun& run);
std::string title_of(const SystolicRun& run);

// A pipe of loops; the picture is it filling up and, below, all of it.
std::string render_text(const PipeReport& report);
std::string render_json(const PipeReport& report);
std::string render_svg(const PipeReport& report);
std::string title_of(const PipeReport& report);

// A program on a dataflow chip; the picture is its metapipe filling up, or, of several times of a call, what they cost.
std::string render_text(const MappedProgram& mapped);
std::string render_json(const MappedProgram& mapped);
std::string render_svg(const MappedProgram& mapped);
std::string title_of(const MappedProgram& mapped);
Timeline timeline_of(const MappedProgram& mapped);  // the passes one after the other

// What calls cost, for each time that one may take: a table, the same as JSON, and curves over the time of a call.
std::string calling_text(std::span<const CallingReport> sweep, std::string_view first_header);
std::string render_text(const DecodeReport& report);
std::string render_json(const DecodeReport& report);
std::string render_svg(const DecodeReport& report);
std::string calling_svg(std::span<const CallingReport> sweep, std::string_view title, std::string_view subtitle);

// A kernel's block, load beside compute beside store.
std::string render_text(const KernelTimeline& kernel);
std::string render_json(const KernelTimeline& kernel);
std::string render_svg(const KernelTimeline& kernel);
std::string title_of(const KernelTimeline& kernel);

// TPU v1's applications beside the paper; the text is simulate/weights.h's.
std::string render_tpu_v1_json(std::span<const TpuV1Row> rows);

}  // namespace ridge
