// Values of an expression as far as its indices determine them: a list of cases, each with the indices for which it
// holds.
//   index(T) <= index(S)                       1 where index(T) <= index(S), otherwise 0
//   s + where(index(T) <= index(S), 0, -inf)   unknown where index(T) <= index(S), otherwise -inf
#pragma once

#include <optional>
#include <vector>

#include "ridge/program/program.h"
#include "ridge/roofline/regions/formula.h"

namespace ridge {

struct IndexValue {
  enum class Kind { unknown, finite, plus_infinity, minus_infinity } kind = Kind::unknown;
  IndexSum sum = {};                // Value if finite
  bool is_positive = false;         // True if an unknown value is above 0
  bool is_boolean = false;          // True if an unknown value is 0 or 1
  bool depends_on_indices = false;  // True if an index occurs in an unknown value

  bool is_known() const { return kind != Kind::unknown; }
  std::optional<Rational> constant() const;  // Value, or nullopt if it is not a finite constant
  bool is_constant(std::int64_t value) const;
  bool operator==(const IndexValue& o) const;
};
IndexValue make_finite(IndexSum sum);
IndexValue make_number(double value);

struct ValueCase {
  Formula where;
  IndexValue value;
};

// Cases are disjoint; together they are all indices.
class ValueCases {
 public:
  ValueCases() : cases_{{Formula(true), {}}} {}
  explicit ValueCases(IndexValue value) : cases_{{Formula(true), std::move(value)}} {}
  explicit ValueCases(const std::vector<ValueCase>& cases);

  const std::vector<ValueCase>& cases() const { return cases_; }
  template <class Predicate> Formula where(const Predicate& holds) const {
    Formula out(false);
    for (const ValueCase& each : cases_)
      if (holds(each.value)) out = out || each.where;
    return out;
  }
  Formula where_zero() const;     // Returns the indices whose value is known to be 0
  Formula where_nonzero() const;  // Returns the indices whose value is known not to be 0
  Formula where_known() const;    // Returns the indices whose value is known
  bool is_boolean() const;        // True if the value is 0 or 1 everywhere
  bool is_simple() const;         // True if the cases are few and short enough to follow
  // Returns the values as a tensor stores them: infinities and whole numbers that every dtype holds.
  ValueCases store() const;

 private:
  std::vector<ValueCase> cases_;
};

// Returns the value of an elementwise function of known or unknown values.
ValueCases apply_function(Function function, int repeat, const std::vector<ValueCases>& arguments);

// Returns the values of a function over dimensions, by the indices of its result.
ValueCases apply_along(const Node& node, const ValueCases& argument);

}  // namespace ridge
