// Chooses the kernel of attention's backward pass on Hopper and predicts its workspace and time.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

// The keys that at least one row sees: first … end - 1, or none if end <= first.
struct VisibleKeys {
  std::int64_t first = 0, end = 0;
};
VisibleKeys find_visible_keys(const AttentionProblem& problem);
// Returns a reason if the sequences have several lengths: no target has gradients of ragged sequences.
Reason validate_uniform_sequences(const AttentionProblem& forward);

namespace cuda {

struct AttentionBackwardPlan {
  int config = 0;                     // Index in `attention_backward_kernel_configs`
  int concurrent_heads = 1;           // Number of key heads that run concurrently
  std::int64_t tiles_per_head = 0;    // Number of row tiles of a query head
  std::int64_t items = 0, steps = 0;  // Number of work items; number of steps of all items
  std::size_t dq_sums_bytes = 0, row_stats_bytes = 0, add_counts_bytes = 0;  // Consecutive in the workspace
  double predicted_s = 0;
  std::size_t workspace_bytes = 0;  // Excluding the counters
  bool operator==(const AttentionBackwardPlan&) const = default;
};
// Returns why no kernel supports the problem. Needs no device.
Reason unsupported_reason(const AttentionBackwardProblem& problem);
AttentionBackwardPlan choose_plan(const AttentionBackwardProblem& problem, const DeviceNumbers& device);
// Returns a name such as "sm90_attention_backward_128x64x128": keys per item, rows per step, head size.
std::string backward_config_name(int config);
std::optional<int> find_backward_config(std::string_view name);
int attention_backward_config_count();
std::int64_t rows_per_step(int config);
// Returns the timeline of one block that runs `items` items of `steps` steps each, from the trace target.
Timeline attention_backward_timeline(int config, int items, int steps, const BlockThroughput& throughput,
                                     double clock_hz);

}  // namespace cuda

double flops(const AttentionBackwardProblem& problem);  // 10 * width per visible pair of a row and a key
double traffic_bytes(const AttentionBackwardProblem&
                         problem);  // Bytes of the five inputs, as far as a row sees them, and of three results
Result<Forecast> forecast(const AttentionBackwardProblem& problem, const DeviceNumbers& device);

}  // namespace ridge::ops
