// Work of PyTorch's operators, from the shapes that a trace records.
#pragma once

#include <optional>

#include "ridge/profiler/trace.h"
#include "ridge/roofline/operators/explain_operators.h"

namespace ridge::profiler {

// Returns the work of a call, with a name for reports such as "mm 128x256 * 256x64"; nullopt if the operator is
// unknown, its shapes were not recorded, or they do not fit the operator.
std::optional<OperatorWork> find_operator_work(const Signature& signature);

// Returns the operator's name without "aten::", and its first shapes if they are recorded.
std::string describe_operator(const Signature& signature);

}  // namespace ridge::profiler
