// A metapipe as a text: loops in braces, a line a stage, and what is written by one stage and read by a later one.
//
//   chip pcus 8 memory 64                 # shared by all stages; bytes a cycle; what is left out has no limit
//   pipelined rows 16 {                   # schedule, name, iterations; then par P, overhead CYCLES
//     load a 128 memory 8192              # phase, name, cycles of a trip
//     pipelined tiles 8 {                 # a loop is a stage
//       load b 40
//       compute mm 6 trips 64 par 4       # row_par: 4 trips at once; 15 + 6 cycles
//       store c 30,30,90                  # another time each iteration
//       buffer mm -> c tiles 3 bytes 8192
//     }
//   }
//
// Schedules: sequential, pipelined, streaming, fork-join. Phases: load, fill, compute, drain, store. After a stage's
// cycles: trips, interval, par, accept, pcus, pmus, memory, network (metapipe.h says what each is). Without a `buffer`
// line neighbours are joined by two tiles; `again c -> b every 2` says that b needs what c made two iterations ago.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/simulate/metapipe.h"
#include "ridge/simulate/metapipe_clock.h"

namespace ridge {

struct PipeText {
  Metapipe pipe;
  PipeResources resources;
};

// Errors: the first mistake with its place; those of check_metapipe. `source`: for messages.
Result<PipeText> parse_pipe(std::string_view text, const std::string& source);

struct PipeReport {
  Metapipe pipe;
  MetapipeRun run;
  std::optional<std::int64_t> closed_form;
  std::int64_t sequential_cycles = 0;  // every loop's stages one after the other, on the same clock
  std::int64_t buffer_bytes = 0;
};

struct PipeRequest {
  std::string pipe;                // a file, "-" for the standard input, or the text itself
  std::vector<std::string> split;  // "compute=3": that stage, the first of its name, in three pieces
};

// Errors: those of the file, of parse_pipe, split_stage and simulate_metapipe.
Result<PipeReport> run_pipe(const PipeRequest& request);

}  // namespace ridge
