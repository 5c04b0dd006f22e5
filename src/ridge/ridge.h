// The door for other programs. A Request is what a user says, in types; a Summary what he gets.
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
#include "ridge/roofline/answers.h"
#include "ridge/symbol/dimensions.h"
#include "ridge/tuning.h"

namespace ridge {

// A machine, or the name of one: "h200" of the catalog, "mine.toml", "cpu" or "cuda", which are here.
class MachineChoice {
 public:
  MachineChoice(std::string name = "cpu") : name_(std::move(name)) {}
  MachineChoice(const char* name) : name_(name) {}
  MachineChoice(Machine machine) : name_(machine.name), machine_(std::make_shared<const Machine>(std::move(machine))) {}
  const std::string& name() const { return name_; }
  const Machine* machine() const { return machine_.get(); }  // null: found by its name
  Where where() const { return ridge::where(name_); }

 private:
  std::string name_;
  std::shared_ptr<const Machine> machine_;
};
// Errors: no machine is called so, its file is spoilt, this computer has none.
Result<Machine> machine_of(const MachineChoice& choice);

enum class KernelsOf { ridge, cublaslt };

struct Request {
  std::string program;                    // the text itself, a file's path, or "-" for the standard input
  MachineChoice on = {};                  // on whose numbers
  Bindings dims = {};                     // values of dimensions; what is missing stays a symbol
  std::optional<DType> dtype = {};        // of tensors that name none: bf16; refused where every one has its own
  std::optional<Split> split = {};        // over several chips: the answer is then one chip's part
  std::optional<LinkChoice> link = {};    // between the chips; none: the machine's first
  std::optional<LinkChoice> memory = {};  // where tensors live: a memory or link by name, or a rate; none: the first
  std::optional<KernelsOf> planned = {};  // explain: what would run there as well, of these kernels
  bool fuse = true;                       // false: one kernel a statement
  std::optional<DType> weights = {};      // explain: as if they were stored in this dtype (program/weights.h)
  // explain: statements, by their results, that are counted as one kernel each; not with `planned`.
  std::vector<std::vector<std::string>> fused = {};
  bool why = false;         // explain with `planned`, run: what is lost above the roof, by its causes
  bool sustained = false;   // compute with the rates that real programs reach, where they are on record
  std::int64_t layers = 1;  // explain: of a model, each like the program, with weights of its own
};

// Bare numbers instead of a program; each above 0 and below 1e38.
struct BareWork {
  Flops flops;
  Bytes bytes;
  MachineChoice on = {};
  DType dtype = DType::bf16;              // whose peak
  std::optional<LinkChoice> memory = {};  // as a Request's
  bool sustained = false;
};

// How a program is run.
struct RunRequest {
  std::map<std::string, std::string> in = {};   // tensor -> .npy file; the others are random
  std::map<std::string, std::string> out = {};  // tensor -> .npy file to write
  std::uint64_t seed = 0;
  int threads = 0;                               // 0: every core that the process may use
  int passes = 0;                                // exactly so many, on a device replays of a graph; 0: at least five
  double seconds = 0;                            // at least so long; 0: 0.2 s, on a device 0.02 s
  Tuning tuning = {.from = Tuning::From::kept};  // of a CUDA device's products
  // Called now and then with what is done (0..1) and what is being done.
  std::function<void(double done, const std::string& doing)> progress = {};
};

struct MeasuredTime {
  double median_s = 0, min_s = 0, max_s = 0;
  int runs = 0;
  std::optional<double> fraction_of_roof = {};  // lower_s / median_s; null where no bound is known
  double max_rel_error = 0;                     // against the reference in fp64; infinite: a NaN where none is due
  std::string note = {};                        // "interpreted, which is slower: …"
};

// One operation, or the sum over several.
struct OpSummary {
  std::string name, text;                              // of the result; the statement
  std::optional<std::int64_t> flops = {}, bytes = {};  // null where a dimension has no value, or beyond 2^63
  std::optional<double> intensity = {}, ridge = {};    // FLOP/B, of the operation and of the machine
  std::string flops_formula, bytes_formula;            // "2*B*D*F"
  std::string intensity_formula = {};
  std::optional<Limiter> limiter = {};
  std::optional<double> math_s = {}, memory_s = {}, network_s = {};
  std::optional<double> lower_s = {}, upper_s = {};  // perfect overlap of the three, and none
  std::string missing = {};                          // what the machine lacks, so that times leave it out
  std::vector<Threshold> thresholds = {};            // a dimension each
  std::optional<MeasuredTime> measured = {};         // of a run
};

// A kernel that would run: which statements' results it makes, and how long it would take.
struct KernelSummary {
  std::vector<std::string> results;
  std::string kernel;  // "sm90_128x192x64_pingpong", "chain", …
  double low_s = 0, expected_s = 0, high_s = 0;
  std::int64_t memory_bytes = 0;
};

struct Report;  // the library's own
struct Summary {
  std::string title;  // the file's name, or the program itself where it is one line
  Machine machine;
  Bindings dims;
  std::vector<OpSummary> ops;               // of each statement; of a run: of each kernel
  OpSummary total;                          // each operation's result stored
  std::optional<OpSummary> fused = {};      // no intermediate stored; none: there is no intermediate
  std::vector<KernelSummary> planned = {};  // where it was asked for
  std::optional<Error> mismatch = {};       // of a run: the first element beyond its error bound
  std::shared_ptr<const Report> report;     // all of it, for the renderers
};
std::string render_text(const Summary& summary, bool color = false);
std::string render_json(const Summary& summary);  // "ridge.report/2", docs/report.schema.json
std::string render_svg(const Summary& summary);   // the roofline

// Errors: of the program (its place), of the machine, of a dimension.
Result<Summary> explain(const Request& request);
Result<Summary> explain(const BareWork& work);
// For each of these values of dimensions; they go before the request's.
Result<std::vector<Summary>> explain_each(const Request& request, const std::vector<Bindings>& rows);

// Runs it on this CPU or its CUDA device, times it, checks it. Errors: also a machine that is not here.
Result<Summary> run(const Request& request, const RunRequest& how = {});

// One program at many sizes; a fraction of a microsecond each.
struct SweepRequest {
  std::string program;
  std::vector<MachineChoice> on = {MachineChoice()};
  std::vector<DType> dtypes = {};       // of tensors that name none; empty: bf16
  std::vector<Range> ranges = {};       // of every dimension
  std::vector<Split> splits = {};       // one chip's part of each; empty: not split
  std::optional<LinkChoice> link = {};  // as a Request's
  bool curves = false;                  // with SweepLine::curves
};
Result<Sweep> sweep(const SweepRequest& request, const std::function<void(double)>& done = {});

// `choices` empty: the whole catalog and this CPU, whose spoilt file is then no error but a warning beside the others.
struct Catalog {
  std::vector<Machine> machines;
  std::vector<Error> warnings;
};
Result<Catalog> machines(const std::vector<MachineChoice>& choices = {});

}  // namespace ridge
