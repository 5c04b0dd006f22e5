// Parameters, weight bytes and cache bytes of a model, each with the config keys that it is computed from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/model/config.h"

namespace ridge::model {

// Returns the format of the activations of a model with weights of this format.
constexpr DType activation_dtype(DType weights) { return dtype_bits(weights) >= 16 ? weights : DType::bf16; }

struct CountOptions {
  DType weight_dtype = DType::bf16;  // Format of parameters that quantization_config does not change
  DType cache_dtype = DType::bf16;
  std::optional<std::int64_t> context = {};  // Tokens per sequence; without it, no cache is counted
  std::int64_t batch = 1;                    // Number of sequences
};

// One kind of tensor of a part: attention, feed-forward, router, routed experts, norms, head, …
struct PartCount {
  std::string name;
  std::int64_t layers = 0;             // Number of layers that have the part; 0 if it is outside of the layers
  std::int64_t parameters = 0;         // Sum over all layers, like the following numbers
  std::int64_t active_parameters = 0;  // Parameters that one token uses: of routed experts, those that it is sent to
  std::int64_t weight_bytes = 0;       // With scales
  std::int64_t scale_bytes = 0;        // Scales, zero points and indices of quantized matrices
  std::vector<std::string> keys = {};
  bool is_in_programs = true;  // False for encoders, which no token of a text uses
};

struct LayerCount {
  std::int64_t index = 0;
  LayerConfig kind = {};
  std::string cache = {};  // Kind of what it keeps (CacheCount::kind), or "none"
  std::int64_t parameters = 0, active_parameters = 0;
  std::int64_t cache_bytes_per_token = 0, state_bytes_per_sequence = 0;
};

// The cache of all layers with one kind of attention.
struct CacheCount {
  std::string
      kind;  // "full", "sliding", "chunked", "latent", "indexer"; or "linear", "mamba", "cross", which keep a state
  std::int64_t layers = 0;
  std::int64_t window = 0;                            // Most tokens that a layer keeps; 0 if it keeps all
  std::int64_t bytes_per_token = 0;                   // Sum over these layers for a token that each keeps
  std::int64_t bytes_per_sequence = 0;                // Sum of the states, whose size does not depend on the context
  std::optional<std::int64_t> bytes = {};             // For the context and batch; windows keep at most `window` tokens
  std::optional<std::int64_t> unwindowed_bytes = {};  // The same if each layer keeps every token, as some engines do
};

struct ModelCount {
  std::string name, model_type;
  std::string quantization = {};  // Description of quantization_config; empty without one
  CountOptions options;
  std::int64_t parameters = 0, active_parameters = 0;
  std::int64_t weight_bytes = 0, scale_bytes = 0;
  std::int64_t kv_bytes_per_token = 0;        // Sum over all layers for a token that each keeps
  std::int64_t state_bytes_per_sequence = 0;  // Sum over the layers that keep a state instead
  std::optional<std::int64_t> cache_bytes = {}, unwindowed_cache_bytes = {};
  std::vector<PartCount> parts = {};
  std::vector<LayerCount> layers = {};
  std::vector<CacheCount> caches = {};
  std::vector<std::pair<std::string, std::vector<std::string>>> keys =
      {};  // Name of a number above, and its config keys
  std::vector<std::string> notes = {};
};

// Returns the counts. Errors: a dtype with block scales or of the wrong kind, a context or batch out of range, and
// more than 2^53 parameters or 2^60 bytes of cache.
Result<ModelCount> count_model(const ModelConfig& config, const CountOptions& options = {});
// Returns ModelCount::cache_bytes alone, for options with a context. Same errors.
Result<std::int64_t> count_cache_bytes(const ModelConfig& config, const CountOptions& options);

}  // namespace ridge::model
