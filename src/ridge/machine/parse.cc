// Reads a machine file. toml++ reads the TOML; this file holds it to our words. The first memory level of the file is
// the one that tensors live in, so tables are read in the order of the text.
#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <span>

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

// Tables inside a table that say the same of something else, and where they put it.
struct PeakPart {
  std::string_view name;
  std::optional<Sourced> Peak::*place;
};
constexpr PeakPart peak_parts[] = {{"one_core", &Peak::one_core}, {"sustained", &Peak::sustained}};
struct LevelPart {
  std::string_view name;
  std::optional<Sourced> MemoryLevel::*place;
};
constexpr LevelPart level_parts[] = {{"one_core", &MemoryLevel::one_core_bandwidth},
                                     {"sustained", &MemoryLevel::sustained}};

template <class Part, std::size_t n> const Part* part_named(const Part (&parts)[n], std::string_view name) {
  const Part* found = std::find_if(parts, parts + n, [&](const Part& part) { return part.name == name; });
  return found == parts + n ? nullptr : found;
}

// One number for each dtype of [matrix] or [vector]; with a part, of [matrix.one_core], ….
Status read_rates(const Text& text, const Entry& entry, Unit unit, const PeakPart* part, Machine& machine) {
  const std::string what = part ? fmt::format("{}.{}", name(unit), part->name) : std::string(name(unit));
  Result<const toml::table*> table = as_table(text, entry, what);
  if (!table) return table.error();
  std::vector<std::string> words;
  for (const DTypeInfo& d : dtypes)
    if (d.element == d.dtype) words.emplace_back(d.name);
  for (const Entry& field : entries(**table)) {
    const std::string_view key = field.key->str();
    if (!part && part_named(peak_parts, key)) continue;
    const std::optional<DType> dtype = dtype_from(key);
    if (!dtype || name(*dtype) != key) {
      Error error = unknown_key(text, *field.key, fmt::format(" in [{}]", what), words);
      if (dtype) error.hint = fmt::format("did you mean '{}'?", name(*dtype));
      return error;
    }
    Result<Sourced> rate = number(text, field, fmt::format("{}.{}", what, key), rate_unit(info(*dtype).integer));
    if (!rate) return rate.error();
    if (!part) {
      machine.peaks.push_back({.unit = unit, .dtype = *dtype, .rate = *rate});
      continue;
    }
    const auto peak = std::find_if(machine.peaks.begin(), machine.peaks.end(),
                                   [&](const Peak& p) { return p.unit == unit && p.dtype == *dtype; });
    if (peak == machine.peaks.end())
      return text.error(field.key->source(), fmt::format("{}.{} has no {}.{} of all cores", what, key, name(unit), key),
                        fmt::format("add {} under [{}]", key, name(unit)));
    (*peak).*(part->place) = *rate;
  }
  return Done{};
}

Status read_peaks(const Text& text, const Entry& entry, Unit unit, Machine& machine) {
  if (Status read = read_rates(text, entry, unit, nullptr, machine); !read) return read;
  // Parts last, whatever the order in the file, so that they find the peaks that they belong to.
  for (const Entry& field : entries(*entry.node->as_table()))
    if (const PeakPart* part = part_named(peak_parts, field.key->str()))
      if (Status read = read_rates(text, field, unit, part, machine); !read) return read;
  return Done{};
}

