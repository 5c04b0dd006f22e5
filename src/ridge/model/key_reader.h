// Reads the keys of a JSON object, remembers which were read, and refuses the rest.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"

namespace ridge::model {

using Json = nlohmann::ordered_json;

// The first error is kept (`status`); functions after it return values that satisfy their limits. A key whose value is
// null counts as missing.
class KeyReader {
 public:
  // `prefix` is the path of the object in the file, such as "text_config."; `aliases` maps common names of keys to
  // those that this file has, such as hidden_size to n_embd. The object must outlive the reader.
  KeyReader(const Json& object, std::string source, std::string prefix,
            std::map<std::string, std::string, std::less<>> aliases = {});

  bool has_key(std::string_view name);
  // Returns the value of a required key.
  std::int64_t read_integer(std::string_view name, std::int64_t min, std::int64_t max);
  std::string read_text(std::string_view name);
  // Returns the value, or the other one if the key is missing; lists are then empty, an object is null.
  std::int64_t read_integer_or(std::string_view name, std::int64_t other, std::int64_t min, std::int64_t max);
  double read_positive_or(std::string_view name, double other);
  bool read_flag_or(std::string_view name, bool other);
  std::string read_text_or(std::string_view name, const std::string& other);
  std::vector<std::string> read_texts(std::string_view name);
  std::vector<std::int64_t> read_integers(std::string_view name, std::int64_t max);  // Numbers from 0 to `max`
  const Json* find_object(std::string_view name);

  // Accepts the key and ignores its value.
  void skip(std::string_view name) { (void)has_key(name); }
  // Accepts a key of the file's own name, which is no alias.
  void skip_in_file(std::string_view name) { asked_.emplace_back(name); }
  // Keeps an error about this key unless there is one already.
  void fail(std::string_view name, const std::string& message, const std::string& hint = {});
  // Keeps the error of an object inside this one unless there is one already.
  void keep(const Error& error) {
    if (!error_) error_ = error;
  }
  // Returns the first error.
  Status status() const;
  // Returns the first error, else one for the first key that was neither read nor is without influence. `owner` names
  // what has no such key: "model_type 'llama'".
  Status check_all_read(const std::string& owner) const;

  std::string path_of(std::string_view name) const;  // "text_config.hidden_size"
  const std::string& source() const { return source_; }
  // Returns the common name and the path of each key that was read and is in the file.
  const std::map<std::string, std::string, std::less<>>& keys_read() const { return read_; }

 private:
  const Json* find(std::string_view name);
  const Json* find_required(std::string_view name, const std::string& expected);
  std::string file_name(std::string_view name) const;

  const Json& object_;
  std::string source_, prefix_;
  std::map<std::string, std::string, std::less<>> aliases_;
  std::map<std::string, std::string, std::less<>> read_;
  std::vector<std::string> asked_;  // Names in the file of all keys that were looked up
  std::optional<Error> error_;
};

}  // namespace ridge::model
