// One number of a machine file, and the words in which a file is refused: every error points at the line. A number
// reads
//   bf16 = { value = 197e12, unit = "FLOP/s", source = "Google Cloud, TPU v5e", read = 2026-11-20 }
// and all of value, unit, source and read must be there: a number that nobody vouches for is worth nothing.
// Included by parse.cc and number.cc alone: it brings in toml++.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>
#include <vector>

#include "ridge/machine/machine.h"

namespace ridge::machine_file {

// The file being read, for the messages about it.
struct Text {
  std::string_view toml;
  const std::string& source;

  std::string_view line(int number) const;  // 1-based, without its end; empty: there is no such line
  Error error(const toml::source_region& where, std::string message, std::string hint = {}) const;
};

struct Entry {
  const toml::key* key;
  const toml::node* node;
};

// In the order of the text; toml++ itself sorts by name.
std::vector<Entry> entries(const toml::table& table);

std::string_view describe(const toml::node& node);  // "a table", "a string", …

// `where` follows the key in the message: " in [matrix]".
Error unknown_key(const Text& text, const toml::key& key, std::string_view where,
                  const std::vector<std::string>& words);

// A string that is not empty; `what` names it.
Result<std::string> string(const Text& text, const toml::node& node, std::string_view what);

// `what` is the number's place in the file: "matrix.bf16".
Result<Sourced> number(const Text& text, const Entry& entry, const std::string& what, std::string_view unit);

}  // namespace ridge::machine_file
