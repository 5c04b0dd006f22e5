// Hardware description: peaks, memories, links. Every number has its source and the date when it was read. Unknown
// numbers are absent, never zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/quantity.h"
#include "ridge/base/result.h"

namespace ridge {

enum class Origin { datasheet, derived, measured, guessed };
std::string_view origin_name(Origin origin);

struct SourcedValue {
  double value = 0;     // in SI units: FLOP/s, B/s, B, Hz
  std::string source;   // title of a document, or a formula of other numbers
  std::string read_on;  // YYYY-MM-DD
  Origin origin = Origin::datasheet;
  std::string note = {};
  bool operator==(const SourcedValue&) const = default;
};

enum class ComputeUnit { matrix, vector };
std::string_view unit_name(ComputeUnit unit);

struct Peak {
  ComputeUnit unit;
  DType dtype;
  SourcedValue rate;                           // FLOP/s (integers: OP/s), dense; a multiply-add counts 2
  std::optional<SourcedValue> one_core = {};   // rate of one core, if measured
  std::optional<SourcedValue> sustained = {};  // rate that real programs reach
  bool operator==(const Peak&) const = default;
};

struct MemoryLevel {
  std::string name;                       // "hbm", "dram", "l2", …; the first memory listed holds the tensors
  std::optional<SourcedValue> bandwidth;  // B/s
  std::optional<SourcedValue> capacity;   // B
  std::optional<SourcedValue> one_core_bandwidth = {};
  std::optional<SourcedValue> sustained = {};  // B/s
  bool operator==(const MemoryLevel&) const = default;
};

// Topology of the links between chips of one kind: a bidirectional ring along each mesh axis, a switch, or a direct
// link between each pair of chips.
enum class Topology { ring, switched, direct };
std::string_view topology_name(Topology topology);  // "ring", "switch", "direct"

// Connection of a chip to other chips or to its host.
struct Link {
  std::string name;                            // "ici", "nvlink", "pcie", …; the first one connects chips of one kind
  SourcedValue bandwidth;                      // B/s of one link in one direction
  std::optional<SourcedValue> sustained = {};  // B/s
  std::optional<SourcedValue> count = {};      // links per chip
  std::optional<SourcedValue> latency = {};    // s per hop
  std::optional<Topology> topology = {};       // if unknown, one ring over one link in one direction is assumed
  bool operator==(const Link&) const = default;
};

struct Machine {
  std::string name;   // tpu_v5e
  std::string title;  // "Google TPU v5e"
  std::vector<Peak> peaks;
  std::vector<MemoryLevel> memory;
  std::vector<Link> links = {};
  std::map<std::string, SourcedValue> numbers = {};  // other numbers by key: cores, clock_hz, … (keys.h)
  std::string kernels = {};                          // "sm90" if Ridge's kernels run on it, else ""
  std::map<std::string, SourcedValue> plan_numbers =
      {};  // numbers for plans of Ridge's kernels (plan_keys), fitted to timings
  bool operator==(const Machine&) const = default;

  const Peak* find_peak(ComputeUnit unit, DType dtype) const;  // nullptr if unknown
  // Returns the peak for products of `dtype`: the matrix unit's, or the vector unit's if only that is on record (tf32
  // is a dtype of its own). The error lists the dtypes that the machine has.
  Result<const Peak*> contraction_peak(DType dtype) const;
  // Returns the vector unit's peak, f32's for all operations but those in f64, or nullptr if unknown.
  const Peak* pointwise_peak(DType dtype = DType::f32) const { return find_peak(ComputeUnit::vector, dtype); }
  Result<ByteRate> memory_bandwidth() const;  // bandwidth of the first memory level
};

// Returns the machine limited to `threads` threads: each peak and memory bandwidth is at most `threads` times the value
// of one core. Numbers without a one-core value stay unchanged, and the title says so.
Machine limit_to_threads(Machine machine, int threads);

// Returns the machine with data sheet rates replaced by sustained rates where these are known; the title says so.
Machine with_sustained_rates(Machine machine);

// Link of a machine by name, or an additional link with this one-way rate.
using LinkChoice = std::variant<std::string, ByteRate>;
// Returns the machine with this link first. "nvlink=4.5e10" changes the rate of nvlink and keeps its topology, count
// and latency; a rate alone is a new link without them. Usage errors: unknown name, rate outside 1e-30 to 1e30 B/s.
Result<Machine> with_link(Machine machine, const LinkChoice& link);

// Parses a machine file in TOML; `source` is its path, for error messages, which show the line.
Result<Machine> parse_machine(std::string_view toml, const std::string& source);
std::string print_machine(const Machine& machine);  // returns TOML for parse_machine

// Returns the machine that `--on` names: one of the built-in catalog, a .toml file, "cpu" or "cuda". "cpu" is the file
// written by `ridge probe`, else an estimate from the operating system's data (origin guessed). "cuda" is the file
// written by `ridge probe --on cuda`; measure/device_machine.h estimates one if there is none.
Result<Machine> find_machine(const std::string& name_or_path);
// Target for running a machine's programs: "cpu" is this CPU, "cuda" the local CUDA device. For other machines there
// are only predictions.
enum class RunTarget { cpu, cuda, prediction_only };
RunTarget run_target_of(std::string_view machine_name);
std::vector<std::string> catalog_names();

// Returns the path of the file with measurements of "cpu" or "cuda", written by probe and read by `find_machine`:
// $XDG_DATA_HOME/ridge/machines/cpu.toml.
Result<std::string> measured_machine_path(const std::string& device = "cpu");

}  // namespace ridge
