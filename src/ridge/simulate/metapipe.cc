#include "ridge/simulate/metapipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

namespace ridge {
namespace {

constexpr std::int64_t max_number = std::int64_t{1} << 40;
constexpr std::int64_t unbounded = std::numeric_limits<std::int64_t>::max() / 4;
constexpr std::int64_t max_tiles = 1 << 20;
constexpr std::array<std::string_view, 4> schedule_names{"sequential", "pipelined", "streaming", "fork-join"};

Error loop_error(const Metapipe& pipe, const std::string& message) {
  return input_error(fmt::format("loop '{}': {}", pipe.name, message));
}

Status check_number(const Metapipe& pipe, std::string_view owner, std::string_view what, std::int64_t value,
                    std::int64_t min_value) {
  if (value >= min_value && value <= max_number) return Done{};
  return loop_error(
      pipe, fmt::format("expected {}{} between {} and {}, found {}", owner, what, min_value, max_number, value));
}

Status check_loop(const Metapipe& pipe, int level);

Status check_stage(const Metapipe& pipe, const PipeStage& stage, int level) {
  const std::string owner = fmt::format("stage '{}' with ", stage.name);
  const std::initializer_list<std::tuple<std::string_view, std::int64_t, std::int64_t>> numbers{
      {"trips", stage.trips, 1},
      {"an interval", stage.interval, 0},
      {"a depth", stage.depth, 0},
      {"a parallel factor", stage.parallel, 1},
      {"accept cycles", stage.accept_cycles, 0},
      {"PCUs", stage.pcus, 0},
      {"PMUs", stage.pmus, 0},
      {"memory bytes", stage.memory_bytes, 0},
      {"network bytes", stage.network_bytes, 0}};
  for (const auto& [what, value, min_value] : numbers)
    RIDGE_TRY_STATUS(check_number(pipe, owner, what, value, min_value));
  for (const std::int64_t latency : stage.latencies)
    RIDGE_TRY_STATUS(check_number(pipe, owner, "latencies", latency, 0));
  std::int64_t min_latency = leaf_latency(stage);
  for (const std::int64_t latency : stage.latencies) min_latency = std::min(min_latency, latency);
  if (stage.body.empty() && stage.accept_cycles > min_latency)
    return loop_error(pipe, fmt::format("expected {}accept cycles of at most its latency {}, found {}", owner,
                                        min_latency, stage.accept_cycles));
  if (stage.body.size() > 1)
    return loop_error(pipe, fmt::format("expected {}one loop inside, found {}", owner, stage.body.size()));
  if (!stage.body.empty()) return check_loop(stage.body[0], level + 1);
  return Done{};
}

Status check_edges(const Metapipe& pipe) {
  const auto stages = static_cast<std::int64_t>(pipe.stages.size());
  for (const PipeBuffer& b : pipe.buffers) {
    if (b.producer < 0 || b.consumer >= stages || b.producer >= b.consumer)
      return loop_error(pipe, fmt::format("expected a buffer from a stage to a later one of {}, found {} to {}", stages,
                                          b.producer, b.consumer));
    RIDGE_TRY_STATUS(check_number(pipe, "a buffer with ", "bytes", b.bytes, 0));
    if (b.tiles < 0 || b.tiles > max_tiles)
      return loop_error(pipe, fmt::format("expected a buffer of 0 to {} tiles, found {}", max_tiles, b.tiles));
  }
  for (const Recurrence& r : pipe.recurrences)
    if (r.to < 0 || r.from >= stages || r.to > r.from || r.distance < 1)
      return loop_error(
          pipe, fmt::format("expected a recurrence from a stage back to itself or an earlier one of {}, at a distance "
                            "of at least 1, found {} to {} at {}",
                            stages, r.from, r.to, r.distance));
  return Done{};
}

Status check_loop(const Metapipe& pipe, int level) {
  if (level > max_loop_nesting)
    return loop_error(pipe, fmt::format("expected loops nested at most {} deep", max_loop_nesting));
  if (pipe.stages.empty()) return loop_error(pipe, "expected at least one stage, found none");
  for (const auto& [what, value, min_value] : {std::tuple{"iterations", pipe.iterations, 1},
                                               {"a parallel factor", pipe.parallel, 1},
                                               {"overhead", pipe.overhead, 0}})
    RIDGE_TRY_STATUS(check_number(pipe, "a loop with ", what, value, min_value));
  for (const PipeStage& stage : pipe.stages) RIDGE_TRY_STATUS(check_stage(pipe, stage, level));
  return check_edges(pipe);
}

// Saturating arithmetic, so that sums can be compared with `unbounded`.
std::int64_t saturating_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) || out > unbounded ? unbounded : out;
}
std::int64_t saturating_add(std::int64_t a, std::int64_t b) { return std::min(a + b, unbounded); }

