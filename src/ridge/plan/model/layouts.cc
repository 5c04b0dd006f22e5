#include "ridge/plan/model/layouts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "ridge/plan/model/layout_predictor.h"

namespace ridge {
namespace {

constexpr std::int64_t max_chips = 1 << 16, max_chip_counts = 64, max_tried_sequences = 1 << 24,
                       max_break_even_batch = 1 << 16;

std::vector<std::int64_t> list_divisors(std::int64_t number) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 1; i <= number; ++i)
    if (number % i == 0) out.push_back(i);
  return out;
}

model::StepOptions make_options(const model::CountOptions& counts) {
  return {.weight_dtype = counts.weight_dtype,
          .cache_dtype = counts.cache_dtype,
          .batch = counts.batch,
          .context = *counts.context};
}

class LayoutSearch {
 public:
  LayoutSearch(const model::ModelConfig& config, const LayoutRequest& request, const Machine& machine)
      : request_(request), machine_(machine), predictor_(config, make_options(request.counts), machine) {
    out_.machine = machine.name;
    if (machine.memory.front().capacity) out_.capacity_bytes = machine.memory.front().capacity->value;
  }

  // Adds the layout with the requested batch, with the largest one at the rate, or with several ones.
  Status add(const model::ChipLayout& layout) {
    if (tries_batches()) return add_batches(layout);
    if (request_.rate) return add_at_rate(layout);
    return add_times(time_step(layout, request_.counts.batch));
  }

  // Returns the layouts in their order, with the time to the first token. Errors: that of the first layout if none has
  // numbers.
  Result<LayoutRanking> finish() {
    if (out_.layouts.empty() && out_.unfit.empty() && out_.slow.empty() && first_error_) return *first_error_;
    for (auto* list : {&out_.layouts, &out_.unfit, &out_.slow}) sort_best_first(*list);
    select_layouts();
    for (LayoutTimes& x : out_.layouts) {
      if (request_.phase == ModelPhase::prefill) break;
      // A model may have programs for decoding alone; its layouts then have no time to the first token.
      const auto prefill = predictor_.predict(x.layout, x.layout.data, ModelPhase::prefill);
      if (prefill) x.first_token_s = prefill->bound_s;
    }
    return std::move(out_);
  }

 private:
  Result<LayoutTimes> time_step(const model::ChipLayout& layout, std::int64_t batch) {
    RIDGE_TRY(step, predictor_.predict(layout, batch, request_.phase));
    LayoutTimes out{.machine = machine_.name, .layout = layout, .phase = request_.phase, .batch = batch};
    out.context = *request_.counts.context;
    out.hosts = count_hosts(machine_, layout.chips());
    out.micro_batches = step.micro_batches;
    if (request_.phase == ModelPhase::decode)
      out.token_s = step.bound_s;
    else
      out.first_token_s = step.bound_s;
    out.network_share = step.network_s / (step.bound_s - step.others_s);
    out.memory_bytes = step.parameter_bytes + step.scale_bytes + step.cache_bytes + step.activation_bytes;
    out.fits = !out_.capacity_bytes || out.memory_bytes <= *out_.capacity_bytes;
    out.reaches_rate = !request_.rate || out.token_s * *request_.rate <= 1;
    return out;
  }

  // Returns the layout's largest batch of `unit` sequences per data rank and multiples of it, up to `limit` multiples,
  // that fits and reaches the rate, or nullopt. Time and memory grow with the batch.
  Result<std::optional<LayoutTimes>> find_largest_batch(const model::ChipLayout& layout, std::int64_t unit,
                                                        std::int64_t limit) {
    std::optional<LayoutTimes> best;
    std::int64_t suits = 0, exceeds = limit + 1;
    while (exceeds - suits > 1) {
      // Doubles until a batch is too large, then divides the interval.
      const std::int64_t next =
          exceeds > limit ? std::min(std::max<std::int64_t>(1, 2 * suits), limit) : suits + (exceeds - suits) / 2;
      auto times = time_step(layout, next * unit * layout.data);
      if (!times && next == 1) return times.error();
      if (times && times->fits && times->reaches_rate) {
        best = *std::move(times);
        suits = next;
      } else {
        exceeds = next;
      }
    }
    return best;
  }

