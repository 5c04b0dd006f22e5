#include "ridge/plan/model/layout_predictor.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/model/count.h"

namespace ridge {
namespace {

// Returns the time of a step from its latency and the time of the slowest stage, each for one micro-batch.
double combine_stages(double latency_s, double slowest_s, std::int64_t micro_batches, ModelPhase phase) {
  const auto count = static_cast<double>(micro_batches);
  if (phase == ModelPhase::prefill) return latency_s + (count - 1) * slowest_s;
  return std::max(latency_s, count * slowest_s);
}

// Adds a part's layers to a stage with `sequences` per chip, of which the part was analyzed with a micro-batch.
void add_to_stage(const PartStep& part, double scale_bytes, std::int64_t layers, double micro_batches,
                  StageStep& stage) {
  const auto times = static_cast<double>(layers);
  stage.bound_s += times * part.bound_s;
  if (part.predicted_s) add_interval(stage.predicted_s, *part.predicted_s, times);
  stage.parameter_bytes += times * part.parameter_bytes;
  stage.scale_bytes += times * scale_bytes;
  stage.cache_bytes += times * micro_batches * part.cache_bytes;
  stage.activation_bytes = std::max(stage.activation_bytes, part.activation_bytes);
}

void copy_fullest_stage(ModelStep& out) {
  const auto fullest =
      std::max_element(out.stages.begin(), out.stages.end(),
                       [](const StageStep& a, const StageStep& b) { return a.memory_bytes() < b.memory_bytes(); });
  out.parameter_bytes = fullest->parameter_bytes;
  out.scale_bytes = fullest->scale_bytes;
  out.cache_bytes = fullest->cache_bytes;
  out.activation_bytes = fullest->activation_bytes;
}

// Adds the time in which a step of several micro-batches computes only others than the one that `out` has.
void add_other_micro_batches(ModelPhase phase, ModelStep& out) {
  const double latency_s = out.bound_s;
  out.bound_s = combine_stages(latency_s, out.slowest_stage_s, out.micro_batches, phase);
  out.others_s = out.bound_s - latency_s;
  if (!out.predicted_s) return;
  Interval slowest{out.slowest_stage_s, out.slowest_stage_s, out.slowest_stage_s};
  for (const StageStep& stage : out.stages)
    slowest = {std::max(slowest.low, stage.predicted_s->low), std::max(slowest.expected, stage.predicted_s->expected),
               std::max(slowest.high, stage.predicted_s->high)};
  const auto combine = [&](double latency, double stage) {
    return combine_stages(latency, stage, out.micro_batches, phase);
  };
  out.predicted_s =
      Interval{combine(out.predicted_s->low, slowest.low), combine(out.predicted_s->expected, slowest.expected),
               combine(out.predicted_s->high, slowest.high)};
}

}  // namespace

// Scales and encoders are in no program. Those of a layer are counted in a model that has only this layer; encoders are
// on the chips of the embedding.
Result<std::vector<double>> LayoutPredictor::count_scale_bytes(const model::ModelPrograms& programs,
                                                               const model::ChipLayout& layout) {
  std::vector<double> out(programs.parts.size(), 0);
  RIDGE_TRY(whole, model::count_model(config_, {.weight_dtype = options_.weight_dtype}));
  for (const model::PartCount& part : whole.parts)
    if (!part.is_in_programs) out.front() += static_cast<double>(part.weight_bytes);
  // Elements of mxfp4 contain their scales in the programs.
  if (!config_.quantization || config_.quantization->method == model::QuantizationMethod::mxfp4) return out;
  model::ModelConfig one = config_;
  for (std::size_t part = 0; part < out.size(); ++part) {
    const auto layer = std::find(programs.layer_parts.begin(), programs.layer_parts.end(), part);
    if (layer == programs.layer_parts.end()) continue;
    one.layers = {config_.layers[static_cast<std::size_t>(layer - programs.layer_parts.begin())]};
    RIDGE_TRY(count, model::count_model(one, {.weight_dtype = options_.weight_dtype}));
    double experts = 0;
    for (const model::PartCount& each : count.parts)
      if (each.name == "routed experts") experts = static_cast<double>(each.scale_bytes);
    // Data ranks divide only the experts.
    const auto ranks = static_cast<double>(layout.sends_rows_to_experts() ? layout.expert : 1);
    out[part] =
        (static_cast<double>(count.scale_bytes) - experts + experts / ranks) / static_cast<double>(layout.tensor);
  }
  return out;
}

Result<CountedChip> LayoutPredictor::count_chip(const model::ChipLayout& layout, std::int64_t sequences,
                                                ModelPhase phase) {
  model::StepOptions options = options_;
  const std::int64_t ranks = layout.sends_rows_to_experts() ? layout.expert : 1;
  options.layout = {.tensor = layout.tensor, .expert = layout.expert, .data = ranks};
  options.batch = sequences * ranks;
  if (phase == ModelPhase::prefill) options.new_tokens = options.context;
  RIDGE_TRY(programs, model::write_programs(config_, options));
  RIDGE_TRY(parts, count_parts(programs));
  RIDGE_TRY(scale_bytes, count_scale_bytes(programs, layout));
  return CountedChip{std::move(parts), std::move(scale_bytes), std::move(programs.layer_parts),
                     std::move(programs.notes)};
}

Result<const LayoutPredictor::ChipParts*> LayoutPredictor::analyze_chip(const model::ChipLayout& layout,
                                                                        std::int64_t sequences, ModelPhase phase) {
  const ChipKey key(layout.tensor, layout.expert, sequences, phase);
  if (const auto found = chips_.find(key); found != chips_.end()) return &found->second;
  CountedChips own;  // A search on one machine analyzes many chips, each of them once
  CountedChips& counted = shared_ != nullptr ? *shared_ : own;
  auto chip = counted.find(key);
  if (chip == counted.end()) {
    RIDGE_TRY(one, count_chip(layout, sequences, phase));
    chip = counted.emplace(key, std::move(one)).first;
  }
  const CountedChip& counts = chip->second;
  RIDGE_TRY(parts, predict_parts(counts.parts, machine_, plan_));
  ChipParts out{std::move(parts), counts.scale_bytes, counts.layer_parts, counts.notes};
  return &chips_.emplace(key, std::move(out)).first->second;
}

Status LayoutPredictor::find_send_costs(const model::ChipLayout& layout) {
  if (!sends_) {
    RIDGE_TRY(sends, compute_send_costs(machine_));
    sends_ = sends;
  }
  return check_stage_links(machine_, layout);
}

void LayoutPredictor::add_stages(const ChipParts& chip, const RankBatch& batch, std::int64_t stages,
                                 ModelStep& out) const {
  // The cache holds all sequences, not only those of one micro-batch.
  const double micro_batches = static_cast<double>(batch.sequences) / static_cast<double>(batch.micro_batch);
  const auto add = [&](std::size_t part, std::int64_t layers, StageStep& stage) {
    add_to_stage(chip.parts[part], chip.scale_bytes[part], layers, micro_batches, stage);
  };
  std::int64_t first = 0;
  for (const std::int64_t layers : divide_layers(std::ssize(chip.layer_parts), stages)) {
    out.stages.push_back({.first_layer = first, .layers = layers});
    StageStep& stage = out.stages.back();
    if (first == 0) add(0, 1, stage);
    for (std::size_t part = 1; part + 1 < chip.parts.size(); ++part) {
      const auto begin = chip.layer_parts.begin() + first;
      const auto count = std::count(begin, begin + layers, part);
      if (count == 0) continue;
      const double cache_bytes = stage.cache_bytes;
      add(part, count, stage);
      if (stage.cache_bytes > cache_bytes)
        stage.caches.push_back(
            {std::find(begin, begin + layers, part) - chip.layer_parts.begin(), stage.cache_bytes - cache_bytes});
    }
    first += layers;
  }
  const std::size_t head = chip.parts.size() - 1;
  add(head, 1, out.stages.back());
  // The chips of the last stage have no embedding whose parameters the head could read.
  if (stages > 1) out.stages.back().parameter_bytes += chip.parts[head].embedding_bytes;
  for (const StageStep& stage : out.stages) out.slowest_stage_s = std::max(out.slowest_stage_s, stage.bound_s);
}

// Adds the sends between stages as one module. Every chip sends all activations to the same chip of the next stage.
void LayoutPredictor::add_sends(const model::ChipLayout& layout, ModelPhase phase, ModelStep& out) const {
  const std::int64_t sends = layout.pipeline - 1,
                     tokens = phase == ModelPhase::prefill ? options_.context : options_.new_tokens;
  const double bytes = static_cast<double>(out.micro_batch) * static_cast<double>(tokens) *
                       static_cast<double>(config_.width) * dtype_bits(model::activation_dtype(options_.weight_dtype)) /
                       8;
  const std::int64_t beyond = count_sends_beyond_host(layout.pipeline, layout.stage_chips(), sends_->host_chips);
  const double inside_s = sends_->inside_host.seconds(bytes), beyond_s = sends_->beyond_host.seconds(bytes);
  const double seconds = static_cast<double>(sends - beyond) * inside_s + static_cast<double>(beyond) * beyond_s;
  ModuleStep module{.part = "stages", .module = "network", .layers = sends, .bytes_sent = bytes};
  module.bound_s = seconds / static_cast<double>(sends);
  module.limiter = Limiter::network;
  if (out.predicted_s) {
    module.predicted_s = Interval{module.bound_s, module.bound_s, module.bound_s};
    add_interval(out.predicted_s, {seconds, seconds, seconds});
  }
  out.modules.push_back(module);
  out.bytes_sent += static_cast<double>(sends) * bytes;
  out.bound_s += seconds;
  out.network_s += seconds;
  out.slowest_stage_s = std::max({out.slowest_stage_s, beyond < sends ? inside_s : 0, beyond > 0 ? beyond_s : 0});
}

Result<ModelStep> LayoutPredictor::predict_stages(const model::ChipLayout& layout, const RankBatch& batch,
                                                  ModelPhase phase) {
  RIDGE_TRY(chip, analyze_chip(layout, batch.micro_batch, phase));
  ModelStep out = add_parts(chip->parts);
  out.notes = chip->notes;
  out.micro_batch = batch.micro_batch;
  out.micro_batches = ceil_div(batch.sequences, batch.micro_batch);
  add_stages(*chip, batch, layout.pipeline, out);
  if (layout.pipeline > 1) {
    add_sends(layout, phase, out);
    add_other_micro_batches(phase, out);
  }
  copy_fullest_stage(out);
  return out;
}

Result<ModelStep> LayoutPredictor::predict(const model::ChipLayout& layout, std::int64_t batch, ModelPhase phase) {
  model::StepOptions options = options_;
  options.batch = batch;
  options.layout = layout;
  RIDGE_TRY_STATUS(model::check_layout(config_, options));
  const std::int64_t sequences = ceil_div(batch, layout.data);
  if (layout.pipeline == 1) return predict_stages(layout, {sequences, sequences}, phase);
  RIDGE_TRY_STATUS(find_send_costs(layout));
  if (phase == ModelPhase::decode)
    return predict_stages(layout, {sequences, ceil_div(sequences, std::min(sequences, layout.pipeline))}, phase);
  // Small micro-batches leave stages idle for less time, large ones read the weights less often.
  std::optional<ModelStep> fastest;
  for (std::int64_t size = 1;; size = std::min(2 * size, sequences)) {
    RIDGE_TRY(step, predict_stages(layout, {sequences, size}, phase));
    if (!fastest || step.bound_s < fastest->bound_s) fastest = std::move(step);
    if (size == sequences) break;
  }
  return *std::move(fastest);
}

}  // namespace ridge
