// Chooses on a device whether two products of one operand share a kernel with the gate that reads both. No rule decides
// whether that is faster: both plans are made, and the one with the shorter predicted time is used.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "ridge/ops/model.h"
#include "ridge/plan/plan.h"

namespace ridge {

// Returns the predicted time of the plan's kernels in sequence, or nullopt if the device has no kernel for a step.
std::optional<double> predict_plan_seconds(const Plan& plan, const ops::DeviceNumbers& device);

// Like `make_plan`, with the products in separate kernels wherever that is predicted to be faster.
Result<Plan> plan_fastest_fusion(const Program& program, const Bindings& dims, const FuseOptions& options,
                                 const ops::DeviceNumbers& device);

// Returns the numbers of the groups that have members, each after the groups whose results it reads; of the groups that
// are ready the lowest number comes first. `successors` lists for each group those that read its results.
std::vector<int> order_groups(const std::vector<std::vector<int>>& members,
                              const std::vector<std::set<int>>& successors);

}  // namespace ridge