  Status add_at_rate(const model::ChipLayout& layout) {
    const std::int64_t stages = layout.pipeline;
    auto found = find_largest_batch(layout, stages, max_tried_sequences / layout.data / stages);
    // Fewer sequences than stages leave stages idle, but wait for fewer micro-batches.
    if (found && !*found && stages > 1) found = find_largest_batch(layout, 1, stages - 1);
    if (!found) return add_times(found.error());
    return add_times(*found ? **found : time_step(layout, layout.data));
  }

  Status add_batches(const model::ChipLayout& layout) {
    for (std::int64_t batch = layout.data; batch <= max_tried_sequences; batch *= 2) {
      const auto times = time_step(layout, batch);
      if (batch > layout.data && (!times || !times->fits)) return Done{};
      RIDGE_TRY_STATUS(add_times(times));
      if (!times || !times->fits) return Done{};
    }
    return Done{};
  }

  // Layouts may need a link that the machine's file lacks; other errors are the same for all layouts.
  Status add_times(const Result<LayoutTimes>& times) {
    if (!times) {
      if (!first_error_) first_error_ = times.error();
      out_.link_error = first_error_->message;
      ++out_.without_link;
      return Done{};
    }
    if (!times->fits)
      out_.unfit.push_back(*times);
    else
      (times->reaches_rate ? out_.layouts : out_.slow).push_back(*times);
    return Done{};
  }

  void sort_best_first(std::vector<LayoutTimes>& layouts) const {
    const auto key = [&](const LayoutTimes& x) {
      const double aim = x.phase == ModelPhase::decode ? -x.tokens_per_s_per_chip() : x.step_s();
      return std::tuple(aim, x.step_s(), x.layout.chips(), x.layout.pipeline, x.layout.data);
    };
    std::stable_sort(layouts.begin(), layouts.end(),
                     [&](const LayoutTimes& a, const LayoutTimes& b) { return key(a) < key(b); });
  }

  void select_layouts() {
    std::vector<LayoutTimes>& layouts = out_.layouts;
    if (tries_batches()) layouts = find_pareto_front(std::move(layouts));
    if (request_.selection != LayoutSelection::best_of_each_count) return;
    std::stable_sort(layouts.begin(), layouts.end(),
                     [](const LayoutTimes& a, const LayoutTimes& b) { return a.layout.chips() < b.layout.chips(); });
    const auto has_equal_chips = [](const LayoutTimes& a, const LayoutTimes& b) {
      return a.layout.chips() == b.layout.chips();
    };
    layouts.erase(std::unique(layouts.begin(), layouts.end(), has_equal_chips), layouts.end());
  }

  bool tries_batches() const { return request_.selection == LayoutSelection::pareto_front; }

  const LayoutRequest& request_;
  const Machine& machine_;
  LayoutPredictor predictor_;
  LayoutRanking out_;
  std::optional<Error> first_error_;
};

}  // namespace

double LayoutTimes::tokens_per_s_per_chip() const {
  const std::int64_t tokens = phase == ModelPhase::decode ? batch : batch * context;
  return static_cast<double>(tokens) / step_s() / static_cast<double>(layout.chips());
}

std::vector<model::ChipLayout> list_layouts(const model::ModelConfig& config, const model::StepOptions& options,
                                            std::int64_t chips) {
  std::vector<model::ChipLayout> out;
  model::StepOptions one = options;
  const auto add = [&](const model::ChipLayout& layout) {
    one.layout = layout;
    if (model::check_layout(config, one)) out.push_back(layout);
  };
  for (const std::int64_t tensor : list_divisors(chips))
    for (const std::int64_t stages : list_divisors(chips / tensor)) {
      const std::int64_t data = chips / tensor / stages;
      add({.tensor = tensor, .expert = 1, .data = data, .pipeline = stages});
      if (!config.experts || tensor > 1) continue;
      for (const std::int64_t expert : list_divisors(data))
        if (expert > 1) add({.tensor = 1, .expert = expert, .data = data, .pipeline = stages});
    }
  return out;
}

