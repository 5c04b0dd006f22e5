// Counts of a language model's steps as formulas of batch, context and chips, for the page with sliders
// (report/page/model_page.h). They come from the programs of the model's parts (model/program.h), so that evaluated
// formulas are the numbers of step.h. Free sizes are `step_size_names` and those that the number of chips changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/plan/model/machine.h"
#include "ridge/roofline/sizes/flat_program.h"

namespace ridge {

// Sequences, new tokens per sequence, tokens that layers with full attention see, and those that sliding layers see; of
// a recurrence the new tokens again, the chunks of them under two names, and the tokens of a chunk under two names
inline constexpr std::array step_size_names = {"B", "S", "T", "U", "ST", "SC", "SP", "SL", "SK"};

// Statements of a module that run at the same peak.
struct UnitFormula {
  bool contraction = false;  // True for products, which run on the matrix unit if it has a peak
  DType math = DType::f32;
  Polynomial flops = {};
  std::vector<FunctionCalls> calls = {};  // Calls that take longer than the FLOPs that they count as
};

struct ModuleFormula {
  std::string name;
  std::vector<UnitFormula> units = {};
  Polynomial bytes = {}, parameter_bytes = {}, cache_bytes = {};  // The same as those of ModuleStep
};

// The embedding, one kind of layer, or the head.
struct PartFormula {
  std::string name;
  std::int64_t layers = 1;
  FlatSizes sizes;  // Values that the polynomials contain: free sizes, then masks and routings
  std::vector<ModuleFormula> modules = {};
  Polynomial parameters = {}, cache = {};    // Bytes in memory of one layer
  std::vector<Polynomial> activations = {};  // Bytes of activations while each module runs
  bool slides = false;                       // True if the layers keep at most the window's tokens
};

struct StepFormulas {
  ModelPhase phase = ModelPhase::decode;
  std::int64_t max_context = 0;  // Contexts for which the formulas hold, unless others have a smaller limit; 0: all
  bool has_rest = false;         // True if the last chunk of a recurrence has elements after the last token
  DType weight_dtype = DType::bf16, cache_dtype = DType::bf16;
  std::vector<PartFormula> parts = {};
};

// An encoder of images of one size, or of clips of sound, for weights and cache of these formats.
struct EncoderFormulas {
  DType weight_dtype = DType::bf16, cache_dtype = DType::bf16;
  std::vector<PartFormula> parts = {};  // With the images or clips of a chip, IM, as the only free size
};

// A collective of a part, once for each time that a layer needs it.
struct CollectiveFormula {
  std::size_t part = 0;
  Transfer transfer;  // With bytes in B and S
};

// One number of chips of tensor parallelism.
struct ChipFormulas {
  std::int64_t chips = 1;
  Bindings sizes = {};  // Values of the free sizes that follow from the chips
  std::vector<CollectiveFormula> prefill_collectives = {}, decode_collectives = {};
  std::vector<std::string> prefill_notes = {}, decode_notes = {};
};

struct ModelFormulas {
  std::vector<std::string> free_sizes = {};
  // Both phases for each pair of formats. A phase has several if its programs change with the context; those with a
  // limit are first.
  std::vector<StepFormulas> steps = {};
  std::vector<ChipFormulas> chips = {};  // In ascending order
  // One for each pair of formats; empty without images or without an audio encoder
  std::vector<EncoderFormulas> images = {}, audio = {};
  std::int64_t window = 0;           // Tokens that sliding layers see; 0 without such layers
  bool has_chunks = false;           // True if sliding layers see the tokens of their chunk of `window` tokens
  std::int64_t recurrent_chunk = 0;  // Tokens of a chunk of a recurrence; 0 without one
  bool has_cache = true;             // False if all layers keep a state, whose size the context does not change
  std::int64_t min_context = 2;      // Prefill of one token is decoding, which other formulas count
  std::int64_t max_context = 0;
  std::int64_t learned_positions = 0;  // Tokens that the model has positions for; 0 for any number
  std::int64_t max_positions = 0;      // Tokens that the model is made for; 0 if not known
  double scale_bytes = 0;              // Scales of quantized weights on all chips
  double encoder_bytes = 0;            // Encoders, which are in no program and on each chip
};

// Returns the formulas for the request's formats and others that the page offers, with those of images of `image_size`
// (0 for the config's) if there are any. Errors: those of `predict_model` that do not depend on a machine.
Result<ModelFormulas> make_model_formulas(const model::ModelConfig& config, const model::CountOptions& options,
                                          const std::optional<std::int64_t>& image_size = {});

}  // namespace ridge
