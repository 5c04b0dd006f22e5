#include "ridge/measure/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "ridge/base/file.h"

namespace ridge {
namespace {

std::optional<std::int64_t> number(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return std::nullopt;
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data() + first, text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> number_in(const std::string& path) {
  const auto text = read_file(path);
  return text ? number(*text) : std::nullopt;
}

// The value behind `key` where it begins a line.
std::optional<std::int64_t> keyed(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (text.starts_with(key)) return number(text.substr(key.size(), end - key.size()));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::nullopt;
}

// What a control group has left; its file cache can be given back and does not count as used.
std::optional<std::int64_t> left_in(const std::string& folder, const char* limit_file, const char* used_file) {
  const auto limit = number_in(folder + limit_file), used = number_in(folder + used_file);
  if (!limit || !used) return std::nullopt;
  const auto stat = read_file(folder + "/memory.stat");
  const std::int64_t cache = stat ? keyed(*stat, "inactive_file ").value_or(0) : 0;
  return std::max<std::int64_t>(0, *limit - std::max<std::int64_t>(0, *used - cache));
}

// The least of a group and the groups around it, in version 2 and version 1 of the interface.
std::optional<std::int64_t> left_in_groups() {
  std::optional<std::int64_t> least;
  const auto groups = read_file("/proc/self/cgroup");
  if (!groups) return least;
  const auto consider = [&](std::optional<std::int64_t> left) {
    if (left && (!least || *left < *least)) least = left;
  };
  std::string_view rest = *groups;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool v2 = line.starts_with("0::"), v1 = line.find(":memory:") != std::string_view::npos;
    if (!v2 && !v1) continue;
    std::string path(line.substr(line.rfind(':') + 1));
    for (;; path.resize(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (v2) consider(left_in("/sys/fs/cgroup" + path, "/memory.max", "/memory.current"));
      if (v1) consider(left_in("/sys/fs/cgroup/memory" + path, "/memory.limit_in_bytes", "/memory.usage_in_bytes"));
      if (path.rfind('/') == std::string::npos) break;
    }
  }
  return least;
}

}  // namespace

std::optional<std::int64_t> parse_available(std::string_view meminfo) {
  const auto kib = keyed(meminfo, "MemAvailable:");
  if (!kib || *kib > INT64_MAX / 1024) return std::nullopt;
  return *kib * 1024;
}

std::optional<std::int64_t> available_bytes() {
  const auto meminfo = read_file("/proc/meminfo");
  const auto system = meminfo ? parse_available(*meminfo) : std::nullopt;
  const auto group = left_in_groups();
  if (!system) return group;
  return group ? std::min(*system, *group) : *system;
}

std::optional<ArrayStorage> ArrayStorage::make(DType dtype, std::int64_t elements) {
  constexpr std::size_t huge = std::size_t{2} << 20;
  const std::size_t size = static_cast<std::size_t>(elements * (bits(dtype) / 8));
  const std::size_t alignment = size >= huge ? huge : 64;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) / alignment * alignment;
  ArrayStorage out;
  out.data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, rounded)));
  if (!out.data_) return std::nullopt;
  if (alignment == huge) (void)::madvise(out.data_.get(), rounded, MADV_HUGEPAGE);
  out.array_ = {dtype, elements, out.data_.get()};
  return out;
}

}  // namespace ridge
