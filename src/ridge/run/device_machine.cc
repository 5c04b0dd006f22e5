#include "ridge/run/device_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include "ridge/base/contains.h"
#include "ridge/machine/system.h"
#include "ridge/plan/device_numbers.h"

namespace ridge {
namespace {

using device::DeviceProperties;

// A model of the catalog: a device's name must have all of the required words and none of the excluded ones (NVL, MIG).
struct CatalogModel {
  const char* machine;
  std::vector<std::string> required_words, excluded_words;
};
const std::vector<CatalogModel>& catalog_models() {
  static const std::vector<CatalogModel> all{{"h200", {"H200"}, {"NVL", "MIG"}},
                                             {"h100_pcie", {"H100", "PCIe"}, {"MIG"}},
                                             {"h100", {"H100"}, {"PCIe", "NVL", "MIG"}}};
  return all;
}

Machine machine_from_driver(const device::DeviceProperties& properties) {
  // Per Hopper multiprocessor and cycle: FLOP of its tensor cores in bf16, and of its 128 f32 lanes.
  constexpr double matrix_flops = 4096, vector_flops = 256;
  const auto guessed = [](double value) {
    return SourcedValue{.value = value, .source = "the CUDA driver", .read_on = today_utc(), .origin = Origin::guessed};
  };
  const double cycles = properties.multiprocessors * properties.clock_hz;
  Machine machine{.name = "cuda", .title = properties.name, .peaks = {}, .memory = {}};
  for (const DType dtype : {DType::bf16, DType::f16})
    machine.peaks.push_back({.unit = ComputeUnit::matrix, .dtype = dtype, .rate = guessed(matrix_flops * cycles)});
  machine.peaks.push_back({.unit = ComputeUnit::vector, .dtype = DType::f32, .rate = guessed(vector_flops * cycles)});
  machine.memory = {
      {"hbm", guessed(properties.memory_bytes_per_s), guessed(static_cast<double>(properties.memory_bytes))},
      {"l2", std::nullopt, guessed(static_cast<double>(properties.l2_bytes))}};
  machine.numbers["cores"] = guessed(properties.multiprocessors);
  machine.numbers["clock_hz"] = guessed(properties.clock_hz);
  machine.kernels = "sm90";
  return machine;
}

}  // namespace

std::optional<std::string> catalog_machine_name(const std::string& device_name) {
  std::istringstream text(device_name);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  const auto is_in_name = [&](const std::string& word) { return contains(words, word); };
  for (const CatalogModel& model : catalog_models())
    if (std::all_of(model.required_words.begin(), model.required_words.end(), is_in_name) &&
        std::none_of(model.excluded_words.begin(), model.excluded_words.end(), is_in_name))
      return model.machine;
  return std::nullopt;
}

Result<Machine> guess_device_machine(const device::DeviceProperties& properties) {
  const auto entry = catalog_machine_name(properties.name);
  if (!entry) return machine_from_driver(properties);
  auto machine = find_machine(*entry);
  if (!machine) return machine;
  machine->name = "cuda";
  machine->title = properties.name;
  const auto guess = [&](SourcedValue& number) {
    number.origin = Origin::guessed;
    number.note = fmt::format("the catalog's {}", *entry);
  };
  for (Peak& peak : machine->peaks) guess(peak.rate);
  for (MemoryLevel& level : machine->memory)
    for (auto* number : {&level.bandwidth, &level.capacity})
      if (*number) guess(**number);
  for (auto& [key, number] : machine->numbers) guess(number);
  for (auto& [key, number] : machine->plan_numbers) guess(number);
  return machine;
}

Result<Machine> find_device_machine() {
  const auto path = measured_machine_path("cuda");
  std::error_code unknown;
  if (!path || !std::filesystem::exists(*path, unknown)) {
    RIDGE_TRY(properties, device::device_properties());
    return guess_device_machine(properties);
  }
  auto machine = find_machine("cuda");
  if (!machine) return machine;
  // The catalog supplies the numbers that a probe does not measure.
  machine->kernels = "sm90";
  const auto entry = catalog_machine_name(machine->title);
  if (!entry) return machine;
  const auto catalog = find_machine(*entry);
  if (!catalog) return catalog;
  if (machine->plan_numbers.empty()) machine->plan_numbers = catalog->plan_numbers;
  for (const auto& [key, number] : catalog->numbers) machine->numbers.try_emplace(key, number);
  return machine;
}

Result<ops::DeviceNumbers> current_device_numbers() {
  static std::mutex mutex;
  static std::map<int, ops::DeviceNumbers> cached;
  RIDGE_TRY_STATUS(device::require_device());
  const std::lock_guard lock(mutex);
  const int device = device::current_device();
  if (const auto found = cached.find(device); found != cached.end()) return found->second;
  RIDGE_TRY(machine, find_device_machine());
  auto numbers = device_numbers(machine);
  if (!numbers) return numbers;
  numbers->multiprocessors = device::multiprocessor_count();
  return cached[device] = *numbers;
}

}  // namespace ridge
