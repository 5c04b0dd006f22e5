// How long a product takes in a library whose kernels are not known: tiles over cores in waves, pieces of k, and the
// best of them, as a library's heuristic finds it. Ten numbers a machine and dtype, fitted by `ridge calibrate`; what a
// machine's file does not hold is another machine's, as shares of its peaks. Waves of 18 sizes of tiles and both
// orientations, with k in up to 16 pieces, are tried: which tile a library takes is inferred, not known.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace ridge::ops {

struct LibraryNumbers {
  double launch_s = 0;        // of any product
  double compute = 0;         // of the matrix unit's peak
  double memory = 0;          // of the memory's peak
  double step_s = 0;          // of 64 of k at least: the latency of a step
  double tile_s = 0;          // of 128 x 128 results: what a tile takes beside its steps
  double split_s = 0;         // of adding pieces of k
  double overlap = 0;         // how well bytes and cycles overlap: 1 one after the other, 8 the longer
  double slowdown = 0;        // share that the power limit adds to a long busy product
  double l2_bytes_per_s = 0;  // that the cores get together
  double reach = 0;           // of the cores' number, whose loads fill the memory's lines: 1 / share
};
struct NamedLibraryNumber {
  std::string_view key, unit;  // of a machine file: "library_launch_s"
  double LibraryNumbers::*place;
};
inline constexpr std::array<NamedLibraryNumber, 10> library_numbers{{
    {"library_launch_s", "s", &LibraryNumbers::launch_s},
    {"library_compute", "1", &LibraryNumbers::compute},
    {"library_memory", "1", &LibraryNumbers::memory},
    {"library_step_s", "s", &LibraryNumbers::step_s},
    {"library_tile_s", "s", &LibraryNumbers::tile_s},
    {"library_split_s", "s", &LibraryNumbers::split_s},
    {"library_overlap", "1", &LibraryNumbers::overlap},
    {"library_slowdown", "1", &LibraryNumbers::slowdown},
    {"library_l2_bytes_per_s", "B/s", &LibraryNumbers::l2_bytes_per_s},
    {"library_reach", "1", &LibraryNumbers::reach},
}};

struct LibraryMachine {  // by its datasheet
  double flops_per_s = 0, memory_bytes_per_s = 0, cores = 0;
};
struct LibraryProduct {
  double batch = 1, m = 0, n = 0, k = 0;
  double operand_bytes = 2, result_bytes = 2;  // of an element
};

double least_bytes(const LibraryProduct& product);  // each operand read, the result written, once
double library_seconds(const LibraryProduct& product, const LibraryMachine& machine, const LibraryNumbers& numbers);

}  // namespace ridge::ops
