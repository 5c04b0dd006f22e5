// Programs in Ridge's notation (docs/notation.md) that compute a step of a language model: some new tokens of each
// sequence, which attend to a context. A step is prefill if a prompt's tokens are new, decoding if one token is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"
#include "ridge/model/config.h"

namespace ridge::model {

// Numbers of chips that divide a model. Tensor parallelism divides heads, columns and vocabulary, data parallelism the
// sequences, pipeline parallelism the layers into stages, expert parallelism whole experts. Experts are divided among
// chips that also divide the heads (`expert` divides `tensor`; programs are those of the busiest chip), or among data
// ranks (`expert` divides `data`, no tensor parallelism). Data ranks that share no experts are independent of each
// other.
struct ChipLayout {
  std::int64_t tensor = 1, expert = 1, data = 1, pipeline = 1;
  std::int64_t chips() const { return tensor * data * pipeline; }
  bool sends_rows_to_experts() const { return tensor == 1 && expert > 1; }
  // Number of chips that exchange results within a layer.
  std::int64_t stage_chips() const { return sends_rows_to_experts() ? expert : tensor; }
  bool operator==(const ChipLayout&) const = default;
};

struct StepOptions {
  DType weight_dtype = DType::bf16;  // Format of parameters that quantization_config does not change
  DType cache_dtype = DType::bf16;
  std::int64_t batch = 1;       // Number of sequences
  std::int64_t new_tokens = 1;  // Tokens of each sequence that the step computes
  std::int64_t context = 1;     // Tokens of each sequence that the last new token sees, itself included
  bool has_all_logits = false;  // True if the head computes logits of every new token, not only of the last
  ChipLayout layout = {};       // Chips that divide the model; a program is for one of them
};

// Statements that belong together: attention, experts, … Their results are listed in the order of the program.
struct ProgramModule {
  std::string name;
  std::vector<std::string> results = {};
};

// The program of the embedding, of one kind of layer, or of the head.
struct PartProgram {
  std::string name;        // "embedding", "layer", "layer, sliding, experts", "head"
  std::int64_t count = 1;  // Number of layers of this kind; 1 for embedding and head
  std::string text;
  std::vector<ProgramModule> modules = {};
  double kept_cache = 1;          // Part of the cache that a layer keeps after the step; a window drops earlier tokens
  bool shares_embedding = false;  // True for a head whose parameter `embedding` is the embedding's
  // Programs of the collectives between the chips of tensor parallelism, one for each that the part needs
  std::vector<std::string> collectives = {};
};

struct ModelPrograms {
  std::vector<PartProgram> parts = {};
  std::vector<std::size_t> layer_parts = {};  // Index in `parts` of each layer of the model
  std::vector<std::string> notes = {};        // Sentences about what the programs leave out
};

// Errors: sizes out of range, a format that no dtype of the notation has, heads, widths or layers that the chips do not
// divide.
Status check_layout(const ModelConfig& config, const StepOptions& options);
// Returns the programs of one chip, with all layers of the model. Same errors.
Result<ModelPrograms> write_programs(const ModelConfig& config, const StepOptions& options);
// Returns the whole step as one program, every layer with names of its own. Same errors; also more than one chip.
Result<std::string> write_model_program(const ModelConfig& config, const StepOptions& options);
// Returns the program of one layer, counted from 0. Same errors, and a layer that the model does not have.
Result<std::string> write_layer_program(const ModelConfig& config, const StepOptions& options, std::int64_t layer);

}  // namespace ridge::model
