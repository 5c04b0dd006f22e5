// SCALE-Sim's own input files, loaded as they are. A topology is a CSV of layers, matrix products or convolutions:
//
//   Layer, M, N, K,                                                                       Conv1, 224, 224, 11, 11, 3,
//   96, 4, L0, 196, 192, 384,       or, under "Layer name, IFMAP Height, IFMAP Width, …", as in
//
// and a configuration is an INI file (ArrayHeight, ArrayWidth, Dataflow, SRAM sizes, bandwidths). Read more kindly than
// SCALE-Sim v3 does: a byte order mark, CRLF, tabs for commas, empty rows, rows that are only a title, a missing comma
// at a row's end, a batch column, and configurations without [layout], [sparsity] or UseRamulatorTrace are all in
// order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/result.h"
#include "ridge/simulate/convolution.h"
#include "ridge/simulate/scratchpad.h"
#include "ridge/simulate/systolic.h"

namespace ridge {

struct TopologyLayer {
  std::string name;
  ProductSize product;
  std::optional<Convolution> convolution;  // that the product was made from
  std::int64_t copies = 1;  // a depthwise convolution (SCALE-Sim: 'DP' in its name) is one channel, this many times
  bool operator==(const TopologyLayer&) const = default;
};

// Whether the rows are products or convolutions is read from the header. Errors, with the place: no layer; a cell
// missing or not a whole number; sizes that as_product refuses; sparsity other than 1:1, which is not simulated.
Result<std::vector<TopologyLayer>> parse_topology(std::string_view text, std::string_view source);

struct ScaleSimConfig {
  std::string run_name;
  SystolicArray array;
  // Sizes are the file's kB, 1024 words each. In USER mode a's and b's bandwidths are [layout]'s *SRAMBankBandwidth and
  // only c's is Bandwidth: SCALE-Sim's way.
  Scratchpads scratchpads;
  bool user_bandwidth = false;  // InterfaceBandwidth: USER; CALC never stalls
  std::vector<std::string>
      not_simulated;  // keys that ask for what ridge leaves out: custom layouts, Ramulator, sparsity
  bool operator==(const ScaleSimConfig&) const = default;
};

// Errors, with the place: a line that is neither section, key nor comment; a key twice; a value out of range; a missing
// key.
Result<ScaleSimConfig> parse_scalesim_config(std::string_view text, std::string_view source);

}  // namespace ridge
