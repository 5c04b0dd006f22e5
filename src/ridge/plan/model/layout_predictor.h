// Time and memory of a step of a language model on chips that divide it. Pipeline parallelism divides the layers into
// stages of consecutive layers, each on chips of its own, and the sequences into micro-batches. With P stages, M
// micro-batches and t the time of the slowest stage for one of them:
//   latency = sum over the stages + P - 1 sends of activations
//   decode:   max(latency, M*t)     M = P, or fewer if a rank has fewer than P sequences
//   prefill:  latency + (M - 1)*t   with equal stages, (P - 1)/(M + P - 1) of the time is idle (Huang et al., 2019)
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "ridge/machine/machine.h"
#include "ridge/model/program.h"
#include "ridge/plan/model/stages.h"
#include "ridge/plan/model/step.h"

namespace ridge {

// Programs of one chip with their counts, which hold on every machine.
struct CountedChip {
  std::vector<CountedPart> parts;
  std::vector<double> scale_bytes;  // Per layer of each part
  std::vector<std::size_t> layer_parts;
  std::vector<std::string> notes;
};
// Tensor ranks, expert ranks, sequences and phase of a chip's programs.
using ChipKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, ModelPhase>;
// Counted programs of one model with the same formats, context and new tokens.
using CountedChips = std::map<ChipKey, CountedChip>;

// Predicts steps of one model on one machine. Chips with the same sizes are analyzed once: in a search, most
// layouts and batches share theirs with others.
class LayoutPredictor {
 public:
  // The options' formats, context and logits are used, and their new tokens in decoding. Config and machine must
  // outlive the predictor, like `shared`: counts that predictors of other machines or plans read, too.
  LayoutPredictor(const model::ModelConfig& config, const model::StepOptions& options, const Machine& machine,
                  std::optional<PlanRequest> plan = {}, CountedChips* shared = nullptr)
      : config_(config), options_(options), machine_(machine), plan_(std::move(plan)), shared_(shared) {}

  // Returns the step of `batch` sequences. Errors: those of `model::check_layout`, of `predict_parts` and
  // `count_model`; stages on more chips than links join.
  Result<ModelStep> predict(const model::ChipLayout& layout, std::int64_t batch, ModelPhase phase);

 private:
  // Parts of a chip with the layout's tensor and expert ranks.
  struct ChipParts {
    std::vector<PartStep> parts;
    std::vector<double> scale_bytes;  // Per layer of each part
    std::vector<std::size_t> layer_parts;
    std::vector<std::string> notes;
  };
  // Numbers of sequences on the chips of one data rank.
  struct RankBatch {
    std::int64_t sequences = 1, micro_batch = 1;
  };

  Result<CountedChip> count_chip(const model::ChipLayout& layout, std::int64_t sequences, ModelPhase phase);
  Result<const ChipParts*> analyze_chip(const model::ChipLayout& layout, std::int64_t sequences, ModelPhase phase);
  Result<std::vector<double>> count_scale_bytes(const model::ModelPrograms& programs, const model::ChipLayout& layout);
  Status find_send_costs(const model::ChipLayout& layout);
  Result<ModelStep> predict_stages(const model::ChipLayout& layout, const RankBatch& batch, ModelPhase phase);
  void add_stages(const ChipParts& chip, const RankBatch& batch, std::int64_t stages, ModelStep& out) const;
  void add_sends(const model::ChipLayout& layout, ModelPhase phase, ModelStep& out) const;

  const model::ModelConfig& config_;
  model::StepOptions options_;
  const Machine& machine_;
  std::optional<PlanRequest> plan_;
  std::optional<SendCosts> sends_;
  CountedChips* shared_ = nullptr;
  std::map<ChipKey, ChipParts> chips_;
};

}  // namespace ridge
