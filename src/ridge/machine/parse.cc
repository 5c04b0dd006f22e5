// Reads a machine file. toml++ parses the TOML; this file checks keys and values. Tables are read in the order of the
// file, because its first memory level is the one that holds the tensors.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "ridge/machine/keys.h"
#include "ridge/machine/machine.h"
#include "ridge/machine/toml_values.h"

namespace ridge {
namespace {

using namespace machine;

// Machine files have about 5 kB; a file above this limit is rejected.
constexpr std::size_t max_file_bytes = 1 << 20;

// Returns the name if it can be used on the command line and as a TOML key.
Result<std::string> read_name(const MachineFileText& text, const toml::source_region& where, std::string_view found) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (found.empty() || !std::all_of(found.begin(), found.end(), plain))
    return text.error_at(where, fmt::format("expected a name of letters, digits, _ and -, found '{}'", found));
  return std::string(found);
}

Result<const toml::table*> as_table(const MachineFileText& text, const TomlEntry& entry, std::string_view what) {
  if (const toml::table* table = entry.node->as_table()) return table;
  return text.error_at(entry.node->source(),
                       fmt::format("expected a table for {}, found {}", what, describe_node(*entry.node)),
                       fmt::format("open it with [{}] on a line of its own", what));
}

// Nested tables of peaks and memory levels, and the members that they set.
struct PeakSubtable {
  std::string_view name;
  std::optional<SourcedValue> Peak::*member;
};
constexpr PeakSubtable peak_subtables[] = {{"one_core", &Peak::one_core}, {"sustained", &Peak::sustained}};
struct LevelSubtable {
  std::string_view name;
  std::optional<SourcedValue> MemoryLevel::*member;
};
constexpr LevelSubtable level_subtables[] = {{"one_core", &MemoryLevel::one_core_bandwidth},
                                             {"sustained", &MemoryLevel::sustained}};

template <class Part, std::size_t n> const Part* find_subtable(const Part (&parts)[n], std::string_view name) {
  const Part* found = std::find_if(parts, parts + n, [&](const Part& part) { return part.name == name; });
  return found == parts + n ? nullptr : found;
}

// Reads one number per dtype of [matrix] or [vector], or of a subtable such as [matrix.one_core].
Status read_rates(const MachineFileText& text, const TomlEntry& entry, ComputeUnit unit, const PeakSubtable* part,
                  Machine& machine) {
  const std::string what = part ? fmt::format("{}.{}", unit_name(unit), part->name) : std::string(unit_name(unit));
  RIDGE_TRY(table, as_table(text, entry, what));
  std::vector<std::string> keys;
  for (const DTypeInfo& d : dtypes)
    if (d.element == d.dtype) keys.emplace_back(d.name);
  for (const TomlEntry& field : sorted_entries(*table)) {
    const std::string_view key = field.key->str();
    if (!part && find_subtable(peak_subtables, key)) continue;
    const std::optional<DType> dtype = parse_dtype(key);
    if (!dtype || dtype_name(*dtype) != key) {
      Error error = unknown_key_error(text, *field.key, fmt::format(" in [{}]", what), keys);
      if (dtype) error.hint = fmt::format("did you mean '{}'?", dtype_name(*dtype));
      return error;
    }
    RIDGE_TRY(rate,
              read_number(text, field, fmt::format("{}.{}", what, key), rate_unit(dtype_info(*dtype).is_integer)));
    if (!part) {
      machine.peaks.push_back({.unit = unit, .dtype = *dtype, .rate = rate});
      continue;
    }
    const auto peak = std::find_if(machine.peaks.begin(), machine.peaks.end(),
                                   [&](const Peak& p) { return p.unit == unit && p.dtype == *dtype; });
    if (peak == machine.peaks.end())
      return text.error_at(field.key->source(),
                           fmt::format("{}.{} has no {}.{} of all cores", what, key, unit_name(unit), key),
                           fmt::format("add {} under [{}]", key, unit_name(unit)));
    (*peak).*(part->member) = rate;
  }
  return Done{};
}

Status read_peaks(const MachineFileText& text, const TomlEntry& entry, ComputeUnit unit, Machine& machine) {
  RIDGE_TRY_STATUS(read_rates(text, entry, unit, nullptr, machine));
  // Subtables such as [matrix.one_core] are read last, because they refer to peaks.
  for (const TomlEntry& field : sorted_entries(*entry.node->as_table()))
    if (const PeakSubtable* part = find_subtable(peak_subtables, field.key->str()))
      RIDGE_TRY_STATUS(read_rates(text, field, unit, part, machine));
  return Done{};
}

// Reads a table with `bandwidth` as its only key.
Result<SourcedValue> read_bandwidth(const MachineFileText& text, const TomlEntry& entry, const std::string& what) {
  RIDGE_TRY(table, as_table(text, entry, what));
  std::optional<SourcedValue> bandwidth;
  for (const TomlEntry& field : sorted_entries(*table)) {
    if (field.key->str() != "bandwidth")
      return unknown_key_error(text, *field.key, fmt::format(" in [{}]", what), {"bandwidth"});
    RIDGE_TRY(found, read_number(text, field, what + ".bandwidth", "B/s"));
    bandwidth = found;
  }
  if (!bandwidth) return text.error_at(entry.key->source(), what + " lacks 'bandwidth'");
  return *bandwidth;
}

Status read_level(const MachineFileText& text, const TomlEntry& entry, Machine& machine) {
  RIDGE_TRY(level_name, read_name(text, entry.key->source(), entry.key->str()));
  const std::string what = "memory." + level_name;
  RIDGE_TRY(table, as_table(text, entry, what));
  MemoryLevel level{.name = level_name, .bandwidth = {}, .capacity = {}};
  for (const TomlEntry& field : sorted_entries(*table)) {
    const std::string_view key = field.key->str();
    if (const LevelSubtable* part = find_subtable(level_subtables, key)) {
      RIDGE_TRY(found, read_bandwidth(text, field, fmt::format("{}.{}", what, key)));
      level.*(part->member) = found;
      continue;
    }
    if (key != "bandwidth" && key != "capacity")
      return unknown_key_error(text, *field.key, fmt::format(" in [{}]", what),
                               {"bandwidth", "capacity", "one_core", "sustained"});
    RIDGE_TRY(found, read_number(text, field, fmt::format("{}.{}", what, key), key == "bandwidth" ? "B/s" : "B"));
    (key == "bandwidth" ? level.bandwidth : level.capacity) = found;
  }
  if (machine.memory.empty() && !level.bandwidth)
    return text.error_at(entry.key->source(),
                         fmt::format("{} lacks 'bandwidth'; it is the first memory, which holds the tensors", what),
                         "add its bandwidth, or list the memory that holds the tensors first");
  machine.memory.push_back(std::move(level));
  return Done{};
}

Status read_memory(const MachineFileText& text, const TomlEntry& entry, Machine& machine) {
  RIDGE_TRY(table, as_table(text, entry, "memory"));
  for (const TomlEntry& level : sorted_entries(*table)) RIDGE_TRY_STATUS(read_level(text, level, machine));
  return Done{};
}

Status check_whole_number(const MachineFileText& text, const TomlEntry& field, const std::string& what, double value) {
  if (value == std::floor(value)) return Done{};
  return text.error_at(field.node->as_table()->get("value")->source(),
                       fmt::format("expected a whole number for {}, found {}", what, value));
}

Status read_topology(const MachineFileText& text, const TomlEntry& field, const std::string& path, Link& link) {
  RIDGE_TRY(word, read_string(text, *field.node, path));
  for (const Topology each : {Topology::ring, Topology::switched, Topology::direct})
    if (topology_name(each) == word) link.topology = each;
  if (link.topology) return Done{};
  return text.error_at(field.node->source(),
                       fmt::format("expected ring, switch or direct for {}, found '{}'", path, word),
                       "omit it if unknown: one ring in one direction is assumed");
}

Status read_link(const MachineFileText& text, const TomlEntry& entry, Machine& machine) {
  RIDGE_TRY(link_name, read_name(text, entry.key->source(), entry.key->str()));
  const std::string what = "link." + link_name;
  RIDGE_TRY(table, as_table(text, entry, what));
  Link link{.name = link_name, .bandwidth = {}};
  for (const TomlEntry& field : sorted_entries(*table)) {
    const std::string key(field.key->str());
    const std::string path = what + "." + key;
    if (key == "sustained") {
      RIDGE_TRY(found, read_bandwidth(text, field, path));
      link.sustained = found;
      continue;
    }
    if (key == "topology") {
      RIDGE_TRY_STATUS(read_topology(text, field, path, link));
      continue;
    }
    if (key != "bandwidth" && key != "count" && key != "latency")
      return unknown_key_error(text, *field.key, fmt::format(" in [{}]", what),
                               {"bandwidth", "count", "latency", "sustained", "topology"});
    const char* const other = key == "count" ? "1" : "s";
    RIDGE_TRY(found, read_number(text, field, path, key == "bandwidth" ? "B/s" : other));
    if (key == "count") RIDGE_TRY_STATUS(check_whole_number(text, field, path, found.value));
    if (key == "bandwidth")
      link.bandwidth = found;
    else
      (key == "count" ? link.count : link.latency) = found;
  }
  if (link.bandwidth.value == 0)
    return text.error_at(entry.key->source(), what + " lacks 'bandwidth'", "add the rate of one link in one direction");
  machine.links.push_back(std::move(link));
  return Done{};
}

Status read_links(const MachineFileText& text, const TomlEntry& entry, Machine& machine) {
  RIDGE_TRY(table, as_table(text, entry, "link"));
  for (const TomlEntry& link : sorted_entries(*table)) RIDGE_TRY_STATUS(read_link(text, link, machine));
  return Done{};
}

// Reads [numbers] or [plan]; all keys are optional.
Status read_numbers(const MachineFileText& text, const TomlEntry& entry, std::span<const NumberKey> keys,
                    std::map<std::string, SourcedValue>& numbers) {
  const std::string what(entry.key->str());
  RIDGE_TRY(table, as_table(text, entry, what));
  for (const TomlEntry& field : sorted_entries(*table)) {
    const auto known_key =
        std::find_if(keys.begin(), keys.end(), [&](const NumberKey& k) { return k.key == field.key->str(); });
    if (known_key == keys.end()) {
      std::vector<std::string> key_names;
      for (const NumberKey& k : keys) key_names.emplace_back(k.key);
      return unknown_key_error(text, *field.key, fmt::format(" in [{}]", what), key_names);
    }
    const std::string path = fmt::format("{}.{}", what, known_key->key);
    RIDGE_TRY(found, read_number(text, field, path, known_key->unit));
    if (known_key->unit == "1" &&
        !known_key->key.starts_with("library_"))  // library_ numbers are fractions and exponents
      RIDGE_TRY_STATUS(check_whole_number(text, field, path, found.value));
    numbers.emplace(known_key->key, found);
  }
  return Done{};
}

Status read_top_level(const MachineFileText& text, const TomlEntry& entry, Machine& machine) {
  static const std::vector<std::string> keys = {"name",   "title", "kernels", "matrix", "vector",
                                                "memory", "link",  "numbers", "plan"};
  const std::string_view key = entry.key->str();
  if (key == "matrix") return read_peaks(text, entry, ComputeUnit::matrix, machine);
  if (key == "vector") return read_peaks(text, entry, ComputeUnit::vector, machine);
  if (key == "memory") return read_memory(text, entry, machine);
  if (key == "link") return read_links(text, entry, machine);
  if (key == "numbers") return read_numbers(text, entry, number_keys, machine.numbers);
  if (key == "plan") return read_numbers(text, entry, plan_keys, machine.plan_numbers);
  if (key != "name" && key != "title" && key != "kernels") return unknown_key_error(text, *entry.key, "", keys);
  Result<std::string> value = read_string(text, *entry.node, key);
  if (value && key == "name") value = read_name(text, entry.node->source(), *value);
  RIDGE_TRY_STATUS(value);
  if (key == "kernels" && *value != "sm90")
    return text.error_at(entry.node->source(), fmt::format("expected kernels \"sm90\", found '{}'", *value),
                         "omit it if Ridge's kernels do not run there");
  if (key == "kernels") machine.kernels = *value;
  if (key == "name") machine.name = *value;
  if (key == "title") machine.title = *value;
  return Done{};
}

// True if only blanks follow the position, as in a truncated file.
bool is_at_end(const MachineFileText& text, const toml::source_position& position) {
  const std::string_view line = text.line_at(static_cast<int>(position.line));
  const std::size_t column = std::min<std::size_t>(position.column, line.size());
  const char* rest = line.data() == nullptr ? text.toml.data() + text.toml.size() : line.data() + column;
  return std::all_of(rest, text.toml.data() + text.toml.size(),
                     [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
}

// Returns an error at the position that toml++ reports. Its messages describe parser states, so they are replaced by
// what the user can do.
Error syntax_error(const MachineFileText& text, const toml::parse_error& found) {
  const std::string_view why = found.description();
  const auto mentions = [&](std::string_view words) { return why.find(words) != std::string_view::npos; };
  const toml::source_region& where = found.source();
  if (mentions("redefine"))
    return text.error_at(where, "expected each key once, found one defined twice", "remove one of the two");
  if (mentions("UTF-8") || mentions("utf-8"))
    return text.error_at(where, "expected UTF-8 text, found other bytes", "save the file as UTF-8");
  if (is_at_end(text, where.begin))
    return text.error_at(where, "expected the rest of a value, found the end of the file",
                         "the file is cut short: complete it, or write it again");
  if (mentions("representable") || mentions("inclusive"))
    return text.error_at(
        where, "expected a number or a date within its range, found one outside it",
        "numbers have at most 1.8e308, whole numbers without an exponent 9.2e18; dates are as 2026-02-28");
  return text.error_at(where, "expected TOML: a [table], or key = value, on one line",
                       "strings need quotes, numbers and dates do not; a table in braces must be on one line");
}

Error file_error(const std::string& source, std::string message, std::string hint) {
  return {.kind = ErrorKind::input, .message = std::move(message), .hint = std::move(hint), .source = source};
}

}  // namespace

Result<Machine> parse_machine(std::string_view toml_text, const std::string& source) {
  if (toml_text.size() > max_file_bytes)
    return file_error(
        source, fmt::format("expected a machine file of at most {} bytes, found {}", max_file_bytes, toml_text.size()),
        "");
  if (toml_text.find('\0') != std::string_view::npos)
    return file_error(source, "expected a machine file in TOML, found a binary file", "");
  const MachineFileText text{toml_text, source};
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& found) {
    return syntax_error(text, found);
  }
  Machine machine;
  for (const TomlEntry& entry : sorted_entries(table)) RIDGE_TRY_STATUS(read_top_level(text, entry, machine));
  if (machine.name.empty())
    return file_error(source, "the machine lacks a name", "add name = \"my_machine\" at the top");
  if (machine.peaks.empty())
    return file_error(source, "the machine lacks a peak",
                      "add one under [matrix] or [vector]: docs/machine_files.md shows how");
  if (machine.memory.empty())
    return file_error(source, "the machine lacks a memory",
                      "add bandwidth under [memory.dram]: docs/machine_files.md shows how");
  if (machine.title.empty()) machine.title = machine.name;
  return machine;
}

}  // namespace ridge
