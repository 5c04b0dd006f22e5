// Assembles a training step from the parts of its chips: memory and passes of each stage, their schedule, the
// optimizer, and the collectives between data ranks.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/ceil_div.h"
#include "ridge/base/contains.h"
#include "ridge/plan/model/pipeline_schedule.h"
#include "ridge/plan/model/stages.h"
#include "ridge/plan/model/training.h"
#include "ridge/plan/model/training_collectives.h"
#include "ridge/program/load.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/roofs.h"

namespace ridge {
namespace {

constexpr std::int64_t max_scheduled_passes = 1 << 20;  // Stages times micro-batches

constexpr std::size_t index_of(TrainingPass pass) { return static_cast<std::size_t>(pass); }

// Elements of the parameters of one chip: those that each data rank has, and those of experts that data ranks divide.
struct StageParameters {
  double shared = 0, divided = 0;
  double layer = 0;  // Shared parameters of the largest part
};

class StepAssembly {
 public:
  StepAssembly(const TrainingRequest& request, const Machine& machine, bool is_planned,
               std::map<std::string, CollectiveBound>& collectives, TrainingStep& out)
      : request_(request), machine_(machine), is_planned_(is_planned), collectives_(collectives), out_(out) {}

  // Sets the memory alone.
  void assemble_memory(const SizedTrainingPrograms& sized) {
    std::int64_t first = 0;
    for (const std::int64_t layers : divide_layers(std::ssize(sized.programs.layer_parts), out_.layout.pipeline)) {
      add_stage(sized, first, layers);
      first += layers;
    }
    for (const TrainingStage& stage : out_.stages)
      if (stage.memory.total() > out_.memory.total()) out_.memory = stage.memory;
  }

  Status assemble(const SizedTrainingPrograms& sized, const std::vector<TrainingPartStep>& parts,
                  double activation_bytes) {
    assemble_memory(sized);
    add_modules(parts);
    for (std::size_t i = 0; i < out_.stages.size(); ++i) {
      add_passes(sized.programs.layer_parts, parts, i);
      RIDGE_TRY_STATUS(add_optimizer(parameters_[i], out_.stages[i]));
      RIDGE_TRY_STATUS(add_exchanges(parameters_[i], out_.stages[i]));
    }
    if (out_.layout.pipeline > 1)
      RIDGE_TRY_STATUS(add_sends(activation_bytes, sized.memory.back().embedding_parameters));
    std::stable_sort(out_.modules.begin(), out_.modules.end(),
                     [](const TrainingModule& a, const TrainingModule& b) { return a.pass < b.pass; });
    add_times();
    return Done{};
  }

 private:
  double stage_count() const { return static_cast<double>(out_.layout.pipeline); }

  void add_modules(const std::vector<TrainingPartStep>& parts) {
    for (const TrainingPartStep& part : parts) {
      for (TrainingModule module : part.modules) {
        module.times = out_.accumulated;
        module.stages = out_.layout.pipeline;
        out_.modules.push_back(std::move(module));
      }
      out_.model_flops += static_cast<double>(out_.accumulated * part.layers) * part.model_flops / stage_count();
      if (!part.missing.empty() && !contains(out_.not_on_record, part.missing))
        out_.not_on_record.push_back(part.missing);
      // Parts are not planned after one that has no prediction, whose remark says why.
      if (!part.remark.empty() && (out_.remark.empty() || !part.times.predicted_s)) out_.remark = part.remark;
    }
  }

  // Calls `use` with the index of each part that the stage with these layers has, and its number of layers.
  template <class Use> void visit_parts(const std::vector<std::size_t>& layer_parts, std::size_t part_count,
                                        const TrainingStage& stage, Use&& use) const {
    if (stage.first_layer == 0) use(0, 1);
    const auto begin = layer_parts.begin() + stage.first_layer;
    for (std::size_t part = 1; part + 1 < part_count; ++part)
      if (const auto count = std::count(begin, begin + stage.layers, part); count > 0) use(part, count);
    if (stage.first_layer + stage.layers == std::ssize(layer_parts)) use(part_count - 1, 1);
  }

