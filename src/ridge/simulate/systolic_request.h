// Request of `ridge simulate systolic` and its defaults: sizes of a product or SCALE-Sim's topology file; rows and
// columns or SCALE-Sim's configuration file.
//   {.rows = 32, .cols = 32, .dataflow = "os", .product = {{256, 128, 256}}}   one run of 10175 cycles
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/simulate/systolic_run.h"

namespace ridge {

struct SystolicRequest {
  std::optional<std::int64_t> rows, cols;
  std::string dataflow;  // os, ws or is; if empty, the configuration's, or ws
  bool preload = false;
  std::optional<ProductSize> product;
  std::string topology, config;  // paths of SCALE-Sim's files
  std::string bandwidth;         // words/cycle: "10", or "10,10,20" for A, B and C; if empty, the configuration's
  std::string sram;              // words, in the same form
  bool wait_once = false;        // charges each wait once; SCALE-Sim charges it twice
};

// Runs every layer, or the single product. Errors: missing or contradictory options; those of the files and of
// `run_systolic` for a task.
Result<std::vector<SystolicRun>> run_systolic(const SystolicRequest& request);

}  // namespace ridge
