// A Report holds a prediction and, after a run, the measurement. The renderers only format it. The keys of `--json` are
// versioned and stable; the text is for people, 80 to 120 columns wide; the picture is a log-log roofline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/measure/probe.h"
#include "ridge/measure/run.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/plan/predict.h"
#include "ridge/report/table.h"
#include "ridge/roofline/claim.h"
#include "ridge/roofline/next_steps.h"
#include "ridge/roofline/prediction.h"

namespace ridge {

// A suggested next step and the command line that evaluates it.
struct SuggestedStep {
  NextStep step;
  std::string command;
};

// A model of `count` layers, each one copy of the program. The layers run in sequence. Each has its own parameters,
// caches and state; activations are handed from layer to layer.
struct LayeredModel {
  std::int64_t count = 1;
  std::optional<double> time_lower_s = {}, time_upper_s = {};
  std::optional<Interval> predicted_s = {};  // set with a plan
  std::optional<MemoryUse> memory = {};
};

struct Report {
  std::string verb;   // "explain" or "run"
  std::string title;  // file name, or the program itself if it is one line
  Explanation explanation;
  std::optional<Measurement> measured;
  std::string day;                               // YYYY-MM-DD, UTC; empty if unknown
  std::optional<PlannedProgram> planned = {};    // plan, if requested
  KernelLibrary library = KernelLibrary::ridge;  // library that the plan assumes
  std::vector<std::string> threshold_dims = {};  // dimensions whose thresholds the text shows; empty means all
  std::vector<SuggestedStep> next_steps = {};    // suggested next steps, for `explain`
  std::vector<std::vector<std::string>> statement_names = {};  // statement names of each operation, if some are fused
  bool show_cache_roofs = false;                               // also draw the bandwidths of caches
  std::optional<LayeredModel> layers = {};                     // set if several layers were requested
  // Measured time above the roof of each operation of a run, by cause; empty unless requested.
  struct MeasuredOverhead {
    double roofline_s = 0;
    std::vector<Overhead> overheads;
  };
  std::vector<MeasuredOverhead> measured_overheads = {};
  std::string weights_dtype = {};          // dtype in which weights are stored; empty if the program's own
  std::string unavailable = {};            // why the machine of a ranking has no times: "no bf16 peak on record"
  std::string narrow_dtype = {};           // the same of weights and of the tensors that they multiply
  bool is_of_file = false;                 // true for the operators of a .onnx file, which have no formulas
  std::vector<std::string> warnings = {};  // sentences below the title, about what the report lacks
};

std::string render_text(const Report& report, const TextStyle& style = {});

// Returns indented JSON, or one line (for --table), with a final newline. Contains no host or user names.
std::string render_json(const Report& report, bool one_line = false);
std::string render_svg(const Report& report);
// Returns "compute-bound for B >= 256: r*D*F/(D*F - r*(D + F)) = 255.54; 240.54 where B << D, F". If the threshold does
// not decide the limiter, it begins with "compute time exceeds memory time for B >= ...".
std::string threshold_text(const Threshold& threshold);

// Result of checking a claim: "right", "wrong" or "undecided"; a few lines of text; JSON.
std::string_view claim_result(const ClaimCheck& check);
std::string render_text(const ClaimCheck& check);
std::string render_json(const ClaimCheck& check);

// Returns all numbers of a machine, each with its source.
std::string render_machine_text(const Machine& machine, const TextStyle& style = {});
std::string render_machine_json(const Machine& machine);
// Returns all machines of the catalog as JSON.
std::string render_catalog_json(const std::vector<Machine>& machines);

// Returns the list of CUDA kernels.
std::string render_kernels_text(const std::vector<KernelListEntry>& kernels, const TextStyle& style = {});
std::string render_kernels_json(const std::vector<KernelListEntry>& kernels);  // "ridge.kernels/2"
std::string render_kernel_json(const KernelCode& code);                        // one row, with the code

std::string render_probe_text(const ProbeReport& probe, const TextStyle& style = {});
std::string render_probe_json(const ProbeReport& probe);  // "ridge.probe/1", without file paths

}  // namespace ridge
