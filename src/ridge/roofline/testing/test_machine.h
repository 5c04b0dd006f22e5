// Machine with a few numbers and no sources, for tests.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ridge/machine/machine.h"

namespace ridge::testing {

inline SourcedValue make_number(double value) {
  SourcedValue s;
  s.value = value;
  return s;
}

inline Machine make_test_machine(const std::vector<std::pair<DType, double>>& matrix, std::optional<double> vector,
                                 double bandwidth) {
  Machine machine;
  machine.name = "test";
  for (const auto& [dtype, rate] : matrix) machine.peaks.push_back({ComputeUnit::matrix, dtype, make_number(rate)});
  if (vector) machine.peaks.push_back({ComputeUnit::vector, DType::f32, make_number(*vector)});
  machine.memory.push_back({"hbm", make_number(bandwidth), {}});
  return machine;
}

}  // namespace ridge::testing
