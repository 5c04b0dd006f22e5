// The products of a contest, as a CSV file names them: "linear,bf16,f32,8,4096,14336" is eight rows through a layer's
// weights, B stored [n, k] as layers do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/ops/product/problem.h"

namespace ridge {

// One row of a shapes file. op: "linear" (or "nt") is A[m,k]·B[n,k]ᵀ, "nn" A[m,k]·B[k,n], "tn" A[k,m]ᵀ·B[k,n], "tt"
// A[k,m]ᵀ·B[n,k]ᵀ.
struct ContestShape {
  std::string op;
  DType dtype = DType::f32;  // of both operands: f32, bf16, f16 or int8; on a device bf16, f16 or e4m3
  DType out = DType::f32;    // as the operands, or f32; int32 of int8
  std::int64_t m = 0, n = 0, k = 0;
  std::optional<DType> weights = {};   // of B, where that is int8 and A is not
  std::string dtypes() const;          // "f32", "bf16*int8"
  ops::MatmulProblem problem() const;  // contiguous operands
  double flops() const;                // 2 m n k
  double bytes() const;                // of the three matrices
  std::string text() const;            // "nn f32 m=64 n=64 k=64"
};

enum class Contested { cpu, device };

// CSV with the columns op,dtype,m,n,k in any order, and optionally out (default f32, of int8 int32; on a device the
// operands' dtype, of e4m3 bf16) and, on the CPU, weights (B's dtype, default the operands'); `source` is the path for
// messages. Errors name the line.
Result<std::vector<ContestShape>> parse_shapes(std::string_view csv, const std::string& source,
                                               Contested where = Contested::cpu);
Result<std::vector<ContestShape>> read_shapes(const std::string& path, Contested where = Contested::cpu);

// The text of data/cpu_shapes.csv as it was at build time: squares, layers of one to 2048 rows, thin and odd products.
std::string_view default_shapes();

}  // namespace ridge
