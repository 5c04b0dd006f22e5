// Speculative decoding: a draft proposes K tokens of each sequence, and one step of the model verifies them. If each
// proposed token is accepted with probability A, independent of the others, a step yields
//   (1 - A^(K + 1)) / (1 - A)
// tokens of a sequence on average (Leviathan et al. 2023, "Fast inference from transformers via speculative decoding").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/config.h"

namespace ridge {

inline constexpr std::int64_t max_searched_draft_tokens = 16;  // In the search for the fastest number

struct ModelRequest;

struct SpeculationRequest {
  std::int64_t draft_tokens = 1;  // Tokens that the draft proposes for each sequence
  double acceptance = 0;          // Probability that a proposed token is accepted
  // Model that proposes the tokens one by one on the same chips. Without it, their time counts as 0, as with more heads
  // of the model or with text that is found in the context.
  std::optional<model::ModelConfig> draft = {};
};

struct SpeculationStep {
  std::int64_t draft_tokens = 0;
  double tokens = 1;                 // Tokens of a sequence that the step yields on average
  double draft_s = 0, verify_s = 0;  // Time of the draft's steps and of the verification
  double token_s() const { return (draft_s + verify_s) / tokens; }
};

struct Speculation {
  bool is_predicted = false;  // True if times are those of planned kernels, false if they are bounds
  double acceptance = 0;
  std::string draft = {};  // Name of the draft model; empty without one
  double plain_s = 0;      // Time of a token without speculation
  SpeculationStep step = {};
  SpeculationStep best = {};  // Step with the least time per token of 1 to 16 draft tokens, or without any
  double draft_weight_bytes = 0, draft_cache_bytes = 0;  // Memory of one chip for the draft model
  std::vector<std::string> notes = {};
};

// Returns the average number of tokens of a step.
double count_accepted_tokens(double acceptance, std::int64_t draft_tokens);

// Returns the step in which the request's batch is verified with this number of draft tokens. The request must have
// `speculation` and its number of chips. Errors: those of `write_programs`.
Result<SpeculationStep> predict_speculation_step(const model::ModelConfig& config, const ModelRequest& request,
                                                 std::int64_t draft_tokens, const Machine& machine);

// Returns the times of a request for decoding that has `speculation` and its number of chips. Errors: those of
// `write_programs` for the model or the draft, numbers out of range, more tokens than the model has positions.
Result<Speculation> predict_speculation(const model::ModelConfig& config, const ModelRequest& request,
                                        const Machine& machine);

}  // namespace ridge
