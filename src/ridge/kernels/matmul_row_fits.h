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
    {"sm90_128x64x64_pingpong", 0.903, 1.012, 0.950},
    {"sm90_128x80x64_pingpong", 0.915, 1.027, 0.967},
    {"sm90_128x96x64_pingpong", 0.954, 1.029, 1.010},
    {"sm90_128x112x64_pingpong", 0.978, 1.026, 1.026},
    {"sm90_128x128x64_pingpong", 0.994, 1.023, 1.024},
    {"sm90_128x144x64_pingpong", 0.986, 1.026, 1.029},
    {"sm90_128x160x64_pingpong", 0.995, 1.041, 1.031},
    {"sm90_128x176x64_pingpong", 1.012, 1.034, 1.034},
    {"sm90_128x192x64_pingpong", 1.042, 1.104, 1.057},
    {"sm90_128x128x64_cooperative", 1.029, 1.024, 1.024},
    {"sm90_128x208x64_cooperative", 0.995, 0.990, 1.006},
    {"sm90_128x224x64_cooperative", 1.002, 1.006, 1.012},
    {"sm90_128x240x64_cooperative", 0.999, 1.009, 1.013},
    {"sm90_128x256x64_cooperative", 0.994, 1.006, 1.014},
    {"sm90_256x128x64_cooperative", 1.026, 1.027, 1.026},
    {"sm90_64x32x64_single", 1.094, 1.038, 1.002},
    {"sm90_64x64x64_single", 0.981, 1.028, 1.048},
    {"sm90_64x96x64_single", 0.953, 1.019, 1.054},
    {"sm90_64x128x64_single", 0.954, 0.999, 0.982},
    {"sm90_128x8x128_swapped", 1.049, 1.029, 1.002},
    {"sm90_128x16x128_swapped", 1.053, 1.021, 1.002},
    {"sm90_128x32x128_swapped", 1.047, 0.991, 0.984},
    {"sm90_128x48x128_swapped", 1.014, 0.956, 0.998},
    {"sm90_128x64x128_swapped", 1.033, 0.941, 0.976},
    {"sm90_128x80x64_swapped", 1.041, 0.988, 1.030},
    {"sm90_128x96x64_swapped", 1.060, 0.978, 1.038},
    {"sm90_64x8x128_swapped", 1.132, 1.029, 1.002},
    {"sm90_64x16x128_swapped", 1.128, 1.039, 1.002},
    {"sm90_64x32x128_swapped", 1.076, 1.019, 1.004},
    {"sm90_64x64x128_swapped", 1.026, 0.977, 0.979},
    {"sm90_128x64x64_pingpong_kn", 0.960, 1.015, 1.013},
    {"sm90_128x128x64_pingpong_kn", 0.994, 1.036, 1.010},
    {"sm90_128x192x64_pingpong_kn", 1.062, 1.074, 1.080},
    {"sm90_128x128x64_cooperative_kn", 1.031, 1.037, 1.017},
    {"sm90_128x256x64_cooperative_kn", 1.023, 1.015, 1.008},
    {"sm90_64x64x64_single_kn", 1.019, 1.033, 1.004},
    {"sm90_64x128x64_single_kn", 0.969, 1.016, 0.964},
    {"sm90_128x128x64_pingpong_mk", 1.049, 1.029, 1.002},
    {"sm90_128x128x64_cooperative_mk", 1.049, 1.029, 1.002},
    {"sm90_64x64x64_single_mk", 1.049, 1.029, 1.002},
    {"sm90_128x16x128_swapped_kn", 1.073, 1.029, 1.002},
    {"sm90_128x64x128_swapped_kn", 1.053, 0.977, 0.989},
    {"sm90_64x16x128_swapped_kn", 1.145, 1.029, 1.002},
    {"sm90_64x64x128_swapped_kn", 1.071, 1.010, 0.995},
    {"sm90_128x64x64_pingpong_mn", 0.928, 1.008, 0.969},
    {"sm90_128x128x64_pingpong_mn", 0.969, 1.042, 1.020},
    {"sm90_128x192x64_pingpong_mn", 0.980, 1.073, 1.046},
    {"sm90_128x128x64_cooperative_mn", 1.016, 1.047, 1.011},
    {"sm90_128x256x64_cooperative_mn", 0.995, 1.027, 1.010},
    {"sm90_64x64x64_single_mn", 0.996, 1.037, 1.037},
    {"sm90_64x128x64_single_mn", 0.951, 1.015, 0.953},
    {"sm90_128x64x128_swapped_mn", 1.056, 0.990, 0.966},
    {"sm90_64x64x128_swapped_mn", 1.067, 1.009, 0.977},
    {"sm90_128x32x128_swapped_kn", 1.083, 1.023, 0.974},
    {"sm90_128x64x64_cooperative_cluster2x2", 1.076, 1.037, 0.932},
    {"sm90_128x128x64_cooperative_cluster2x1", 1.094, 1.023, 0.977},
    {"sm90_128x256x64_cooperative_cluster2x1", 1.051, 1.040, 1.027},
    {"sm90_128x192x64_pingpong_cluster2x1", 1.105, 1.156, 1.067},
    {"sm90_64x96x64_single_cluster2x1", 1.044, 1.027, 0.976},
    {"sm90_64x128x64_single_cluster2x1", 1.039, 1.026, 0.908},
    {"sm90_64x32x128_swapped_cluster1x4", 1.137, 1.031, 0.981},
    {"sm90_64x64x128_swapped_cluster1x2", 1.099, 1.016, 0.919},
    {"sm90_128x96x64_swapped_cluster1x2", 1.108, 0.995, 0.937},
    {"sm90_64x64x128_swapped_cluster2x2", 1.148, 0.994, 0.866},
    {"sm90_64x16x128_swapped_cluster2x1", 1.083, 1.029, 1.002},
    {"sm90_64x32x128_swapped_cluster4x1", 1.084, 1.030, 1.002},
    {"sm90_64x64x128_swapped_cluster4x1", 1.125, 1.008, 0.881},
    {"sm90_64x128x64_single_kn_cluster2x1", 1.079, 1.035, 0.938},
    {"sm90_64x16x128_swapped_kn_cluster2x1", 1.108, 1.029, 1.002},
    {"sm90_64x32x128_swapped_kn_cluster4x1", 1.124, 1.029, 1.002},
    {"sm90_64x64x128_swapped_kn_cluster4x1", 1.168, 1.028, 0.969},
    {"sm90_64x64x128_swapped_mn_cluster4x1", 1.122, 0.997, 0.927},
    {"sm90_128x64x128_swapped_mn_cluster2x1", 1.088, 0.992, 1.016},
    {"sm90_128x64x64_cooperative_mn_cluster1x4", 1.034, 1.028, 1.012},
    {"sm90_128x128x64_cooperative_mn_cluster2x1", 1.095, 1.064, 0.994},
    {"sm90_128x80x64_pingpong_cluster1x2", 1.037, 1.098, 0.980},
    {"sm90_128x160x64_pingpong_cluster2x1", 1.067, 1.085, 1.032},
    {"sm90_128x176x64_pingpong_cluster2x1", 1.057, 1.063, 1.031},
    {"sm90_128x160x64_cooperative_cluster2x1", 1.058, 1.058, 1.002},
    {"sm90_64x48x64_single_cluster2x2", 1.175, 1.026, 1.002},
    {"sm90_64x80x64_single_cluster1x4", 1.123, 1.030, 1.002},
    {"sm90_128x112x64_swapped", 1.068, 0.992, 1.028},
    {"sm90_128x160x64_swapped", 1.054, 0.997, 1.017},
    {"sm90_128x80x64_swapped_cluster1x2", 1.059, 0.993, 0.918},
    {"sm90_128x96x64_swapped_cluster2x2", 1.139, 1.023, 0.948},
    {"sm90_128x112x64_swapped_cluster1x2", 1.128, 1.009, 0.976},
    {"sm90_128x144x64_swapped_cluster2x1", 1.090, 1.021, 0.983},
    {"sm90_128x160x64_swapped_cluster1x2", 1.122, 1.031, 1.005},
    {"sm90_128x160x64_swapped_cluster2x2", 1.066, 1.038, 1.001},
    {"sm90_64x96x64_swapped_cluster2x2", 1.126, 1.034, 0.973},
    {"sm90_64x96x64_swapped_cluster1x4", 1.139, 1.036, 0.990},
    {"sm90_128x128x64_pingpong_kn_cluster2x1", 1.068, 1.051, 1.027},
    {"sm90_64x32x128_swapped_kn_cluster1x2", 1.107, 1.029, 1.002},
    {"sm90_64x64x128_swapped_kn_cluster1x2", 1.079, 1.031, 1.002},
    {"sm90_64x96x64_swapped_kn_cluster2x1", 1.096, 1.033, 0.993},
    {"sm90_128x112x64_swapped_kn_cluster2x1", 1.053, 1.038, 1.003},
    {"sm90_128x160x64_swapped_kn_cluster2x1", 1.058, 1.026, 0.994},
    {"sm90_128x128x64_pingpong_mn_cluster2x1", 1.060, 1.091, 1.031},
    {"sm90_128x192x64_pingpong_mn_cluster2x1", 1.061, 1.041, 1.035},
    {"sm90_128x64x128_swapped_mn_cluster4x1", 1.032, 1.005, 0.997},
}};

}  // namespace ridge::kernels::cuda
