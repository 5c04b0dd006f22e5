// On a device two products of one operand can share a kernel with the gate that reads both. Whether that is faster than
// a kernel each is no rule's to say: both are planned, and the one whose predicted time is less is taken.
#pragma once

#include <optional>

#include "ridge/ops/model.h"
#include "ridge/plan/plan.h"

namespace ridge {

// What a plan's kernels take one behind the other on a device; none: it has a step that no kernel of the device does.
std::optional<double> forecast_s(const Plan& plan, const ops::DeviceNumbers& device);

// plan(), with the products apart wherever that is predicted to be faster. Errors: plan()'s.
Result<Plan> soonest_plan(const Program& program, const Bindings& dims, const FuseOptions& options,
                          const ops::DeviceNumbers& device);

}  // namespace ridge
