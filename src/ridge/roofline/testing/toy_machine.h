// A machine of a few numbers and no sources, for tests.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ridge/machine/machine.h"

namespace ridge::testing {

inline Sourced number(double value) {
  Sourced s;
  s.value = value;
  return s;
}

inline Machine toy_machine(const std::vector<std::pair<DType, double>>& matrix, std::optional<double> vector,
                           double bandwidth) {
  Machine machine;
  machine.name = "toy";
  for (const auto& [dtype, rate] : matrix) machine.peaks.push_back({Unit::matrix, dtype, number(rate)});
  if (vector) machine.peaks.push_back({Unit::vector, DType::f32, number(*vector)});
  machine.memory.push_back({"hbm", number(bandwidth), {}});
  return machine;
}

}  // namespace ridge::testing
