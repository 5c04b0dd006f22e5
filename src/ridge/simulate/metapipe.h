// A metapipeline is a pipeline of pipelines. Every statement group of an outer loop's body becomes a stage. Data that
// one stage writes and a later one reads goes through a double (N-) buffer, and iteration i + 1 is in stage s while
// iteration i is in stage s + 1. Stages may have different latencies, also in each iteration, and may be loops. Stages
// of 100, 300 and 50 cycles, 10 iterations: 4500 sequentially; as a metapipe 300·9 + 450 = 3150; with the 300 split
// into three stages of 100, 100·9 + 450 = 1350. After Prabhakar et al. (ASPLOS 2016) and Spatial (PLDI 2018).
//
//   sequential  N·ΣL + overhead               one stage works at a time
//   pipelined   max(L)·(N − 1) + ΣL + overhead   a buffer per edge; from stage a to stage b it needs b − a + 1 tiles
//   streaming   the same: FIFOs with back-pressure. Spatial's model omits the fill ΣL
//   fork-join   N·max(L) + overhead           all stages run concurrently and are joined every iteration
//
// The formulas are exact for a chain of stages with fixed latencies and enough buffers; metapipe_simulator.h covers the
// other cases.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/base/timeline.h"

namespace ridge {

inline constexpr int max_loop_nesting = 16;

enum class PipeSchedule : std::uint8_t { sequential, pipelined, streaming, fork_join };
std::string_view schedule_name(PipeSchedule schedule);
std::optional<PipeSchedule> parse_schedule(std::string_view name);

struct Metapipe;

// One iteration of a stage. A leaf is an inner pipelined loop: (⌈trips/parallel⌉ − 1)·interval + depth cycles.
struct PipeStage {
  std::string name;
  Phase phase = Phase::compute;              // shown in timelines
  std::int64_t trips = 1;                    // trip count of the inner loop
  std::int64_t interval = 1;                 // cycles between trips (II)
  std::int64_t depth = 1;                    // cycles of one trip
  std::int64_t parallel = 1;                 // concurrent trips, each on its own copy of the hardware
  std::int64_t accept_cycles = 0;            // cycles until the next iteration may enter; 0: the stage's latency
  std::vector<std::int64_t> latencies = {};  // data-dependent latency: latencies[i mod size] for iteration i
  std::int64_t pcus = 1;                     // compute units for each copy
  std::int64_t pmus = 0;                     // memory units for each copy, without buffers
  std::int64_t memory_bytes = 0;             // off-chip traffic of one iteration
  std::int64_t network_bytes = 0;
  // Is empty, or one loop that the stage runs once per iteration; the members from `trips` to `network_bytes` are then
  // unused.
  std::vector<Metapipe> body;
  bool operator==(const PipeStage&) const;
};

// Buffer that stage `producer` writes and the later stage `consumer` reads.
struct PipeBuffer {
  std::int64_t producer = 0, consumer = 1;  // stage indices
  std::int64_t bytes = 0;                   // size of one tile
  std::int64_t tiles = 0;                   // 0 for consumer − producer + 1
  std::int64_t tile_count() const { return tiles > 0 ? tiles : consumer - producer + 1; }
  bool operator==(const PipeBuffer&) const = default;
};

// Iteration i of `to` needs the result of iteration i − distance of `from`, the same stage or a later one.
struct Recurrence {
  std::int64_t from = 0, to = 0, distance = 1;
  bool operator==(const Recurrence&) const = default;
};

struct Metapipe {
  std::string name;
  PipeSchedule schedule = PipeSchedule::pipelined;
  std::int64_t iterations = 1;
  std::int64_t parallel = 1;  // concurrent iterations, on copies of each stage; ⌈iterations/parallel⌉ rounds
  std::int64_t overhead = 0;  // cycles at the end of each run of the loop
  std::vector<PipeStage> stages;
  std::vector<PipeBuffer> buffers = {};  // if empty, buffers of two tiles connect adjacent stages
  std::vector<Recurrence> recurrences = {};
  std::int64_t round_count() const { return iterations / parallel + (iterations % parallel != 0); }
  bool operator==(const Metapipe&) const = default;
};
inline bool PipeStage::operator==(const PipeStage&) const = default;

// Returns the given buffers, or those between adjacent stages.
std::vector<PipeBuffer> effective_buffers(const Metapipe& pipe);

// Errors, with the names of loop and stage: no stage; a count below 1; an edge or recurrence to an unknown stage or in
// the wrong direction; nesting over 16; a number over 2^40 or a time that could exceed 64 bits.
Status check_metapipe(const Metapipe& pipe);

// Returns the cycles of a leaf's iteration without waits.
std::int64_t leaf_latency(const PipeStage& stage, std::int64_t iteration = 0);

// Returns the exact cycles, or nullopt without a closed form: data-dependent stages, fewer tiles than consumer −
// producer + 1, several recurrences or one across branches. The pipe must have passed `check_metapipe`.
std::optional<std::int64_t> closed_form_cycles(const Metapipe& pipe);

// Replaces a stage by `pieces` consecutive stages that divide its trips (or, with one trip, its depth). Edges into it
// enter the first piece, edges out of it leave the last, and buffers across it get more tiles. Errors: a stage that is
// a loop or data-dependent; pieces below 1 or above the number of trips or cycles.
Result<Metapipe> split_stage(const Metapipe& pipe, std::int64_t stage, std::int64_t pieces);

// Returns the pipe with one schedule for all its loops.
Metapipe with_schedule(Metapipe pipe, PipeSchedule schedule);

// Returns the bytes of all buffers, nested ones included, times the copies of parallel loops.
std::int64_t buffer_bytes(const Metapipe& pipe);

}  // namespace ridge
