// Who was busy when: lanes (an array, a stage, a warpgroup, a memory port) and the spans of time on them. What
// simulates or traces writes one; report draws it. A 4×4 systolic array that loads its weights (4 ticks) and streams
// one vector (7 ticks) is one lane with the events fill [0, 4), compute [4, 11). Compiles under nvcc: plain structs, no
// fmt.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

// What a lane does during an event. `stall` waits for data or room, `sync` for others to arrive or a call to start.
enum class Phase : std::uint8_t { load, fill, compute, drain, store, stall, sync };

inline constexpr std::array<std::string_view, 7> phase_names{"load",  "fill",  "compute", "drain",
                                                             "store", "stall", "sync"};
constexpr std::string_view name(Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }

struct Event {
  std::int32_t lane = 0;  // index into Timeline::lanes
  Phase phase = Phase::compute;
  std::int64_t begin = 0;  // ticks; the event covers [begin, end)
  std::int64_t end = 0;
  std::int64_t step = 0;  // which fold, iteration or ring slot's turn this is
  bool operator==(const Event&) const = default;
};

struct Timeline {
  double ticks_per_second = 0;  // a clock in Hz, 1e9 for nanoseconds; 0: no clock was given, ticks are cycles
  std::vector<std::string> lanes;
  std::vector<Event> events;  // in any order; on one lane they need not be disjoint (asynchronous copies overlap)
  bool operator==(const Timeline&) const = default;

  std::int32_t add_lane(std::string lane) {
    lanes.push_back(std::move(lane));
    return static_cast<std::int32_t>(lanes.size()) - 1;
  }
  // Empty events are not recorded.
  void add(std::int32_t lane, Phase phase, std::int64_t begin, std::int64_t end, std::int64_t step = 0) {
    if (end > begin) events.push_back({lane, phase, begin, end, step});
  }
  // The tick after the last event; 0 when there is none.
  std::int64_t end() const {
    std::int64_t last = 0;
    for (const Event& e : events) last = std::max(last, e.end);
    return last;
  }
  // Ticks that `lane` spends in `phase`, overlapping events counted each.
  std::int64_t ticks(std::int32_t lane, Phase phase) const {
    std::int64_t sum = 0;
    for (const Event& e : events)
      if (e.lane == lane && e.phase == phase) sum += e.end - e.begin;
    return sum;
  }
};

}  // namespace ridge
