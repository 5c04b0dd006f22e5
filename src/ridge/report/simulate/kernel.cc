// Report of one block of a Hopper kernel on the trace target, with latencies and rates fitted on an H200.
#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/base/version.h"
#include "ridge/report/json_values.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/timeline.h"

namespace ridge {
namespace {

std::string share_text(std::int64_t part, std::int64_t total) {
  return fmt::format(
      "{} % of the time",
      format_significant(100 * static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, total)), 3));
}

}  // namespace

std::string title_of(const KernelTimeline& k) {
  return fmt::format("{}, one block: {} tile{} of k = {}", k.kernel, k.tiles, k.tiles == 1 ? "" : "s", k.k);
}

std::string render_text(const KernelTimeline& k) {
  std::string out = title_of(k) + "\n";
  out += fmt::format("  cycles    {} = {} at {}\n", k.total_cycles,
                     format_with_prefix(static_cast<double>(k.total_cycles) / k.clock_hz, "s"),
                     format_with_prefix(k.clock_hz, "Hz"));
  out += fmt::format("  load      {} cycles, {}; {} stages a tile\n", k.load_cycles,
                     share_text(k.load_cycles, k.total_cycles), k.stages);
  out += fmt::format("  compute   {} cycles, {}\n", k.compute_cycles, share_text(k.compute_cycles, k.total_cycles));
  out += fmt::format("  store     {} cycles, {}\n", k.store_cycles, share_text(k.store_cycles, k.total_cycles));
  out += fmt::format("  overlap   {} cycles of load or store overlap compute\n", k.overlapped_cycles);
  return out + "the kernel's own code on the trace target; latencies and rates fitted on an H200\n";
}

std::string render_json(const KernelTimeline& k) {
  Json out{{"schema", "ridge.simulate/1"},
           {"verb", "simulate kernel"},
           {"kernel", k.kernel},
           {"k", k.k},
           {"tiles", k.tiles},
           {"stages", k.stages},
           {"cycles", k.total_cycles},
           {"clock_hz", k.clock_hz},
           {"load_cycles", k.load_cycles},
           {"compute_cycles", k.compute_cycles},
           {"store_cycles", k.store_cycles},
           {"overlap_cycles", k.overlapped_cycles}};
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string render_svg(const KernelTimeline& k) {
  return pipeline_fill_svg(
      k.timeline, title_of(k),
      fmt::format("{} cycles; compute {}; the real kernel code, with latencies and rates fitted on an H200",
                  k.total_cycles, share_text(k.compute_cycles, k.total_cycles)));
}

}  // namespace ridge
