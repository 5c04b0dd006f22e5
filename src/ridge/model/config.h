// Configs of language models: what Hugging Face's config.json says about parameters and cache. A config is read
// completely or refused: a key that is not known, a missing key or a contradiction is an error, never a guess.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/base/dtype.h"
#include "ridge/base/result.h"

namespace ridge::model {

// A feed-forward part of several networks, of which a token uses some.
struct ExpertConfig {
  std::int64_t routed = 0;        // Number of experts that the router chooses from
  std::int64_t per_token = 0;     // Number of routed experts that a token uses
  std::int64_t width = 0;         // Intermediate width of one routed expert
  std::int64_t shared_width = 0;  // Intermediate width of the experts that every token uses, all together
  bool has_router_bias = false;
  bool has_normalized_weights = true;  // True if the weights of a token's experts are divided by their sum
  bool has_score_correction = false;   // One more bias per routed expert, added to the scores only to choose (DeepSeek)
  bool has_shared_gate = false;        // True if a sigmoid of one more row scales the shared experts (Qwen3-Next)
  bool has_dense_part = false;         // True if a dense network of its own adds to the experts (Gemma 4)
};

// Latent attention (MLA): keys and values are projected to a latent vector, which is all that the cache holds.
struct LatentConfig {
  std::int64_t query_rank = 0;  // 0 if queries are projected without a latent vector
  std::int64_t rank = 0;        // Elements of the latent vector of keys and values
  std::int64_t nope_size = 0;   // Elements of a head without rotary position
  std::int64_t rope_size = 0;   // Elements of a head with rotary position, shared by all heads in the cache
  std::int64_t value_size = 0;  // Elements of a head's value
};

// Sparse attention (DSA): an indexer with heads of its own scores all tokens; attention sees the best of them.
struct IndexerConfig {
  std::int64_t heads = 0, head_size = 0;
  std::int64_t chosen = 0;  // Tokens that attention sees
};

// The part of a layer that mixes tokens. All kinds but attention keep a state of fixed size instead of keys and values.
enum class Mixer {
  none,         // The layer is a feed-forward part alone
  attention,    // Full, sliding, chunked or latent
  gated_delta,  // Linear attention with gates and the delta rule (Qwen3-Next)
  mamba1,
  mamba2
};
constexpr bool is_recurrent(Mixer mixer) { return mixer != Mixer::none && mixer != Mixer::attention; }

// Sizes of a mixer with a state of heads x value_size x key_size elements.
struct RecurrentConfig {
  std::int64_t groups = 1;      // Key heads, each for heads / groups value heads; Mamba-2: groups of heads
  std::int64_t heads = 0;       // Value heads; Mamba-1: channels
  std::int64_t key_size = 0;    // Elements of a key; Mamba: elements of the state per channel
  std::int64_t value_size = 0;  // Elements of a head's value; Mamba-1: 1
  std::int64_t conv_size = 0;   // Tokens that the convolution before the recurrence sees
  std::int64_t step_rank = 0;   // Mamba-1: elements from which the time step of each channel is computed
  std::int64_t chunk = 64;      // Tokens that kernels for several tokens compute together; Mamba-1: not used
  bool has_conv_bias = false;
  bool has_bias = false;                  // True if the matrices into and out of the mixer have biases
  std::optional<DType> state_dtype = {};  // Format of the state; without it, that of the activations
  std::int64_t convolved() const {        // Channels that the convolution sees
    if (step_rank > 0) return heads;
    return 2 * groups * key_size + heads * value_size;
  }
};

// Heads of keys and values of a layer.
struct HeadConfig {
  std::int64_t kv_heads = 0, size = 0;
  bool has_values = true;  // False if values are the keys before their norm, so that they have no matrix (Gemma 4)
};

// Projector after the layers of a vision encoder.
enum class VisionProjector {
  pooled,    // A norm, the mean over the patches of a token, a norm, and one matrix (Gemma 3)
  averaged,  // The mean, a shift and a scale, a norm without weights, and one matrix (Gemma 4)
  merged,    // A norm, and two matrices with biases on all patches of a token (Qwen2-VL, Qwen3-VL)
  shuffled   // The same without biases, and a matrix to the language model (Llama 4)
};

// Learned vectors that are added to the patches of an image.
enum class VisionPositions {
  none,
  of_patches,        // One for each patch of an image of one size
  of_table,          // Rows of a table, which is interpolated to the size of the image (Qwen3-VL)
  of_row_and_column  // The sum of a row of a table for the patch's row and of one for its column (Gemma 4)
};

// A transformer that turns images into vectors of tokens (vision_program.h). Images are squares.
struct VisionConfig {
  std::int64_t layers = 0, width = 0, heads = 0, feed_forward = 0;
  std::int64_t patch = 0;         // Pixels along a side of a patch
  std::int64_t patch_values = 0;  // Numbers of a patch: its pixels, times channels and frames
  std::int64_t merged = 1;        // Patches along a side of what becomes one token
  std::int64_t image_size = 0;    // Pixels along a side of an image; 0 if images have any size
  std::int64_t positions = 0;     // Rows of each table of positions; 0 without tables
  std::int64_t inner_width = 0;   // Width between the matrices of the projector
  std::int64_t text_width = 0;    // Elements of a token's vector in the language model
  std::int64_t deep_layers = 0;   // Layers whose results have a projector of their own
  std::string activation = {};    // Name in the file
  bool has_class_token = false;   // True if one more vector passes the layers; patches and norm have no biases then
  bool has_rotary = false;        // True if queries and keys have rotary positions
  bool has_patch_bias = true;     // False if the matrix of patches has no bias
  // True for layers as in Gemma: gated without biases, four norms without shifts, norms of queries, keys and values
  bool is_gated = false;
  bool has_scale = false;  // True if a shift and a scale follow the mean of a token's patches
  VisionPositions position_rule = VisionPositions::of_patches;
  VisionProjector projector = VisionProjector::pooled;
};

// An encoder of sounds (Whisper): two convolutions over frames, then layers. All layers of the language model attend to
// its results, too, and keep keys and values of them.
struct AudioConfig {
  std::int64_t layers = 0, width = 0, heads = 0, feed_forward = 0;
  std::int64_t bins = 0;        // Numbers of a frame
  std::int64_t vectors = 0;     // Results for one clip, of two frames each
  std::string activation = {};  // Name in the file
};

// A part that turns images or sounds into vectors, which no token of a text uses.
struct EncoderPart {
  std::string name;
  std::int64_t layers = 0;  // 0 for a projector
  std::int64_t parameters = 0;
  std::vector<std::string> keys = {};  // Paths of its keys in the file
};

enum class QuantizationMethod { fp8, gptq, awq, mxfp4, nf4, int8, packed };

struct QuantizationConfig {
  QuantizationMethod method = QuantizationMethod::fp8;
  std::int64_t bits = 8;                           // Bits of a quantized weight
  std::int64_t group = 0;                          // Weights of a row that share a scale; 0 for the whole row
  std::int64_t block_rows = 0, block_columns = 0;  // fp8: weights that share a scale; 0 for the whole matrix
  bool has_double_quantization = false;            // nf4: the scales are themselves quantized
  bool has_only_experts = false;                   // True if no other matrices are quantized
};

struct LayerConfig {
  bool is_sliding = false;   // True if attention sees only the last `window` tokens, or those of a chunk
  bool has_experts = false;  // True if the feed-forward part is made of experts
  Mixer mixer = Mixer::attention;
  bool has_feed_forward = true;
  bool operator==(const LayerConfig&) const = default;
};

struct ModelConfig {
  std::string name;        // Name of a shipped config, else of the file or its folder
  std::string model_type;  // Name of the conventions that no key states, such as the number of norms
  std::int64_t width = 0, vocabulary = 0;
  std::int64_t learned_positions = 0;  // Rows of the position embedding; 0 if positions are not learned
  std::int64_t heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t feed_forward_width = 0;  // Intermediate width of layers without experts
  std::int64_t window = 0;              // Tokens that sliding attention sees; 0 without sliding layers
  bool has_chunks = false;              // True if sliding layers see the tokens of their chunk of `window` tokens
  int norms_per_layer = 2;
  bool is_gated = true;  // True if the feed-forward part has three matrices, false if it has two
  bool is_tied = false;  // True if the head is the token embedding
  bool has_qkv_bias = false, has_output_bias = false, has_feed_forward_bias = false, has_norm_bias = false;
  bool has_key_bias = true;      // False if keys have no bias although queries and values have one
  bool has_qk_norm = false;      // True if queries and keys are normalized per head
  bool has_sinks = false;        // True if each head has one learned score
  bool has_output_gate = false;  // True if a gate from the layer's input scales the result of attention
  // The following change programs, but neither parameters nor cache. Softcaps are 0 without one.
  std::string activation = {};                      // As the file calls it, "silu"; empty if it does not say
  std::int64_t max_positions = 0;                   // Tokens that the model is made for; 0 if the file does not say
  double rotary_base = 0, sliding_rotary_base = 0;  // 0 if the file does not say
  double attention_softcap = 0, logit_softcap = 0;
  double rotary_part = 1;                     // Part of a head with rotary positions
  bool has_plain_qk_norm = false;             // True if queries and keys with positions are normalized without weights
  bool has_plain_value_norm = false;          // The same for values
  bool has_positions_in_full = true;          // False if layers with full attention have no positions (Llama 4)
  std::optional<HeadConfig> full_heads = {};  // Heads of layers with full attention if they have others
  std::optional<LatentConfig> latent = {};
  std::optional<IndexerConfig> indexer = {};
  std::optional<RecurrentConfig> recurrent = {};
  std::optional<ExpertConfig> experts = {};
  std::optional<QuantizationConfig> quantization = {};
  std::vector<EncoderPart> encoders = {};
  std::optional<VisionConfig> vision = {};  // Set if the encoder has programs
  std::optional<AudioConfig> audio = {};    // Set if the layers have cross attention
  std::vector<LayerConfig> layers = {};
  // Common name of each key that was read, and its path in the file.
  std::map<std::string, std::string, std::less<>> keys = {};
  std::vector<std::string> notes = {};  // Sentences about what is not counted
};

// Returns the key and value heads of the layer.
inline HeadConfig heads_of(const ModelConfig& config, const LayerConfig& layer) {
  if (config.full_heads && !layer.is_sliding) return *config.full_heads;
  return {config.kv_heads, config.head_size};
}

// True if a layer has this mixer.
bool has_mixer(const ModelConfig& config, Mixer mixer);

// Returns the config that the text describes. `source` names the text in errors. Errors: JSON that does not parse, a
// model_type that is not supported, an unknown or missing key, a wrong value, a contradiction.
Result<ModelConfig> parse_config(std::string_view text, const std::string& source, const std::string& name);

// Returns the config of a name (see `shipped_names`; case, '-' and '.' do not matter), a .json file, or a folder with
// config.json. Errors: those of `parse_config`; an unknown name (ErrorKind::absent) or an unreadable file.
Result<ModelConfig> find_config(const std::string& name_or_path);

// Returns the names of the configs in models/.
std::vector<std::string> shipped_names();

}  // namespace ridge::model
