// The device that an array lies on, for the time of a call. Internal to api/.
#pragma once

#include "ridge/base/result.h"
#include "ridge/device/device.h"

namespace ridge::api {

// This thread's current device is that one, and afterwards again the one that it was.
class OnThatDevice {
 public:
  explicit OnThatDevice(int number) : before_(ops::cuda::current_device()) {
    if (before_ != number) status_ = ops::cuda::use_device(number);
  }
  OnThatDevice(const OnThatDevice&) = delete;
  OnThatDevice& operator=(const OnThatDevice&) = delete;
  ~OnThatDevice() {
    if (before_ >= 0 && before_ != ops::cuda::current_device()) (void)ops::cuda::use_device(before_);
  }
  const Status& status() const { return status_; }

 private:
  int before_;
  Status status_ = Done{};
};

}  // namespace ridge::api
