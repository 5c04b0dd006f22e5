#include "ridge/run/ranks/rank_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ridge/base/cores.h"
#include "ridge/base/string_util.h"
#include "ridge/base/timer.h"
#include "ridge/device/device.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

constexpr std::size_t large_elements = 1 << 20;  // elements of the large all-reduce
constexpr int all_reduce_runs = 9;

// Returns the median time of an all-reduce, in seconds.
Result<double> time_all_reduce(transport::Communicator& comm, std::size_t numbers) {
  std::vector<float> data(numbers, 1.0F);
  std::vector<int> all(comm.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<double> samples;
  for (int run = 0; run < all_reduce_runs; ++run) {
    RIDGE_TRY_STATUS(transport::barrier(comm));
    const Timer timer;
    RIDGE_TRY_STATUS(transport::all_reduce(comm, all, {}, std::as_writable_bytes(std::span(data))));
    samples.push_back(timer.seconds());
  }
  return compute_statistics(std::move(samples)).median;
}

}  // namespace

Machine machine_for_rank(Machine machine, int ranks, int threads) {
  if (ranks == 1) return machine;
  std::vector<double> memory;  // bandwidth of all cores together
  for (const MemoryLevel& level : machine.memory) memory.push_back(level.bandwidth ? level.bandwidth->value : 0);
  machine = limit_to_threads(std::move(machine), threads);
  const double total_threads = static_cast<double>(ranks) * threads, cores = usable_cores();
  for (Peak& peak : machine.peaks) peak.rate.value *= std::min(1.0, cores / total_threads);
  for (std::size_t i = 0; i < machine.memory.size(); ++i)
    if (auto& rate = machine.memory[i].bandwidth) rate->value = std::min(rate->value, memory[i] / ranks);
  machine.title += fmt::format(", one of {} ranks", ranks);
  return machine;
}

Status use_rank_device(const transport::Communicator& comm) {
  RIDGE_TRY_STATUS(device::require_device());
  return device::use_device(comm.local_rank() % device::query_driver().devices);
}

Result<Link> measure_link(transport::Communicator& comm) {
  double numbers[2] = {0, 0};
  for (const bool large : {false, true}) {
    RIDGE_TRY(took, time_all_reduce(comm, large ? large_elements : 1));
    numbers[large ? 1 : 0] = took;
  }
  RIDGE_TRY_STATUS(transport::broadcast(comm, std::as_writable_bytes(std::span(numbers))));
  const double n = comm.size(), bytes = 2 * (n - 1) / n * static_cast<double>(large_elements * sizeof(float));
  const auto sourced = [&](double value) {
    return SourcedValue{.value = value,
                        .source = fmt::format(
                            "an all-reduce of {} between these {} ranks",
                            format_with_prefix(static_cast<double>(large_elements * sizeof(float)), "B"), comm.size()),
                        .read_on = "",
                        .origin = Origin::measured};
  };
  Link out{.name = std::string(comm.transport_name()),
           .bandwidth = sourced(bytes / std::max(1e-9, numbers[1] - numbers[0]))};
  out.latency = sourced(numbers[0] / 2);  // an all-reduce has two phases: reduce-scatter and all-gather
  out.topology = Topology::switched;
  return out;
}

}  // namespace ridge::ranks
