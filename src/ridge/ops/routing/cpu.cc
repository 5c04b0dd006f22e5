#include "ridge/ops/routing/cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

std::int64_t index_at(const RoutedRows& r, const void* indices, std::int64_t i) {
  return r.indices == DType::int8 ? static_cast<const std::int8_t*>(indices)[i]
                                  : static_cast<const std::int32_t*>(indices)[i];
}

// Writes the row map: counts the rows of each group, then gives each index, in order, the next row of its group.
void find_places(const RoutedRows& r, const void* indices, std::int32_t* places) {
  std::int32_t* const starts = places;
  std::int32_t* const rows = places + r.groups + 1;
  std::int32_t* const taken = rows + r.count;
  const auto names_group = [&](std::int64_t index) { return index >= 0 && index < r.groups; };
  std::fill_n(taken, r.groups, 0);
  for (std::int64_t i = 0; i < r.count; ++i)
    if (const std::int64_t group = index_at(r, indices, i); names_group(group)) ++taken[group];
  starts[0] = 0;
  for (std::int64_t g = 0; g < r.groups; ++g) {
    const std::int64_t kept = r.capacity == 0 ? taken[g] : std::min<std::int64_t>(taken[g], r.capacity);
    starts[g + 1] = starts[g] + static_cast<std::int32_t>(kept);
    taken[g] = 0;
  }
  for (std::int64_t i = 0; i < r.count; ++i) {
    const std::int64_t group = index_at(r, indices, i);
    const bool is_kept = names_group(group) && taken[group] < starts[group + 1] - starts[group];
    rows[i] = is_kept ? starts[group] + taken[group]++ : -1;
  }
}

}  // namespace

std::optional<std::string> refuse(const RoutedRows& r) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (r.count > most || r.groups >= most)
    return fmt::format("expected at most {} indices and fewer groups, found {} and {}", most, r.count, r.groups);
  return std::nullopt;
}

void routed_rows(const RoutedRows& r, std::span<void* const> data, int threads) {
  const std::int64_t bytes = r.width * bits(r.values) / 8;
  if (!r.back) find_places(r, data[0], static_cast<std::int32_t*>(data[2]));
  const std::int32_t* const rows = static_cast<const std::int32_t*>(data[r.back ? 0 : 2]) + r.groups + 1;
  const char* const from = static_cast<const char*>(data[1]);
  char* const to = static_cast<char*>(data[r.back ? 2 : 3]);
  const int parts = r.count * bytes < (1 << 17) ? 1 : std::max(threads, 1);
  tile::cpu::run(parts, [&](int part) {
    const tile::cpu::Slice mine = tile::cpu::slice(r.count, parts, part);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      if (!r.back && rows[i] >= 0)
        std::memcpy(to + rows[i] * bytes, from + i / r.each * bytes, static_cast<std::size_t>(bytes));
      else if (r.back && rows[i] >= 0)
        std::memcpy(to + i * bytes, from + rows[i] * bytes, static_cast<std::size_t>(bytes));
      else if (r.back)
        std::memset(to + i * bytes, 0, static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace ridge::ops
