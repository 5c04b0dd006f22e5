// Reads a machine file. toml++ reads the TOML; this file holds it to our words. The first memory level of the file is
// the one that tensors live in, so tables are read in the order of the text.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "ridge/machine/keys.h"
#include "ridge/machine/machine.h"
#include "ridge/machine/number.h"

namespace ridge {
namespace {

using namespace machine_file;

// A machine file is a page of text; what is larger is another file.
constexpr std::size_t largest_file = 1 << 20;

// Names stand in messages, on the command line and as TOML keys.
Result<std::string> plain_name(const Text& text, const toml::source_region& where, std::string_view found) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  if (found.empty() || !std::all_of(found.begin(), found.end(), plain))
    return text.error(where, fmt::format("expected a name of letters, digits, _ and -, found '{}'", found));
  return std::string(found);
}

Result<const toml::table*> as_table(const Text& text, const Entry& entry, std::string_view what) {
  if (const toml::table* table = entry.node->as_table()) return table;
  return text.error(entry.node->source(), fmt::format("expected a table for {}, found {}", what, describe(*entry.node)),
                    fmt::format("open it with [{}] on a line of its own", what));
}

// [matrix], [vector] and, inside them, [matrix.one_core]: one number for each dtype.
Status read_peaks(const Text& text, const Entry& entry, Unit unit, bool one_core, Machine& machine) {
  const std::string what = fmt::format("{}{}", name(unit), one_core ? ".one_core" : "");
  Result<const toml::table*> table = as_table(text, entry, what);
  if (!table) return table.error();
  std::vector<std::string> words;
  for (const DTypeInfo& d : dtypes) words.emplace_back(d.name);
  for (const Entry& field : entries(**table)) {
    const std::string_view key = field.key->str();
    if (key == "one_core" && !one_core) continue;
    const std::optional<DType> dtype = dtype_from(key);
    if (!dtype || name(*dtype) != key) {
      Error error = unknown_key(text, *field.key, fmt::format(" in [{}]", what), words);
      if (dtype) error.hint = fmt::format("did you mean '{}'?", name(*dtype));
      return error;
    }
    Result<Sourced> rate = number(text, field, fmt::format("{}.{}", what, key), rate_unit(info(*dtype).integer));
    if (!rate) return rate.error();
    if (!one_core) {
      machine.peaks.push_back({.unit = unit, .dtype = *dtype, .rate = *rate});
    } else {
      const auto peak = std::find_if(machine.peaks.begin(), machine.peaks.end(),
                                     [&](const Peak& p) { return p.unit == unit && p.dtype == *dtype; });
      if (peak == machine.peaks.end())
        return text.error(field.key->source(),
                          fmt::format("{}.{} has no {}.{} of all cores", what, key, name(unit), key),
                          fmt::format("add {} under [{}]", key, name(unit)));
      peak->one_core = *rate;
    }
  }
  // One core last, whatever the order in the file, so that it finds the peak that it belongs to.
  for (const Entry& field : entries(**table))
    if (field.key->str() == "one_core" && !one_core) return read_peaks(text, field, unit, true, machine);
  return Done{};
}

Status read_level_one_core(const Text& text, const Entry& entry, const std::string& what, MemoryLevel& level) {
  Result<const toml::table*> table = as_table(text, entry, what);
  if (!table) return table.error();
  for (const Entry& field : entries(**table)) {
    if (field.key->str() != "bandwidth")
      return unknown_key(text, *field.key, fmt::format(" in [{}]", what), {"bandwidth"});
    Result<Sourced> found = number(text, field, what + ".bandwidth", "B/s");
    if (!found) return found.error();
    level.one_core_bandwidth = *found;
  }
  return Done{};
}

Status read_level(const Text& text, const Entry& entry, Machine& machine) {
  Result<std::string> level_name = plain_name(text, entry.key->source(), entry.key->str());
  if (!level_name) return level_name.error();
  const std::string what = "memory." + *level_name;
  Result<const toml::table*> table = as_table(text, entry, what);
  if (!table) return table.error();
  MemoryLevel level{.name = *level_name, .bandwidth = {}, .capacity = {}};
  for (const Entry& field : entries(**table)) {
    const std::string_view key = field.key->str();
    if (key == "one_core") {
      if (Status read = read_level_one_core(text, field, what + ".one_core", level); !read) return read.error();
      continue;
    }
    if (key != "bandwidth" && key != "capacity")
      return unknown_key(text, *field.key, fmt::format(" in [{}]", what), {"bandwidth", "capacity", "one_core"});
    Result<Sourced> found = number(text, field, fmt::format("{}.{}", what, key), key == "bandwidth" ? "B/s" : "B");
    if (!found) return found.error();
    (key == "bandwidth" ? level.bandwidth : level.capacity) = *found;
  }
  if (machine.memory.empty() && !level.bandwidth)
    return text.error(entry.key->source(),
                      fmt::format("{} lacks 'bandwidth'; it is the first memory, the one that tensors live in", what),
                      "add its bandwidth, or list the memory that tensors live in first");
  machine.memory.push_back(std::move(level));
  return Done{};
}

Status read_memory(const Text& text, const Entry& entry, Machine& machine) {
  Result<const toml::table*> table = as_table(text, entry, "memory");
  if (!table) return table.error();
  for (const Entry& level : entries(**table))
    if (Status read = read_level(text, level, machine); !read) return read.error();
  return Done{};
}

Status read_numbers(const Text& text, const Entry& entry, Machine& machine) {
  Result<const toml::table*> table = as_table(text, entry, "numbers");
  if (!table) return table.error();
  for (const Entry& field : entries(**table)) {
    const auto known = std::find_if(number_keys.begin(), number_keys.end(),
                                    [&](const NumberKey& k) { return k.key == field.key->str(); });
    if (known == number_keys.end()) {
      std::vector<std::string> words;
      for (const NumberKey& k : number_keys) words.emplace_back(k.key);
      return unknown_key(text, *field.key, " in [numbers]", words);
    }
    Result<Sourced> found = number(text, field, fmt::format("numbers.{}", known->key), known->unit);
    if (!found) return found.error();
    if (known->unit == "1" && found->value != std::floor(found->value))
      return text.error(field.node->as_table()->get("value")->source(),
                        fmt::format("expected a whole number for numbers.{}, found {}", known->key, found->value));
    machine.numbers.emplace(known->key, *found);
  }
  return Done{};
}

Status read_top(const Text& text, const Entry& entry, Machine& machine) {
  static const std::vector<std::string> words = {"name", "title", "matrix", "vector", "memory", "numbers"};
  const std::string_view key = entry.key->str();
  if (key == "matrix") return read_peaks(text, entry, Unit::matrix, false, machine);
  if (key == "vector") return read_peaks(text, entry, Unit::vector, false, machine);
  if (key == "memory") return read_memory(text, entry, machine);
  if (key == "numbers") return read_numbers(text, entry, machine);
  if (key != "name" && key != "title") return unknown_key(text, *entry.key, "", words);
  Result<std::string> value = string(text, *entry.node, key);
  if (value && key == "name") value = plain_name(text, entry.node->source(), *value);
  if (!value) return value.error();
  (key == "name" ? machine.name : machine.title) = *value;
  return Done{};
}

// Nothing but blanks follows the place: the text was cut short there.
bool at_the_end(const Text& text, const toml::source_position& place) {
  const std::string_view line = text.line(static_cast<int>(place.line));
  const std::size_t column = std::min<std::size_t>(place.column, line.size());
  const char* rest = line.data() == nullptr ? text.toml.data() + text.toml.size() : line.data() + column;
  return std::all_of(rest, text.toml.data() + text.toml.size(),
                     [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; });
}

// toml++ knows where a text stops being TOML; what it says about why is in the words of its parser, so we say what the
// reader can do.
Error syntax_error(const Text& text, const toml::parse_error& found) {
  const std::string_view why = found.description();
  const auto says = [&](std::string_view words) { return why.find(words) != std::string_view::npos; };
  const toml::source_region& where = found.source();
  if (says("redefine"))
    return text.error(where, "expected each key once, found one defined twice", "remove one of the two");
  if (says("UTF-8") || says("utf-8"))
    return text.error(where, "expected UTF-8 text, found other bytes", "save the file as UTF-8");
  if (at_the_end(text, where.begin))
    return text.error(where, "expected the rest of a value, found the end of the file",
                      "the file is cut short: complete it, or write it again");
  return text.error(where, "expected TOML: a [table], or key = value, on one line",
                    "texts need quotes, numbers and days none; a table in braces stands on one line");
}

Error incomplete(const std::string& source, std::string message, std::string hint) {
  return {.kind = ErrorKind::input, .message = std::move(message), .hint = std::move(hint), .source = source};
}

}  // namespace

Result<Machine> parse_machine(std::string_view toml_text, const std::string& source) {
  if (toml_text.size() > largest_file)
    return incomplete(
        source, fmt::format("expected a machine file of at most {} bytes, found {}", largest_file, toml_text.size()),
        "");
  const Text text{toml_text, source};
  toml::table table;
  try {
    table = toml::parse(toml_text);
  } catch (const toml::parse_error& found) {
    return syntax_error(text, found);
  }
  Machine machine;
  for (const Entry& entry : entries(table))
    if (Status read = read_top(text, entry, machine); !read) return read.error();
  if (machine.name.empty())
    return incomplete(source, "the machine lacks a name", "add name = \"my_machine\" at the top");
  if (machine.peaks.empty())
    return incomplete(source, "the machine lacks a peak",
                      "add one under [matrix] or [vector]: docs/machine_files.md shows how");
  if (machine.memory.empty())
    return incomplete(source, "the machine lacks a memory",
                      "add bandwidth under [memory.dram]: docs/machine_files.md shows how");
  if (machine.title.empty()) machine.title = machine.name;
  return machine;
}

}  // namespace ridge
