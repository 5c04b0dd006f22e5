// Statements of a layer, for program.cc.
#pragma once

#include <string>

#include "ridge/model/busiest_experts.h"
#include "ridge/model/program_writer.h"

namespace ridge::model {

// Sizes of a step on one chip. Heads, widths and the vocabulary are those of a chip.
struct StepSizes {
  const ModelConfig& config;
  StepOptions options;
  DType activation = DType::bf16;  // Format of what the layers pass on
  DType parameter = DType::bf16;   // Format of norms, biases, router, embedding and head
  DType matrix = DType::bf16;      // Format of the layers' matrices outside of experts
  DType expert = DType::bf16;      // Format of matrices of experts
  std::int64_t batch = 1;          // Sequences of a data rank
  std::int64_t heads = 1, experts = 0;
  std::int64_t feed_forward = 1, expert_width = 1, shared_width = 1, vocabulary = 1;
  std::string function = {};  // Elementwise function of the feed-forward part of an operand {0}, "silu({0})"
  std::string rows = {};      // "B, S", or "B" if each sequence has one new token
  bool sends_rows_to_experts() const { return options.layout.sends_rows_to_experts(); }
  // True if chips that have all tokens divide whole experts. The program is that of the busiest chip.
  bool divides_experts_of_all_tokens() const { return options.layout.tensor > 1 && options.layout.expert > 1; }
  std::string rows_and(std::string_view dims) const { return rows + ", " + std::string(dims); }
  // Returns the key heads of a chip. A key head that there are more chips than is on several of them.
  std::int64_t key_heads(std::int64_t kv_heads) const {
    return kv_heads < options.layout.tensor ? 1 : kv_heads / options.layout.tensor;
  }
};

// Returns the number of tokens of a data rank.
inline std::int64_t count_rows(const StepSizes& sizes) { return sizes.batch * sizes.options.new_tokens; }

// Returns the routing of a step's tokens to groups of experts, if chips that have all tokens divide these.
inline ExpertRouting make_routing(const StepSizes& sizes) {
  const ExpertConfig& experts = *sizes.config.experts;
  return {count_rows(sizes), experts.routed, experts.per_token, sizes.options.layout.expert};
}

// Returns the number of tokens of a sequence whose keys a step reads. With a window or a chunk, the first new token
// sees the earliest of them.
std::int64_t count_keys(const StepSizes& sizes, bool is_sliding);

// Adds a norm of x along D or another dimension, with its parameters.
void add_norm(ProgramWriter& out, const StepSizes& sizes, std::string_view result, std::string_view x,
              std::string_view number, std::string_view dim = "D");
// Returns the operand of a product with quantized weights of this format: x itself, or x in the same format, which it
// adds, if both are fp8.
std::string add_operand(ProgramWriter& out, DType weights, std::string_view x, const std::string& dims);
// Adds a product with weights of this format. Its result has the activations' format if the operands are fp8.
void add_product(ProgramWriter& out, const StepSizes& sizes, DType weights, std::string_view result,
                 std::string_view dims, std::string_view expression);
// Adds what mixes the tokens, from the layer's input x$ to y$, which includes x$. Without a feed-forward part, y$ is
// the layer's result.
void add_mixer(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer, std::string_view result);
// Note on the programs of linear attention for several tokens.
inline constexpr const char* delta_chunk_note =
    "the programs of linear attention have the work of a prompt in chunks of 64 tokens, not its values: they multiply "
    "by "
    "a matrix where the model solves with it, and a chunk's values do not correct the states after it";
// Adds linear attention or Mamba, from h$, the norm of the layer's input, to o$.
void add_gated_delta(ProgramWriter& out, const StepSizes& sizes);
void add_mamba1(ProgramWriter& out, const StepSizes& sizes);
void add_mamba2(ProgramWriter& out, const StepSizes& sizes);
// Adds the feed-forward part, from y$, or from x$ in a layer without a mixer, to the layer's result.
void add_feed_forward(ProgramWriter& out, const StepSizes& sizes, const LayerConfig& layer, std::string_view result);

}  // namespace ridge::model
