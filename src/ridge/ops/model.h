// Predictions for one kernel: name, bytes moved and seconds. Each folder of ops declares overloads for its problems in
// its model.h; the planner visits a variant of problems:
//
//   forecast(problem, device)         on a CUDA device; an error if no CUDA kernel computes the problem
//   cpu_forecast(problem, threads)    on a CPU
//
// Neither accesses a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/product_size.h"
#include "ridge/base/result.h"

namespace ridge::ops {

// Rates that differ between Hopper devices. plan/device_numbers.h derives them from a machine file. Costs in cycles and
// bytes, which are the same on every Hopper, are in data/models.
struct DeviceNumbers {
  int multiprocessors = 0;
  double clock_hz = 0;            // Clock of memory-bound kernels
  double busy_clock_hz = 0;       // Clock of compute-bound kernels, reduced by the power limit
  double memory_bytes_per_s = 0;  // Memory bandwidth of a kernel that reads and writes
  double l2_bytes_per_s = 0;      // L2 bandwidth
  std::int64_t l2_bytes = 0;
  double launch_s = 0;  // Launch overhead of a kernel in a graph
  bool timed = true;    // True if plans were timed on this device; otherwise predictions are less certain
};
// Throughput of one thread block; latencies in cycles.
struct BlockThroughput {
  double load_bytes_per_cycle = 0, load_latency = 0;  // Loads from the L2
  double flops_per_cycle = 0;
  double store_bytes_per_cycle = 0, store_latency = 0;
};
inline constexpr std::size_t plan_workspace_bytes = std::size_t{512} << 20;  // Limit on the workspace of a kernel

// Name of a split mode ("cooperative_split_k") and its explanation; both are empty if k is not split.
struct SplitDescription {
  std::string_view name = {}, meaning = {};
};

struct TilePlan {
  std::string kernel;  // "sm90_128x192x64_pingpong", "sm90_plain", "chain", "2 matmuls + chain", "cublaslt"
  std::optional<int> tile_m = {}, tile_n = {}, tile_k = {}, stages = {}, split = {};
  std::optional<std::int64_t> waves = {};
  SplitDescription split_description = {};
};

// Counts that explain the predicted time of a product's plan.
struct PlanProperties {
  std::int64_t work_items = 0;        // Tiles times splits; 0 without tiles
  std::int64_t concurrent_items = 0;  // Work items that run concurrently
  double outside_fraction = 0;        // Fraction of the multiply-adds that lie outside the result
  double min_bytes = 0;               // Bytes if each operand is read once and the result written once
  struct UnalignedOperand {           // An operand whose lines do not start at multiples of 128 bytes
    int operand = 0;                  // 0 is left, 1 is right
    std::int64_t line_stride_bytes = 0;
    std::int64_t alignment = 0;           // Largest power of 2 that divides the line stride, in bytes, up to 128
    std::int64_t copy_traffic_bytes = 0;  // Bytes read and written to copy the operand to aligned lines; 0 without copy
  };
  std::vector<UnalignedOperand> unaligned_operands = {};
  std::int64_t min_alignment = 0;      // Alignment in bytes that the copy engine requires
  std::int64_t result_line_bytes = 0;  // Distance between the starts of the result's rows
  bool element_stores = false;         // True if rows of the result are unaligned, so that elements are stored singly
  struct PaddedProduct {               // The same product with m, n and k rounded up to multiples of 8
    ProductSize size;
    double predicted_s = 0;
  };
  std::optional<PaddedProduct> padded = {};  // Present if an operand is copied or elements are stored one by one
};

struct Candidate {
  TilePlan plan = {};
  double predicted_s = 0;
  std::string why;  // Greatest disadvantage of this candidate: "loads 20 % more for each product"
};
inline constexpr std::size_t max_candidates = 4;

struct PredictionSpread {  // Ratio of measured to predicted time: 5th percentile, median, 95th percentile
  double low = 1, middle = 1, high = 1;
};

// Bytes requested from the L2 (or from memory if nothing is reused), and the part of them that misses the L2.
struct MovedBytes {
  std::int64_t requested_bytes = 0, memory_bytes = 0;
};

struct Forecast {
  TilePlan plan = {};
  bool is_main_kernel = false;  // True if the report shows this kernel's plan for the statement
  double seconds = 0;
  PredictionSpread spread = {};
  // Counts on demand, because tracing the tiles of a large product takes seconds. Empty if no bytes move.
  std::function<MovedBytes()> count_bytes = {};
  std::vector<Candidate> candidates = {};         // Next best plans, fastest first
  std::optional<PlanProperties> properties = {};  // Present for products
};

// Returns the spread of a kind of prediction (fitted.h); the spread is wider if `device.timed` is false.
PredictionSpread spread_on_device(const DeviceNumbers& device, std::string_view kind);

// Returns the prediction for a streaming kernel: the longer of moving `bytes` and issuing `instructions` (per lane).
Forecast forecast_streamed(std::string_view kernel, double bytes, double instructions, const DeviceNumbers& device);

struct CpuForecast {
  std::string_view kernel;
  std::optional<std::int64_t> requested_bytes = {};  // If absent, each buffer moves once
  double vector_flops = 0;                           // Equivalent f32 FLOPs; 0 if memory surely takes longer
  bool uses_bf16_pairs = false;                      // True if the CPU multiplies pairs of bf16
  std::optional<PlanProperties> properties = {};     // Present for products
  // For kernels of ops/loops: false if their time is not predicted; bytes that move to and from memory, if these exceed
  // what the statement needs; measured over predicted time.
  bool has_model = true;
  double memory_bytes = 0;
  PredictionSpread spread = {};
};

}  // namespace ridge::ops
