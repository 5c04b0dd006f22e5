// A formula with numbers for all sizes, and what is known of it for boxes of indices.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ridge/roofline/regions/formula.h"
#include "ridge/roofline/regions/lattice.h"
#include "ridge/symbol/dimensions.h"

namespace ridge {

inline constexpr std::size_t max_variables = 8;
using Box = std::array<IndexRange, max_variables>;
using Coefficients = std::array<std::int64_t, max_variables>;

struct NumericSum {
  struct Quotient {
    std::int64_t coefficient, divisor;
    std::vector<NumericSum> dividend;  // one
  };
  struct Sequence {
    std::int64_t coefficient;
    std::size_t variable;
    std::vector<std::int64_t> ends;  // ends of the sequences, ascending
  };
  Coefficients factors = {};
  std::vector<Quotient> quotients = {};
  std::vector<Sequence> sequences = {};
  __int128 rest = 0;
};

struct NumericRange {
  __int128 low, high;
};
NumericRange find_range(const NumericSum& sum, const Box& box);

// Sum of multiples of indices and a constant.
struct LinearSum {
  Coefficients factors = {};
  __int128 rest = 0;
};
// Returns the sum if all its quotients and sequences are constant in the box.
std::optional<LinearSum> find_linear_sum(const NumericSum& sum, const Box& box);

enum class Truth : char { no, yes, open };

class NumericFormula {
 public:
  // `variables` lists them in the order of a box; `dims` names their dimensions. Returns nullopt if a size is missing.
  static std::optional<NumericFormula> compile(const Formula& formula, const std::vector<std::string>& variables,
                                               const std::map<std::string, std::vector<std::int64_t>>& ends,
                                               const Bindings& sizes);

  // Finds the signs of all sums in a box and returns the formula's value.
  Truth evaluate(const Box& box, std::vector<Truth>& signs) const;
  Truth evaluate(const std::vector<Truth>& signs) const { return evaluate_part(parts_.size() - 1, signs); }
  // Returns the sums of unknown sign that decide the formula's value.
  std::vector<std::size_t> list_open_sums(const std::vector<Truth>& signs) const;
  bool has_quotients() const;
  std::int64_t count_sums() const { return static_cast<std::int64_t>(sums_.size()); }
  const NumericSum& sum(std::size_t i) const { return sums_[i]; }
  template <class Change> void for_each_sum(const Change& change) {
    for (NumericSum& sum : sums_) change(sum);
  }

 private:
  struct Part {
    Formula::Kind kind;
    std::size_t sum = 0;
    std::vector<std::size_t> parts = {};
  };
  struct Compiler;
  Truth evaluate_part(std::size_t part, const std::vector<Truth>& signs) const;
  void collect_open(std::size_t part, const std::vector<Truth>& signs, std::vector<std::size_t>& out) const;

  std::vector<NumericSum> sums_;
  std::vector<Part> parts_;  // the last one is the formula
};

}  // namespace ridge
