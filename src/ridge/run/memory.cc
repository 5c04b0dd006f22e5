#include "ridge/run/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "ridge/base/cores.h"
#include "ridge/base/file.h"

namespace ridge {
namespace {

std::optional<std::int64_t> parse_number(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data() + first, text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// Returns the number after `key` at the start of a line.
std::optional<std::int64_t> find_keyed_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with(key)) return parse_number(text.substr(key.size(), end - key.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> parse_available_bytes(std::string_view meminfo) {
  const auto kib = find_keyed_number(meminfo, "MemAvailable:");
  if (!kib || *kib > INT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

std::optional<std::int64_t> available_bytes() {
  const auto meminfo = read_file("/proc/meminfo");
  const auto system = meminfo ? parse_available_bytes(*meminfo) : std::nullopt;
  const auto groups = cgroup_memory_left();
  if (!system || !groups) return system ? system : groups;
  return std::min(*system, *groups);
}

std::optional<ArrayStorage> ArrayStorage::make(DType dtype, std::int64_t elements) {
  constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
  const std::size_t size = stored_bytes(dtype, elements);
  const std::size_t alignment = size >= huge_page_bytes ? huge_page_bytes : 64;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  ArrayStorage out;
  out.data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (!out.data_) return std::nullopt;
  if (alignment == huge_page_bytes) (void)::madvise(out.data_.get(), rounded, MADV_HUGEPAGE);
  out.array_ = {dtype, elements, out.data_.get()};
  return out;
}

}  // namespace ridge
