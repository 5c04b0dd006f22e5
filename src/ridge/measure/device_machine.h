// What `--on cuda` means: the machine file that `ridge probe --on cuda` wrote, else the catalog's machine of the same
// model, its numbers marked as guessed, since nobody measured this one.
#pragma once

#include "ridge/machine/machine.h"

namespace ridge {

// Errors: a spoilt file; without a file: no device, a device that the catalog does not know.
Result<Machine> find_device_machine();

// The catalog's machine for a device's name ("NVIDIA H200": h200).
Result<Machine> guess_device(const std::string& device_name);

}  // namespace ridge
