// Which kernel attention takes on Hopper and how long. A step's products keep the multiplier busy as long as a
// product's do; exponentials run beside them, 16 a cycle of a multiprocessor, and some of their time shows.
#pragma once

#include <optional>
#include <string>

#include "ridge/ops/attention/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

namespace cuda {
struct AttentionPlan {
  int config = 0;  // of attention_menu
  int width = 1;   // heads that go through their keys at a time, so that the L2 holds these
  int parts = 1;   // items that share the keys of the same rows
  std::int64_t items = 0, steps = 0;
  double predicted_s = 0;
  std::size_t workspace_bytes = 0;  // beside its counters
  bool operator==(const AttentionPlan&) const = default;
};
// What stands in the way, as a sentence; none: a kernel does it. Looks at no device.
std::optional<std::string> refuse(const AttentionProblem& problem);
// By this row of the menu, the keys in so many parts; of a problem that is folded.
AttentionPlan planned(const AttentionProblem& problem, int config, std::int64_t parts, const DeviceNumbers& device);
AttentionPlan choose(const AttentionProblem& problem, const DeviceNumbers& device);  // must not be refused
// The same with the heads that share keys as rows, where each has one row.
AttentionProblem folded(const AttentionProblem& problem);
}  // namespace cuda

inline constexpr int cpu_attention_width = 256;  // the widest head
// Of a CPU: what stands in the way there, as a sentence.
std::optional<std::string> refuse(const AttentionProblem& problem);

double flops(const AttentionProblem& problem);    // of the pairs of a row and a key that it sees: 4 * width each
double traffic(const AttentionProblem& problem);  // bytes of q, k, v and o, once each
Result<Forecast> forecast(const AttentionProblem& problem, const DeviceNumbers& device);
CpuForecast cpu_forecast(const AttentionProblem& problem, int threads);

}  // namespace ridge::ops