  // Adds the stage with these layers: its memory and its parameters.
  void add_stage(const SizedTrainingPrograms& sized, std::int64_t first, std::int64_t layers) {
    TrainingStage stage{.first_layer = first, .layers = layers};
    stage.kept_micro_batches =
        count_kept_micro_batches(std::ssize(out_.stages), out_.layout.pipeline, out_.accumulated);
    StageParameters parameters;
    double recomputed = 0, kept = 0;
    visit_parts(sized.programs.layer_parts, sized.memory.size(), stage, [&](std::size_t index, std::int64_t count) {
      const TrainingPartMemory& part = sized.memory[index];
      const double times = static_cast<double>(count);
      // The chips of the last of several stages have no embedding whose parameters the head could read.
      const double shared = part.shared_parameters + (out_.layout.pipeline > 1 ? part.embedding_parameters : 0);
      kept += times * part.kept_bytes;
      stage.memory.working = std::max(stage.memory.working, part.working_bytes);
      recomputed = std::max(recomputed, part.recomputed_bytes);
      parameters.shared += times * shared;
      parameters.divided += times * part.divided_parameters;
      parameters.layer = std::max(parameters.layer, shared);
    });
    stage.memory.activations = static_cast<double>(stage.kept_micro_batches) * kept;
    stage.memory.working += recomputed;
    add_state_bytes(parameters, stage.memory);
    out_.stages.push_back(std::move(stage));
    parameters_.push_back(parameters);
  }

  void add_passes(const std::vector<std::size_t>& layer_parts, const std::vector<TrainingPartStep>& parts,
                  std::size_t index) {
    TrainingStage& stage = out_.stages[index];
    stage.times.predicted_s.emplace();
    visit_parts(layer_parts, parts.size(), stage, [&](std::size_t part, std::int64_t count) {
      stage.times.add(parts[part].times, static_cast<double>(count));
    });
  }

  // Number of ranks that have the same experts.
  std::int64_t expert_replicas() const {
    return out_.layout.sends_rows_to_experts() ? out_.layout.data / out_.layout.expert : out_.layout.data;
  }

  // Elements of a chip if the data ranks divide a state from this stage of ZeRO on.
  double count_elements(const StageParameters& parameters, std::int64_t zero_stage) const {
    if (request_.zero_stage < zero_stage) return parameters.divided + parameters.shared;
    return parameters.divided / static_cast<double>(expert_replicas()) +
           parameters.shared / static_cast<double>(out_.layout.data);
  }

  void add_state_bytes(const StageParameters& parameters, TrainingMemory& memory) const {
    const double width = bytes_per_element(request_.counts.weight_dtype);
    memory.weights = width * count_elements(parameters, 3);
    memory.gradients = width * count_elements(parameters, 2);
    memory.optimizer = (request_.counts.weight_dtype == DType::f32 ? 8 : 12) * count_elements(parameters, 1);
    if (request_.zero_stage == 3) memory.working += width * parameters.layer;
  }

