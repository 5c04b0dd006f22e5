// Which statements may share a kernel, whatever that gains: those between which nothing else has to run. In
//   s = q * k;  p = softmax(s);  o = p * v
// s and o alone may not, since p needs the one and the other needs p.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/program.h"

namespace ridge {

using Groups = std::vector<std::vector<int>>;  // each statement in one, in the program's order

class Dependences {
 public:
  explicit Dependences(const Program& program);

  // These groups with those that hold `members`, and what has to run between them, as one.
  Groups joined(const Groups& groups, const std::vector<int>& members) const;

 private:
  bool needs(const std::vector<int>& later, const std::vector<int>& earlier) const;
  std::vector<std::vector<bool>> needs_;  // needs_[a][b]: a reads b's result, or what is made of it
};

// A group a statement.
Groups apart(const Program& program);

// "s,p,o": the statements that make these results as one kernel, the others apart. Errors, of kind usage: a name that
// no statement makes or that stands in two lists, a statement between them that is not named.
Result<Groups> groups_named(const Program& program, const std::vector<std::vector<std::string>>& lists);

}  // namespace ridge
