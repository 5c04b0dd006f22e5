// Scope guard of the current CUDA device.
#pragma once

#include "ridge/base/result.h"
#include "ridge/device/device.h"

namespace ridge::api {

// Makes `number` this thread's current device, and restores the previous device on destruction.
class DeviceGuard {
 public:
  explicit DeviceGuard(int number) : previous_(device::current_device()) {
    if (previous_ != number) status_ = device::use_device(number);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() {
    if (previous_ >= 0 && previous_ != device::current_device()) (void)device::use_device(previous_);
  }
  const Status& status() const { return status_; }

 private:
  int previous_;
  Status status_ = Done{};
};

}  // namespace ridge::api
