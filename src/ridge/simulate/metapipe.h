// A metapipeline is a pipeline of pipelines: every statement group of an outer loop's body becomes a stage, what one
// stage writes and a later one reads becomes a double (N-) buffer, and iteration i + 1 is in stage s while iteration i
// is in stage s + 1. Stages may be unequal, may be loops themselves, and may take another time each iteration. Stages
// of 100, 300 and 50 cycles, 10 iterations: one after the other 4500; as a metapipe 300·9 + 450 = 3150; with the 300
// split into three stages of 100, 100·9 + 450 = 1350. After Prabhakar et al. (ASPLOS 2016) and Spatial (PLDI 2018).
//
//   sequential  N·ΣL + overhead               one stage works at a time
//   pipelined   max(L)·(N − 1) + ΣL + overhead   a buffer per edge; from stage a to stage b it needs b − a + 1 tiles
//   streaming   the same: FIFOs with back-pressure. Spatial's model leaves the fill ΣL out
//   fork-join   N·max(L) + overhead           all stages at once, joined every iteration
//
// These are exact for a chain of stages with fixed latencies and enough buffers; metapipe_clock.h goes on where they
// end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"

namespace ridge {

enum class Schedule : std::uint8_t { sequential, pipelined, streaming, fork_join };
std::string_view name(Schedule schedule);
std::optional<Schedule> schedule_from(std::string_view name);

struct Metapipe;

// One iteration of a stage. A leaf is an inner pipelined loop: (⌈trips/parallel⌉ − 1)·interval + depth cycles.
struct PipeStage {
  std::string name;
  Phase phase = Phase::compute;  // how a timeline shows it
  std::int64_t trips = 1;        // of the inner loop
  std::int64_t interval = 1;     // cycles from trip to trip (II)
  std::int64_t depth = 1;        // cycles that one trip takes
  std::int64_t parallel = 1;     // trips done at once, each by its own copy of the hardware
  std::int64_t accept = 0;       // cycles after which the next iteration may enter; 0: once this one is done
  std::vector<std::int64_t> latencies = {};  // data-dependent: iteration i takes latencies[i mod size] instead
  std::int64_t pcus = 1;                     // compute units, of one copy
  std::int64_t pmus = 0;                     // memory units besides the buffers', of one copy
  std::int64_t memory_bytes = 0;             // moved off chip by one iteration
  std::int64_t network_bytes = 0;
  std::vector<Metapipe> body =
      {};  // one: the stage is that loop, run once an iteration; trips to network_bytes are unused
  bool operator==(const PipeStage&) const;
};

// What `producer` writes and the later stage `consumer` reads.
struct PipeBuffer {
  std::int64_t producer = 0, consumer = 1;  // indices of stages
  std::int64_t bytes = 0;                   // of one tile
  std::int64_t tiles = 0;                   // 0: consumer − producer + 1
  std::int64_t depth() const { return tiles > 0 ? tiles : consumer - producer + 1; }
  bool operator==(const PipeBuffer&) const = default;
};

// Iteration i of `to` needs what `from`, the same stage or a later one, made in iteration i − distance.
struct Recurrence {
  std::int64_t from = 0, to = 0, distance = 1;
  bool operator==(const Recurrence&) const = default;
};

struct Metapipe {
  std::string name;
  Schedule schedule = Schedule::pipelined;
  std::int64_t iterations = 1;
  std::int64_t parallel = 1;  // iterations run side by side: ⌈iterations/parallel⌉ turns, each stage that many times
  std::int64_t overhead = 0;  // cycles at the end, once a run of the loop
  std::vector<PipeStage> stages;
  std::vector<PipeBuffer> buffers = {};  // none: neighbours are joined, two tiles each
  std::vector<Recurrence> recurrences = {};
  std::int64_t turns() const { return iterations / parallel + (iterations % parallel != 0); }
  bool operator==(const Metapipe&) const = default;
};
inline bool PipeStage::operator==(const PipeStage&) const = default;

// The buffers as given, or those that join neighbours.
std::vector<PipeBuffer> edges(const Metapipe& pipe);

// Errors, by name of loop and stage: no stage; a count below 1; an edge or recurrence that leaves the loop or points
// the wrong way; nesting over 16; a number over 2^40 or a time that could leave 64 bits.
Status check_metapipe(const Metapipe& pipe);

// Cycles of a leaf's iteration without waits.
std::int64_t leaf_latency(const PipeStage& stage, std::int64_t iteration = 0);

// Exact, or nothing where no closed form is: data-dependent stages, fewer tiles than consumer − producer + 1, several
// recurrences or one across branches. The pipe must have passed check_metapipe.
std::optional<std::int64_t> closed_form(const Metapipe& pipe);

// Stage `stage` as `pieces` stages in a row, its trips (or, with one trip, its depth) divided among them. Edges into it
// enter the first piece, edges out of it leave the last, buffers that pass over it grow. Errors: a stage that is a loop
// or data-dependent; pieces below 1 or more than there is to divide.
Result<Metapipe> split_stage(const Metapipe& pipe, std::int64_t stage, std::int64_t pieces);

// The pipe and all loops in it under one schedule.
Metapipe with_schedule(Metapipe pipe, Schedule schedule);

// Bytes of all buffers, nested ones included, times the copies that loops and stages run side by side.
std::int64_t buffer_bytes(const Metapipe& pipe);

}  // namespace ridge
