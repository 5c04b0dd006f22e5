// Which kernel attention's backward pass takes on Hopper, what it needs beside its operands, and how long it takes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ridge/base/timeline.h"
#include "ridge/ops/attention/backward_problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

// Keys first … end - 1 are all that some row sees; none where end <= first.
struct SeenKeys {
  std::int64_t first = 0, end = 0;
};
SeenKeys seen_keys(const AttentionProblem& problem);

namespace cuda {

struct AttentionBackwardPlan {
  int config = 0;          // of attention_backward_menu
  int width = 1;           // heads of keys that are gone through side by side
  std::int64_t tiles = 0;  // of rows of queries, of a head
  std::int64_t items = 0, steps = 0;
  std::size_t sums_bytes = 0, numbers_bytes = 0, turns_bytes = 0;  // one behind the other in the workspace
  double predicted_s = 0;
  std::size_t workspace_bytes = 0;  // beside its counters
  bool operator==(const AttentionBackwardPlan&) const = default;
};
// What stands in the way, as a sentence; none: a kernel does it. Looks at no device.
std::optional<std::string> refuse(const AttentionBackwardProblem& problem);
AttentionBackwardPlan choose(const AttentionBackwardProblem& problem, const DeviceNumbers& device);
// "sm90_attention_backward_128x64x128": keys of an item, rows of a step, head size.
std::string backward_name_of(int config);
std::optional<int> backward_config_named(std::string_view name);
int attention_backward_configs();
std::int64_t rows_of_a_step(int config);
// One block's items on the trace target, each of so many steps.
Timeline attention_backward_timeline(int config, int items, int steps, const BlockPace& pace, double clock_hz);

}  // namespace cuda

double flops(const AttentionBackwardProblem& problem);    // 10 * width of each pair of a row and a key that it sees
double traffic(const AttentionBackwardProblem& problem);  // bytes of its five inputs and three results, once each
Result<Forecast> forecast(const AttentionBackwardProblem& problem, const DeviceNumbers& device);

}  // namespace ridge::ops
