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

struct CatalogEntry {
  std::string name, title;  // The title is in lower case: "nvidia h100 sxm"
};

std::vector<CatalogEntry> list_catalog() {
  std::vector<CatalogEntry> entries;
  for (const EmbeddedMachine& machine : embedded_machines()) {
    const auto parsed = parse_machine(machine.toml, std::string(machine.name));
    entries.push_back({std::string(machine.name), parsed ? to_lower_case(parsed->title) : ""});
  }
  return entries;
}

bool is_gpu(const CatalogEntry& entry) {
  return entry.title.starts_with("nvidia") || (entry.title.starts_with("amd") && entry.name.starts_with("mi"));
}

template <class Predicate> std::vector<std::string> names_where(const Predicate& is_match) {
  std::vector<std::string> names;
  for (const CatalogEntry& entry : list_catalog())
    if (is_match(entry)) names.push_back(entry.name);
  return names;
}

// Returns the names that the user may have meant: those that begin with the text (a100), else those that contain it or
// have it in their title (4090, instinct), else those that it contains (h100_sxm), else up to three similar names.
std::vector<std::string> suggest_machines(const std::string& requested) {
  constexpr std::size_t min_part = 2, min_whole_name = 4, max_similar = 3;
  const std::string typed = to_lower_case(requested);
  std::vector<std::string> found;
  if (typed.size() >= min_part)
    found = names_where([&](const CatalogEntry& entry) { return entry.name.starts_with(typed); });
  if (found.empty() && typed.size() >= min_part + 1)
    found = names_where([&](const CatalogEntry& entry) {
      return entry.name.find(typed) != std::string::npos || entry.title.find(typed) != std::string::npos;
    });
  if (found.empty())
    found = names_where([&](const CatalogEntry& entry) {
      return entry.name.size() >= min_whole_name && typed.find(entry.name) != std::string::npos;
    });
  if (!found.empty()) return found;
  std::vector<std::string> names = catalog_names();
  names.insert(names.end(), {"cpu", "cuda"});
  for (std::string next = find_nearest(typed, names); !next.empty() && found.size() < max_similar;
       next = find_nearest(typed, names)) {
    found.push_back(next);
    std::erase(names, next);
  }
  return found;
}

std::string unknown_machine_hint(const std::string& requested) {
  constexpr std::size_t max_shown = 8;
  const std::string typed = to_lower_case(requested);
  if (typed == "gpu" || typed == "gpus")
    return fmt::format("the catalog has the GPUs {}; cuda is the GPU of this computer; `ridge machines` lists all",
                       fmt::join(names_where(is_gpu), ", "));
  std::vector<std::string> found = suggest_machines(requested);
  if (found.empty()) return "`ridge machines` lists the catalog";
  const std::size_t more = found.size() - std::min(found.size(), max_shown);
  found.resize(found.size() - more);
  return fmt::format("did you mean {}{}? `ridge machines` lists the catalog", fmt::join(found, ", "),
                     more > 0 ? fmt::format(" or {} others", more) : "");
}

Error unknown_machine_error(const std::string& requested) {
  return absent_error(
      fmt::format("unknown machine '{}'; expected a name of the catalog, a .toml file, cpu or cuda", requested),
      unknown_machine_hint(requested));
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
