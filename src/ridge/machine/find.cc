// Where a machine comes from: the catalog inside the binary, a file, or this computer.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "ridge/base/file.h"
#include "ridge/base/text.h"
#include "ridge/machine/embedded.h"
#include "ridge/machine/machine.h"
#include "ridge/machine/system.h"

namespace ridge {
namespace {

Result<Machine> machine_from_file(const std::string& path, const std::string& cure) {
  // A machine file is a page of text; a device that never ends is none.
  const Result<std::string> text = read_file(path, std::size_t{1} << 20);
  if (text) return parse_machine(*text, path);
  Error error = text.error();
  error.hint = cure;
  return error;
}

// The file that probe wrote; nothing where there is none. A file that cannot be read, or is spoilt, is told.
std::optional<Result<Machine>> probed(const std::string& device, const std::string& command) {
  const Result<std::string> path = measured_machine_path(device);
  std::error_code unknown;
  if (!path || !std::filesystem::exists(*path, unknown)) return std::nullopt;
  Result<Machine> machine = machine_from_file(*path, "");
  if (machine) return machine;
  Error error = machine.error();
  error.hint += (error.hint.empty() ? "" : "; ") + fmt::format("`{}` writes it anew", command);
  return error;
}

Result<Machine> this_cpu() {
  if (auto machine = probed("cpu", "ridge probe")) return *std::move(machine);
  return guess_cpu(read_system(), today());
}

Result<Machine> this_cuda() {
  if (auto machine = probed("cuda", "ridge probe --on cuda")) return *std::move(machine);
  return absent_error("this machine's CUDA device was never probed", "ridge probe --on cuda");
}

Error unknown_machine(const std::string& wanted) {
  std::vector<std::string> names = catalog_names();
  names.insert(names.end(), {"cpu", "cuda"});
  std::vector<std::string> near;
  for (std::string next = nearest(wanted, names); !next.empty() && near.size() < 3; next = nearest(wanted, names)) {
    near.push_back(next);
    std::erase(names, next);
  }
  std::string hint = "`ridge machines` lists the catalog";
  if (!near.empty()) hint = fmt::format("did you mean {}? {}", fmt::join(near, ", "), hint);
  return absent_error(
      fmt::format("unknown machine '{}'; expected a name of the catalog, a .toml file, cpu or cuda", wanted), hint);
}

// Names of the catalog are lower case: H100 is h100.
std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

Where where(std::string_view machine_name) {
  if (machine_name == "cpu") return Where::cpu;
  return machine_name == "cuda" ? Where::cuda : Where::elsewhere;
}

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const EmbeddedMachine& machine : embedded_machines()) names.emplace_back(machine.name);
  return names;
}

Result<std::string> measured_machine_path(const std::string& device) {
  const auto root = user_folder("XDG_DATA_HOME", ".local/share");
  if (!root)
    return absent_error("no folder for measured machines: neither XDG_DATA_HOME nor HOME names an absolute path",
                        "set HOME, or XDG_DATA_HOME to a folder that can be written");
  return *root + "/ridge/machines/" + device + ".toml";
}

Result<Machine> find_machine(const std::string& name_or_path) {
  if (const Where place = where(name_or_path); place != Where::elsewhere)
    return place == Where::cpu ? this_cpu() : this_cuda();
  const std::string name = lower_case(name_or_path);
  for (const EmbeddedMachine& machine : embedded_machines())
    if (machine.name == name) return parse_machine(machine.toml, fmt::format("machines/{}.toml", machine.name));
  if (name_or_path.ends_with(".toml") || name_or_path.find('/') != std::string::npos)
    return machine_from_file(name_or_path, "`ridge machines` lists the names that need no file");
  return unknown_machine(name_or_path);
}

}  // namespace ridge
