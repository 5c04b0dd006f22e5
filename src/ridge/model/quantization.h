// Reads quantization_config, and counts the bytes of quantized matrices.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "ridge/base/result.h"
#include "ridge/model/config.h"

namespace ridge::model {

// Reads the object at `prefix` of the file `source`. Errors: a method that is not covered, for this model or at all;
// an unknown or missing key; a wrong value.
Result<QuantizationConfig> read_quantization(const nlohmann::ordered_json& object, const std::string& source,
                                             const std::string& prefix, const ModelConfig& config);

// Bytes of a matrix: of its elements, and of scales, zero points and indices.
struct QuantizedBytes {
  std::int64_t values = 0, scales = 0;
};
// Returns the bytes of a matrix of `rows` outputs and `columns` inputs.
QuantizedBytes count_quantized_bytes(const QuantizationConfig& quantization, std::int64_t rows, std::int64_t columns);

// Returns a description: "gptq, 4 bits, groups of 128".
std::string describe(const QuantizationConfig& quantization);

}  // namespace ridge::model
