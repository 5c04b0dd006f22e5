// Parameters of the catalog's Hopper devices, for tests.
#pragma once

#include "ridge/machine/machine.h"
#include "ridge/plan/device_numbers.h"

namespace ridge {

inline ops::DeviceNumbers hopper(const std::string& name) { return *device_numbers(*find_machine(name)); }
inline const ops::DeviceNumbers& an_h200() {
  static const ops::DeviceNumbers numbers = hopper("h200");
  return numbers;
}

}  // namespace ridge
