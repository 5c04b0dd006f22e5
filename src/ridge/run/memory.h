// Memory that a run may take: what the system reports as available, or less if a control group limits the process.
// A container with 4 GiB on a machine with 512 GiB gets 4 GiB less its current use.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "ridge/run/fill.h"

namespace ridge {

std::optional<std::int64_t> available_bytes();  // nullopt if the system does not report it

// Parses the text of /proc/meminfo.
std::optional<std::int64_t> parse_available_bytes(std::string_view meminfo);

// Storage of one array, aligned to 64 bytes; from 2 MiB on, aligned to 2 MiB and in huge pages.
class ArrayStorage {
 public:
  static std::optional<ArrayStorage> make(DType dtype, std::int64_t elements);
  const Array& array() const { return array_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  Array array_;
};

}  // namespace ridge