  Status add_optimizer(const StageParameters& parameters, TrainingStage& stage) {
    const auto elements = static_cast<std::int64_t>(std::max(1.0, count_elements(parameters, 1)));
    RIDGE_TRY(loaded, load_program(write_optimizer_program(elements, request_.counts.weight_dtype), DType::bf16));
    RIDGE_TRY(explained, explain(loaded.program, machine_, {}, {}, Thresholds::skipped));
    KernelGroups groups(1);
    for (std::size_t s = 0; s < loaded.program.statements.size(); ++s) groups[0].push_back(static_cast<int>(s));
    RIDGE_TRY(grouped, predict_groups(loaded.program, explained, groups));
    const Prediction& op = grouped.ops.front();
    TrainingModule module{.pass = TrainingPass::optimizer,
                          .step = {.part = "optimizer",
                                   .module = "Adam",
                                   .layers = 1,
                                   .flops = static_cast<double>(op.flops.value_or(0)),
                                   .bytes = static_cast<double>(op.bytes.value_or(0)),
                                   .bound_s = op.time_lower_s.value_or(0),
                                   .limiter = op.limiter.value_or(Limiter::memory)},
                          .stages = out_.layout.pipeline};
    stage.times.bound_s[index_of(TrainingPass::optimizer)] = module.step.bound_s;
    if (is_planned_ && stage.times.predicted_s) {
      RIDGE_TRY(planned, predict_program(loaded.program, explained, *request_.plan));
      module.step.predicted_s = planned.predicted_s;
      const double seconds[] = {planned.predicted_s.low, planned.predicted_s.expected, planned.predicted_s.high};
      for (std::size_t kind = 0; kind < 3; ++kind)
        (*stage.times.predicted_s)[kind][index_of(TrainingPass::optimizer)] = seconds[kind];
    }
    add_module(std::move(module));
    return Done{};
  }

  // Adds a module of one stage to the same one of the others: numbers are divided among all stages.
  void add_module(TrainingModule module) {
    const auto same = std::find_if(out_.modules.begin(), out_.modules.end(), [&](const TrainingModule& other) {
      return other.pass == module.pass && other.step.part == module.step.part &&
             other.step.module == module.step.module;
    });
    if (same == out_.modules.end()) {
      out_.modules.push_back(std::move(module));
      return;
    }
    same->step.flops += module.step.flops;
    same->step.bytes += module.step.bytes;
    same->step.bytes_sent += module.step.bytes_sent;
    same->step.bound_s += module.step.bound_s;
    if (module.step.predicted_s) add_interval(same->step.predicted_s, *module.step.predicted_s);
  }

  // Adds the collectives between the data ranks of a stage, for its parameters and for those of experts.
  Status add_exchanges(const StageParameters& parameters, TrainingStage& stage) {
    const model::ChipLayout& layout = out_.layout;
    const std::int64_t between = layout.tensor * layout.pipeline;
    const DataRanks all = layout.sends_rows_to_experts() ? DataRanks{expert_replicas(), layout.pipeline, layout.expert}
                                                         : DataRanks{layout.data, between, 1};
    RIDGE_TRY_STATUS(add_exchange(parameters.shared, all, "", stage));
    if (parameters.divided == 0) return Done{};
    return add_exchange(parameters.divided, {expert_replicas(), layout.pipeline * layout.expert, 1}, " of experts",
                        stage);
  }

  // Gradients are summed during the backward pass; weights that the ranks divide are gathered during the forward pass,
  // and with stage 3 of ZeRO also during the backward pass.
  Status add_exchange(double elements, const DataRanks& ranks, std::string_view of_what, TrainingStage& stage) {
    if (ranks.count() == 1) return Done{};
    const auto predict = [&](DataCollective kind) {
      return find_collective_bound(
          write_data_collective(kind, static_cast<std::int64_t>(elements), request_.counts.weight_dtype, ranks),
          machine_, collectives_);
    };
    const auto add = [&](TrainingPass pass, std::string_view what, const CollectiveBound& sent, bool is_each) {
      add_module({.pass = pass,
                  .step = {.part = "data ranks",
                           .module = fmt::format("{}{}", what, of_what),
                           .layers = 1,
                           .bytes_sent = sent.bytes_sent,
                           .bound_s = sent.seconds,
                           .limiter = Limiter::network},
                  .is_overlapped = true,
                  .times = is_each ? out_.accumulated : 1,
                  .stages = out_.layout.pipeline});
      (pass == TrainingPass::forward ? stage.gather_s : stage.reduce_s) += sent.seconds;
    };
    if (request_.zero_stage == 0) {
      RIDGE_TRY(sum, predict(DataCollective::all_reduce));
      add(TrainingPass::backward, "sum of gradients", sum, false);
      return Done{};
    }
    RIDGE_TRY(gather, predict(DataCollective::all_gather));
    RIDGE_TRY(scatter, predict(DataCollective::reduce_scatter));
    add(TrainingPass::forward, "weights", gather, request_.zero_stage == 3);
    if (request_.zero_stage == 3) add(TrainingPass::backward, "weights", gather, true);
    add(TrainingPass::backward, "sum of gradients", scatter, request_.zero_stage >= 2);
    return Done{};
  }

