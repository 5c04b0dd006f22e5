// A product of m x k by k x n on a grid of p1 x p2 x p3 devices that splits m, n and k. Each operand is stored once,
// evenly distributed, and gathered by the devices that need it. The partial sums over k are reduce-scattered:
//   words moved = (p2 - 1)*m*k + (p1 - 1)*k*n + (p3 - 1)*m*n
// A 1D grid has p2 = p3 = 1, a 2D grid (SUMMA) p3 = 1, and a 2.5D or 3D grid, which keeps several partial sums, p3 > 1.
// Al Daas and others, SPAA 2022: with real p1, p2, p3 whose product is P, no algorithm moves fewer words.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ridge/base/product_size.h"
#include "ridge/distributed/layout.h"
#include "ridge/machine/machine.h"

namespace ridge {

struct ProcessGrid {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t device_count() const { return m * n * k; }
  auto operator<=>(const ProcessGrid&) const = default;
};
std::int64_t words_moved(const ProcessGrid& grid, const ProductSize& dims);

// Returns every grid of at most `devices` devices.
std::vector<ProcessGrid> list_grids(std::int64_t devices);
// Returns the grid of exactly `devices` devices that moves the fewest words; the first of several.
ProcessGrid best_grid(std::int64_t devices, const ProductSize& dims);

// The program on the grid with the shortest predicted time on the machine.
struct DistributedProduct {
  std::string program_text;
  ProcessGrid grid;
  std::int64_t moved_words = 0;
  double min_words = 0;                  // minimum number of words for the grid's number of devices
  std::array<double, 3> optimal_grid{};  // fractional m, n and k that reach the minimum
};
// Usage errors: a program that is not one product of two tensors, is sharded already, or has grouped dimensions; a
// dimension without a value. Returns errors of explain() too.
Result<DistributedProduct> distribute_product(const Program& program, const Machine& machine, const Bindings& given,
                                              std::int64_t devices);

// "grid 5 x 1 x 1: 16 384 words, 9.2 % above the bound, whose grid 2.24 x 2.24 x 1 is fractional"
std::string format_product(const DistributedProduct& product);

}  // namespace ridge
