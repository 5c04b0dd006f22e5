// What a product's plan on a CUDA device is called, why another lost to it, and what a call with its epilogue takes.
#pragma once

#include <cstdint>
#include <string>

#include "ridge/ops/model.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops {

std::string roles_name(const MatmulConfig& config);    // "pingpong", "cooperative", "single", "swapped"
std::string layouts_name(const MatmulConfig& config);  // "kk": A and B of D = A * B lie along k; "kn", "mk", "mn"
std::string menu_name(int config);                     // of sm90_menu: "sm90_128x192x64_pingpong"

namespace cuda {

std::string plan_name(const MatmulPlan& plan);  // of its kernel: a config's, "sm90_gemv" or "sm90_plain"
SplitText split_text(tile::SplitMode split_mode);
SplitText split_text(const MatmulPlan& plan);

// Of a call that is not refused. Data are not looked at, but for which of an epilogue's operands are there.
Forecast forecast(const MatmulCall& call, const DeviceNumbers& device);

struct Tiled {  // a product cut into tiles
  MatmulConfig config;
  double sums = 0;  // of batch * m * n, that are wanted
  std::int64_t tiles = 0, waves = 0;
  int splits = 1;
};
// The candidate's greatest disadvantage, on so many multiprocessors.
std::string why_slower(const Tiled& best, const Tiled& candidate, int multiprocessors);

}  // namespace cuda
}  // namespace ridge::ops
