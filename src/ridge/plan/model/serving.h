// Times of a language model as an engine serves it with continuous batching: several requests in flight, each with a
// prompt and output tokens. A step decodes a token of each sequence, and prompts of new requests join the steps. The
// times are the bounds of these parts with a few constants, which are fitted to measured engines on H100 and H200
// (docs/models.md, "Served times").
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ridge/base/fitted_file.h"
#include "ridge/machine/machine.h"
#include "ridge/model/config.h"
#include "ridge/plan/predict.h"

namespace ridge {

struct ModelRequest;

// Values of data/models/serving.csv, which has their meaning.
struct ServingConstants {
  double layer_s, expert_layer_s, sequence_s;    // Added to the bound of a step: per layer, layer of experts, sequence
  double prefill_factor, expert_prefill_factor;  // Time of prefill over its bound; the second of routed experts
  double queued_share;                           // Other requests whose prompts are computed first, as a share of all
  double first_token_steps;                      // Steps of decoding before the first token
  double start_s, vllm_start_s;                  // Latency of a request in addition; the second of vLLM
  double memory_share;                           // Part of the memory for the cache that an engine uses
  double token_low, token_high;                  // Measured over expected: 80 % were within, for the time per token
  double first_token_low, first_token_high;      // The same for the time to the first token
};
const ServingConstants& serving_constants();
std::span<const NamedNumber<ServingConstants>> named_serving_constants();
// Errors: a file that does not parse, lacks a number, has one twice or an unknown one, or one out of its range.
Result<ServingConstants> parse_serving_constants(std::string_view csv, const std::string& source);

enum class ServingEngine { vllm, sglang, trtllm };
inline constexpr std::array serving_engines = {ServingEngine::vllm, ServingEngine::sglang, ServingEngine::trtllm};
std::string_view name(ServingEngine engine);
// Machines on which engines were measured; the built-in constants hold on no others.
inline constexpr std::array<std::string_view, 2> measured_serving_machines = {"h100", "h200"};

struct ServingRequest {
  std::int64_t output_tokens = 1;  // Tokens that each request receives
  ServingEngine engine = ServingEngine::vllm;
  std::optional<ServingConstants> constants = {};  // Used in place of the built-in ones, on any machine
  std::string source = {};                         // File of `constants`

  const ServingConstants& used_constants() const { return constants ? *constants : serving_constants(); }
};

// The inputs of the served times. Only the bounds of prefill contain the network: engines sum the few bytes of decoding
// faster than the network's model, which is that of a general library.
struct ServingWork {
  std::int64_t requests = 1, batch = 1, output_tokens = 1;  // In flight; of these, decoded in a step; per request
  std::int64_t layers = 0, expert_layers = 0;
  double decode_s = 0;                          // Step that decodes the batch halfway through the output
  double prompt_s = 0, prompt_experts_s = 0;    // Prefill of one prompt without routed experts, and of routed experts
  double joining_s = 0, joining_experts_s = 0;  // The same for a prompt in a step that reads the weights anyway
  ServingEngine engine = ServingEngine::vllm;
  std::optional<std::int64_t> held = {};  // Requests that the memory holds; nullopt if its capacity is not on record
};

// Returns the work of the request's batch as requests in flight, and of its context as tokens of a prompt. The request
// must have `serving` and its number of chips. Errors: those of `predict_model`, output tokens out of range, a memory
// that does not hold one request.
Result<ServingWork> count_serving_work(const model::ModelConfig& config, const ModelRequest& request,
                                       const Machine& machine);
// Sets the requests in flight to the request's batch: those of them that the memory holds, and the time of their step.
// Prompts stay as they are. Errors: a memory that does not hold one request.
Status set_requests(const model::ModelConfig& config, const ModelRequest& request, const Machine& machine,
                    ServingWork& work);

struct ServedTimes {
  ServingEngine engine = ServingEngine::vllm;
  std::int64_t output_tokens = 1;
  std::int64_t requests = 1;                  // Requests in flight
  std::int64_t batch = 1;                     // Requests whose tokens a step decodes; others wait for memory
  Interval token_s = {}, first_token_s = {};  // 80 % of measured times were within
  double tokens_per_s = 0;                    // Output tokens of all requests
  ServingConstants constants = serving_constants();
  std::string source = {};  // File of constants that the user gave; empty for the built-in ones
};
ServedTimes predict_serving(const ServingWork& work, const ServingConstants& constants = serving_constants());

// Returns the served times. Errors: those of `count_serving_work`, and with the built-in constants a machine on which
// no engine was measured.
Result<ServedTimes> predict_served_model(const model::ModelConfig& config, const ModelRequest& request,
                                         const Machine& machine);

// Content of data/models/serving.csv at build time.
std::string_view serving_csv();

}  // namespace ridge
