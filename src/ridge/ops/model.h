// What a kernel answers before it runs: its name, what it moves and how long it takes. Each subject answers for its own
// problems in its model.h, one overload a problem, and whoever plans visits a variant of them:
//
//   forecast(problem, device)         on a CUDA device of these numbers; an error where no kernel there does it
//   cpu_forecast(problem, threads)    on a CPU
//
// No device is looked at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::ops {

// A Hopper device as plans see it: all that differs from one to the next. What its kernels take beside, in cycles,
// bytes and shares, is the same on each and lies in data/models. From a machine file: plan/device_numbers.h.
struct DeviceNumbers {
  int multiprocessors = 0;
  double clock_hz = 0;            // while bytes bound what runs
  double busy_clock_hz = 0;       // that the power limit leaves where multiplies bound it
  double memory_bytes_per_s = 0;  // that a kernel which reads and writes gets
  double l2_bytes_per_s = 0;      // that the L2 serves
  std::int64_t l2_bytes = 0;
  double launch_s = 0;  // of a kernel in a graph
  bool timed = true;    // false: nobody timed plans there, and predictions are as much less certain
};
// A block's ports: bytes and FLOP a cycle, and cycles until what is asked for is there.
struct BlockPace {
  double load_bytes = 0, load_latency = 0;  // from the L2
  double flops = 0;
  double store_bytes = 0, store_latency = 0;
};
inline constexpr std::size_t plan_workspace_bytes = std::size_t{512} << 20;  // that a kernel may use beside operands

// How a kernel's blocks share k: "cooperative_split_k", which means that "the pieces of k wait for each other". Empty:
// they do not.
struct SplitText {
  std::string_view word = {}, meaning = {};
};

struct TilePlan {
  std::string kernel;  // "sm90_128x192x64_pingpong", "sm90_plain", "chain", "2 matmuls + chain"; cuBLASLt: "cublaslt"
  std::optional<int> tile_m = {}, tile_n = {}, tile_k = {}, stages = {}, split = {};
  std::optional<std::int64_t> waves = {};
  SplitText split_text = {};  // of k over blocks
};

// Why a product's plan takes what it takes.
struct PlanFacts {
  std::int64_t pieces = 0, at_once = 0;  // tiles times pieces of k, and how many of them run at once; 0: no tiles
  double beyond_edges = 0;               // the share of what is multiplied that lies outside of the result
  double least_bytes = 0;                // each operand read, the result written, once
  struct Lines {                         // of an operand, where they do not start at multiples of 128 bytes
    int operand = 0;                     // 0, 1: left, right
    std::int64_t bytes = 0, start = 0;   // from one line's begin to the next one's; the multiples at which they start
    std::int64_t copied_bytes = 0;       // read and written to have lines that can be read; 0: they can be
  };
  std::vector<Lines> lines = {};
  std::int64_t least_line = 0;         // bytes at whose multiples lines must start
  std::int64_t result_line_bytes = 0;  // of the result
  bool single_stores = false;          // its lines start anywhere, so elements are stored one by one
  struct Padded {                      // the same product with every size at the next multiple of 8
    std::int64_t m = 0, n = 0, k = 0;
    double predicted_s = 0;
  };
  std::optional<Padded> padded = {};  // where something was copied or stored one by one
};

struct Candidate {
  TilePlan plan = {};
  double predicted_s = 0;
  std::string why;  // "3 waves where 2 do", …: its greatest disadvantage
};
inline constexpr std::size_t most_candidates = 4;

struct Spread {  // measured over predicted time: the 5th percentile, the middle and the 95th
  double low = 1, middle = 1, high = 1;
};

// Asked of the L2, or of memory where there is no reuse; and what of it is asked of memory.
struct MovedBytes {
  std::int64_t traffic = 0, memory = 0;
};

struct Forecast {
  TilePlan plan = {};
  bool leads = false;  // names the statement's kernel, whatever else the statement takes
  double seconds = 0;
  Spread spread = {};
  // Counted when it is asked for: a large product's tiles take seconds to go through. Empty: nothing moves.
  std::function<MovedBytes()> moved = {};
  std::vector<Candidate> candidates = {};  // the next best, best first
  std::optional<PlanFacts> facts = {};     // of a product
};

// On this device: wider where nobody timed plans.
Spread spread_on(const DeviceNumbers& device, std::string_view kind);  // of data/models/spreads.csv

// Of a kernel that moves bytes and spends instructions, each of a lane, whichever takes longer.
Forecast streamed(std::string_view kernel, double bytes, double instructions, const DeviceNumbers& device);

struct CpuForecast {
  std::string_view kernel;
  std::optional<std::int64_t> asked_bytes = {};  // none: each of its buffers once
  double vector_flops = 0;                       // what takes as long in f32, where it may take longer than the bytes
  bool pairs = false;                            // … multiplied as bf16
  std::optional<PlanFacts> facts = {};           // of a product
};

}  // namespace ridge::ops
