// Parameters of the catalog's Hopper devices, for tests.
#pragma once

#include "ridge/machine/machine.h"
#include "ridge/plan/device_numbers.h"

namespace ridge {

inline ops::DeviceNumbers hopper_numbers(const std::string& name) { return *device_numbers(*find_machine(name)); }
inline const ops::DeviceNumbers& h200_numbers() {
  static const ops::DeviceNumbers numbers = hopper_numbers("h200");
  return numbers;
}

}  // namespace ridge
