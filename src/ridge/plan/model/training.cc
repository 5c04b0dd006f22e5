#include "ridge/plan/model/training.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"
#include "ridge/plan/model/collective_bound.h"
#include "ridge/plan/model/training_collectives.h"
#include "ridge/program/load.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/roofs.h"

namespace ridge {
namespace {

constexpr double max_run_tokens = 1e18, max_price = 1e9;
constexpr std::int64_t max_training_chips_tried = 64;

// Returns the elements of a tensor times the bytes of one.
double count_tensor_bytes(const Program& program, const Tensor& tensor) {
  const Result<Bindings> sizes = program.bind_sizes({});
  double elements = sizes ? 1 : 0;
  for (const Axis& axis : tensor.axes) elements *= sizes ? static_cast<double>(axis.size(*sizes).value_or(0)) : 0;
  return elements * bytes_per_element(tensor.dtype);
}

// Parameters of one chip: those that every data rank has, and experts that the data ranks divide.
struct ChipParameters {
  double shared = 0, divided = 0;
  double layer = 0;  // Shared parameters of the largest layer
};

// Counts of the parts of one chip, and their modules.
struct TrainingCounter {
  const Machine& machine;
  const TrainingRequest& request;
  TrainingStep& out;
  ChipParameters parameters = {};
  double working = 0, layer_kept = 0;

  bool divides_experts() const { return request.expert_parallel > 1 && request.data_parallel > 1; }

  Status add_part(const TrainingPart& part) {
    auto explained = explain(part.program, machine, {}, {}, Thresholds::skipped);
    if (!explained) return absent_error(explained.error().message);
    add_parameters(part);
    RIDGE_TRY_STATUS(add_memory(part, *explained));
    const bool is_full = request.recomputation == Recomputation::full && part.is_layer();
    if (is_full) RIDGE_TRY_STATUS(add_forward_alone(part));
    KernelGroups groups;
    for (const auto* pass : {&part.forward_groups, &part.backward_groups})
      for (const TrainingGroup& group : *pass) groups.push_back(group.statements);
    RIDGE_TRY(grouped, predict_groups(part.program, *explained, groups));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const bool is_forward = i < part.forward_groups.size();
      const TrainingGroup& group =
          is_forward ? part.forward_groups[i] : part.backward_groups[i - part.forward_groups.size()];
      TrainingPass pass = is_full ? TrainingPass::recomputation : TrainingPass::forward;
      if (!is_forward) pass = TrainingPass::backward;
      add_module(pass, part, group.module, grouped.ops[i]);
      if (!is_forward) continue;
      for (const int s : group.statements)
        if (explained->ops[s].work.contraction)
          out.model_flops += 3 * static_cast<double>(out.accumulated * part.forward.count) *
                             static_cast<double>(explained->ops[s].flops.value_or(0));
    }
    RIDGE_TRY_STATUS(add_network(TrainingPass::forward, part, part.forward.collectives));
    if (is_full) RIDGE_TRY_STATUS(add_network(TrainingPass::recomputation, part, part.forward.collectives));
    return add_network(TrainingPass::backward, part, part.backward_collectives);
  }

  void add_module(TrainingPass pass, const TrainingPart& part, const std::string& name, const Prediction& op) {
    out.modules.push_back({.pass = pass,
                           .step = {.part = part.forward.name,
                                    .module = name,
                                    .layers = part.forward.count,
                                    .flops = static_cast<double>(op.flops.value_or(0)),
                                    .bytes = static_cast<double>(op.bytes.value_or(0)),
                                    .bound_s = op.time_lower_s.value_or(0),
                                    .limiter = op.limiter.value_or(Limiter::memory)},
                           .times = out.accumulated});
    if (!op.missing.empty() && !contains(out.not_on_record, op.missing)) out.not_on_record.push_back(op.missing);
  }

