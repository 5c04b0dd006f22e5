// Layers of the transformers that encode images (vision_program.h) and sounds (audio_program.h): IM inputs of NP
// vectors of W elements, all of which attend to all of their input.
#pragma once

#include <cstdint>
#include <string>

#include "ridge/base/dtype.h"
#include "ridge/model/program_writer.h"

namespace ridge::model {

struct EncoderSizes {
  std::string name;  // Start of the modules' names: "vision", "audio"
  DType dtype = DType::bf16;
  std::int64_t inputs = 1, vectors = 0, width = 0, heads = 0, feed_forward = 0;
  std::string function = {};  // Elementwise function of an operand {0}
  bool has_rotary = false, has_key_bias = true;
  bool is_gated = false;  // True for layers as in Gemma (VisionConfig::is_gated)
};

// Adds the dimensions of the vectors.
void add_encoder_rows(ProgramWriter& out, const EncoderSizes& sizes);
// Adds a norm along W with its weights and, outside of gated layers, shifts.
void add_encoder_norm(ProgramWriter& out, const EncoderSizes& sizes, const std::string& result, const std::string& x,
                      const std::string& mark);
// Adds a product with a bias, or, in gated layers, without one.
void add_encoder_linear(ProgramWriter& out, const EncoderSizes& sizes, const std::string& result,
                        const std::string& rows, const std::string& x, const std::string& from, const std::string& to,
                        bool is_stored = false);
// Adds a layer from x to the result, which is stored.
void add_encoder_layer(ProgramWriter& out, const EncoderSizes& sizes, const std::string& x, const std::string& result);

}  // namespace ridge::model
