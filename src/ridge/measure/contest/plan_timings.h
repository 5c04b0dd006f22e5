// Timings of many plans of many products on one device: what the planner's numbers are fitted to (tools/fit_models.cc).
// As text a line a product, which is a tenth of a line a timing:
//
//   # device: NVIDIA H200
//   # config 17: sm90_128x16x128_swapped stages 5 staging 2
//   op,dtype,m,n,k,plans
//   linear,bf16,16,4096,4096,17=14.02 17k4=11.87 17c4=11.5 gemv=40.1
//
// A plan is the number of its config in this file, then how k is cut: k4 in four pieces whose last adds them
// (split_k), w4 that wait for each other (cooperative_split_k), c4 of a cluster (cluster_split_k), s (stream_k); then
// +a, +b or +ab, operands that are copied first; its time is in microseconds. Configs go by their names, so that a file
// stays good when others join the menu.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/measure/contest/contest_shape.h"
#include "ridge/ops/product/closed_form.h"

namespace ridge {

struct TimedPlan {
  int config = -1;  // of the menu; -1: the kernel for few rows (gemv)
  ops::cuda::SplitK split = {};
  ops::cuda::Copies copies = {};
  double seconds = 0;
};

struct TimedProduct {
  ContestShape shape;
  std::vector<TimedPlan> plans;
};

// The device as it answers, and who timed it.
struct TimedDevice {
  std::string device, day, ridge;  // "NVIDIA H200", 2026-11-25, version and commit
  int driver = 0, multiprocessors = 0;
  double clock_hz = 0, memory_bytes_per_s = 0;  // both at most
  std::int64_t l2_bytes = 0;
  std::vector<int> clusters_at_once = {};  // of 1 … 8 blocks, each of which fills a multiprocessor
};

struct PlanTimings {
  TimedDevice device;
  std::vector<TimedProduct> products;
  std::vector<std::string> gone;  // configs that are in the file and not in the menu: their timings are left out
};

// The product as it was timed: B is weights unless both operands are activations (tn). Its data are addresses alone.
ops::cuda::MatmulCall timed_call(const ContestShape& shape);

// What plans for the device that was timed rest on: its catalog machine's numbers, else what the driver said of it.
Result<ops::DeviceNumbers> numbers_of(const TimedDevice& device);

// The plan that was timed, as it is planned today; none where it is no longer offered.
std::optional<ops::cuda::PlannedWork> timed_work(const ops::cuda::MatmulCall& call, const ops::DeviceNumbers& device,
                                                 const TimedPlan& timed,
                                                 const ops::cuda::ProductModel& model = ops::cuda::product_model());

// The lines above the first product.
std::string timings_header(const TimedDevice& device);
std::string timings_line(const TimedProduct& product);

// Errors name the line.
Result<PlanTimings> parse_timings(std::string_view text, const std::string& source);
Result<PlanTimings> read_timings(const std::string& path);

// "sm90_64x96x64_swapped_cluster4x1 stages 10 staging 1": all that tells a config from others of the menu.
std::string config_text(int config);

}  // namespace ridge