Result<std::vector<std::int64_t>> choose_chip_counts(const model::ModelConfig& config,
                                                     const std::vector<std::int64_t>& requested, bool is_range) {
  std::vector<std::int64_t> out;
  for (const std::int64_t chips : requested) {
    if (chips < 1 || chips > max_chips)
      return usage_error(fmt::format("expected --chips from 1 to {}, found {}", max_chips, chips));
    const bool is_even = std::has_single_bit(static_cast<std::uint64_t>(chips)) || config.heads % chips == 0;
    if (is_even || !is_range) out.push_back(chips);
  }
  if (out.size() > max_chip_counts)
    return usage_error(fmt::format("expected at most {} numbers of --chips, found {}", max_chip_counts, out.size()),
                       "--chips 1..64:*2");
  return out;
}

Result<LayoutRanking> rank_layouts(const model::ModelConfig& config, const LayoutRequest& request,
                                   const Machine& machine) {
  RIDGE_TRY_STATUS(machine.memory_bandwidth());
  RIDGE_TRY_STATUS(model::count_model(config, request.counts));
  if (config.audio)
    return input_error(fmt::format("{}: expected a model without an audio encoder for --chips", config.name));
  model::StepOptions options = make_options(request.counts);
  RIDGE_TRY_STATUS(model::check_layout(config, options));
  RIDGE_TRY(counts, choose_chip_counts(config, request.chips, request.is_chip_range));
  LayoutSearch search(config, request, machine);
  bool has_layouts = false;
  for (const std::int64_t chips : counts) {
    // The search chooses batches with at least one sequence for each data rank.
    if (request.rate || request.selection == LayoutSelection::pareto_front) options.batch = chips;
    for (const model::ChipLayout& layout : list_layouts(config, options, chips)) {
      RIDGE_TRY_STATUS(search.add(layout));
      has_layouts = true;
    }
  }
  if (!has_layouts)
    return input_error(
        fmt::format("{}: expected --chips that divide the model and {} sequence{}, found {}", config.name,
                    options.batch, options.batch == 1 ? "" : "s", fmt::join(request.chips, ", ")),
        "a power of two up to --batch times the heads");
  RIDGE_TRY(out, search.finish());
  out.not_on_record = list_times_not_on_record(machine, *std::max_element(counts.begin(), counts.end()));
  return out;
}

std::vector<LayoutTimes> find_pareto_front(std::vector<LayoutTimes> layouts) {
  std::stable_sort(layouts.begin(), layouts.end(), [](const LayoutTimes& a, const LayoutTimes& b) {
    return std::tuple(a.token_s, -a.tokens_per_s_per_chip(), a.layout.chips()) <
           std::tuple(b.token_s, -b.tokens_per_s_per_chip(), b.layout.chips());
  });
  constexpr double rounding = 1 + 1e-9;  // Equal layouts, such as two replicas of one, differ by roundings
  std::vector<LayoutTimes> out;
  for (LayoutTimes& x : layouts)
    if (out.empty() || x.tokens_per_s_per_chip() > rounding * out.back().tokens_per_s_per_chip())
      out.push_back(std::move(x));
  return out;
}

namespace {

// Returns what distinguishes an answer from another: its machine, its format, or both.
std::string name_variant(const ModelOnMachine& x, const ModelOnMachine& other) {
  const std::string format(dtype_name(x.counts.weight_dtype));
  if (x.counts.weight_dtype == other.counts.weight_dtype) return x.machine;
  return x.machine == other.machine ? format : fmt::format("{} with {}", x.machine, format);
}

// Tokens per second and chip of an answer at other batches: as served or with draft tokens if the request says so.
class RateCounter {
 public:
  // `request`, config and machine must outlive the counter.
  RateCounter(const model::ModelConfig& config, const ModelRequest& request, const AnsweredMachine& x)
      : config_(config), request_(request), x_(x), predictor_(config, make_options(x.answer.counts), x.machine) {
    request_.counts = x.answer.counts;
    request_.plan = {};
    request_.tensor_parallel = x.answer.layout.tensor;
    request_.expert_parallel = x.answer.layout.expert;
    request_.data_parallel = x.answer.layout.data;
    request_.pipeline_parallel = x.answer.layout.pipeline;
  }

