// Writes the backward pass of a program: statements that compute the gradients of its inputs from those of its results.
// For u[B, F] = x * w with the gradient du of u:
//   dw[D, F] = x * du
//   dx[B, D] = du * w
// The gradient of a tensor is named after it, with a d before. If it is computed in a wider format than the tensor has,
// it is stored in the tensor's. A softmax needs its result, a norm its operand.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/program.h"

namespace ridge {

struct GradientStatement {
  int forward = 0;  // Statement of the program that it belongs to
  std::string result, text;
};

struct BackwardPass {
  // Lines that declare further inputs: the gradients of results that no statement reads; for experts, also rows that
  // are sorted by expert
  std::vector<std::string> declarations = {};
  std::vector<std::string> gradients_given = {};      // Names of those inputs that are gradients
  std::vector<GradientStatement> statements = {};     // In the order in which they run
  std::map<std::string, std::string> gradients = {};  // Name of the gradient of each tensor that has one
  std::string text() const;                           // The lines to append to the program
};

// Returns the backward pass. `known` has gradients of results as expressions, by the result's name; the gradients of
// other results that no statement reads are further inputs. Experts compute the same number of rows each
// (`routed`). Errors: a statement or function whose gradient is not known, sharded axes, axes without a name, sizes
// without a value, fewer rows than experts.
Result<BackwardPass> write_backward_pass(const Program& program, const std::map<std::string, std::string>& known = {});

}  // namespace ridge
