#include "ridge/machine/toml_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"

namespace ridge::machine {
namespace {

std::string suggest_word(std::string_view typed, const std::vector<std::string>& candidates) {
  const std::string suggestion = find_nearest(typed, candidates);
  return suggestion.empty() ? suggestion : fmt::format("did you mean '{}'?", suggestion);
}

// Returns the factor from `written` to `unit` ("TFLOP/s": 1e12, "GiB": 2^30), or 0 for another unit.
double prefix_factor(std::string_view written, std::string_view unit) {
  if (written.size() <= unit.size() || !written.ends_with(unit)) return 0;
  const std::string_view prefix = written.substr(0, written.size() - unit.size());
  double decimal = 1, binary = 1;
  for (const char c : std::string_view("kMGTP")) {
    decimal *= 1e3;
    binary *= 1024;
    if (prefix == std::string_view(&c, 1)) return decimal;
    if (prefix.size() == 2 && prefix[1] == 'i' && prefix[0] == (c == 'k' ? 'K' : c)) return binary;
  }
  return 0;
}

Result<double> read_value(const MachineFileText& text, const toml::node& node, std::string_view what) {
  if (!node.is_number())
    return text.error_at(node.source(),
                         fmt::format("expected a number for the value of {}, found {}", what, describe_node(node)),
                         node.is_string() ? "write the number without quotes" : "");
  // An integer above 2^53 may not be a double; the nearest one is used.
  const auto* integer = node.as_integer();
  const double value = integer ? static_cast<double>(integer->get()) : *node.value<double>();
  if (!(value > 0))
    return text.error_at(node.source(), fmt::format("expected a value above zero for {}, found {}", what, value),
                         "omit unknown numbers");
  // Products and quotients of larger or smaller numbers could exceed the range of a double.
  if (value < 1e-30 || value > 1e30)
    return text.error_at(node.source(),
                         fmt::format("expected a value from 1e-30 to 1e30 for {}, found {}", what, value));
  return value;
}

Status check_unit(const MachineFileText& text, const toml::node& node, std::string_view what, std::string_view unit,
                  double value) {
  RIDGE_TRY(written, read_string(text, node, fmt::format("the unit of {}", what)));
  if (written == unit) return Done{};
  const double factor = prefix_factor(written, unit);
  return text.error_at(node.source(), fmt::format("expected unit \"{}\" for {}, found \"{}\"", unit, what, written),
                       factor > 0 ? fmt::format("write value = {}, unit = \"{}\"", value * factor, unit) : "");
}

Result<Origin> read_origin(const MachineFileText& text, const toml::node& node, std::string_view what) {
  RIDGE_TRY(written, read_string(text, node, fmt::format("the origin of {}", what)));
  std::vector<std::string> names;
  for (const Origin o : {Origin::datasheet, Origin::derived, Origin::measured, Origin::guessed}) {
    if (origin_name(o) == written) return o;
    names.emplace_back(origin_name(o));
  }
  return text.error_at(
      node.source(),
      fmt::format("unknown origin \"{}\" of {}; expected one of {}", written, what, fmt::join(names, ", ")),
      suggest_word(written, names));
}

Result<std::string> read_day(const MachineFileText& text, const toml::node& node, std::string_view what) {
  const auto* date = node.as_date();
  if (!date)
    return text.error_at(node.source(),
                         fmt::format("expected a day for read of {}, found {}", what, describe_node(node)),
                         "write the day without quotes: read = 2026-11-20");
  return fmt::format("{:04}-{:02}-{:02}", date->get().year, date->get().month, date->get().day);
}

}  // namespace

std::string_view MachineFileText::line_at(int number) const {
  std::size_t begin = 0;
  for (int i = 1; i < number; ++i) {
    begin = toml.find('\n', begin);
    if (begin == std::string_view::npos) return {};
    ++begin;
  }
  std::string_view found = toml.substr(begin, toml.find('\n', begin) - begin);
  if (found.ends_with('\r')) found.remove_suffix(1);
  return found;
}

Error MachineFileText::error_at(const toml::source_region& where, std::string message, std::string hint) const {
  TextSpan span{static_cast<int>(where.begin.line), static_cast<int>(where.begin.column), 1};
  if (where.end.line == where.begin.line && where.end.column > where.begin.column)
    span.length = static_cast<int>(where.end.column - where.begin.column);
  return {.kind = ErrorKind::input,
          .message = std::move(message),
          .hint = std::move(hint),
          .source = source,
          .span = span,
          .line_text = std::string(line_at(span.line))};
}

std::vector<TomlEntry> sorted_entries(const toml::table& table) {
  std::vector<TomlEntry> all;
  for (auto&& [key, node] : table) all.push_back({&key, &node});
  std::stable_sort(all.begin(), all.end(), [](const TomlEntry& a, const TomlEntry& b) {
    const auto& x = a.key->source().begin;
    const auto& y = b.key->source().begin;
    return x.line != y.line ? x.line < y.line : x.column < y.column;
  });
  return all;
}
std::string_view describe_node(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "a string";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "a boolean";
    case toml::node_type::date: return "a date";
    case toml::node_type::time: return "a time";
    case toml::node_type::date_time: return "a date with a time";
    case toml::node_type::none: break;
  }
  return "nothing";
}