std::int64_t max_latency(const PipeStage& stage);

// Returns an upper bound of a loop's cycles under any schedule.
std::int64_t max_loop_cycles(const Metapipe& pipe) {
  std::int64_t body = 0;
  for (const PipeStage& stage : pipe.stages) body = saturating_add(body, max_latency(stage));
  return saturating_add(saturating_multiply(body, pipe.round_count()), pipe.overhead);
}
std::int64_t max_latency(const PipeStage& stage) {
  if (!stage.body.empty()) return max_loop_cycles(stage.body[0]);
  const std::int64_t later_trips = (stage.trips - 1) / stage.parallel;
  std::int64_t latency = saturating_add(saturating_multiply(later_trips, stage.interval), stage.depth);
  for (const std::int64_t l : stage.latencies) latency = std::max(latency, l);
  return std::max(latency, stage.accept_cycles);
}

// Latency of a stage, and cycles until it accepts the next iteration.
struct StageTiming {
  std::int64_t latency = 0, accept_cycles = 0;
};

std::optional<std::vector<StageTiming>> stage_timings(const Metapipe& pipe) {
  std::vector<StageTiming> out;
  for (const PipeStage& stage : pipe.stages) {
    if (!stage.body.empty()) {
      const std::optional<std::int64_t> inner = closed_form_cycles(stage.body[0]);
      if (!inner) return std::nullopt;
      out.push_back({*inner, *inner});
      continue;
    }
    const std::vector<std::int64_t>& l = stage.latencies;
    if (std::adjacent_find(l.begin(), l.end(), std::not_equal_to<>()) != l.end()) return std::nullopt;
    const std::int64_t latency = leaf_latency(stage);
    out.push_back({latency, stage.accept_cycles > 0 ? stage.accept_cycles : latency});
  }
  return out;
}

bool is_chain(const Metapipe& pipe) {
  std::vector<bool> has_adjacent_edge(pipe.stages.size(), false);
  for (const PipeBuffer& edge : effective_buffers(pipe))
    if (edge.consumer == edge.producer + 1) has_adjacent_edge[edge.consumer] = true;
  return std::all_of(has_adjacent_edge.begin() + 1, has_adjacent_edge.end(), [](bool b) { return b; });
}