  // Adds the sends of activations and of their gradients. Every chip sends all activations to the same chip of the next
  // stage. The first and the last stage add the gradients of an embedding that is also the head.
  Status add_sends(double activation_bytes, double embedding) {
    RIDGE_TRY_STATUS(check_stage_links(machine_, out_.layout));
    RIDGE_TRY(costs, compute_send_costs(machine_));
    const std::int64_t sends = out_.layout.pipeline - 1, chips = out_.layout.stage_chips();
    double seconds = 0;
    for (std::int64_t stage = 0; stage < sends; ++stage) {
      send_s_.push_back(costs.of_stage(stage, chips).seconds(activation_bytes));
      seconds += send_s_.back();
    }
    ModuleStep step{.part = "stages",
                    .module = "network",
                    .layers = sends,
                    .bytes_sent = activation_bytes,
                    .bound_s = seconds / static_cast<double>(sends),
                    .limiter = Limiter::network};
    for (const TrainingPass pass : {TrainingPass::forward, TrainingPass::backward})
      add_module({.pass = pass,
                  .step = step,
                  .is_overlapped = true,
                  .times = out_.accumulated,
                  .stages = out_.layout.pipeline});
    if (embedding == 0) return Done{};
    const bool is_beyond = costs.host_chips > 0 && sends * chips >= costs.host_chips;
    const double bytes = embedding * bytes_per_element(request_.counts.weight_dtype) /
                         static_cast<double>(request_.zero_stage >= 2 ? out_.layout.data : 1);
    embedding_s_ = (is_beyond ? costs.beyond_host : costs.inside_host).seconds(bytes);
    out_.notes.push_back(
        fmt::format("the first and the last stage have the embedding, which is also the head, and add its gradients in "
                    "{:.3g} ms",
                    1e3 * embedding_s_));
    return Done{};
  }

  // Returns the time of a step with one kind of times: `kind` returns those of a stage. Adds each stage's idle time.
  template <class Kind> double time_step(Kind&& kind, std::vector<double>* idle_s) const {
    std::vector<PipelineStage> stages;
    for (std::size_t i = 0; i < out_.stages.size(); ++i) {
      const TrainingStage& stage = out_.stages[i];
      const PassSeconds& seconds = kind(stage.times);
      const double forward = seconds[index_of(TrainingPass::forward)],
                   again = seconds[index_of(TrainingPass::recomputation)],
                   backward = seconds[index_of(TrainingPass::backward)];
      stages.push_back({.forward_s = forward,
                        .backward_s = again + backward,
                        .send_s = i < send_s_.size() ? send_s_[i] : 0,
                        .gather_s = stage.gather_s,
                        .reduce_s = stage.reduce_s,
                        .reduce_after_s = again,
                        .gathers_each = request_.zero_stage == 3,
                        .reduces_each = request_.zero_stage >= 2});
    }
    std::vector<double> ends = schedule_pipeline(stages, out_.accumulated);
    if (embedding_s_ > 0) ends.front() = ends.back() = std::max(ends.front(), ends.back()) + embedding_s_;
    double step_s = 0;
    for (std::size_t i = 0; i < ends.size(); ++i)
      step_s = std::max(step_s, ends[i] + kind(out_.stages[i].times)[index_of(TrainingPass::optimizer)]);
    if (idle_s != nullptr)
      for (std::size_t i = 0; i < ends.size(); ++i)
        idle_s->push_back(step_s - stages[i].busy_s(out_.accumulated) -
                          kind(out_.stages[i].times)[index_of(TrainingPass::optimizer)]);
    return step_s;
  }

