// Simulations rendered: text for eyes, one line of JSON a run ("ridge.report/1", DESIGN section 6: cycles, folds,
// utilization, sram_words), a page of SVG.
#pragma once

#include <span>
#include <string>

#include "ridge/plan/as_metapipe.h"
#include "ridge/report/report.h"
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

// A program on a dataflow chip; the picture is its metapipe filling up.
std::string render_text(const MappedProgram& mapped);
std::string render_json(const MappedProgram& mapped);
std::string render_svg(const MappedProgram& mapped);

// TPU v1's applications beside the paper; the text is simulate/weights.h's.
std::string render_tpu_v1_json(std::span<const TpuV1Row> rows);

}  // namespace ridge
