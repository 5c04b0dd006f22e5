#include "ridge/measure/device_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include "ridge/machine/system.h"
#include "ridge/plan/device_numbers.h"

namespace ridge {
namespace {

using ops::cuda::DeviceFacts;

// A model of the catalog: a device's name must have all of the required words and none of the excluded ones (NVL, MIG).
struct Model {
  const char* machine;
  std::vector<std::string> words, others;
};
const std::vector<Model>& models() {
  static const std::vector<Model> all{{"h200", {"H200"}, {"NVL", "MIG"}},
                                      {"h100_pcie", {"H100", "PCIe"}, {"MIG"}},
                                      {"h100", {"H100"}, {"PCIe", "NVL", "MIG"}}};
  return all;
}

Machine told_by_driver(const DeviceFacts& facts) {
  // Per Hopper multiprocessor and cycle: FLOP of its tensor cores in bf16, and of its 128 f32 lanes.
  constexpr double matrix_flops = 4096, vector_flops = 256;
  const auto guessed = [](double value) {
    return Sourced{.value = value, .source = "the CUDA driver", .read_on = today(), .origin = Origin::guessed};
  };
  const double cycles = facts.multiprocessors * facts.clock_hz;
  Machine machine{.name = "cuda", .title = facts.name, .peaks = {}, .memory = {}};
  for (const DType dtype : {DType::bf16, DType::f16})
    machine.peaks.push_back({.unit = Unit::matrix, .dtype = dtype, .rate = guessed(matrix_flops * cycles)});
  machine.peaks.push_back({.unit = Unit::vector, .dtype = DType::f32, .rate = guessed(vector_flops * cycles)});
  machine.memory = {{"hbm", guessed(facts.memory_bytes_per_s), guessed(static_cast<double>(facts.memory_bytes))},
                    {"l2", std::nullopt, guessed(static_cast<double>(facts.l2_bytes))}};
  machine.numbers["cores"] = guessed(facts.multiprocessors);
  machine.numbers["clock_hz"] = guessed(facts.clock_hz);
  machine.kernels = "sm90";
  return machine;
}

}  // namespace

std::optional<std::string> catalog_machine_of(const std::string& device_name) {
  std::istringstream text(device_name);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  const auto has = [&](const std::string& word) { return std::find(words.begin(), words.end(), word) != words.end(); };
  for (const Model& model : models())
    if (std::all_of(model.words.begin(), model.words.end(), has) &&
        std::none_of(model.others.begin(), model.others.end(), has))
      return model.machine;
  return std::nullopt;
}

Result<Machine> guess_device(const DeviceFacts& facts) {
  const auto entry = catalog_machine_of(facts.name);
  if (!entry) return told_by_driver(facts);
  auto machine = find_machine(*entry);
  if (!machine) return machine;
  machine->name = "cuda";
  machine->title = facts.name;
  const auto guess = [&](Sourced& number) {
    number.origin = Origin::guessed;
    number.note = fmt::format("the catalog's {}", *entry);
  };
  for (Peak& peak : machine->peaks) guess(peak.rate);
  for (MemoryLevel& level : machine->memory)
    for (auto* number : {&level.bandwidth, &level.capacity})
      if (*number) guess(**number);
  for (auto& [key, number] : machine->numbers) guess(number);
  for (auto& [key, number] : machine->plan) guess(number);
  return machine;
}

Result<Machine> find_device_machine() {
  const auto path = measured_machine_path("cuda");
  std::error_code unknown;
  if (!path || !std::filesystem::exists(*path, unknown)) {
    const auto facts = ops::cuda::device_facts();
    if (!facts) return facts.error();
    return guess_device(*facts);
  }
  auto machine = find_machine("cuda");
  if (!machine) return machine;
  // The catalog supplies the numbers that a probe does not measure.
  machine->kernels = "sm90";
  const auto entry = catalog_machine_of(machine->title);
  if (!entry) return machine;
  const auto catalog = find_machine(*entry);
  if (!catalog) return catalog;
  if (machine->plan.empty()) machine->plan = catalog->plan;
  for (const auto& [key, number] : catalog->numbers) machine->numbers.try_emplace(key, number);
  return machine;
}

Result<ops::DeviceNumbers> device_numbers_here() {
  static std::mutex mutex;
  static std::map<int, ops::DeviceNumbers> known;
  if (const Status there = ops::cuda::require_device(); !there) return there.error();
  const std::lock_guard lock(mutex);
  const int device = ops::cuda::current_device();
  if (const auto found = known.find(device); found != known.end()) return found->second;
  const auto machine = find_device_machine();
  if (!machine) return machine.error();
  auto numbers = device_numbers(*machine);
  if (!numbers) return numbers;
  numbers->multiprocessors = ops::cuda::multiprocessors();
  return known[device] = *numbers;
}

}  // namespace ridge
