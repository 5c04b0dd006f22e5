// Time model of products in a library whose kernels are unknown. The model takes the fastest of 19 tile shapes in both
// orientations with up to 16 splits of k, in waves over the cores, as a library's heuristic would choose. `ridge
// calibrate` fits ten numbers per machine and dtype. A machine file without these numbers uses those of another
// machine, scaled by the peaks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge::ops {

struct LibraryNumbers {
  double launch_s = 0;               // Launch overhead
  double compute_fraction = 0;       // Fraction of the peak FLOP/s of the matrix unit
  double memory_fraction = 0;        // Fraction of the peak memory bandwidth
  double step_s = 0;                 // Minimum time of a step of 64 elements along k
  double tile_s = 0;                 // Fixed time of a tile of 128 x 128 results
  double split_s = 0;                // Time to add the splits of k
  double overlap_exponent = 0;       // Memory and compute time: 1 adds them, 8 takes nearly the longer
  double power_slowdown = 0;         // Slowdown of long compute-bound products by the power limit
  double l2_bytes_per_s = 0;         // L2 bandwidth of all cores together
  double core_bandwidth_factor = 0;  // Total cores / cores that saturate the memory bandwidth
};
struct NamedLibraryNumber {
  std::string_view key, unit;  // Key in a machine file ("library_launch_s") and its unit
  double LibraryNumbers::*member;
};
inline constexpr std::array<NamedLibraryNumber, 10> library_numbers{{
    {"library_launch_s", "s", &LibraryNumbers::launch_s},
    {"library_compute", "1", &LibraryNumbers::compute_fraction},
    {"library_memory", "1", &LibraryNumbers::memory_fraction},
    {"library_step_s", "s", &LibraryNumbers::step_s},
    {"library_tile_s", "s", &LibraryNumbers::tile_s},
    {"library_split_s", "s", &LibraryNumbers::split_s},
    {"library_overlap", "1", &LibraryNumbers::overlap_exponent},
    {"library_slowdown", "1", &LibraryNumbers::power_slowdown},
    {"library_l2_bytes_per_s", "B/s", &LibraryNumbers::l2_bytes_per_s},
    {"library_reach", "1", &LibraryNumbers::core_bandwidth_factor},
}};

struct DatasheetRates {  // Peak rates of the datasheet
  double flops_per_s = 0, memory_bytes_per_s = 0, cores = 0;
};
struct LibraryProduct {
  double batch = 1, m = 0, n = 0, k = 0;
  double operand_bytes = 2, result_bytes = 2;  // Bytes per element
};

double min_traffic_bytes(const LibraryProduct& product);  // Each operand read once, the result written once

struct LibraryTile {
  double m = 0, n = 0;
};
struct LibraryChoice {
  LibraryTile tile = {};
  double splits = 1;                 // Number of parts of k
  double work_items = 0, waves = 0;  // Tiles times splits, and their waves over the cores
  double seconds = 1e30;
};
// Returns the fastest kernel of the model, or with `tile` the fastest of this tile.
LibraryChoice choose_library_kernel(const LibraryProduct& product, const DatasheetRates& machine,
                                    const LibraryNumbers& numbers, const std::optional<LibraryTile>& tile = {});
// Returns the seconds of the fastest kernel.
double estimate_library_seconds(const LibraryProduct& product, const DatasheetRates& machine,
                                const LibraryNumbers& numbers);

}  // namespace ridge::ops