  void add_times() {
    std::vector<double> idle_s;
    out_.step_s = time_step([](const TrainingTimes& x) -> const PassSeconds& { return x.bound_s; }, &idle_s);
    const double passes = static_cast<double>(out_.accumulated) / stage_count();
    bool is_predicted = is_planned_;
    for (std::size_t i = 0; i < out_.stages.size(); ++i) {
      TrainingStage& stage = out_.stages[i];
      if (out_.layout.pipeline > 1) stage.idle_s = std::max(0.0, idle_s[i]);
      out_.idle_s += stage.idle_s / stage_count();
      const PassSeconds& seconds = stage.times.bound_s;
      out_.forward_s += passes * seconds[index_of(TrainingPass::forward)];
      out_.recomputation_s += passes * seconds[index_of(TrainingPass::recomputation)];
      out_.backward_s += passes * seconds[index_of(TrainingPass::backward)];
      out_.optimizer_s += seconds[index_of(TrainingPass::optimizer)] / stage_count();
      is_predicted = is_predicted && stage.times.predicted_s;
    }
    for (TrainingModule& module : out_.modules) {
      if (!is_predicted) module.step.predicted_s = {};
      out_.flops += module.count() * module.step.flops;
      if (module.step.part != "data ranks") continue;
      (module.pass == TrainingPass::forward ? out_.gather_s : out_.reduce_s) += module.count() * module.step.bound_s;
    }
    if (!is_predicted) return;
    const auto predict = [&](std::size_t kind) {
      return time_step([&](const TrainingTimes& x) -> const PassSeconds& { return (*x.predicted_s)[kind]; }, nullptr);
    };
    out_.predicted_s = Interval{predict(0), predict(1), predict(2)};
  }

