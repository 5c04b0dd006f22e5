// What each row of sm90_menu takes beside matmul_model's form, which is one for all rows: a factor for each of what may
// bound a product (bytes, results, multiplies), fitted to the same timings.
#pragma once

#include <array>
#include <string_view>

#include "ridge/kernels/matmul_config.h"
#include "ridge/kernels/matmul_model.h"

namespace ridge::kernels::cuda {

struct RowFit {
  std::string_view row;
  double bytes, results, multiplies;
  constexpr double of(Bound bound) const {
    return bound == Bound::bytes ? bytes : bound == Bound::results ? results : multiplies;
  }
};

inline constexpr std::array<RowFit, sm90_menu.size()> row_fits{{
    {"sm90_128x64x64_pingpong", 0.869, 0.957, 0.922},
    {"sm90_128x80x64_pingpong", 0.867, 0.984, 0.967},
    {"sm90_128x112x64_pingpong", 0.914, 1.021, 1.018},
    {"sm90_128x128x64_pingpong", 0.932, 0.991, 1.023},
    {"sm90_128x144x64_pingpong", 0.898, 0.978, 1.019},
    {"sm90_128x160x64_pingpong", 0.901, 0.993, 1.030},
    {"sm90_128x176x64_pingpong", 0.907, 0.994, 1.033},
    {"sm90_128x192x64_pingpong", 0.946, 1.079, 1.056},
    {"sm90_128x128x64_cooperative", 0.914, 1.054, 0.986},
    {"sm90_128x208x64_cooperative", 0.867, 1.066, 0.998},
    {"sm90_128x224x64_cooperative", 0.875, 1.077, 1.000},
    {"sm90_128x256x64_cooperative", 0.848, 1.074, 1.004},
    {"sm90_64x32x64_single", 0.972, 1.080, 0.985},
    {"sm90_64x96x64_single", 0.884, 1.059, 0.909},
    {"sm90_64x128x64_single", 0.887, 1.054, 0.857},
    {"sm90_128x8x128_swapped", 1.037, 0.958, 0.985},
    {"sm90_128x16x128_swapped", 1.041, 0.948, 0.985},
    {"sm90_128x32x128_swapped", 1.027, 0.955, 0.949},
    {"sm90_128x48x128_swapped", 1.037, 0.963, 1.005},
    {"sm90_128x80x64_swapped", 1.035, 1.048, 0.934},
    {"sm90_128x96x64_swapped", 1.045, 1.058, 0.957},
    {"sm90_64x8x128_swapped", 1.115, 1.008, 0.985},
    {"sm90_64x16x128_swapped", 1.093, 1.006, 0.985},
    {"sm90_64x32x128_swapped", 1.080, 1.021, 0.964},
    {"sm90_64x64x128_swapped", 1.090, 1.038, 0.928},
    {"sm90_128x64x64_pingpong_kn", 0.913, 0.993, 0.958},
    {"sm90_128x192x64_pingpong_kn", 0.939, 0.989, 1.053},
    {"sm90_128x256x64_cooperative_kn", 0.860, 1.053, 0.990},
    {"sm90_64x128x64_single_kn", 0.933, 0.995, 0.957},
    {"sm90_128x128x64_pingpong_mk", 0.990, 0.997, 0.985},
    {"sm90_64x64x64_single_mk", 0.990, 0.997, 0.985},
    {"sm90_128x16x128_swapped_kn", 1.104, 0.997, 0.985},
    {"sm90_64x16x128_swapped_kn", 1.161, 0.997, 0.985},
    {"sm90_64x64x128_swapped_kn", 1.112, 1.017, 0.989},
    {"sm90_128x128x64_pingpong_mn", 0.914, 1.006, 1.010},
    {"sm90_128x128x64_cooperative_mn", 0.910, 1.083, 0.988},
    {"sm90_128x256x64_cooperative_mn", 0.863, 1.041, 0.987},
    {"sm90_64x64x64_single_mn", 0.936, 1.068, 1.002},
    {"sm90_64x128x64_single_mn", 0.878, 1.046, 0.918},
    {"sm90_64x64x128_swapped_mn", 1.115, 1.021, 1.006},
    {"sm90_128x128x64_cooperative_cluster2x1", 0.959, 0.980, 0.983},
    {"sm90_128x256x64_cooperative_cluster2x1", 0.948, 1.047, 1.023},
    {"sm90_128x192x64_pingpong_cluster2x1", 0.997, 1.032, 1.069},
    {"sm90_64x96x64_single_cluster2x1", 0.928, 0.969, 0.952},
    {"sm90_64x128x64_single_cluster2x1", 0.923, 0.955, 0.893},
    {"sm90_64x64x128_swapped_cluster1x2", 1.051, 0.915, 0.929},
    {"sm90_128x96x64_swapped_cluster1x2", 1.014, 0.921, 0.922},
    {"sm90_64x64x128_swapped_cluster2x2", 1.052, 0.900, 0.931},
    {"sm90_64x32x128_swapped_cluster4x1", 1.038, 0.933, 0.985},
    {"sm90_64x64x128_swapped_cluster4x1", 1.058, 0.913, 0.931},
    {"sm90_64x32x128_swapped_kn_cluster4x1", 1.104, 0.997, 0.985},
    {"sm90_64x64x128_swapped_kn_cluster4x1", 1.105, 0.997, 0.971},
    {"sm90_64x64x128_swapped_mn_cluster4x1", 1.006, 0.948, 1.007},
    {"sm90_128x64x64_cooperative_mn_cluster1x4", 0.901, 0.943, 0.954},
    {"sm90_128x128x64_cooperative_mn_cluster2x1", 0.941, 1.018, 0.970},
    {"sm90_128x80x64_pingpong_cluster1x2", 0.939, 0.911, 0.961},
    {"sm90_128x160x64_pingpong_cluster2x1", 0.957, 0.951, 1.043},
    {"sm90_128x176x64_pingpong_cluster2x1", 0.967, 0.955, 1.040},
    {"sm90_64x80x64_single_cluster1x4", 0.942, 0.936, 0.928},
    {"sm90_128x112x64_swapped", 1.038, 1.070, 0.974},
    {"sm90_128x80x64_swapped_cluster1x2", 0.992, 0.918, 0.886},
    {"sm90_128x160x64_swapped_cluster1x2", 1.020, 0.997, 0.986},
    {"sm90_128x160x64_swapped_cluster2x2", 0.995, 0.960, 1.005},
    {"sm90_64x96x64_swapped_cluster1x4", 1.010, 0.949, 0.920},
    {"sm90_128x128x64_pingpong_kn_cluster2x1", 0.949, 0.932, 1.038},
    {"sm90_64x32x128_swapped_kn_cluster1x2", 1.059, 0.997, 0.985},
    {"sm90_64x64x128_swapped_kn_cluster1x2", 1.055, 0.970, 0.959},
    {"sm90_128x160x64_swapped_kn_cluster2x1", 1.012, 0.997, 0.974},
    {"sm90_128x128x64_pingpong_mn_cluster2x1", 0.916, 0.945, 1.004},
    {"sm90_128x192x64_pingpong_mn_cluster2x1", 0.948, 1.021, 1.032},
    {"sm90_128x64x128_swapped_mn_cluster4x1", 1.015, 0.942, 0.992},
    {"sm90_128x96x64_cooperative_cluster1x2", 0.952, 0.971, 0.934},
    {"sm90_128x112x64_cooperative_cluster1x2", 0.945, 0.971, 0.951},
    {"sm90_128x144x64_cooperative_cluster2x2", 0.985, 0.993, 1.022},
    {"sm90_128x160x64_cooperative_cluster2x2", 0.984, 1.007, 1.028},
    {"sm90_64x256x64_single_cluster1x2", 0.949, 0.983, 0.936},
    {"sm90_128x144x64_swapped_cluster2x2", 1.007, 0.949, 0.997},
    {"sm90_64x80x64_swapped_cluster1x4", 1.005, 0.949, 0.968},
    {"sm90_64x192x64_single_kn_cluster2x1", 0.970, 0.991, 0.961},
    {"sm90_128x128x64_cooperative_mn_cluster4x1", 0.918, 1.013, 0.993},
    {"sm90_64x128x64_single_mn_cluster4x1", 0.913, 0.990, 0.927},
    {"sm90_64x64x64_single_mn_cluster1x4", 0.905, 0.949, 1.001},
    {"sm90_64x64x64_single_mn_cluster4x2", 0.999, 0.959, 1.001},
    {"sm90_64x192x64_single_mn_cluster4x1", 0.914, 0.987, 0.919},
    {"sm90_128x96x64_cooperative", 0.898, 1.082, 0.954},
    {"sm90_128x112x64_cooperative", 0.904, 1.078, 0.976},
    {"sm90_128x144x64_cooperative", 0.921, 1.105, 0.993},
    {"sm90_128x176x64_swapped", 1.004, 1.058, 0.986},
    {"sm90_64x128x64_swapped_cluster4x2", 0.985, 0.889, 0.912},
    {"sm90_128x80x64_swapped_cluster2x4", 0.954, 0.861, 0.874},
    {"sm90_128x112x64_swapped_cluster2x4", 0.977, 0.911, 0.967},
    {"sm90_64x192x64_single_kn", 0.950, 0.998, 0.924},
    {"sm90_192x128x64_cooperative", 0.914, 0.978, 0.993},
    {"sm90_192x176x64_cooperative", 0.957, 1.087, 1.038},
    {"sm90_192x192x64_cooperative_cluster1x2", 0.965, 1.020, 1.038},
    {"sm90_192x192x64_cooperative_kn", 0.983, 1.036, 1.016},
    {"sm90_192x128x64_cooperative_mn", 0.953, 0.958, 1.000},
    {"sm90_192x192x64_cooperative_mn_cluster2x1", 0.970, 1.017, 1.009},
}};

}  // namespace ridge::kernels::cuda
