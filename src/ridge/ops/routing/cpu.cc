#include "ridge/ops/routing/cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

std::int64_t read_index(const RoutingProblem& r, const void* indices, std::int64_t i) {
  return r.indices == DType::int8 ? static_cast<const std::int8_t*>(indices)[i]
                                  : static_cast<const std::int32_t*>(indices)[i];
}

// Writes the row map: counts the rows of each group, then gives each index, in order, the next row of its group.
void assign_rows(const RoutingProblem& r, const void* indices, std::int32_t* row_map) {
  std::int32_t* const starts = row_map;
  std::int32_t* const rows = row_map + r.groups + 1;
  std::int32_t* const group_counts = rows + r.index_count;
  const auto is_valid_group = [&](std::int64_t index) { return index >= 0 && index < r.groups; };
  std::fill_n(group_counts, r.groups, 0);
  for (std::int64_t i = 0; i < r.index_count; ++i)
    if (const std::int64_t group = read_index(r, indices, i); is_valid_group(group)) ++group_counts[group];
  starts[0] = 0;
  for (std::int64_t g = 0; g < r.groups; ++g) {
    const std::int64_t kept = r.capacity == 0 ? group_counts[g] : std::min<std::int64_t>(group_counts[g], r.capacity);
    starts[g + 1] = starts[g] + static_cast<std::int32_t>(kept);
    group_counts[g] = 0;
  }
  for (std::int64_t i = 0; i < r.index_count; ++i) {
    const std::int64_t group = read_index(r, indices, i);
    const bool is_kept = is_valid_group(group) && group_counts[group] < starts[group + 1] - starts[group];
    rows[i] = is_kept ? starts[group] + group_counts[group]++ : -1;
  }
}

}  // namespace

Reason unsupported_reason(const RoutingProblem& r) {
  constexpr std::int64_t max_index = std::numeric_limits<std::int32_t>::max();
  if (r.index_count > max_index || r.groups >= max_index)
    return fmt::format("expected at most {} indices and fewer groups, found {} and {}", max_index, r.index_count,
                       r.groups);
  return {};
}

void route_rows(const RoutingProblem& r, std::span<void* const> data, int threads) {
  const std::int64_t bytes = stored_bytes(r.values, r.width);
  if (!r.restores_order) assign_rows(r, data[0], static_cast<std::int32_t*>(data[2]));
  const std::int32_t* const rows = static_cast<const std::int32_t*>(data[r.restores_order ? 0 : 2]) + r.groups + 1;
  const char* const from = static_cast<const char*>(data[1]);
  char* const to = static_cast<char*>(data[r.restores_order ? 2 : 3]);
  const int parts = r.index_count * bytes < (1 << 17) ? 1 : std::max(threads, 1);
  pool::run_parallel(parts, [&](int part) {
    const pool::WorkSlice mine = pool::split_evenly(r.index_count, parts, part);
    for (std::int64_t i = mine.begin; i < mine.end; ++i) {
      if (!r.restores_order && rows[i] >= 0)
        std::memcpy(to + rows[i] * bytes, from + i / r.indices_per_row * bytes, bytes);
      else if (r.restores_order && rows[i] >= 0)
        std::memcpy(to + i * bytes, from + rows[i] * bytes, bytes);
      else if (r.restores_order)
        std::memset(to + i * bytes, 0, bytes);
    }
  });
}

}  // namespace ridge::ops
