// Finds configs by name, file or folder.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "ridge/base/file.h"
#include "ridge/base/string_util.h"
#include "ridge/model/config.h"
#include "ridge/model/embedded.h"

namespace ridge::model {
namespace {

constexpr std::size_t max_file_bytes = std::size_t{4} << 20;  // some hundred times the largest published config

// Returns "llama_3_1_405b" for "Llama-3.1-405B".
std::string normalize_name(const std::string& name) {
  std::string out = to_lower_case(name);
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return out;
}

Error unknown_name_error(const std::string& requested) {
  const std::string typed = normalize_name(requested), nearest = find_nearest(typed, shipped_names());
  std::vector<std::string> found;
  for (const std::string& name : shipped_names())
    if (name == nearest || (typed.size() >= 3 && name.starts_with(typed))) found.push_back(name);
  return absent_error(
      fmt::format("unknown model '{}'; expected a name of models/, a config.json or its folder", requested),
      fmt::format("{}", found.empty() ? fmt::format("the names are {}", fmt::join(shipped_names(), ", "))
                                      : fmt::format("did you mean {}?", fmt::join(found, ", "))));
}

// Returns the error of a path that does not exist, such as Hugging Face's "meta-llama/Llama-3-8B", with the shipped
// config of that name.
Error missing_path_error(const std::string& path) {
  const std::string typed = normalize_name(path.substr(path.rfind('/') + 1));
  std::string nearest = find_nearest(typed, shipped_names());
  for (const std::string& name : shipped_names())
    if (typed.ends_with("_" + name) || typed.starts_with(name + "_")) nearest = name;
  return input_error(fmt::format("cannot read '{}': No such file or directory", path),
                     nearest.empty() ? "names of models are not downloaded; give the path of a config.json"
                                     : fmt::format("did you mean {}?", nearest));
}

Result<ModelConfig> load_config(const std::filesystem::path& path) {
  RIDGE_TRY(text, read_file(path.string(), max_file_bytes));
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  const std::string stem = path.stem() == "config" ? whole.parent_path().filename().string() : path.stem().string();
  return parse_config(text, path.string(), stem);
}

}  // namespace

std::vector<std::string> shipped_names() {
  std::vector<std::string> names;
  for (const EmbeddedModel& shipped : embedded_models()) names.emplace_back(shipped.name);
  return names;
}

Result<ModelConfig> find_config(const std::string& name_or_path) {
  const std::string name = normalize_name(name_or_path);
  for (const EmbeddedModel& shipped : embedded_models())
    if (shipped.name == name)
      return parse_config(shipped.json, fmt::format("models/{}.json", shipped.name), std::string(shipped.name));
  const std::filesystem::path path = name_or_path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return load_config(path / "config.json");
  const bool is_file = name_or_path.ends_with(".json");
  const bool is_path = is_file || name_or_path.find('/') != std::string::npos;
  if (is_path && !is_file && !std::filesystem::exists(path, ignored)) return missing_path_error(name_or_path);
  if (is_path) return load_config(path);
  return unknown_name_error(name_or_path);
}

}  // namespace ridge::model
