// Chooses the attention kernel on Hopper and predicts its time. The products of a step take as long as in a matmul
// kernel. Exponentials overlap them, 16 per cycle and multiprocessor; a fitted fraction of their time is exposed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ridge/base/reason.h"
#include "ridge/base/result.h"
#include "ridge/base/timeline.h"
#include "ridge/ops/attention/backward_plan.h"
#include "ridge/ops/attention/problem.h"
#include "ridge/ops/model.h"

namespace ridge::ops {

namespace cuda {
struct AttentionPlan {
  int config = 0;                     // Index in `attention_kernel_configs`
  int heads_per_tile = 1;             // Number of heads that share keys and one tile
  int concurrent_heads = 1;           // Number of heads that run concurrently, so that the L2 holds their keys
  int key_splits = 1;                 // Number of items among which the keys of a row tile are split
  std::int64_t items = 0, steps = 0;  // Number of work items; number of steps of all items
  double predicted_s = 0;
  std::size_t workspace_bytes = 0;  // Excluding the counters
  bool is_ragged = false;           // True if the kernel for ragged sequences is used
  bool operator==(const AttentionPlan&) const = default;
};
// Returns why no kernel supports the problem. Needs no device.
Reason unsupported_reason(const AttentionProblem& problem);
struct AttentionTiling {  // The choices that make_plan turns into a plan; see AttentionPlan
  int config = 0;
  std::int64_t key_splits = 1;
  int heads_per_tile = 1;
};
// Returns the plan with this tiling. `problem` is a result of `fold_heads`. Ragged sequences count as if all had the
// maximum length.
AttentionPlan make_plan(const AttentionProblem& problem, AttentionTiling tiling, const DeviceNumbers& device);
// Returns the plans that are compared: each config of the head size, with keys that are split and that are not.
std::vector<AttentionPlan> list_plans(const AttentionProblem& problem, const DeviceNumbers& device);
// Returns the plan with the shortest predicted time.
AttentionPlan choose_plan(const AttentionProblem& problem, const DeviceNumbers& device);
// Returns a name such as "sm90_attention_128x128x128": rows per item, keys per step, head size.
std::string attention_config_name(int config);
std::optional<int> find_attention_config(std::string_view name);
int attention_config_count();
std::int64_t keys_per_step(int config);
// Returns the timeline of one block that runs `items` items of `steps` steps each, from the trace target.
Timeline attention_timeline(int config, int items, int steps, const BlockThroughput& throughput, double clock_hz);
// If each head has one row, returns an equal problem in which the heads that share keys are the rows of one head.
AttentionProblem fold_heads(const AttentionProblem& problem);
}  // namespace cuda

// Exponentials per cycle of a multiprocessor: four partitions with 4 lanes each.
inline constexpr double exponentials_per_cycle = 16;

inline constexpr int max_cpu_head_size = 256;
// Return why the CPU does not support the problem.
Reason unsupported_reason(const AttentionProblem& problem);
Reason unsupported_reason(const AttentionBackwardProblem& problem);

// True if sequences have their own lengths, are packed or are paged.
inline bool has_ragged_sequences(const AttentionProblem& p) { return p.lengths || p.packed || p.pages; }
// If the problem has lengths, returns the problem in which all sequences have this length; it may have 0 keys.
AttentionProblem with_length(const AttentionProblem& problem, std::int64_t length);
// For ragged sequences `flops` and `traffic_bytes` assume the maximum length.
double flops(const AttentionProblem& problem);          // 4 * width per visible pair of a row and a key
double traffic_bytes(const AttentionProblem& problem);  // Bytes of q, o and the keys and values that a row sees
// Returns the keys of a head that some row sees: the last ones of a cache behind a window. All keys of packed
// sequences.
std::int64_t count_seen_keys(const AttentionProblem& problem);
Result<Forecast> forecast(const AttentionProblem& problem, const DeviceNumbers& device);
CpuForecast cpu_forecast(const AttentionProblem& problem, int threads);
CpuForecast cpu_forecast(const AttentionBackwardProblem& problem, int threads);

}  // namespace ridge::ops
