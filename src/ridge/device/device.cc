#include "ridge/device/device.h"

namespace ridge::device {

Status check_device(const DriverReport& x) {
  const auto version = [](int v) { return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10); };
  if (!x.has_cuda_build)
    return absent_error(
        "this build has no CUDA kernels: RIDGE_CUDA was OFF or nvcc not found when ridge was built",
        "install nvcc 12.4 or later and build again with -DRIDGE_CUDA=ON; everything else works without it");
  if (x.driver == 0)
    return absent_error("no CUDA driver was found",
                        "install NVIDIA's driver; without a driver, --on cpu runs here and --on h200 explains");
  if (x.driver < 12000)
    return absent_error("expected a CUDA driver of version 12.0 or later, found " + version(x.driver),
                        "update NVIDIA's driver to 525 or later");
  if (x.devices == 0)
    return absent_error("no CUDA device was found" + (x.error.empty() ? "" : ": " + x.error),
                        "`nvidia-smi` lists devices; CUDA_VISIBLE_DEVICES hides them");
  if (x.major != 9 || x.minor != 0)
    return absent_error("expected a device of compute capability 9.0 (Hopper), found " + std::to_string(x.major) + "." +
                            std::to_string(x.minor),
                        "choose an H100 or H200 with CUDA_VISIBLE_DEVICES; --on cpu runs here");
  if (!x.has_tensor_maps)
    return absent_error("the CUDA driver lacks cuTensorMapEncodeTiled", "update NVIDIA's driver to 525 or later");
  return Done{};
}

Status require_device() { return check_device(query_driver()); }

Reason unavailable_reason() {
  const Status status = require_device();
  return status ? Reason() : status.error().message;
}

}  // namespace ridge::device
