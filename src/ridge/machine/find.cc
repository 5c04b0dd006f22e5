// Finds machines in the built-in catalog, in files and on this computer.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>

#include "ridge/base/file.h"
#include "ridge/base/string_util.h"
#include "ridge/machine/embedded.h"
#include "ridge/machine/machine.h"
#include "ridge/machine/system.h"

namespace ridge {
namespace {

Result<Machine> load_machine_file(const std::string& path, const std::string& hint) {
  // The size limit also stops reading an endless device such as /dev/zero.
  const Result<std::string> text = read_file(path, std::size_t{1} << 20);
  if (text) return parse_machine(*text, path);
  Error error = text.error();
  error.hint = hint;
  return error;
}

// Returns the machine of the file that probe wrote, nullopt if there is none, or an error if the file is unreadable or
// corrupt.
std::optional<Result<Machine>> load_probed_machine(const std::string& device, const std::string& command) {
  const Result<std::string> path = measured_machine_path(device);
  std::error_code ignored;
  if (!path || !std::filesystem::exists(*path, ignored)) return std::nullopt;
  Result<Machine> machine = load_machine_file(*path, "");
  if (machine) return machine;
  Error error = machine.error();
  error.hint += (error.hint.empty() ? "" : "; ") + fmt::format("`{}` writes it again", command);
  return error;
}

Result<Machine> find_cpu() {
  if (auto machine = load_probed_machine("cpu", "ridge probe")) return *std::move(machine);
  return estimate_cpu_machine(read_system_properties(), today_utc());
}

Result<Machine> find_cuda() {
  if (auto machine = load_probed_machine("cuda", "ridge probe --on cuda")) return *std::move(machine);
  return absent_error("this machine's CUDA device was never probed", "ridge probe --on cuda");
}

Error unknown_machine_error(const std::string& requested) {
  std::vector<std::string> names = catalog_names();
  names.insert(names.end(), {"cpu", "cuda"});
  std::vector<std::string> suggestions;
  for (std::string next = find_nearest(requested, names); !next.empty() && suggestions.size() < 3;
       next = find_nearest(requested, names)) {
    suggestions.push_back(next);
    std::erase(names, next);
  }
  std::string hint = "`ridge machines` lists the catalog";
  if (!suggestions.empty()) hint = fmt::format("did you mean {}? {}", fmt::join(suggestions, ", "), hint);
  return absent_error(
      fmt::format("unknown machine '{}'; expected a name of the catalog, a .toml file, cpu or cuda", requested), hint);
}

// Catalog names are lower case, so that H100 finds h100.
std::string to_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

RunTarget run_target_of(std::string_view machine_name) {
  if (machine_name == "cpu") return RunTarget::cpu;
  return machine_name == "cuda" ? RunTarget::cuda : RunTarget::prediction_only;
}

std::vector<std::string> catalog_names() {
  std::vector<std::string> names;
  for (const EmbeddedMachine& machine : embedded_machines()) names.emplace_back(machine.name);
  return names;
}

Result<std::string> measured_machine_path(const std::string& device) {
  const auto root = find_user_folder("XDG_DATA_HOME", ".local/share");
  if (!root)
    return absent_error("no folder for measured machines: neither XDG_DATA_HOME nor HOME names an absolute path",
                        "set HOME, or XDG_DATA_HOME to a folder that can be written");
  return *root + "/ridge/machines/" + device + ".toml";
}

Result<Machine> find_machine(const std::string& name_or_path) {
  if (const RunTarget target = run_target_of(name_or_path); target != RunTarget::prediction_only)
    return target == RunTarget::cpu ? find_cpu() : find_cuda();
  const std::string name = to_lower_case(name_or_path);
  for (const EmbeddedMachine& machine : embedded_machines())
    if (machine.name == name) return parse_machine(machine.toml, fmt::format("machines/{}.toml", machine.name));
  if (name_or_path.ends_with(".toml") || name_or_path.find('/') != std::string::npos)
    return load_machine_file(name_or_path, "`ridge machines` lists the names that need no file");
  return unknown_machine_error(name_or_path);
}

}  // namespace ridge
