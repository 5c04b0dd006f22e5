// Names and explanations of product plans on CUDA devices, and predictions for calls with an epilogue.
#pragma once

#include <cstdint>
#include <string>

#include "ridge/ops/model.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops {

std::string roles_name(const MatmulConfig& config);    // "pingpong", "cooperative", "single", "swapped"
std::string layouts_name(const MatmulConfig& config);  // Contiguous axes of A and B: "kk", "kn", "mk", "mn"
std::string config_name(int config);                   // "sm90_128x192x64_pingpong"

namespace cuda {

std::string register_loads_name(int config,
                                bool swap);  // "sm90_registers_128x128x64", "sm90_registers_128x16x64_swapped"
std::string plan_name(
    const MatmulPlan& plan);  // Name of its config, "sm90_gemv", "sm90_registers_128x128x64" or "sm90_plain"
SplitDescription describe_split(tile::SplitMode split_mode);
SplitDescription describe_split(const MatmulPlan& plan);

// Returns the prediction for a supported call. No data are read; an epilogue operand is absent if its pointer is null.
Forecast forecast(const MatmulCall& call, const DeviceNumbers& device);

struct TiledProduct {  // A product divided into tiles
  MatmulConfig config;
  double result_elements = 0;  // batch * m * n
  std::int64_t tiles = 0, waves = 0;
  int splits = 1;
};
// Returns the candidate's greatest disadvantage against `best`.
std::string why_slower(const TiledProduct& best, const TiledProduct& candidate, int multiprocessors);

}  // namespace cuda
}  // namespace ridge::ops
