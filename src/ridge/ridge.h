// Public C++ API. A Request holds the parameters of a question, a Summary the answer.
//   ridge::Request request{.program = "bf16[B, D] * bf16[D, F] -> bf16[B, F]", .on = "tpu_v5e"};
//   const auto summary = ridge::explain(request);
//   std::cout << (summary ? ridge::render_text(*summary) : summary.error().text());
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/quantity.h"
#include "ridge/base/result.h"
#include "ridge/base/version.h"
#include "ridge/machine/machine.h"
#include "ridge/roofline/results.h"
#include "ridge/symbol/dimensions.h"
#include "ridge/tuning.h"

namespace ridge {

// A machine or its name: "h200" of the catalog, the path of a machine file, or this computer's "cpu" or "cuda".
class MachineChoice {
 public:
  MachineChoice(std::string name = "cpu") : name_(std::move(name)) {}
  MachineChoice(const char* name) : name_(name) {}
  MachineChoice(Machine machine) : name_(machine.name), machine_(std::make_shared<const Machine>(std::move(machine))) {}
  const std::string& name() const { return name_; }
  const Machine* machine() const { return machine_.get(); }  // The machine itself, or null if only its name is known
  RunTarget where() const { return ridge::run_target_of(name_); }

 private:
  std::string name_;
  std::shared_ptr<const Machine> machine_;
};
// Returns the chosen machine. Errors: an unknown name, a corrupt file, a device that this computer lacks.
Result<Machine> machine_of(const MachineChoice& choice);

enum class KernelChoice { ridge, cublaslt };

struct Request {
  std::string program;                       // Program text, a file path, or "-" for the standard input
  MachineChoice on = {};                     // Machine whose numbers are used
  Bindings dims = {};                        // Values of dimensions; a dimension without a value stays a symbol
  std::optional<DType> dtype = {};           // Dtype of tensors that declare none (default bf16); an error without any
  std::optional<DimensionSplit> split = {};  // Split over chips: the results are those of one chip
  std::optional<LinkChoice> link = {};       // Link between the chips (default: the machine's first)
  std::optional<LinkChoice> memory = {};     // Memory of the tensors: a memory, a link or a rate (default: the first)
  std::optional<KernelChoice> planned = {};  // explain: also plan with these kernels
  bool fuse = true;                          // If false, each statement is one kernel
  std::optional<DType> weights = {};         // explain: storage dtype of the weights (program/weights.h)
  std::optional<DType> narrow = {};  // explain: storage dtype of weights and of what they multiply; `weights` overrides
  // explain: groups of statements, named by their results; each group counts as one kernel. Not with `planned`.
  std::vector<std::vector<std::string>> fused = {};
  bool why = false;         // explain with `planned`, run: attribute the time above the roof to causes
  bool sustained = false;   // Use the rates that real programs reach, if the machine file has them
  std::int64_t layers = 1;  // explain: number of layers like this program, each with its own weights
};

// FLOPs and bytes instead of a program; each above 0 and below 1e38.
struct BareWork {
  Flops flops;
  Bytes bytes;
  MachineChoice on = {};
  DType dtype = DType::bf16;              // Dtype that selects the peak
  std::optional<LinkChoice> memory = {};  // Same as in `Request`
  bool sustained = false;
};

// Options of a run.
struct RunRequest {
  std::map<std::string, std::string> in = {};   // Tensor -> .npy file to read; other inputs are random
  std::map<std::string, std::string> out = {};  // Tensor -> .npy file to write
  std::uint64_t seed = 0;
  int threads = 0;                                 // Threads; 0 for every core that the process may use
  int passes = 0;                                  // Number of passes (on a device, graph replays); 0 for at least 5
  double seconds = 0;                              // Minimum duration in s; 0 for 0.2 s (on a device 0.02 s)
  Tuning tuning = {.from = Tuning::From::cached};  // Tuning of matrix products on a CUDA device
  // Called from time to time with the completed fraction (0..1) and the current activity.
  std::function<void(double done, const std::string& doing)> progress = {};
};

struct MeasuredTime {
  double median_s = 0, min_s = 0, max_s = 0;
  int runs = 0;
  std::optional<double> fraction_of_roof = {};  // lower_s / median_s, or null without a bound
  double max_rel_error = 0;                     // Against the fp64 reference; infinite for an unexpected NaN
  std::string note = {};                        // For example "one block per row, which is slower: …"
  std::vector<std::string> warnings = {};       // Results outside their dtype's range or without a right digit
};

// Numbers of one operation, or sums over several.
struct OpSummary {
  std::string name, text;                              // Name of the result; text of the statement
  std::optional<std::int64_t> flops = {}, bytes = {};  // Absent without values of all dimensions, and from 2^63
  std::optional<double> intensity = {}, ridge = {};    // FLOP/B of the operation and of the machine
  std::string flops_formula, bytes_formula;            // For example "2*B*D*F"
  std::string intensity_formula = {};
  std::optional<Limiter> limiter = {};
  std::optional<double> math_s = {}, memory_s = {}, network_s = {};
  std::optional<double> lower_s = {}, upper_s = {};  // With perfect overlap of the three, and without any
  std::string missing = {};                          // Number that the machine lacks; the times omit it
  std::vector<Threshold> thresholds = {};            // One for each dimension
  std::optional<MeasuredTime> measured = {};         // Set by `run`
};

// A planned kernel: the results that it computes and its predicted time.
struct KernelSummary {
  std::vector<std::string> results;
  std::string kernel;  // For example "sm90_128x192x64_pingpong" or "chain"
  double low_s = 0, expected_s = 0, high_s = 0;
  std::int64_t memory_bytes = 0;
};

struct Report;  // Internal
struct Summary {
  std::string title;  // File name, or the text of a one-line program
  Machine machine;
  Bindings dims;
  std::vector<OpSummary> ops;               // One for each statement; after `run`, one for each kernel
  OpSummary total;                          // Sums if each operation stores its result
  std::optional<OpSummary> fused = {};      // Sums if no intermediate is stored; nullopt without intermediates
  std::vector<KernelSummary> planned = {};  // If `Request::planned` was set
  std::optional<Error> mismatch = {};       // After `run`: the first element beyond its error bound
  std::shared_ptr<const Report> report;     // Complete report for the renderers
};
std::string render_text(const Summary& summary, bool color = false);
std::string render_json(const Summary& summary);  // Schema "ridge.report/2" (docs/report.schema.json)
std::string render_svg(const Summary& summary);   // Roofline plot

// Returns work, bounds and limiter of a program. Errors: of the program (with position), the machine or a dimension.
Result<Summary> explain(const Request& request);
Result<Summary> explain(const BareWork& work);
// Returns a summary for each set of dimension values; these override the request's.
Result<std::vector<Summary>> explain_each(const Request& request, const std::vector<Bindings>& rows);

// Runs a program on this CPU or its CUDA device, times it and checks the results. Errors: those of `explain`; a machine
// that is not this computer.
Result<Summary> run(const Request& request, const RunRequest& run_request = {});

// One program at many sizes; each takes a fraction of a microsecond.
struct SweepRequest {
  std::string program;
  std::vector<MachineChoice> on = {MachineChoice()};
  std::vector<DType> dtypes = {};            // Dtypes of tensors that declare none (default bf16)
  std::vector<DimensionValues> ranges = {};  // Values of every dimension
  std::vector<DimensionSplit> splits = {};   // Splits over chips; results are those of one chip
  std::optional<LinkChoice> link = {};       // Same as in `Request`
  bool curves = false;                       // Also compute SweepLine::curves
};
Result<Sweep> sweep(const SweepRequest& request, const std::function<void(double)>& done = {});

// `machines({})` returns the catalog and this CPU; a corrupt machine file is then a warning instead of an error.
struct Catalog {
  std::vector<Machine> machines;
  std::vector<Error> warnings;
};
Result<Catalog> machines(const std::vector<MachineChoice>& choices = {});

}  // namespace ridge
