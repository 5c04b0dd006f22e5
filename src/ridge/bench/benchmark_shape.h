// Products of a benchmark in a CSV file: "linear,bf16,f32,8,4096,14336" multiplies eight rows by a layer's weights,
// with B stored [n, k] as layers do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/product_size.h"
#include "ridge/base/result.h"
#include "ridge/ops/product/problem.h"

namespace ridge {

// One row of a shapes file. op: "linear" (or "nt") is A[m,k]·B[n,k]ᵀ, "nn" A[m,k]·B[k,n], "tn" A[k,m]ᵀ·B[k,n], "tt"
// A[k,m]ᵀ·B[n,k]ᵀ.
struct BenchmarkShape {
  std::string op;
  DType dtype = DType::f32;  // dtype of the operands
  DType out = DType::f32;    // the operands' dtype, or f32; int32 for int8
  ProductSize size = {};
  std::optional<DType> weights = {};   // B's dtype if it is int8 and A's is not
  std::string dtypes() const;          // "f32", "bf16*int8"
  ops::MatmulProblem problem() const;  // contiguous operands
  double flops() const;                // 2 m n k
  double bytes() const;                // bytes of the three matrices
  std::string text() const;            // "nn f32 m=64 n=64 k=64"
};

enum class BenchmarkTarget { cpu, device };

// Parses a CSV with the columns op,dtype,m,n,k in any order, optionally out (default f32, for int8 int32; on a device
// the operands' dtype, for e4m3 bf16) and, on the CPU, weights (B's dtype, default the operands'). `source` is the path
// for error messages, which name the line.
Result<std::vector<BenchmarkShape>> parse_shapes(std::string_view csv, const std::string& source,
                                                 BenchmarkTarget target = BenchmarkTarget::cpu);
Result<std::vector<BenchmarkShape>> read_shapes(const std::string& path, BenchmarkTarget target = BenchmarkTarget::cpu);

// Returns the text of data/cpu_shapes.csv at build time: squares, layers of 1 to 2048 rows, skinny and odd products.
std::string_view default_shapes();

}  // namespace ridge