// Returns the maximum over all paths of the latencies on the path plus N − 1 times its slowest stage.
std::int64_t pipelined_cycles(const Metapipe& pipe, const std::vector<StageTiming>& t) {
  const std::size_t n = t.size();
  std::vector<std::int64_t> head(n, 0), tail(n, 0);  // longest path before and after each stage
  std::vector<PipeBuffer> sorted = effective_buffers(pipe);
  std::sort(sorted.begin(), sorted.end(),
            [](const PipeBuffer& a, const PipeBuffer& b) { return a.producer < b.producer; });
  for (const PipeBuffer& e : sorted) {
    const auto a = static_cast<std::size_t>(e.producer), b = static_cast<std::size_t>(e.consumer);
    head[b] = std::max(head[b], head[a] + t[a].latency);
  }
  std::sort(sorted.begin(), sorted.end(),
            [](const PipeBuffer& a, const PipeBuffer& b) { return a.consumer > b.consumer; });
  for (const PipeBuffer& e : sorted) {
    const auto a = static_cast<std::size_t>(e.producer), b = static_cast<std::size_t>(e.consumer);
    tail[a] = std::max(tail[a], tail[b] + t[b].latency);
  }
  std::int64_t cycles = 0;
  for (std::size_t s = 0; s < n; ++s)
    cycles = std::max(cycles, head[s] + tail[s] + t[s].latency + (pipe.round_count() - 1) * t[s].accept_cycles);
  for (const Recurrence& r : pipe.recurrences) {  // at most one, and only in a chain
    std::int64_t cycle_latency = 0, sum = 0, slowest = 0;
    for (std::size_t s = 0; s < n; ++s) {
      sum += t[s].latency;
      slowest = std::max(slowest, t[s].accept_cycles);
      if (static_cast<std::int64_t>(s) >= r.to && static_cast<std::int64_t>(s) <= r.from) cycle_latency += t[s].latency;
    }
    const std::int64_t full_distances = (pipe.round_count() - 1) / r.distance,
                       rest = (pipe.round_count() - 1) % r.distance;
    cycles = std::max(cycles, sum + full_distances * cycle_latency + rest * slowest);
  }
  return cycles;
}

// Divides the bytes, and the trips (or the depth of a single trip), as evenly as possible.
std::vector<PipeStage> divide_stage(const PipeStage& undivided, std::int64_t pieces) {
  std::vector<PipeStage> parts;
  const auto share_of_piece = [&](std::int64_t total, std::int64_t p) { return total / pieces + (p < total % pieces); };
  for (std::int64_t p = 0; p < pieces; ++p) {
    PipeStage part = undivided;
    if (pieces > 1) part.name = fmt::format("{}.{}", undivided.name, p + 1);
    (undivided.trips > 1 ? part.trips : part.depth) =
        share_of_piece(undivided.trips > 1 ? undivided.trips : undivided.depth, p);
    part.memory_bytes = share_of_piece(undivided.memory_bytes, p);
    part.network_bytes = share_of_piece(undivided.network_bytes, p);
    parts.push_back(part);
  }
  return parts;
}

}  // namespace

std::string_view schedule_name(PipeSchedule schedule) { return schedule_names[static_cast<std::size_t>(schedule)]; }

std::optional<PipeSchedule> parse_schedule(std::string_view name) {
  const auto found = std::find(schedule_names.begin(), schedule_names.end(), name);
  if (found == schedule_names.end()) return std::nullopt;
  return static_cast<PipeSchedule>(found - schedule_names.begin());
}

Metapipe with_schedule(Metapipe pipe, PipeSchedule schedule) {
  pipe.schedule = schedule;
  for (PipeStage& stage : pipe.stages)
    if (!stage.body.empty()) stage.body[0] = with_schedule(std::move(stage.body[0]), schedule);
  return pipe;
}

std::vector<PipeBuffer> effective_buffers(const Metapipe& pipe) {
  if (!pipe.buffers.empty()) return pipe.buffers;
  std::vector<PipeBuffer> out;
  for (std::int64_t s = 1; s < static_cast<std::int64_t>(pipe.stages.size()); ++s) out.push_back({s - 1, s, 0, 2});
  return out;
}

Status check_metapipe(const Metapipe& pipe) {
  RIDGE_TRY_STATUS(check_loop(pipe, 1));
  if (max_loop_cycles(pipe) >= unbounded) return loop_error(pipe, "its cycles could exceed 64 bits");
  return Done{};
}

std::int64_t leaf_latency(const PipeStage& stage, std::int64_t iteration) {
  if (!stage.latencies.empty()) return stage.latencies[static_cast<std::size_t>(iteration) % stage.latencies.size()];
  return (stage.trips - 1) / stage.parallel * stage.interval + stage.depth;
}