  // With full recomputation, the first forward pass stores nothing for the backward pass.
  Status add_forward_alone(const TrainingPart& part) {
    RIDGE_TRY(loaded, load_program(part.forward.text, DType::bf16));
    RIDGE_TRY(explained, explain(loaded.program, machine, {}, {}, Thresholds::skipped));
    KernelGroups groups;
    for (const TrainingGroup& group : part.forward_groups) groups.push_back(group.statements);
    RIDGE_TRY(grouped, predict_groups(loaded.program, explained, groups));
    for (std::size_t i = 0; i < groups.size(); ++i)
      add_module(TrainingPass::forward, part, part.forward_groups[i].module, grouped.ops[i]);
    return Done{};
  }

  Status add_network(TrainingPass pass, const TrainingPart& part, const std::vector<std::string>& collectives) {
    if (collectives.empty()) return Done{};
    ModuleStep module{
        .part = part.forward.name, .module = "network", .layers = part.forward.count, .limiter = Limiter::network};
    for (const std::string& text : collectives) {
      RIDGE_TRY(sent, predict_collective(text, machine));
      module.bytes_sent += sent.bytes_sent;
      module.bound_s += sent.seconds;
    }
    out.modules.push_back({.pass = pass, .step = std::move(module), .times = out.accumulated});
    return Done{};
  }

  void add_parameters(const TrainingPart& part) {
    double shared = 0;
    const Program& program = part.program;
    for (std::size_t t = 0; t < program.tensors.size(); ++t) {
      const Tensor& tensor = program.tensors[t];
      if (tensor.declared_use != InputUse::parameter) continue;
      if (part.forward.shares_embedding && tensor.name == "embedding") continue;  // the embedding's program has it
      const double elements = count_tensor_bytes(program, tensor) / bytes_per_element(tensor.dtype);
      const bool is_divided = divides_experts() && is_read_by(part, "experts", static_cast<int>(t));
      if (!is_divided) shared += elements;
      (is_divided ? parameters.divided : parameters.shared) += static_cast<double>(part.forward.count) * elements;
    }
    parameters.layer = std::max(parameters.layer, shared);
  }

  static bool is_read_by(const TrainingPart& part, std::string_view module, int tensor) {
    return std::any_of(part.forward_groups.begin(), part.forward_groups.end(), [&](const TrainingGroup& group) {
      return group.module == module && std::any_of(group.statements.begin(), group.statements.end(), [&](int s) {
               return contains(statement_operands(part.program.statements[s]), tensor);
             });
    });
  }

  Status add_memory(const TrainingPart& part, const Explanation& explained) {
    KernelGroups groups;  // A statement that is computed again does not count twice
    for (const TrainingGroup& group : part.forward_groups) groups.push_back(group.statements);
    for (const TrainingGroup& group : part.backward_groups) {
      groups.emplace_back();
      for (const int s : group.statements)
        if (!contains(part.recomputed, s)) groups.back().push_back(s);
    }
    const MemoryUse memory = analyze_memory(part.program, explained, {}, groups);
    double kept = 0, others = 0;
    for (std::size_t t = 0; t < part.program.tensors.size(); ++t) {
      const Tensor& tensor = part.program.tensors[t];
      const double bytes = count_tensor_bytes(part.program, tensor);
      if (part.is_kept[t]) kept += bytes;
      if (tensor.declared_use == InputUse::parameter || part.is_parameter_gradient[t]) others += bytes;
    }
    working = std::max(working, memory.peak_bytes.value_or(0) - others - kept);
    if (request.recomputation == Recomputation::full && part.is_layer()) {
      layer_kept = std::max(layer_kept, kept);
      kept = count_input_bytes(part);
    }
    out.memory.activations += static_cast<double>(part.forward.count) * kept;
    return Done{};
  }

