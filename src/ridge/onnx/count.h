// Counts the operators of an ONNX model at given sizes.
#pragma once

#include <string>
#include <vector>

#include "ridge/onnx/model.h"
#include "ridge/roofline/operators/explain_operators.h"

namespace ridge::onnx {

// An operator that has no definition here: counted by its bytes alone.
struct UnknownOperator {
  std::string name;  // With its domain, unless that is the standard one: "com.example.Foo"
  std::int64_t calls = 0;
  Count bytes = 0;
};

struct ModelCounts {
  // Operators of equal name, shapes and types, in the order of their first call. Operators that move nothing, and the
  // arithmetic of shapes, are left out.
  std::vector<OperatorWork> operators;
  std::vector<UnknownOperator> unknown;  // The most bytes first
  Bindings sizes;                        // Sizes of the file's dimensions
  std::vector<std::string> size_names;   // In the file's order
  Count parameter_count = 0, parameter_bytes = 0;
  Count input_bytes = 0;      // Bytes of the inputs that are no parameters
  Count peak_bytes = 0;       // Largest sum of parameters, inputs and live results while an operator runs
  std::string peak_operator;  // Operator at which the peak is reached
  std::int64_t views = 0;     // Calls that move nothing or compute shapes
};

// Errors: a dimension without a value; an unknown name in `sizes`; operands that an operator does not allow; an unknown
// operator whose results have no shape in the file.
Result<ModelCounts> count_model(const Model& model, const Bindings& sizes);

// Reads and counts a .onnx file. Errors: those of the file and of `count_model`, with the path as the source.
Result<ModelCounts> count_file(const std::string& path, const Bindings& sizes);

}  // namespace ridge::onnx
