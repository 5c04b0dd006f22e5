#include "ridge/roofline/sending/transfer_cost.h"

#include <algorithm>
#include <cmath>

namespace ridge {

std::string_view name(Collective collective) {
  switch (collective) {
    case Collective::reduce_scatter: return "reduce-scatter";
    case Collective::all_reduce: return "all-reduce";
    case Collective::all_to_all: return "all-to-all";
    case Collective::all_gather: return "all-gather";
    case Collective::permute: return "permute";
  }
  return "";
}

LinearTime TransferCost::limiting_time(double bytes) const {
  const auto is_faster = [&](const LinearTime& a, const LinearTime& b) { return a.seconds(bytes) < b.seconds(bytes); };
  const auto fastest = std::min_element(protocols.begin(), protocols.end(), is_faster);
  return fastest == protocols.end() || is_faster(*fastest, links) ? links : *fastest;
}

std::optional<LibraryTimes> read_library_times(const Machine& machine) {
  bool complete = true;
  const auto read = [&](const char* key) {
    const auto found = machine.numbers.find(key);
    complete = complete && found != machine.numbers.end();
    return found == machine.numbers.end() ? 0 : found->second.value;
  };
  LibraryTimes out{.call_s = read("collective_call_s"),
                   .step_s = read("collective_step_s"),
                   .narrow_rate = read("collective_narrow_rate"),
                   .wide_rate = read("collective_wide_rate"),
                   .wide_delay_s = read("collective_wide_s"),
                   .copy_rate = read("collective_copy_rate")};
  if (!complete) return std::nullopt;
  const PairTimes pairs{.narrow_rate = read("collective_pair_narrow_rate"),
                        .wide_rate = read("collective_pair_wide_rate"),
                        .wide_delay_s = read("collective_pair_wide_s")};
  if (complete) out.pairs = pairs;
  out.switch_rate = read("collective_switch_rate");
  out.node_chips = std::llround(read("host_chips"));
  return out;
}

std::vector<LinearTime> list_protocols(const LibraryTimes& library, Collective kind, std::int64_t devices) {
  const auto n = static_cast<double>(devices);
  const double passes = kind == Collective::all_reduce ? 2 : 1, sent = passes * (n - 1) / n;
  if (kind == Collective::all_to_all || kind == Collective::permute) {
    if (!library.pairs) return {};
    const double wait_s = library.call_s + library.step_s, part = kind == Collective::permute ? 1 : sent;
    return {{wait_s, part / library.pairs->narrow_rate},
            {wait_s + library.pairs->wide_delay_s, part / library.pairs->wide_rate}};
  }
  const double wait_s = library.call_s + passes * (n - 1) * library.step_s;
  std::vector<LinearTime> out{{wait_s, sent / library.narrow_rate},
                              {wait_s + library.wide_delay_s, sent / library.wide_rate + 1 / n / library.copy_rate}};
  if (kind == Collective::all_reduce && library.switch_rate > 0 && devices == library.node_chips)
    out.push_back({wait_s + library.wide_delay_s, 1 / library.switch_rate});
  return out;
}

}  // namespace ridge