  // Returns the bytes of the layer's input x.
  static double count_input_bytes(const TrainingPart& part) {
    for (const Tensor& tensor : part.program.tensors)
      if (tensor.name == "x") return count_tensor_bytes(part.program, tensor);
    return 0;
  }
};

Status check_training(const TrainingRequest& request) {
  if (request.accumulated < 1 || request.data_parallel < 1 || request.counts.batch % request.accumulated != 0 ||
      request.counts.batch / request.accumulated % request.data_parallel != 0)
    return usage_error(
        fmt::format("expected a --batch that --dp times --accumulate divides, found --batch {} --dp {} "
                    "--accumulate {}",
                    request.counts.batch, request.data_parallel, request.accumulated));
  const bool has_ranks_of_both = request.expert_parallel > 1 && request.data_parallel > 1;
  if (has_ranks_of_both && request.tensor_parallel.value_or(1) > 1)
    return usage_error("expected training with --tp, or with --ep and --dp, found all three");
  if (has_ranks_of_both && request.expert_parallel != request.data_parallel)
    return usage_error(
        fmt::format("expected --ep equal to --dp in training with several data ranks, found --ep {} --dp {}",
                    request.expert_parallel, request.data_parallel),
        "with fewer expert ranks, several chips would have the same experts, which is not counted yet");
  if (request.zero_stage > 0 && request.data_parallel < 2)
    return usage_error(fmt::format("expected --zero {} together with --dp of at least 2", request.zero_stage),
                       "the data ranks divide the state");
  if (request.tokens && !(*request.tokens >= 1 && *request.tokens <= max_run_tokens))
    return usage_error(fmt::format("expected --tokens from 1 to {:g}, found {:g}", max_run_tokens, *request.tokens));
  if (request.utilisation && !(*request.utilisation > 0 && *request.utilisation <= 1))
    return usage_error(fmt::format("expected --utilisation above 0 and up to 1, found {:g}", *request.utilisation));
  if (request.price && !(*request.price >= 0 && *request.price <= max_price))
    return usage_error(fmt::format("expected --price from 0 to {:g}, found {:g}", max_price, *request.price));
  return Done{};
}

// Sets the memory of weights, gradients and the optimizer, and adds the optimizer's time.
Status add_optimizer(const TrainingRequest& request, const Machine& machine, const ChipParameters& parameters,
                     TrainingStep& out) {
  const double ranks = static_cast<double>(request.data_parallel);
  const double width = bytes_per_element(request.counts.weight_dtype);
  // Elements of a chip if the data ranks divide a state from this stage on
  const auto count_elements = [&](std::int64_t stage) {
    return parameters.divided + parameters.shared / (request.zero_stage >= stage ? ranks : 1);
  };
  out.memory.weights = width * count_elements(3);
  out.memory.gradients = width * count_elements(2);
  out.memory.optimizer = (request.counts.weight_dtype == DType::f32 ? 8 : 12) * count_elements(1);
  const auto elements = static_cast<std::int64_t>(std::max(1.0, count_elements(1)));
  RIDGE_TRY(loaded, load_program(write_optimizer_program(elements, request.counts.weight_dtype), DType::bf16));
  RIDGE_TRY(explained, explain(loaded.program, machine, {}, {}, Thresholds::skipped));
  KernelGroups groups(1);
  for (std::size_t s = 0; s < loaded.program.statements.size(); ++s) groups[0].push_back(static_cast<int>(s));
  RIDGE_TRY(grouped, predict_groups(loaded.program, explained, groups));
  const Prediction& op = grouped.ops.front();
  out.modules.push_back({.pass = TrainingPass::optimizer,
                         .step = {.part = "optimizer",
                                  .module = "Adam",
                                  .layers = 1,
                                  .flops = static_cast<double>(op.flops.value_or(0)),
                                  .bytes = static_cast<double>(op.bytes.value_or(0)),
                                  .bound_s = op.time_lower_s.value_or(0),
                                  .limiter = op.limiter.value_or(Limiter::memory)}});
  return Done{};
}

// Adds the collectives between data ranks: gradients are summed during the backward pass; weights that the ranks divide
// are gathered during the forward pass, and with stage 3 also during the backward pass.
Status add_data_collectives(const TrainingRequest& request, const Machine& machine, double elements,
                            TrainingStep& out) {
  if (request.data_parallel == 1) return Done{};
  const auto predict = [&](DataCollective kind) -> Result<CollectiveBound> {
    return predict_collective(
        write_data_collective(kind, static_cast<std::int64_t>(elements), request.counts.weight_dtype,
                              request.data_parallel, out.layout.tensor),
        machine);
  };
  const auto add = [&](TrainingPass pass, std::string_view what, const CollectiveBound& sent, bool is_each) {
    const std::int64_t times = is_each ? out.accumulated : 1;
    out.modules.push_back({.pass = pass,
                           .step = {.part = "data ranks",
                                    .module = std::string(what),
                                    .layers = 1,
                                    .bytes_sent = sent.bytes_sent,
                                    .bound_s = sent.seconds,
                                    .limiter = Limiter::network},
                           .is_between_data_ranks = true,
                           .times = times});
    (pass == TrainingPass::forward ? out.gather_s : out.reduce_s) += static_cast<double>(times) * sent.seconds;
  };
  if (request.zero_stage == 0) {
    RIDGE_TRY(sum, predict(DataCollective::all_reduce));
    add(TrainingPass::backward, "sum of gradients", sum, false);
    return Done{};
  }
  RIDGE_TRY(gather, predict(DataCollective::all_gather));
  RIDGE_TRY(scatter, predict(DataCollective::reduce_scatter));
  add(TrainingPass::forward, "weights", gather, request.zero_stage == 3);
  if (request.zero_stage == 3) add(TrainingPass::backward, "weights", gather, true);
  add(TrainingPass::backward, "sum of gradients", scatter, request.zero_stage >= 2);
  return Done{};
}

void add_times(TrainingStep& out) {
  for (const TrainingModule& module : out.modules) {
    const double layers = module.count();
    out.flops += layers * module.step.flops;
    if (module.is_between_data_ranks) continue;
    double* const sums[] = {&out.forward_s, &out.recomputation_s, &out.backward_s, &out.optimizer_s};
    *sums[static_cast<std::size_t>(module.pass)] += layers * module.step.bound_s;
  }
  // An exchange of the whole step overlaps with one part of the batch: gradients with the last, weights with the first.
  const double parts = static_cast<double>(out.accumulated);
  const auto overlap = [&](double pass, double exchange, bool is_each) {
    return is_each ? std::max(pass, exchange) : pass * (parts - 1) / parts + std::max(pass / parts, exchange);
  };
  out.step_s = overlap(out.forward_s, out.gather_s, out.zero_stage == 3) + out.recomputation_s +
               overlap(out.backward_s, out.reduce_s, out.zero_stage >= 2) + out.optimizer_s;
}

Result<TrainingStep> predict_on_chips(const model::ModelConfig& config, const TrainingRequest& request,
                                      std::int64_t tensor, const Machine& machine) {
  TrainingStep out{.machine = machine.name,
                   .counts = request.counts,
                   .layout = {tensor, request.expert_parallel, request.data_parallel},
                   .recomputation = request.recomputation,
                   .zero_stage = request.zero_stage,
                   .accumulated = request.accumulated};
  const model::StepOptions options{.weight_dtype = request.counts.weight_dtype,
                                   .batch = request.counts.batch / request.accumulated,
                                   .context = *request.counts.context,
                                   .layout = out.layout};
  RIDGE_TRY(programs, write_training_programs(config, options, request.recomputation));
  RIDGE_TRY(peak, machine.contraction_peak(request.counts.weight_dtype));
  out.peak = peak->rate.value;
  out.notes = programs.notes;
  TrainingCounter counter{machine, request, out};
  for (const TrainingPart& part : programs.parts) RIDGE_TRY_STATUS(counter.add_part(part));
  RIDGE_TRY_STATUS(add_optimizer(request, machine, counter.parameters, out));
  RIDGE_TRY_STATUS(add_data_collectives(request, machine, counter.parameters.shared, out));
  out.memory.working = std::max(0.0, counter.working) + counter.layer_kept;
  if (request.zero_stage == 3)
    out.memory.working += bytes_per_element(request.counts.weight_dtype) * counter.parameters.layer;
  std::stable_sort(out.modules.begin(), out.modules.end(),
                   [](const TrainingModule& a, const TrainingModule& b) { return a.pass < b.pass; });
  add_times(out);
  if (machine.memory.front().capacity) out.capacity_bytes = machine.memory.front().capacity->value;
  if (const auto power = machine.numbers.find("power_w"); power != machine.numbers.end())
    out.power_w = power->second.value;
  return out;
}

// Returns the step on the fewest chips of tensor parallelism that hold it, or on the most that divide the model.
Result<TrainingStep> choose_training_chips(const model::ModelConfig& config, const TrainingRequest& request,
                                           const Machine& machine) {
  if (request.tensor_parallel) return predict_on_chips(config, request, *request.tensor_parallel, machine);
  // Experts are divided among data ranks without tensor parallelism, or among the chips of tensor parallelism.
  const bool is_fixed = request.expert_parallel > 1 && request.data_parallel > 1;
  const std::int64_t fewest = request.data_parallel > 1 ? 1 : request.expert_parallel;
  RIDGE_TRY(found, predict_on_chips(config, request, fewest, machine));
  for (std::int64_t chips = fewest + 1; !is_fixed && !found.fits() && chips <= max_training_chips_tried; ++chips) {
    auto more = predict_on_chips(config, request, chips, machine);
    if (more) found = *std::move(more);
  }
  return found;
}

void add_run(const TrainingRequest& request, TrainingStep& out) {
  if (!request.tokens) return;
  const double chips = static_cast<double>(out.layout.chips());
  TrainingRun run{.tokens = *request.tokens,
                  .flops = out.model_flops * chips / out.tokens() * *request.tokens,
                  .utilisation = request.utilisation.value_or(out.utilisation()),
                  .is_bound = !request.utilisation};
  run.seconds = run.flops / (chips * out.peak * run.utilisation);
  run.chip_hours = chips * run.seconds / 3600;
  if (request.price) run.cost = run.chip_hours * *request.price;
  if (out.power_w) run.energy_j = chips * run.seconds * *out.power_w;
  out.run = run;
}

}  // namespace

