// The machine of `--on cuda`: the machine file that `ridge probe --on cuda` wrote, else the catalog's machine of the
// same model or the driver's values, whose numbers are marked as guessed because they were not measured here.
#pragma once

#include <optional>
#include <string>

#include "ridge/device/device.h"
#include "ridge/machine/machine.h"
#include "ridge/ops/model.h"

namespace ridge {

// Errors: a corrupt file; without a file, no device.
Result<Machine> find_device_machine();

// Returns "h200" for "NVIDIA H200", or nullopt for a model that the catalog lacks.
std::optional<std::string> catalog_machine_name(const std::string& device_name);

// Returns the catalog's machine of this model; for an unknown model, or a part of a device (MIG), the driver's values.
Result<Machine> guess_device_machine(const device::DeviceProperties& properties);

// Returns the numbers that plans for the current device need. The result is cached per device.
Result<ops::DeviceNumbers> current_device_numbers();

}  // namespace ridge
