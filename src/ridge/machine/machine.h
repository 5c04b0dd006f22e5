// What hardware can do, and who says so. Every number carries its unit, source and the day on which it was read;
// a number that is not known is absent, never zero.
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
std::string_view name(Origin origin);

struct Sourced {
  double value = 0;     // in SI units: FLOP/s, B/s, B, Hz
  std::string source;   // a document's title, or a formula over other numbers
  std::string read_on;  // YYYY-MM-DD
  Origin origin = Origin::datasheet;
  std::string note = {};
  bool operator==(const Sourced&) const = default;
};

enum class Unit { matrix, vector };
std::string_view name(Unit unit);

struct Peak {
  Unit unit;
  DType dtype;
  Sourced rate;                           // FLOP/s (integer formats: OP/s), dense, a multiply-add counted as 2
  std::optional<Sourced> one_core = {};   // the same of one core, where it was measured
  std::optional<Sourced> sustained = {};  // what real programs reach, beside the data sheet's number
  bool operator==(const Peak&) const = default;
};

struct MemoryLevel {
  std::string name;  // "hbm", "dram", "l2", …; the first one listed is the memory that programs' tensors live in
  std::optional<Sourced> bandwidth;  // B/s
  std::optional<Sourced> capacity;   // B
  std::optional<Sourced> one_core_bandwidth = {};
  std::optional<Sourced> sustained = {};  // B/s
  bool operator==(const MemoryLevel&) const = default;
};

// How a chip's links reach the others of its kind: a ring along each mesh axis, both ways; a switch, which sends
// straight to any of them; or a link of its own to each.
enum class Topology { ring, switched, direct };
std::string_view name(Topology topology);  // "ring", "switch", "direct"

// What joins a chip to its neighbours.
struct Link {
  std::string name;                       // "ici", "nvlink", "pcie", …; the first one listed joins chips of one kind
  Sourced bandwidth;                      // B/s of one link, one way
  std::optional<Sourced> sustained = {};  // B/s
  std::optional<Sourced> count = {};      // links of one chip
  std::optional<Sourced> latency = {};    // s, one hop
  std::optional<Topology> topology = {};  // none: not said; one ring is taken, over one link, one way
  bool operator==(const Link&) const = default;
};

struct Machine {
  std::string name;   // tpu_v5e
  std::string title;  // "Google TPU v5e"
  std::vector<Peak> peaks;
  std::vector<MemoryLevel> memory;
  std::vector<Link> links = {};
  std::map<std::string, Sourced> numbers = {};  // others by key: cores, clock_hz, line_bytes, launch_s, … (keys.h)
  std::string kernels = {};                     // "sm90": the kernels of Ridge that run there; none: it has none
  std::map<std::string, Sourced> plan = {};     // what plans of them rest on (plan_keys): fitted to timings of plans
  bool operator==(const Machine&) const = default;

  const Peak* peak(Unit unit, DType dtype) const;  // null: unknown
  // The peak for multiplying `dtype`: the matrix unit's; f32: the vector unit's (tf32 is asked for by name).
  // An error names the dtype and lists those that the machine has.
  Result<const Peak*> contraction_peak(DType dtype) const;
  // The peak for everything else: the vector unit's f32; null where the machine has none on record.
  const Peak* pointwise_peak() const { return peak(Unit::vector, DType::f32); }
  Result<ByteRate> bandwidth() const;  // of the first memory level
};

// What `threads` threads of the machine can do at most: every peak, and the bandwidth of every memory, the smaller of
// all cores' and threads times one core's. A number whose one-core value is not on record stays that of all cores, and
// the title says so.
Machine seen_with_threads(Machine machine, int threads);

// With what real programs reach in the place of the data sheet's numbers, wherever that is on record; the title says
// so.
Machine with_sustained_rates(Machine machine);

// A link of a machine by its name, or one of a rate one way that the machine need not have.
using LinkChoice = std::variant<std::string, ByteRate>;
// With that link as its first one; "nvlink=4.5e10": that one at this rate, which keeps its topology, count and latency,
// where a rate alone is one link with none of them. Errors, of kind usage: no such name, a rate outside 1e-30 to 1e30
// B/s.
Result<Machine> with_link(Machine machine, const LinkChoice& link);

// A machine from TOML text; `source` is the path for messages. Errors point at the line.
Result<Machine> parse_machine(std::string_view toml, const std::string& source);
std::string print_machine(const Machine& machine);  // TOML that parse_machine reads back

// By what `--on` says: a name of the catalog that is built in, a path to a .toml file, or a device present.
// "cpu": the file that `ridge probe` wrote, else a guess from what the system says (origin guessed). "cuda": the file
// that `ridge probe --on cuda` wrote; measure/device_machine.h guesses where there is none.
Result<Machine> find_machine(const std::string& name_or_path);
// Where its programs run: "cpu" is this CPU, "cuda" this computer's CUDA device; of every other machine one only says
// what it would do.
enum class Where { cpu, cuda, elsewhere };
Where where(std::string_view machine_name);
std::vector<std::string> catalog_names();

// Where probe writes and find_machine reads what was measured of this machine's "cpu" or "cuda" device:
// $XDG_DATA_HOME/ridge/machines/cpu.toml.
Result<std::string> measured_machine_path(const std::string& device = "cpu");

}  // namespace ridge