std::string_view name(TrainingPass pass) {
  switch (pass) {
    case TrainingPass::forward: return "forward";
    case TrainingPass::recomputation: return "recomputation";
    case TrainingPass::backward: return "backward";
    case TrainingPass::optimizer: break;
  }
  return "optimizer";
}

Result<TrainingStep> predict_training(const model::ModelConfig& config, const TrainingRequest& request,
                                      const Machine& machine) {
  RIDGE_TRY_STATUS(check_training(request));
  RIDGE_TRY_STATUS(machine.memory_bandwidth());
  RIDGE_TRY(out, choose_training_chips(config, request, machine));
  if (!request.tensor_parallel && request.data_parallel > 1 && out.layout.tensor > 1)
    out.notes.push_back(fmt::format(
        "{} chips do not hold the step, so --tp {} is added; --zero, --accumulate and --recompute full need "
        "less memory",
        request.data_parallel, out.layout.tensor));
  RIDGE_TRY(count, model::count_model(config, request.counts));
  out.parameters = static_cast<double>(count.active_parameters);
  out.not_on_record = list_times_not_on_record(machine, out.layout.chips());
  add_run(request, out);
  if (out.run && !config.experts) out.loss = predict_loss(static_cast<double>(count.parameters), out.run->tokens);
  return out;
}

}  // namespace ridge
