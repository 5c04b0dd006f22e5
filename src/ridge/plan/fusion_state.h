// The statements of a program and the kernels that they are grouped into so far. Internal to plan/.
#pragma once

#include <map>
#include <set>

#include "ridge/base/reason.h"
#include "ridge/plan/fuse.h"
#include "ridge/program/contraction.h"
#include "ridge/program/tensor_uses.h"

namespace ridge {

constexpr std::size_t max_kernel_statements = 64;  // limit on the statements of a fused kernel

enum class StatementForm { product, convolution, pointwise, along_dims, standalone };

struct FusionState {
  FusionState(const Program& program, const std::vector<Shape>& shapes, const FuseOptions& options);

  const Program& program;
  const std::vector<Shape>& shapes;
  const FuseOptions& options;
  TensorUses uses;
  std::vector<std::set<std::string>> index_spaces;  // dimensions longer than 1, by tensor
  std::vector<int> group_of;                        // group of a statement, named by the group's last statement
  std::vector<std::vector<int>> members;     // sorted statements of a group; cleared when it is merged into another
  std::map<int, Reason> gate_blockers;       // reason why a statement and its two products are not one kernel
  std::set<int> attention_statements;        // statements that are the last product of a fused attention
  std::map<int, Reason> attention_blockers;  // reason why a product like attention is not fused
  std::set<int> attention_backward_groups;   // groups that are gradients of attention
  std::set<int> sums_across_rows;            // statements that are sums across rows, each last in its kernel
  std::map<int, std::vector<int>> recomputed_statements;  // sorted statements of other groups that a group recomputes

  int statement_count() const { return static_cast<int>(program.statements.size()); }
  const Statement& statement_at(int s) const { return program.statements[s]; }
  int result_of(int s) const { return statement_at(s).result(); }
  const std::string& name_of(int tensor) const { return program.tensors[tensor].name; }
  DType dtype_of(int tensor) const { return program.tensors[tensor].dtype; }
  std::int64_t tensor_bytes(int t) const { return stored_bytes(program.tensors[t].dtype, count_elements(shapes[t])); }
  std::vector<int> distinct_operands(int s) const { return ridge::distinct_operands(statement_at(s)); }
  const std::set<std::string>& index_space(int tensor) const { return index_spaces[tensor]; }
  // Returns the sorted statements that share a kernel with s, and s.
  const std::vector<int>& kernel_with(int s) const { return members[group_of[s]]; }
  bool must_be_stored(int tensor) const;
  std::vector<int> tensors_of(int s) const;  // operands and result

  StatementForm form_of(int s) const;
  bool is_grouped(int s) const;
  bool is_scaled_product(int s) const;
  bool is_convolution_product(int s) const;  // true for a convolution that is computed as a product
  // True if s sums a product of two equal shapes, as sum(p * dp over T), and the set has statements over that shape.
  bool is_row_sum(int s, const std::vector<int>& set) const;

  // True if the result is read only inside the kernel `set`, or by kernels that recompute it.
  bool is_internal(int s, const std::vector<int>& set) const;
  // True if the kernel of statement s also computes the other statement.
  bool kernel_computes(int s, int other) const;
  std::vector<int> recomputed_by(int g) const;

  // True if a statement outside the set reads a result of the set, and the set reads a result that depends on it.
  bool would_create_cycle(const std::vector<int>& set) const;
  void merge_statements(const std::vector<int>& set);  // makes the sorted statements one group

  // Returns the groups in execution order; groups that are ready together are ordered by their last statement.
  std::vector<int> topological_order() const;
};

// Returns the sorted union of the statements and of those of other groups.
std::vector<int> unite_statements(std::vector<int> set, const std::vector<int>& more);
void sort_unique(std::vector<int>& set);

// Returns why the statements cannot be one kernel.
Reason find_fusion_blocker(const FusionState& state, const std::vector<int>& set);

// Returns the kernel of the statements `own`, which also computes the statements `recomputed` of other kernels.
FusionGroup make_fusion_group(const FusionState& state, const std::vector<int>& own,
                              const std::vector<int>& recomputed = {});

// Returns the groups with their tensors, bytes and boundaries. `standalone` has all statements in execution order.
FusionPlan describe_fusion(const FusionState& state, const std::vector<int>& standalone);

}  // namespace ridge
