// A Hopper kernel's block on the trace target, paced with times fitted on an H200.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/base/version.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/timeline.h"

namespace ridge {
namespace {

std::string share(std::int64_t part, std::int64_t whole) {
  return fmt::format(
      "{} % of the time",
      significant(100 * static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, whole)), 3));
}

}  // namespace

std::string title_of(const KernelTimeline& k) {
  return fmt::format("{}, one block: {} tile{} of k = {}", k.kernel, k.tiles, k.tiles == 1 ? "" : "s", k.k);
}

std::string render_text(const KernelTimeline& k) {
  std::string out = title_of(k) + "\n";
  out += fmt::format("  cycles    {} = {} at {}\n", k.cycles,
                     engineering(static_cast<double>(k.cycles) / k.clock_hz, "s"), engineering(k.clock_hz, "Hz"));
  out += fmt::format("  load      {} cycles, {}; {} stages a tile\n", k.load, share(k.load, k.cycles), k.stages);
  out += fmt::format("  compute   {} cycles, {}\n", k.compute, share(k.compute, k.cycles));
  out += fmt::format("  store     {} cycles, {}\n", k.store, share(k.store, k.cycles));
  out += fmt::format("  overlap   {} cycles of load or store lie under compute\n", k.hidden_loads);
  return out + "the kernel's own text on the trace target; latencies and rates fitted on an H200\n";
}

std::string render_json(const KernelTimeline& k) {
  using Json = nlohmann::ordered_json;
  Json out{{"schema", "ridge.simulate/1"},
           {"verb", "simulate kernel"},
           {"kernel", k.kernel},
           {"k", k.k},
           {"tiles", k.tiles},
           {"stages", k.stages},
           {"cycles", k.cycles},
           {"clock_hz", k.clock_hz},
           {"load_cycles", k.load},
           {"compute_cycles", k.compute},
           {"store_cycles", k.store},
           {"overlap_cycles", k.hidden_loads}};
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_svg(const KernelTimeline& k) {
  return filling_svg(k.timeline, title_of(k),
                     fmt::format("{} cycles; compute {}; the real kernel text, paced as fitted on an H200", k.cycles,
                                 share(k.compute, k.cycles)));
}

}  // namespace ridge
