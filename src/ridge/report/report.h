// One report, several renderings. A Report joins what was predicted with what was measured; the renderers lay it out
// and compute nothing that a Report does not say. `--json` is a contract: its keys are versioned; the text is for eyes
// at 80 to 120 columns; the picture is a roofline, log over log.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/probe.h"
#include "ridge/measure/run.h"
#include "ridge/plan/menu_list.h"
#include "ridge/plan/predict.h"
#include "ridge/roofline/claim.h"
#include "ridge/roofline/next.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

// A step with the command line that shows it.
struct SuggestedStep {
  NextStep step;
  std::string command;
};

// A model of so many layers like the program: one runs after the other, and each holds all inputs but the first, which
// is the layer's before.
struct Layers {
  std::int64_t count = 1;
  std::optional<double> time_lower_s = {}, time_upper_s = {};
  std::optional<double> bytes = {};  // on one device
  std::optional<double> chips = {};  // whose memories hold them, of a program that is not split
};

struct Report {
  std::string verb;   // "explain", "run"
  std::string title;  // the file's name, or the program itself where it is one line
  Explanation explanation;
  std::optional<Measurement> measured;
  std::string day;                                        // YYYY-MM-DD, UTC; empty: not said
  std::optional<PlannedProgram> planned = {};             // where it was asked for
  Library library = Library::ridge;                       // whose
  std::vector<std::string> asked = {};                    // dimensions whose thresholds the text shows; empty: all
  std::vector<SuggestedStep> next = {};                   // of explain
  std::vector<std::vector<std::string>> statements = {};  // of each operation, where several were asked to share one
  bool roofs = false;                                     // the picture shows caches' rates too
  std::optional<Layers> layers = {};                      // where several were asked for
  // Of a run, where it was asked for: what each operation lost above its roof, measured.
  struct MeasuredLoss {
    double roof_s = 0;
    std::vector<Lost> lost;
  };
  std::vector<MeasuredLoss> losses = {};
  std::string weights = {};  // the dtype in which they were asked to be stored; empty: the program's
};

struct TextStyle {
  bool color = false;
  bool all = false;  // every formula and threshold
};
std::string render_text(const Report& report, const TextStyle& style = {});

// Indented, or on one line (for --table). Ends with a newline. Holds neither host nor user names.
std::string render_json(const Report& report, bool one_line = false);
std::string render_svg(const Report& report);
// "compute-bound for B >= 256: r*D*F/(D*F - r*(D + F)) = 255.54; 240.54 where B << D, F"; of a sum of operations, which
// may be bound by turns: "more compute than memory time for …".
std::string threshold_text(const Threshold& threshold, bool sum = false);

// What a claim came to: "right", "wrong" or "undecided"; one or two lines; JSON.
std::string_view verdict_name(const ClaimVerdict& verdict);
std::string render_text(const ClaimVerdict& verdict);
std::string render_json(const ClaimVerdict& verdict);

// What is known of a machine: peaks, memory, each with its source.
std::string render_machine_text(const Machine& machine, const TextStyle& style = {});
std::string render_machine_json(const Machine& machine);
// The catalog.
std::string render_catalog_json(const std::vector<Machine>& machines);

// The menu of CUDA kernels.
std::string render_kernels_text(const std::vector<MenuEntry>& menu, const TextStyle& style = {});
std::string render_kernels_json(const std::vector<MenuEntry>& menu);  // "ridge.kernels/2"
std::string render_kernel_json(const KernelCode& code);               // the same, one row, with the text beside it

std::string render_probe_text(const ProbeReport& probe);
std::string render_probe_json(const ProbeReport& probe);  // "ridge.probe/1": no paths

}  // namespace ridge
