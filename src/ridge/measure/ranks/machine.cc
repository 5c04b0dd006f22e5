#include "ridge/measure/ranks/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ridge/base/cores.h"
#include "ridge/base/text.h"
#include "ridge/device/device.h"
#include "ridge/measure/timer.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

constexpr std::size_t many = 1 << 20;  // elements of the large all-reduce
constexpr int turns = 9;

// Returns the median time of an all-reduce, in seconds.
Result<double> seconds(transport::Ranks& ranks, std::size_t numbers) {
  std::vector<float> data(numbers, 1.0F);
  std::vector<int> all(static_cast<std::size_t>(ranks.size()));
  std::iota(all.begin(), all.end(), 0);
  std::vector<double> samples;
  for (int turn = 0; turn < turns; ++turn) {
    if (const Status here = transport::barrier(ranks); !here) return here.error();
    const Timer timer;
    const Status done = transport::all_reduce(ranks, all, {}, std::as_writable_bytes(std::span(data)));
    if (!done) return done.error();
    samples.push_back(timer.seconds());
  }
  return statistics(std::move(samples)).median;
}

}  // namespace

Machine seen_by_a_rank(Machine machine, int ranks, int threads) {
  if (ranks == 1) return machine;
  std::vector<double> memory;  // bandwidth of all cores together
  for (const MemoryLevel& level : machine.memory) memory.push_back(level.bandwidth ? level.bandwidth->value : 0);
  machine = seen_with_threads(std::move(machine), threads);
  const double wanted = static_cast<double>(ranks) * threads, cores = usable_cores();
  for (Peak& peak : machine.peaks) peak.rate.value *= std::min(1.0, cores / wanted);
  for (std::size_t i = 0; i < machine.memory.size(); ++i)
    if (auto& rate = machine.memory[i].bandwidth) rate->value = std::min(rate->value, memory[i] / ranks);
  machine.title += fmt::format(", one of {} ranks", ranks);
  return machine;
}

Status take_device(const transport::Ranks& ranks) {
  if (const Status there = ops::cuda::require_device(); !there) return there;
  return ops::cuda::use_device(ranks.local_rank() % ops::cuda::ask_device().devices);
}

Result<Link> measured_link(transport::Ranks& ranks) {
  double numbers[2] = {0, 0};
  for (const bool large : {false, true}) {
    const auto took = seconds(ranks, large ? many : 1);
    if (!took) return took.error();
    numbers[large ? 1 : 0] = *took;
  }
  if (const Status told = transport::broadcast(ranks, std::as_writable_bytes(std::span(numbers))); !told)
    return told.error();
  const double n = ranks.size(), bytes = 2 * (n - 1) / n * static_cast<double>(many * sizeof(float));
  const auto sourced = [&](double value) {
    return Sourced{.value = value,
                   .source = fmt::format("an all-reduce of {} between these {} ranks",
                                         engineering(static_cast<double>(many * sizeof(float)), "B"), ranks.size()),
                   .read_on = "",
                   .origin = Origin::measured};
  };
  Link out{.name = std::string(ranks.carrier()), .bandwidth = sourced(bytes / std::max(1e-9, numbers[1] - numbers[0]))};
  out.latency = sourced(numbers[0] / 2);  // an all-reduce has two phases: reduce-scatter and all-gather
  out.topology = Topology::switched;
  return out;
}

}  // namespace ridge::ranks
