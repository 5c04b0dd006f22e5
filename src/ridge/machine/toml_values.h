// Reads values of a machine file; errors show the line. A number is written as
//   bf16 = { value = 197e12, unit = "FLOP/s", source = "Google Cloud, TPU v5e", read = 2026-11-20 }
// with all of value, unit, source and read. Included only by parse.cc and toml_values.cc, because it includes toml++.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "ridge/machine/machine.h"

namespace ridge::machine {

// The machine file, for error messages.
struct MachineFileText {
  std::string_view toml;
  const std::string& source;

  std::string_view line_at(int number) const;  // line `number`, 1-based, without line end; "" if absent
  Error error_at(const toml::source_region& where, std::string message, std::string hint = {}) const;
};

struct TomlEntry {
  const toml::key* key;
  const toml::node* node;
};

// Returns the entries in the order of the file; toml++ sorts them by name.
std::vector<TomlEntry> sorted_entries(const toml::table& table);

std::string_view describe_node(const toml::node& node);  // "a table", "a string", …

// `where` is appended to the key in the message: " in [matrix]".
Error unknown_key_error(const MachineFileText& text, const toml::key& key, std::string_view where,
                        const std::vector<std::string>& candidates);

// Reads a non-empty string; `what` names it in errors.
Result<std::string> read_string(const MachineFileText& text, const toml::node& node, std::string_view what);

// Reads a number; `what` is its path in the file: "matrix.bf16".
Result<SourcedValue> read_number(const MachineFileText& text, const TomlEntry& entry, const std::string& what,
                                 std::string_view unit);

}  // namespace ridge::machine