Error unknown_key_error(const MachineFileText& text, const toml::key& key, std::string_view where,
                        const std::vector<std::string>& candidates) {
  return text.error_at(
      key.source(),
      fmt::format("unknown key '{}'{}; expected one of {}", key.str(), where, fmt::join(candidates, ", ")),
      suggest_word(key.str(), candidates));
}

Result<std::string> read_string(const MachineFileText& text, const toml::node& node, std::string_view what) {
  const auto* value = node.as_string();
  if (!value)
    return text.error_at(node.source(), fmt::format("expected a string for {}, found {}", what, describe_node(node)));
  if (value->get().empty())
    return text.error_at(node.source(), fmt::format("expected a non-empty string for {}, found \"\"", what));
  return value->get();
}

Result<SourcedValue> read_number(const MachineFileText& text, const TomlEntry& entry, const std::string& what,
                                 std::string_view unit) {
  const toml::table* table = entry.node->as_table();
  if (!table)
    return text.error_at(
        entry.node->source(), fmt::format("expected a table for {}, found {}", what, describe_node(*entry.node)),
        fmt::format("write {} = {{ value = 1e12, unit = \"{}\", source = \"a document\", read = 2026-11-20 }}",
                    entry.key->str(), unit));
  static const std::vector<std::string> keys = {"value", "unit", "source", "read", "origin", "note"};
  for (const TomlEntry& field : sorted_entries(*table))
    if (!contains(keys, field.key->str())) return unknown_key_error(text, *field.key, " of " + what, keys);
  for (const auto& [field, hint] : {std::pair{"value", ""},
                                    {"unit", ""},
                                    {"source", "give the document or measurement that the number is from"},
                                    {"read", "give the date when it was read: read = 2026-11-20"}})
    if (!table->contains(field))
      return text.error_at(entry.key->source(),
                           fmt::format("{} lacks '{}'; expected value, unit, source and read", what, field), hint);
  SourcedValue result;
  RIDGE_TRY(value, read_value(text, *table->get("value"), what));
  result.value = value;
  RIDGE_TRY_STATUS(check_unit(text, *table->get("unit"), what, unit, value));
  RIDGE_TRY(source, read_string(text, *table->get("source"), fmt::format("the source of {}", what)));
  result.source = source;
  RIDGE_TRY(day, read_day(text, *table->get("read"), what));
  result.read_on = day;
  if (const toml::node* node = table->get("origin")) {
    RIDGE_TRY(origin, read_origin(text, *node, what));
    result.origin = origin;
  }
  if (const toml::node* node = table->get("note")) {
    RIDGE_TRY(note, read_string(text, *node, fmt::format("the note of {}", what)));
    result.note = note;
  }
  return result;
}
}  // namespace ridge::machine
