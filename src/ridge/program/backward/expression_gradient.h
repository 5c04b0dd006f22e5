// Gradients of one expression, for gradient.cc.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/program.h"

namespace ridge::program {

// Names of tensors that are in use.
class GradientNames {
 public:
  explicit GradientNames(const Program& program);
  bool has(const std::string& name) const { return used_.contains(name); }
  // Returns the name, with primes if it is in use, and adds it.
  std::string make_unique(std::string name);

 private:
  std::set<std::string> used_;
};

struct GradientTerm {
  int tensor = -1;        // Operand whose gradient the term belongs to; -1 for a tensor that later terms read
  std::string name = {};  // Name of that tensor
  std::vector<Axis> axes = {};
  std::string text = {};
};

// Returns the terms of each floating-point operand, one each, from the gradient of the result. Errors: a function
// without a known gradient, an operand with a dimension that the gradient lacks.
Result<std::vector<GradientTerm>> write_expression_gradient(const Program& program, const Expression& expression,
                                                            const std::string& gradient, GradientNames& names);

}  // namespace ridge::program
