// Timings of many plans of many products on one device, to which the planner's numbers are fitted (tools/fit_models).
// As text, each product has one line, a tenth of the size of one line per timing:
//
//   # device: NVIDIA H200
//   # config 17: sm90_128x16x128_swapped stages 5 staging 2
//   op,dtype,m,n,k,plans
//   linear,bf16,16,4096,4096,17=14.02 17k4=11.87 17c4=11.5 gemv=40.1
//
// A plan is the number of its kernel config in this file, then the split of k: k4 for four splits whose last one adds
// the partial sums (split_k), w4 for splits that wait for each other (cooperative_split_k), c4 for a cluster
// (cluster_split_k), s (stream_k); then +a, +b or +ab for operands that are copied first. Times are in microseconds.
// Configs are identified by name, so that a file stays valid when configs are added.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/bench/benchmark_shape.h"
#include "ridge/ops/product/closed_form.h"

namespace ridge {

struct TimedPlan {
  int config = -1;  // index of the kernel config; -1: the kernel for few rows (gemv)
  ops::cuda::SplitK split = {};
  ops::cuda::OperandCopies copies = {};
  double seconds = 0;
};

struct TimedProduct {
  BenchmarkShape shape;
  std::vector<TimedPlan> plans;
};

// Device properties as the driver reports them, and the date and version of the timing.
struct TimedDevice {
  std::string device, day, ridge_version;  // "NVIDIA H200", 2026-11-25, version and commit
  int driver = 0, multiprocessors = 0;
  double clock_hz = 0, memory_bytes_per_s = 0;  // maximum values
  std::int64_t l2_bytes = 0;
  std::vector<int> max_active_clusters = {};  // for 1 … 8 blocks, each of which fills a multiprocessor
};

struct PlanTimings {
  TimedDevice device;
  std::vector<TimedProduct> products;
  // Configs of the file that no longer exist; their timings are skipped.
  std::vector<std::string> unknown_configs;
};

// Returns the product as it was timed: B is weights unless both operands are activations (tn). Pointers are fake.
ops::cuda::MatmulCall make_timed_call(const BenchmarkShape& shape);

// Returns the numbers for plans on the timed device: its catalog machine's, else the driver's.
Result<ops::DeviceNumbers> timed_device_numbers(const TimedDevice& device);

// Plans the timed plan again with the current model. Returns nullopt if it is no longer supported.
std::optional<ops::cuda::UncorrectedPlan> plan_timed_work(
    const ops::cuda::MatmulCall& call, const ops::DeviceNumbers& device, const TimedPlan& timed,
    const ops::cuda::ProductModel& model = ops::cuda::product_model());

// Returns the lines before the first product.
std::string format_timings_header(const TimedDevice& device);
std::string format_timings_line(const TimedProduct& product);

// Errors name the line.
Result<PlanTimings> parse_timings(std::string_view text, const std::string& source);
Result<PlanTimings> read_timings(const std::string& path);

// Returns a config's unique description: "sm90_64x96x64_swapped_cluster4x1 stages 10 staging 1".
std::string format_config(int config);

// Times many plans of each product on this device within a budget of seconds. Half of a product's plans are the model's
// best. The others are drawn from the configs with the fewest timings so far, so that every config is timed, including
// those that the model considers slow. The order of the
// products is random but fixed, so that small and large ones are timed whenever the budget ends.
struct TimePlansOptions {
  double seconds = 400;        // no product starts after that time
  int plans_per_product = 40;  // at most; fewer if the product is slow
  std::size_t skip = 0;        // products that an earlier run has timed
  std::function<void(const TimedProduct&, std::size_t done, std::size_t total)> on_timed;
};

Result<TimedDevice> describe_timed_device();  // returns an error without a device
Status time_plans(const std::vector<BenchmarkShape>& shapes, const TimePlansOptions& options);

}  // namespace ridge
