// Small random programs for properties that must hold for every program: a contraction with any mix of batch, free and
// contracted dimensions, a pointwise expression with broadcasts, repeats and numbers, or nested functions along
// dimensions. The seed determines the program.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"

namespace ridge::testing {

// Returns the number of programs to test a property with: RIDGE_PROGRAMS from the environment, otherwise `in_ci`.
inline unsigned program_count(unsigned in_ci) {
  const char* requested = std::getenv("RIDGE_PROGRAMS");
  return requested == nullptr ? in_ci : static_cast<unsigned>(std::strtoul(requested, nullptr, 10));
}

class RandomProgram {
 public:
  explicit RandomProgram(unsigned seed) : random_(seed) {}

  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  std::int64_t size(std::int64_t max_size) {  // Uniform in log(size), so small sizes are frequent
    const double log = std::uniform_real_distribution<double>(0, std::log(static_cast<double>(max_size)))(random_);
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::exp(log)), 1, max_size);
  }

  std::string contraction(const std::vector<DType>& dtypes) {
    std::vector<std::string> left, right, result;
    const int dims = 1 + below(4);
    for (int i = 0; i < dims; ++i) {
      const std::string dim(1, static_cast<char>('A' + i));
      const int kind = below(4);  // batch, free on the left, free on the right, contracted
      if (kind != 2) left.push_back(dim);
      if (kind != 1) right.push_back(dim);
      if (kind != 3) result.push_back(dim);
    }
    if (below(8) == 0) {
      left.push_back("3");
      right.push_back("3");
    }
    return tensor(left, dtypes) + " * " + tensor(right, dtypes) + " -> " + tensor(result, dtypes);
  }

  std::string pointwise(const std::vector<DType>& dtypes) {
    std::vector<std::string> dims;
    for (int i = 0, n = 1 + below(3); i < n; ++i) dims.emplace_back(1, static_cast<char>('A' + i));
    std::string text = "x: " + tensor(dims, dtypes);
    for (const char* name : {"y", "z"}) {
      std::vector<std::string> some;
      for (const std::string& dim : dims)
        if (below(2)) some.push_back(dim);
      text += std::string("\n") + name + ": " + tensor(some, dtypes);
    }
    return text + "\nout: " + tensor(dims, dtypes) + " = max(x, 0) + " + expression(3);
  }

  // Expression over x[A, B, C] that broadcasts its reductions again. Only operands of sums use E.
  std::string along_dimensions(const std::vector<DType>& dtypes) {
    return "x: " + tensor({"A", "B", "C"}, dtypes) + "\ny: " + tensor({"B"}, dtypes) +
           "\nz: " + tensor({"C", "E"}, dtypes) + "\nout: " + tensor({"A", "B", "C"}, dtypes) + " = x + " +
           reduction_expression(3, false);
  }

 private:
  std::string reduction_expression(int depth, bool summed) {
    const auto next = [&] { return reduction_expression(depth - 1, summed); };
    switch (depth == 0 ? below(4) : below(12)) {
      case 0: return "x";
      case 1: return "y";
      case 2: return summed ? "z" : "index(A)";
      case 3: return "size(B)";
      case 4: return "sum(x * " + next() + " over A, C)";
      case 5: return "max(x - " + next() + " over B)";
      case 6: return "softmax(x * " + next() + " over C)";
      case 7: return "rmsnorm(" + next() + " / x over C, B)";
      case 8: return "mean(z * " + reduction_expression(depth - 1, true) + " over E)";
      case 9: return "layernorm(x + " + next() + " over A)";
      case 10: return "(" + next() + " + " + next() + ")";
      default: return "where(" + next() + " <= " + next() + ", " + next() + ", -inf)";
    }
  }

  std::string tensor(std::vector<std::string> axes, const std::vector<DType>& dtypes) {
    if (axes.empty()) axes.push_back("1");
    std::shuffle(axes.begin(), axes.end(), random_);
    std::string text(dtype_name(dtypes[below(static_cast<int>(dtypes.size()))]));
    for (std::size_t i = 0; i < axes.size(); ++i) text += (i == 0 ? "[" : ", ") + axes[i];
    return text + "]";
  }

  std::string expression(int depth) {
    switch (depth == 0 ? below(4) : below(8)) {
      case 0: return "x";
      case 1: return "y";
      case 2: return "z";
      case 3: return "1.5";
      case 4: return "repeat(" + std::to_string(1 + below(200)) + ", cos, " + expression(depth - 1) + ")";
      case 5: return "gelu(" + expression(depth - 1) + ")";
      case 6: return "(" + expression(depth - 1) + " * " + expression(depth - 1) + ")";
      default:
        return "where(" + expression(depth - 1) + ", " + expression(depth - 1) + ", " + expression(depth - 1) + ")";
    }
  }

  std::mt19937 random_;
};

}  // namespace ridge::testing