// A table that holds `bandwidth` and nothing else.
Result<Sourced> read_bandwidth(const Text& text, const Entry& entry, const std::string& what) {
  Result<const toml::table*> table = as_table(text, entry, what);
  if (!table) return table.error();
  std::optional<Sourced> bandwidth;
  for (const Entry& field : entries(**table)) {
    if (field.key->str() != "bandwidth")
      return unknown_key(text, *field.key, fmt::format(" in [{}]", what), {"bandwidth"});
    Result<Sourced> found = number(text, field, what + ".bandwidth", "B/s");
    if (!found) return found.error();
    bandwidth = *found;
  }
  if (!bandwidth) return text.error(entry.key->source(), what + " lacks 'bandwidth'");
  return *bandwidth;
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
    if (const LevelPart* part = part_named(level_parts, key)) {
      Result<Sourced> found = read_bandwidth(text, field, fmt::format("{}.{}", what, key));
      if (!found) return found.error();
      level.*(part->place) = *found;
      continue;
    }
    if (key != "bandwidth" && key != "capacity")
      return unknown_key(text, *field.key, fmt::format(" in [{}]", what),
                         {"bandwidth", "capacity", "one_core", "sustained"});
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

Status whole(const Text& text, const Entry& field, const std::string& what, double value) {
  if (value == std::floor(value)) return Done{};
  return text.error(field.node->as_table()->get("value")->source(),
                    fmt::format("expected a whole number for {}, found {}", what, value));
}

Status read_topology(const Text& text, const Entry& field, const std::string& place, Link& link) {
  Result<std::string> word = string(text, *field.node, place);
  if (!word) return word.error();
  for (const Topology each : {Topology::ring, Topology::switched, Topology::direct})
    if (name(each) == *word) link.topology = each;
  if (link.topology) return Done{};
  return text.error(field.node->source(),
                    fmt::format("expected ring, switch or direct for {}, found '{}'", place, *word),
                    "leave it out where it is not known: one ring is taken, one way");
}

Status read_link(const Text& text, const Entry& entry, Machine& machine) {
  Result<std::string> link_name = plain_name(text, entry.key->source(), entry.key->str());
  if (!link_name) return link_name.error();
  const std::string what = "link." + *link_name;
  Result<const toml::table*> table = as_table(text, entry, what);
  if (!table) return table.error();
  Link link{.name = *link_name, .bandwidth = {}};
  for (const Entry& field : entries(**table)) {
    const std::string key(field.key->str());
    const std::string place = what + "." + key;
    if (key == "sustained") {
      Result<Sourced> found = read_bandwidth(text, field, place);
      if (!found) return found.error();
      link.sustained = *found;
      continue;
    }
    if (key == "topology") {
      if (Status read = read_topology(text, field, place, link); !read) return read;
      continue;
    }
    if (key != "bandwidth" && key != "count" && key != "latency")
      return unknown_key(text, *field.key, fmt::format(" in [{}]", what),
                         {"bandwidth", "count", "latency", "sustained", "topology"});
    const char* const other = key == "count" ? "1" : "s";
    Result<Sourced> found = number(text, field, place, key == "bandwidth" ? "B/s" : other);
    if (!found) return found.error();
    if (key == "count")
      if (Status is = whole(text, field, place, found->value); !is) return is;
    if (key == "bandwidth")
      link.bandwidth = *found;
    else
      (key == "count" ? link.count : link.latency) = *found;
  }
  if (link.bandwidth.value == 0)
    return text.error(entry.key->source(), what + " lacks 'bandwidth'", "add its rate one way, of one link");
  machine.links.push_back(std::move(link));
  return Done{};
}

Status read_links(const Text& text, const Entry& entry, Machine& machine) {
  Result<const toml::table*> table = as_table(text, entry, "link");
  if (!table) return table.error();
  for (const Entry& link : entries(**table))
    if (Status read = read_link(text, link, machine); !read) return read;
  return Done{};
}

// [numbers] or [plan]: a number for some of the keys.
Status read_numbers(const Text& text, const Entry& entry, std::span<const NumberKey> keys,
                    std::map<std::string, Sourced>& numbers) {
  const std::string what(entry.key->str());
  Result<const toml::table*> table = as_table(text, entry, what);
  if (!table) return table.error();
  for (const Entry& field : entries(**table)) {
    const auto known =
        std::find_if(keys.begin(), keys.end(), [&](const NumberKey& k) { return k.key == field.key->str(); });
    if (known == keys.end()) {
      std::vector<std::string> words;
      for (const NumberKey& k : keys) words.emplace_back(k.key);
      return unknown_key(text, *field.key, fmt::format(" in [{}]", what), words);
    }
    const std::string place = fmt::format("{}.{}", what, known->key);
    Result<Sourced> found = number(text, field, place, known->unit);
    if (!found) return found.error();
    if (known->unit == "1" && !known->key.starts_with("library_"))  // shares and powers
      if (Status is = whole(text, field, place, found->value); !is) return is;
    numbers.emplace(known->key, *found);
  }
  return Done{};
}

Status read_top(const Text& text, const Entry& entry, Machine& machine) {
  static const std::vector<std::string> words = {"name",   "title", "kernels", "matrix", "vector",
                                                 "memory", "link",  "numbers", "plan"};
  const std::string_view key = entry.key->str();
  if (key == "matrix") return read_peaks(text, entry, Unit::matrix, machine);
  if (key == "vector") return read_peaks(text, entry, Unit::vector, machine);
  if (key == "memory") return read_memory(text, entry, machine);
  if (key == "link") return read_links(text, entry, machine);
  if (key == "numbers") return read_numbers(text, entry, number_keys, machine.numbers);
  if (key == "plan") return read_numbers(text, entry, plan_keys, machine.plan);
  if (key != "name" && key != "title" && key != "kernels") return unknown_key(text, *entry.key, "", words);
  Result<std::string> value = string(text, *entry.node, key);
  if (value && key == "name") value = plain_name(text, entry.node->source(), *value);
  if (!value) return value.error();
  if (key == "kernels" && *value != "sm90")
    return text.error(entry.node->source(), fmt::format("expected kernels \"sm90\", found '{}'", *value),
                      "leave it out where none of Ridge's kernels run");
  if (key == "kernels") machine.kernels = *value;
  if (key == "name") machine.name = *value;
  if (key == "title") machine.title = *value;
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
  if (toml_text.find('\0') != std::string_view::npos)
    return incomplete(source, "expected a machine file in TOML, found a binary file", "");
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
