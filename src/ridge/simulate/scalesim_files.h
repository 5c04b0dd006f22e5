// Parsers of SCALE-Sim's input files. A topology is a CSV of layers, matrix products or convolutions:
//
//   Layer, M, N, K,                                                                       Conv1, 224, 224, 11, 11, 3,
//   96, 4, L0, 196, 192, 384,       or, under "Layer name, IFMAP Height, IFMAP Width, …", as in
//
// and a configuration is an INI file (ArrayHeight, ArrayWidth, Dataflow, SRAM sizes, bandwidths). The parsers accept
// more than SCALE-Sim v3: a byte order mark, CRLF, tabs instead of commas, empty rows, title rows, a missing comma at
// the end of a row, a batch column, two columns of strides, and configurations without [layout], [sparsity] or
// UseRamulatorTrace.
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
  std::optional<Convolution> convolution;  // convolution that `product` computes; nullopt if the file has a product
  std::int64_t copies = 1;  // a depthwise convolution ('DP' in its name) runs one channel this many times
  bool operator==(const TopologyLayer&) const = default;
};

// The header determines whether the rows are products or convolutions. Errors, with their position: no layer; a missing
// cell or one that is not a whole number; a column that is not simulated, a cell that has no column; errors of
// `to_product_size`; sparsity other than 1:1, which is not simulated.
Result<std::vector<TopologyLayer>> parse_topology(std::string_view text, std::string_view source);

struct ScaleSimConfig {
  std::string run_name;
  SystolicArray array;
  // A kB of the file is 1024 words. As in SCALE-Sim's USER mode, a and b use *SRAMBankBandwidth of [layout], and only c
  // uses Bandwidth.
  Scratchpads scratchpads;
  bool user_bandwidth = false;             // true for InterfaceBandwidth USER; CALC never stalls
  std::vector<std::string> not_simulated;  // keys that enable unsupported features: custom layouts, Ramulator, sparsity
  bool operator==(const ScaleSimConfig&) const = default;
};

// Errors, with their position: a line that is neither section, key nor comment; a repeated key; a value out of range; a
// missing key.
Result<ScaleSimConfig> parse_scalesim_config(std::string_view text, std::string_view source);

}  // namespace ridge