std::optional<std::int64_t> closed_form_cycles(const Metapipe& pipe) {
  const std::optional<std::vector<StageTiming>> t = stage_timings(pipe);
  if (!t) return std::nullopt;
  std::int64_t sum = 0, slowest = 0;
  for (const StageTiming& stage : *t) {
    sum += stage.latency;
    slowest = std::max(slowest, stage.latency);
  }
  if (pipe.schedule == PipeSchedule::sequential) return pipe.round_count() * sum + pipe.overhead;
  if (pipe.schedule == PipeSchedule::fork_join) return pipe.round_count() * slowest + pipe.overhead;
  for (const PipeBuffer& edge : effective_buffers(pipe))
    if (edge.tile_count() < edge.consumer - edge.producer + 1) return std::nullopt;
  // A stage with overlapping iterations uses several tiles at a time, which only FIFOs allow.
  const bool overlaps =
      std::any_of(t->begin(), t->end(), [](const StageTiming& s) { return s.accept_cycles < s.latency; });
  if (overlaps && pipe.schedule != PipeSchedule::streaming && pipe.stages.size() > 1) return std::nullopt;
  if ((!pipe.recurrences.empty() || pipe.schedule == PipeSchedule::streaming) && !is_chain(pipe)) return std::nullopt;
  if (pipe.recurrences.size() > 1 || (overlaps && !pipe.recurrences.empty())) return std::nullopt;
  return pipelined_cycles(pipe, *t) + pipe.overhead;
}

Result<Metapipe> split_stage(const Metapipe& pipe, std::int64_t stage, std::int64_t pieces) {
  RIDGE_TRY_STATUS(check_metapipe(pipe));
  if (stage < 0 || stage >= static_cast<std::int64_t>(pipe.stages.size()))
    return loop_error(pipe, fmt::format("expected a stage of {}, found {}", pipe.stages.size(), stage));
  const PipeStage& stage_to_split = pipe.stages[stage];
  if (!stage_to_split.body.empty() || !stage_to_split.latencies.empty())
    return loop_error(pipe, fmt::format("stage '{}' {}: it cannot be split", stage_to_split.name,
                                        stage_to_split.body.empty() ? "has data-dependent latencies" : "is a loop"));
  constexpr std::int64_t max_pieces = 1 << 16;
  const std::int64_t piece_limit =
      std::min(stage_to_split.trips > 1 ? stage_to_split.trips : stage_to_split.depth, max_pieces);
  if (pieces < 1 || pieces > piece_limit)
    return loop_error(
        pipe, fmt::format("expected stage '{}' in 1 to {} pieces, found {}", stage_to_split.name, piece_limit, pieces));
  Metapipe out = pipe;
  const std::vector<PipeStage> parts = divide_stage(stage_to_split, pieces);
  out.stages.insert(out.stages.erase(out.stages.begin() + stage), parts.begin(), parts.end());
  out.buffers = effective_buffers(pipe);
  std::int64_t tile = 0;
  for (PipeBuffer& b : out.buffers) {
    if (b.consumer == stage) tile = std::max(tile, b.bytes);
    const std::int64_t old_distance = b.consumer - b.producer;
    b.producer += b.producer >= stage ? pieces - 1 : 0;
    b.consumer += b.consumer > stage ? pieces - 1 : 0;
    if (b.tiles > 0) b.tiles += b.consumer - b.producer - old_distance;
  }
  for (std::int64_t p = 1; p < pieces; ++p) out.buffers.push_back({stage + p - 1, stage + p, tile, 2});
  for (Recurrence& r : out.recurrences) {
    r.from += r.from >= stage ? pieces - 1 : 0;
    r.to += r.to > stage ? pieces - 1 : 0;
  }
  return out;
}

std::int64_t buffer_bytes(const Metapipe& pipe) {
  std::int64_t bytes = 0;
  for (const PipeBuffer& b : effective_buffers(pipe))
    bytes = saturating_add(bytes, saturating_multiply(b.bytes, b.tile_count()));
  for (const PipeStage& stage : pipe.stages)
    if (!stage.body.empty()) bytes = saturating_add(bytes, buffer_bytes(stage.body[0]));
  return saturating_multiply(bytes, pipe.parallel);
}

}  // namespace ridge
