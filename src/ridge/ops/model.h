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
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::ops {

struct DeviceNumbers {
  int multiprocessors = 0;
  double bytes_per_s = 0, lanes_per_s = 0;  // of memory; instructions of one lane
  double launch_s = 0;
  double plain_flop_per_s = 0;   // of the product that has no tiles
  std::int64_t cache_bytes = 0;  // between the multiprocessors and memory
  std::size_t workspace_bytes = 0;
};

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

struct Candidate {
  TilePlan plan = {};
  double predicted_s = 0;
  std::string why;  // "3 waves where 2 do", …: its greatest disadvantage
};
inline constexpr std::size_t most_candidates = 4;

struct Spread {  // measured over predicted time: the 5th percentile, the middle and the 95th
  double low = 1, middle = 1, high = 1;
};

struct Forecast {
  TilePlan plan = {};
  bool leads = false;  // names the statement's kernel, whatever else the statement takes
  double seconds = 0;
  Spread spread = {};
  std::optional<Spread> of_cublaslt = {};  // where the same time also predicts that library's kernel
  // Asked of the L2, or of memory where there is no reuse; and what of it is asked of memory.
  std::int64_t traffic_bytes = 0, memory_bytes = 0;
  std::vector<Candidate> candidates = {};  // the next best, best first
};

// Of a kernel that moves bytes and spends instructions, each of a lane, whichever takes longer.
Forecast streamed(std::string_view kernel, double bytes, double instructions, const DeviceNumbers& device);

struct CpuForecast {
  std::string_view kernel;
  std::optional<std::int64_t> asked_bytes = {};  // none: each of its buffers once
  double vector_flops = 0;                       // what takes as long in f32, where it may take longer than the bytes
};

}  // namespace ridge::ops
