// What a user says of an array and of what it multiplies, and what he left unsaid: a product, or SCALE-Sim's topology
// file; rows and columns, or SCALE-Sim's configuration file.
//   {.rows = 32, .cols = 32, .dataflow = "os", .product = {{256, 128, 256}}}   one run of 10175 cycles
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ridge/simulate/systolic_run.h"

namespace ridge {

struct SystolicRequest {
  std::optional<std::int64_t> rows, cols;
  std::string dataflow;  // os, ws or is; empty: the configuration's, or ws
  bool preload = false;
  std::optional<ProductSize> product;
  std::string topology, config;  // paths of SCALE-Sim's files
  std::string bandwidth;         // words a cycle: "10", or "10,10,20" for A, B and C; empty: as the configuration says
  std::string sram;              // words, likewise
  bool wait_once = false;        // Scratchpads::waits_twice
};

// A run for each layer, or the one product's. Errors: usage, where something is missing or said twice; those of the
// files and of run_systolic.
Result<std::vector<SystolicRun>> run_systolic(const SystolicRequest& request);

}  // namespace ridge