  Result<double> count(std::int64_t batch) {
    RIDGE_TRY(per_s, count_tokens_per_s(batch));
    return per_s / static_cast<double>(x_.answer.layout.chips());
  }

  // Returns the largest batch to compare: further requests wait, and other sequences do not fit.
  std::int64_t find_last(std::int64_t last) const {
    const ModelOnMachine& x = x_.answer;
    if (x.served) return last;
    if (!x.speculation || x.speculation->draft.empty() || !x.capacity_bytes)
      return std::min(last, x.max_batch.value_or(last));
    // The draft model is on the same chips. What is not of its cache or the model's is there for each batch.
    const double per_batch = x.decode.cache_bytes + x.decode.activation_bytes + x.speculation->draft_cache_bytes;
    const double free = *x.capacity_bytes - (x.memory_bytes() - per_batch);
    return std::min(last, static_cast<std::int64_t>(static_cast<double>(x.counts.batch) * free / per_batch));
  }

 private:
  Result<double> count_tokens_per_s(std::int64_t batch) {
    request_.counts.batch = batch;
    if (request_.serving) {
      if (work_)
        RIDGE_TRY_STATUS(set_requests(config_, request_, x_.machine, *work_));
      else
        RIDGE_TRY_STATUS(count_work());
      return predict_serving(*work_, request_.serving->used_constants()).tokens_per_s;
    }
    if (request_.speculation) {
      RIDGE_TRY(step, predict_speculation_step(config_, request_, request_.speculation->draft_tokens, x_.machine));
      return static_cast<double>(batch) / step.token_s();
    }
    RIDGE_TRY(step, predictor_.predict(x_.answer.layout, batch, ModelPhase::decode));
    return static_cast<double>(batch) / step.bound_s;
  }

  Status count_work() {
    RIDGE_TRY(work, count_serving_work(config_, request_, x_.machine));
    work_ = work;
    return Done{};
  }

  const model::ModelConfig& config_;
  ModelRequest request_;
  const AnsweredMachine& x_;
  LayoutPredictor predictor_;
  std::optional<ServingWork> work_;
};

}  // namespace

Result<std::optional<BreakEven>> find_break_even(const model::ModelConfig& config, const ModelRequest& request,
                                                 const AnsweredMachine& first, const AnsweredMachine& second) {
  const std::optional<BreakEven> none;
  if (!request.serving && (first.answer.decode.predicted_s || second.answer.decode.predicted_s)) return none;
  RateCounter of_first(config, request, first), of_second(config, request, second);
  const auto is_second_better = [&](std::int64_t batch) -> Result<bool> {
    RIDGE_TRY(first_rate, of_first.count(batch));
    RIDGE_TRY(second_rate, of_second.count(batch));
    return second_rate > first_rate;
  };
  std::int64_t before = std::max(first.answer.layout.data, second.answer.layout.data);
  const std::int64_t last = of_second.find_last(of_first.find_last(max_break_even_batch));
  if (before > last) return none;
  RIDGE_TRY(is_better_before, is_second_better(before));
  std::int64_t after = before;
  while (after < last) {
    after = std::min(2 * after, last);
    RIDGE_TRY(is_better, is_second_better(after));
    if (is_better != is_better_before) break;
    before = after;
  }
  if (before == after) return none;
  while (after - before > 1) {
    const std::int64_t middle = before + (after - before) / 2;
    RIDGE_TRY(is_better, is_second_better(middle));
    (is_better == is_better_before ? before : after) = middle;
  }
  const ModelOnMachine &better = is_better_before ? first.answer : second.answer,
                       &other = is_better_before ? second.answer : first.answer;
  return std::optional(BreakEven{name_variant(better, other), name_variant(other, better), after});
}

}  // namespace ridge
