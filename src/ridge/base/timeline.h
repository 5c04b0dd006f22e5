// Timeline of a simulation or trace: lanes (an array, a stage, a warpgroup, a memory port) with events. `report` draws
// it. A 4×4 systolic array that loads its weights (4 ticks) and streams one vector (7 ticks) is one lane with events
// fill [0, 4) and compute [4, 11). Compiles under nvcc: no fmt.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

// Activity of a lane during an event. `stall`: waiting for data or buffer space; `sync`: waiting at a barrier or for a
// call to start.
enum class Phase : std::uint8_t { load, fill, compute, drain, store, stall, sync };

inline constexpr std::array<std::string_view, 7> phase_names{"load",  "fill",  "compute", "drain",
                                                             "store", "stall", "sync"};
constexpr std::string_view phase_name(Phase phase) { return phase_names[static_cast<std::size_t>(phase)]; }

struct Event {
  std::int32_t lane = 0;  // index into Timeline::lanes
  Phase phase = Phase::compute;
  std::int64_t begin = 0;  // ticks; the event covers [begin, end)
  std::int64_t end = 0;
  std::int64_t step = 0;  // index of the fold, loop iteration or ring-slot use
  bool operator==(const Event&) const = default;
};

struct Timeline {
  double ticks_per_second = 0;  // clock rate in Hz, 1e9 for nanoseconds; 0 if unknown: ticks are then cycles
  std::vector<std::string> lanes;
  std::vector<Event> events;  // unordered; events of a lane may overlap (asynchronous copies)
  bool operator==(const Timeline&) const = default;

  std::int32_t add_lane(std::string lane) {
    lanes.push_back(std::move(lane));
    return static_cast<std::int32_t>(lanes.size()) - 1;
  }
  // Ignores events of length 0.
  void add_event(std::int32_t lane, Phase phase, std::int64_t begin, std::int64_t end, std::int64_t step = 0) {
    if (end > begin) events.push_back({lane, phase, begin, end, step});
  }
  // Returns the largest end of all events, 0 if there are none.
  std::int64_t end_tick() const {
    std::int64_t last = 0;
    for (const Event& e : events) last = std::max(last, e.end);
    return last;
  }
  // Returns the ticks that `lane` spends in `phase`; overlapping events all count.
  std::int64_t count_ticks(std::int32_t lane, Phase phase) const {
    std::int64_t sum = 0;
    for (const Event& e : events)
      if (e.lane == lane && e.phase == phase) sum += e.end - e.begin;
    return sum;
  }
};

}  // namespace ridge
