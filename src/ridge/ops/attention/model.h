// Which kernel attention takes on Hopper and how long. A step's products keep the multiplier busy as long as a
// product's do; exponentials run beside them, 16 a cycle of a multiprocessor, and some of their time shows.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ridge/base/timeline.h"
#include "ridge/ops/attention/backward_plan.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

namespace cuda {
struct AttentionPlan {
  int config = 0;  // of attention_menu
  int group = 1;   // heads that share keys, which are lines of the same tile
  int width = 1;   // heads that go through their keys at a time, so that the L2 holds these
  int parts = 1;   // items that share the keys of the same rows
  std::int64_t items = 0, steps = 0;
  double predicted_s = 0;
  std::size_t workspace_bytes = 0;  // beside its counters
  bool is_ragged = false;           // by the kernel whose sequences may differ
  bool operator==(const AttentionPlan&) const = default;
};
// What stands in the way, as a sentence; none: a kernel does it. Looks at no device.
std::optional<std::string> refuse(const AttentionProblem& problem);
struct AttentionCut {  // a row of the menu, how many parts the keys go in, and heads that are lines of the same tile
  int config = 0;
  std::int64_t parts = 1;
  int group = 1;
};
// Of a problem that is folded. Of sequences that differ in length it says what the longest take.
AttentionPlan planned(const AttentionProblem& problem, AttentionCut cut, const DeviceNumbers& device);
AttentionPlan choose(const AttentionProblem& problem, const DeviceNumbers& device);  // must not be refused
// "sm90_attention_128x128x128": rows of an item, keys of a step, head size.
std::string name_of(int config);
std::optional<int> config_named(std::string_view name);
int attention_configs();
std::int64_t keys_of_a_step(int config);
// One block's items on the trace target, each of so many steps.
Timeline attention_timeline(int config, int items, int steps, const BlockPace& pace, double clock_hz);
// The same with the heads that share keys as rows, where each has one row.
AttentionProblem folded(const AttentionProblem& problem);
}  // namespace cuda

// Of a multiprocessor: four parts of 4 lanes.
inline constexpr double exponentials_a_cycle = 16;

inline constexpr int cpu_attention_width = 256;  // the widest head
// Of a CPU: what stands in the way there, as a sentence.
std::optional<std::string> refuse(const AttentionProblem& problem);
std::optional<std::string> refuse(const AttentionBackwardProblem& problem);

// Sequences differ in length, or in where they lie.
inline bool differ(const AttentionProblem& p) { return p.lengths || p.packed || p.pages; }
// That of sequences of this length alone, if it has lengths. The keys may be 0.
AttentionProblem of_length(const AttentionProblem& problem, std::int64_t length);
// Of sequences that differ in length as if each filled its room.
double flops(const AttentionProblem& problem);    // of the pairs of a row and a key that it sees: 4 * width each
double traffic(const AttentionProblem& problem);  // bytes of q, k, v and o, once each
Result<Forecast> forecast(const AttentionProblem& problem, const DeviceNumbers& device);
CpuForecast cpu_forecast(const AttentionProblem& problem, int threads);
CpuForecast cpu_forecast(const AttentionBackwardProblem& problem, int threads);

}  // namespace ridge::ops
