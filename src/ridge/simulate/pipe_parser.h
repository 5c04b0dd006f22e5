// Notation of a metapipe: loops in braces, one line for each stage, and buffers between stages.
//
//   chip pcus 8 memory 64                 # shared by all stages; bytes/cycle; unlimited if omitted
//   pipelined rows 16 {                   # schedule, name, iterations; optional: par P, overhead CYCLES
//     load a 128 memory 8192              # phase, name, cycles of a trip
//     pipelined tiles 8 {                 # a loop as a stage
//       load b 40
//       compute mm 6 trips 64 par 4       # row_par: 4 concurrent trips; 15 + 6 cycles
//       store c 30,30,90                  # data-dependent latency
//       buffer mm -> c tiles 3 bytes 8192
//     }
//   }
//
// Schedules: sequential, pipelined, streaming, fork-join. Phases: load, fill, compute, drain, store. After a stage's
// cycles: trips, interval, par, accept, pcus, pmus, memory, network (defined in metapipe.h). Without a `buffer` line,
// buffers of two tiles connect adjacent stages. `again c -> b every 2`: b needs c's result of iteration i − 2.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/simulate/metapipe.h"
#include "ridge/simulate/metapipe_simulator.h"

namespace ridge {

struct ParsedPipe {
  Metapipe pipe;
  PipeResources resources;
};

// Errors: the first mistake with its position; those of `check_metapipe`. `source` is the name in messages.
Result<ParsedPipe> parse_pipe(std::string_view text, const std::string& source);

struct PipeReport {
  Metapipe pipe;
  MetapipeRun run;
  std::optional<std::int64_t> closed_form;
  std::int64_t sequential_cycles = 0;  // simulated cycles with all loops sequential
  std::int64_t buffer_bytes = 0;
};

struct PipeRequest {
  std::string pipe;                // a file, "-" for the standard input, or the text itself
  std::vector<std::string> split;  // "compute=3" splits the first stage of that name into three pieces
};

// Errors: those of the file, `parse_pipe`, `split_stage` and `simulate_metapipe`.
Result<PipeReport> run_pipe(const PipeRequest& request);

}  // namespace ridge
