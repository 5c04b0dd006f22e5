// Groups of statements that may share a kernel: no other statement has to run between the members of a group. In
//   s = q * k;  p = softmax(s);  o = p * v
// s and o alone are no group, because p needs s and o needs p.
#pragma once

#include <string>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/program/program.h"

namespace ridge {

using KernelGroups = std::vector<std::vector<int>>;  // Partition of the statements into kernels, in the program's order

class Dependencies {
 public:
  explicit Dependencies(const Program& program);

  // Merges the groups that contain `members`, and those that have to run between them.
  KernelGroups join_groups(const KernelGroups& groups, const std::vector<int>& members) const;

 private:
  bool has_dependency(const std::vector<int>& later, const std::vector<int>& earlier) const;
  std::vector<std::vector<bool>>
      depends_;  // `depends_[a][b]`: a reads b's result, directly or through other statements
};

// Returns one group per statement.
KernelGroups unfused_groups(const Program& program);

// Returns one kernel for the statements that compute each list of results, such as "s,p,o", and one for each other
// statement. Errors, of kind usage: an unknown result, a result in two lists, an unnamed statement between them.
Result<KernelGroups> parse_groups(const Program& program, const std::vector<std::vector<std::string>>& lists);

}  // namespace ridge
