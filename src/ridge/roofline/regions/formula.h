// Sets of index tuples as formulas: conjunctions and disjunctions of sums of indices that must be at least 0. A
// variable is a dimension's name; its values are the dimension's indices.
//   index(T) <= index(S)                     index(S) - index(T) >= 0
//   not (index(T) <= index(S))               index(T) - index(S) - 1 >= 0
//   floor(index(T)/4) == floor(index(S)/4)   two sums, one for each direction
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ridge/symbol/polynomial.h"

namespace ridge {

// Sum of indices, sequence numbers, rounded-down quotients and a polynomial in sizes.
struct IndexSum {
  struct Quotient {
    Rational coefficient = 1;
    std::shared_ptr<const IndexSum> dividend;  // Its coefficients are whole numbers
    std::int64_t divisor = 1;                  // At least 2
  };
  std::map<std::string, Rational> indices = {}, sequences = {};  // Coefficients of index(V), sequence(V) by variable
  std::vector<Quotient> quotients = {};
  Polynomial rest = {};

  bool is_size() const { return indices.empty() && sequences.empty() && quotients.empty(); }  // True if no index occurs
  IndexSum plus(const IndexSum& o, Rational factor = 1) const;                                // *this + factor * o
  IndexSum times(Rational factor) const { return IndexSum().plus(*this, factor); }
  void add_variables(std::set<std::string>& out) const;
  IndexSum rename(const std::map<std::string, std::string>& names) const;
  bool is_exact() const;          // True if every coefficient fits 64 bits
  std::string to_string() const;  // "2*index(T) - floor(index(S)/4) + size(T) - 1"
};
IndexSum round_down(const IndexSum& sum);

class Formula {
 public:
  enum class Kind { all, none, at_least_zero, conjunction, disjunction };
  Formula() : Formula(true) {}
  explicit Formula(bool value);
  static Formula at_least_zero(const IndexSum& sum);
  static Formula equal_to_zero(const IndexSum& sum);

  Kind kind() const { return node_->kind; }
  bool is_all() const { return kind() == Kind::all; }
  bool is_none() const { return kind() == Kind::none; }
  const IndexSum& sum() const { return node_->sum; }                  // Sum of an `at_least_zero`
  const std::vector<Formula>& parts() const { return node_->parts; }  // Terms of a conjunction or disjunction
  std::size_t size() const { return node_->size; }                    // Number of sums
  const std::string& text() const { return node_->text; }             // Equal formulas have equal text
  bool operator==(const Formula& o) const { return text() == o.text(); }

  Formula operator!() const;
  friend Formula operator&&(const Formula& a, const Formula& b);
  friend Formula operator||(const Formula& a, const Formula& b);
  bool implies(const Formula& o) const;  // True if this conjunction contains every term of `o`
  std::set<std::string> variables() const;
  Formula rename(const std::map<std::string, std::string>& names) const;

 private:
  struct Node {
    Kind kind;
    IndexSum sum = {};
    std::vector<Formula> parts = {};
    std::size_t size = 0;
    std::string text = {};
  };
  static Formula make(Kind kind, std::vector<Formula> parts);
  static Formula join(Kind kind, const Formula& a, const Formula& b);
  std::shared_ptr<const Node> node_;
};

}  // namespace ridge