  const TrainingRequest& request_;
  const Machine& machine_;
  bool is_planned_;
  std::map<std::string, CollectiveBound>& collectives_;
  TrainingStep& out_;
  std::vector<StageParameters> parameters_ = {};
  std::vector<double> send_s_ = {};  // Sends of each stage but the last
  double embedding_s_ = 0;
};

}  // namespace

Result<const SizedTrainingPrograms*> TrainingPredictor::find_programs(const model::ChipLayout& layout,
                                                                      std::int64_t micro_batch) {
  const auto key = std::tuple(layout.tensor, layout.expert, micro_batch);
  if (const auto found = programs_.find(key); found != programs_.end()) return found->second.get();
  const std::int64_t ranks = layout.sends_rows_to_experts() ? layout.expert : 1;
  const model::StepOptions options{.weight_dtype = request_.counts.weight_dtype,
                                   .batch = micro_batch * ranks,
                                   .context = *request_.counts.context,
                                   .layout = {.tensor = layout.tensor, .expert = layout.expert, .data = ranks}};
  RIDGE_TRY(sized, size_training_programs(config_, options, request_.recomputation));
  return programs_.emplace(key, std::make_shared<const SizedTrainingPrograms>(std::move(sized))).first->second.get();
}

Result<const std::vector<TrainingPartStep>*> TrainingPredictor::time_parts(const SizedTrainingPrograms& sized,
                                                                           bool is_planned) {
  const auto key = std::pair(&sized, is_planned);
  if (const auto found = parts_.find(key); found != parts_.end()) return &found->second;
  RIDGE_TRY(parts, predict_training_parts(sized, machine_, is_planned ? request_.plan : std::nullopt));
  return &parts_.emplace(key, std::move(parts)).first->second;
}

Status TrainingPredictor::check(const model::ChipLayout& layout, std::int64_t accumulated) const {
  RIDGE_TRY_STATUS(model::check_layout(
      config_, {.batch = request_.counts.batch, .context = *request_.counts.context, .layout = layout}));
  if (layout.pipeline * accumulated > max_scheduled_passes)
    return usage_error(fmt::format("expected at most {} stages times parts of the batch, found --pp {} and {} parts",
                                   max_scheduled_passes, layout.pipeline, accumulated),
                       "--accumulate with a smaller number");
  return Done{};
}

TrainingStep TrainingPredictor::make_step(const SizedTrainingPrograms& sized, const model::ChipLayout& layout,
                                          std::int64_t accumulated) const {
  TrainingStep out{.machine = machine_.name,
                   .counts = request_.counts,
                   .layout = layout,
                   .recomputation = request_.recomputation,
                   .zero_stage = request_.zero_stage,
                   .accumulated = accumulated};
  out.notes = sized.programs.notes;
  if (machine_.memory.front().capacity) out.capacity_bytes = machine_.memory.front().capacity->value;
  if (const auto power = machine_.numbers.find("power_w"); power != machine_.numbers.end())
    out.power_w = power->second.value;
  return out;
}

Result<TrainingStep> TrainingPredictor::size_step(const model::ChipLayout& layout, std::int64_t accumulated) {
  RIDGE_TRY_STATUS(check(layout, accumulated));
  RIDGE_TRY(sized, find_programs(layout, request_.counts.batch / accumulated / layout.data));
  TrainingStep out = make_step(*sized, layout, accumulated);
  StepAssembly(request_, machine_, false, collectives_, out).assemble_memory(*sized);
  return out;
}

Result<TrainingStep> TrainingPredictor::predict(const model::ChipLayout& layout, std::int64_t accumulated,
                                                bool is_planned) {
  RIDGE_TRY_STATUS(check(layout, accumulated));
  const bool has_plan = is_planned && request_.plan.has_value();
  const std::int64_t micro_batch = request_.counts.batch / accumulated / layout.data;
  RIDGE_TRY(sized, find_programs(layout, micro_batch));
  RIDGE_TRY(parts, time_parts(*sized, has_plan));
  TrainingStep out = make_step(*sized, layout, accumulated);
  RIDGE_TRY(peak, machine_.contraction_peak(request_.counts.weight_dtype));
  out.peak = peak->rate.value;
  const double activation_bytes = static_cast<double>(micro_batch) * static_cast<double>(*request_.counts.context) *
                                  static_cast<double>(config_.width) * bytes_per_element(request_.counts.weight_dtype);
  StepAssembly assembly(request_, machine_, has_plan, collectives_, out);
  RIDGE_TRY_STATUS(assembly.assemble(*sized, *parts, activation_bytes));
  return out;
}

// Steps that do not fit are not timed, but for the one that needs the least memory if none fits.
Result<TrainingStep> TrainingPredictor::predict_fastest(const model::ChipLayout& layout) {
  const std::int64_t sequences = request_.counts.batch / layout.data;
  std::optional<TrainingStep> best, smallest;
  std::optional<Error> first_error;
  for (std::int64_t size = 1;; size = std::min(2 * size, sequences)) {
    if (sequences % size == 0) {
      auto step = size_step(layout, sequences / size);
      if (step && step->fits()) step = predict(layout, sequences / size, false);
      if (!step && !first_error) first_error = step.error();
      if (step && !step->fits() && (!smallest || step->memory.total() < smallest->memory.total())) smallest = *step;
      if (step && step->fits() && (!best || step->step_s < best->step_s)) best = *std::move(step);
    }
    if (size == sequences) break;
  }
  if (best) return *std::move(best);
  if (smallest) return predict(layout, smallest->accumulated, false);
  return *first_error;
}

}  // namespace ridge
