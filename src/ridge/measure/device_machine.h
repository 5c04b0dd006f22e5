// What `--on cuda` means: the machine file that `ridge probe --on cuda` wrote, else the catalog's machine of the same
// model or what the driver says of it, its numbers marked as guessed, since nobody measured this one.
#pragma once

#include <optional>
#include <string>

#include "ridge/device/device.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/model.h"

namespace ridge {

// Errors: a spoilt file; without a file: no device.
Result<Machine> find_device_machine();

// "NVIDIA H200" is h200; none of a model that the catalog lacks.
std::optional<std::string> catalog_machine_of(const std::string& device_name);

// The catalog's machine of this model ("NVIDIA H200": h200); of a model that the catalog lacks, or a part of a device
// (MIG), what the driver says of it.
Result<Machine> guess_device(const ops::cuda::DeviceFacts& facts);

// What plans for the current device rest on. Looked up once for each device of the process.
Result<ops::DeviceNumbers> device_numbers_here();

}  // namespace ridge
