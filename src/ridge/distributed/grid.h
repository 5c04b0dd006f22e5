// A product of m x k by k x n on a grid of p1 x p2 x p3 devices: m, n and k are shared out, each operand lies once,
// evenly spread, is gathered where it is needed, and what is left of the sums over k is scattered:
//   words moved = (p2 - 1)*m*k + (p1 - 1)*k*n + (p3 - 1)*m*n
// One row of devices (1D) has p2 = p3 = 1, a square (2D, SUMMA) p3 = 1, and copies of the result's sums (2.5D, 3D) p3 >
// 1. Al Daas and others, SPAA 2022: with the p's as real numbers that product P no algorithm moves fewer.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ridge/distributed/layout.h"
#include "ridge/machine/machine.h"

namespace ridge {

struct Grid {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t devices() const { return m * n * k; }
  auto operator<=>(const Grid&) const = default;
};
struct ProductSides {
  std::int64_t m = 1, n = 1, k = 1;
};
std::int64_t words_moved(const Grid& grid, const ProductSides& size);

// Every grid of at most so many devices.
std::vector<Grid> grids(std::int64_t devices);
// Of those with exactly so many devices the one that moves least; of several the first in order.
Grid best_grid(std::int64_t devices, const ProductSides& size);

// The program on the grid that takes least time on the machine, in the notation.
struct SpreadProduct {
  std::string written;
  Grid grid;
  std::int64_t words = 0;
  double bound = 0;                   // for as many devices as the grid has
  std::array<double, 3> real_grid{};  // m, n and k of the bound
};
// Errors, of kind usage: a program that is not one product of two tensors, is sharded already, or has dimensions in
// groups; a dimension without a value; explain()'s.
Result<SpreadProduct> spread_product(const Program& program, const Machine& machine, const Bindings& given,
                                     std::int64_t devices);

// "12.58 M words where 11.2 M is the bound: its grid would be 2.5 x 1.6 x 1, and devices are whole"
std::string text(const SpreadProduct& product);

}  // namespace ridge
