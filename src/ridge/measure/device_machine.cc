#include "ridge/measure/device_machine.h"

#include <fmt/format.h>

#include <filesystem>

#include "ridge/device/device.h"

namespace ridge {

Result<Machine> guess_device(const std::string& device_name) {
  std::string entry;
  for (const auto& [word, name] : {std::pair{"H200", "h200"}, {"H100", "h100"}})
    if (device_name.find(word) != std::string::npos) entry = name;
  if (entry.empty())
    return absent_error(fmt::format("nothing is known of the CUDA device '{}'", device_name),
                        "`ridge probe --on cuda` measures it");
  auto machine = find_machine(entry);
  if (!machine) return machine;
  machine->name = "cuda";
  machine->title = device_name;
  const auto guess = [&](Sourced& number) {
    number.origin = Origin::guessed;
    number.note = fmt::format("the catalog's {}", entry);
  };
  for (Peak& peak : machine->peaks) guess(peak.rate);
  for (MemoryLevel& level : machine->memory)
    for (auto* number : {&level.bandwidth, &level.capacity})
      if (*number) guess(**number);
  for (auto& [key, number] : machine->numbers) guess(number);
  return machine;
}

Result<Machine> find_device_machine() {
  const auto path = measured_machine_path("cuda");
  std::error_code unknown;
  if (path && std::filesystem::exists(*path, unknown)) return find_machine("cuda");
  const auto facts = ops::cuda::device_facts();
  if (!facts) return facts.error();
  return guess_device(facts->name);
}

}  // namespace ridge
