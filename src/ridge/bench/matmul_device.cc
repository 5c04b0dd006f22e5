// Compares Ridge with cuBLASLt on a CUDA device. Operands are slices of a pool of random normals that rotate so that
// consecutive launches touch 256 MB or more (cold L2); the launches are recorded in a CUDA graph. Ridge, cuBLASLt's
// first heuristic and the best of its first eight take turns. Before and after the timing, 4096 elements are compared
// with f64 and all with cuBLASLt.
#include <algorithm>
#include <cmath>

#include "ridge/base/block_scale.h"
#include "ridge/base/ceil_div.h"
#include "ridge/base/dtype_set.h"
#include "ridge/bench/bench.h"
#include "ridge/bench/cublaslt.h"
#include "ridge/bench/device_arrays.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/verify/cuda.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t gib = std::int64_t{1} << 30, pool_bytes = 6 * gib, output_bytes = 3 * gib, workspace_bytes = gib;
constexpr std::int64_t baseline_workspace_bytes = std::int64_t{64} << 20, cold_bytes = std::int64_t{256} << 20;
constexpr double replay_seconds = 2e-3, warmup_seconds = 0.04;

std::int64_t round_up_to_kib(std::int64_t bytes) { return (bytes + 1023) / 1024 * 1024; }
// Returns the bytes of an operand in the pool.
std::int64_t operand_size_bytes(DType dtype, std::int64_t elements) {
  const std::int64_t block = scale_block_bits(dtype).elements;
  return round_up_to_kib(stored_bytes(dtype, ceil_div(elements, block) * block));
}

constexpr int model_plan_index = -1, tuned_plan_index = -2;  // used in place of the index of a cuBLASLt heuristic

struct RecordedLaunches {
  RecordedWork work;
  int heuristic = model_plan_index;
};
struct Baselines {  // cuBLASLt's; without a first one if the best is the first
  std::optional<RecordedLaunches> best = {}, first = {};
};
struct CandidateTime {
  cuda::MatmulPlan plan;
  double seconds = 0;  // median of three replays
};

class ProductComparison {
 public:
  static Result<ProductComparison> open(int rounds, int candidate_count) {
    RIDGE_TRY(lt, CublasLt::load());
    RIDGE_TRY(queue, device::Queue::create());
    RIDGE_TRY(device, current_device_numbers());
    ProductComparison out(std::move(lt), std::move(queue), device, rounds, candidate_count);
    for (const std::int64_t bytes :
         {pool_bytes, output_bytes, workspace_bytes, baseline_workspace_bytes, std::int64_t{4096}}) {
      RIDGE_TRY(memory, device::DeviceBuffer::allocate(bytes));
      out.memory_.push_back(std::move(memory));
    }
    RIDGE_TRY_STATUS(out.queue_.set_bytes(out.workspace_data(), 0, static_cast<std::int64_t>(device::counter_bytes)));
    return out;
  }
  std::size_t version() const { return cublaslt_.version(); }

  static bool fits_pool(const BenchmarkShape& s) {
    return operand_size_bytes(s.dtype, s.size.m * s.size.k) + operand_size_bytes(s.dtype, s.size.n * s.size.k) <=
               pool_bytes &&
           2 * round_up_to_kib(s.size.m * s.size.n * dtype_bits(s.out) / 8) <= output_bytes;
  }

  // `peak_flops_per_cycle` is the device's in the shape's dtype; 0 if unknown.
  Result<ComparisonRow> compare_product(const BenchmarkShape& shape, double peak_flops_per_cycle) {
    RIDGE_TRY_STATUS(prepare_product(shape));
    ComparisonRow row{.labels = shape_labels(shape)};
    RIDGE_TRY(before, count_wrong_elements());
    RIDGE_TRY(baselines, record_baselines());
    RIDGE_TRY(chosen, record_launches(model_plan_index, launches_per_graph_));
    RIDGE_TRY(candidates, time_candidates());
    const auto add_competitor = [&](const char* name, std::optional<RecordedLaunches> recorded) {
      row.competitors.push_back({.name = name, .flops = shape.flops(), .is_supported = recorded.has_value()});
      recorded_.push_back(std::move(recorded));
    };
    recorded_.clear();
    add_competitor("ridge", std::move(chosen));
    add_competitor("best of 8", std::move(baselines.best));
    add_competitor("first", std::move(baselines.first));
    if (!candidates.empty()) {
      RIDGE_TRY(tuned, record_launches(tuned_plan_index, launches_per_graph_));
      add_competitor("tuned", std::move(tuned));
    }
    const auto time_call = [&](std::size_t i) { return time_work(queue_, recorded_[i]->work); };
    RIDGE_TRY_STATUS(warm_up(row.competitors, warmup_seconds, time_call));  // until the clock settles
    RIDGE_TRY_STATUS(time_in_turns(row.competitors, rounds_, time_call));
    // All take turns of a few ms under the same clock, so it belongs to the row and not to one of them.
    const auto clocks = read_device_clocks();
    RIDGE_TRY(after, count_wrong_elements());
    fill_numbers(row, candidates);
    const double seconds = row.competitors[0].time().median, sm_hz = clocks ? clocks->sm_hz : 0;
    row.numbers["sm_hz"] = positive_or_null(sm_hz);
    row.numbers["flops_per_cycle"] = positive_or_null(peak_flops_per_cycle);
    row.numbers["per_cycle"] = fraction_of_cycle_peak(shape.flops(), seconds, sm_hz, peak_flops_per_cycle);
    row.numbers["right"] = before == 0 && after == 0;
    row.numbers["worst_error"] = max_error_;
    return row;
  }

 private:
  ProductComparison(CublasLt lt, device::Queue queue, const ops::DeviceNumbers& device, int rounds, int candidate_count)
      : cublaslt_(std::move(lt)),
        queue_(std::move(queue)),
        device_(device),
        rounds_(rounds),
        candidate_count_(candidate_count) {}
  std::byte* pool_data() const { return memory_[0].data(); }
  std::byte* output_data() const { return memory_[1].data(); }
  std::byte* workspace_data() const { return memory_[2].data(); }
  std::byte* baseline_workspace() const { return memory_[3].data(); }
  std::byte* check_buffer() const { return memory_[4].data(); }

  Status prepare_product(const BenchmarkShape& s) {
    if (filled_dtype_ != s.dtype || is_block_scaled(s.dtype)) {  // Scales of another shape may be elements of this one
      const DType element = dtype_info(s.dtype).element;
      RIDGE_TRY_STATUS(queue_.fill_normal(pool_data(), element, pool_bytes * 8 / dtype_bits(element), 1));
      filled_dtype_ = s.dtype;
    }
    a_bytes_ = operand_size_bytes(s.dtype, s.size.m * s.size.k);
    b_bytes_ = operand_size_bytes(s.dtype, s.size.n * s.size.k);
    d_bytes_ = round_up_to_kib(s.size.m * s.size.n * dtype_bits(s.out) / 8);
    set_count_ = std::max<std::int64_t>(
        1, std::min({cold_bytes / (a_bytes_ + b_bytes_ + d_bytes_) + 1, pool_bytes / (a_bytes_ + b_bytes_),
                     output_bytes / d_bytes_, std::int64_t{512}}));
    if (s.dtype == DType::e4m3_128) RIDGE_TRY_STATUS(fill_scales(s));
    const double busy = 4096.0 * device_.multiprocessors * device_.busy_clock_hz;  // FLOP/s
    const double estimate =
        std::max(s.flops() / busy, static_cast<double>(a_bytes_ + b_bytes_ + d_bytes_) / device_.memory_bytes_per_s) +
        device_.launch_s;
    launches_per_graph_ = static_cast<std::int64_t>(std::clamp(replay_seconds / estimate, 2.0, 256.0));
    launches_per_graph_ = std::max(launches_per_graph_, std::min<std::int64_t>(set_count_, 64));
    call_ = {};
    call_.problem = s.problem();
    call_.a = pool_data();
    call_.b = pool_data() + a_bytes_;
    call_.d = output_data();
    call_.constant_b = s.op != "tn";  // weights, unless both operands are activations (a layer's weight gradient)
    if (const auto refusal = cuda::unsupported_reason(call_)) return input_error(s.text() + ": " + refusal.text());
    plan_ = cuda::choose_plan(call_, static_cast<std::size_t>(workspace_bytes), device_);
    product_ = {s.size, s.op == "tn" || s.op == "tt", s.op != "nn" && s.op != "tn", s.dtype, s.out};
    RIDGE_TRY(found, cublaslt_.prepare_product(product_, static_cast<std::size_t>(baseline_workspace_bytes)));
    heuristic_count_ = found;
    max_error_ = 0;
    return Done{};
  }

  // Fills the scales of all operands with normal numbers.
  Status fill_scales(const BenchmarkShape& s) const {
    const std::int64_t a_elements = s.size.m * s.size.k, b_elements = s.size.n * s.size.k;
    for (std::int64_t i = 0; i < set_count_; ++i) {
      std::byte *const a = pool_data() + i * (a_bytes_ + b_bytes_), *const b = a + a_bytes_;
      RIDGE_TRY_STATUS(
          queue_.fill_normal(a + a_elements, DType::f32, a_elements / BlockPlanes<DType::e4m3_128>::block, 2));
      RIDGE_TRY_STATUS(
          queue_.fill_normal(b + b_elements, DType::f32, b_elements / BlockPlanes<DType::e4m3_128>::block, 3));
    }
    return Done{};
  }

  Status queue_launch(int heuristic, std::byte* a, std::byte* d) const {
    if (heuristic >= 0) {
      if (cublaslt_.queue_heuristic(heuristic, a, a + a_bytes_, d, baseline_workspace(), queue_.stream()))
        return Done{};
      return absent_error("cuBLASLt refused its own heuristic");
    }
    cuda::MatmulCall call = call_;
    call.a = a;
    call.b = a + a_bytes_;
    call.d = d;
    const device::DeviceWorkspace w{workspace_data(), static_cast<std::size_t>(workspace_bytes), true};
    return cuda::launch(call, heuristic == tuned_plan_index ? tuned_plan_ : plan_, w, queue_.stream());
  }

  Result<unsigned> count_wrong_elements() {
    std::byte* const theirs = output_data() + d_bytes_;
    auto* const results = reinterpret_cast<cuda::CheckCounters*>(check_buffer());
    const cuda::CheckedProduct p{
        product_.size, product_.a_transposed, product_.b_transposed, product_.dtype, product_.out, call_.a, call_.b};
    cuda::CheckCounters found[2];
    RIDGE_TRY_STATUS(queue_.set_bytes(output_data(), 0xff, d_bytes_));
    RIDGE_TRY_STATUS(queue_.set_bytes(results, 0, sizeof found));
    RIDGE_TRY_STATUS(queue_launch(model_plan_index, pool_data(), output_data()));
    RIDGE_TRY_STATUS(cuda::verify_samples(p, output_data(), results, queue_.stream()));
    // cuBLASLt reads scales in another order, so that its results are other numbers.
    if (heuristic_count_ > 0 && !is_block_scaled(product_.dtype) && queue_launch(0, pool_data(), theirs)) {
      RIDGE_TRY_STATUS(cuda::verify_samples(p, theirs, results + 1, queue_.stream()));
      RIDGE_TRY_STATUS(cuda::verify_all(p, output_data(), theirs, results, queue_.stream()));
    }
    RIDGE_TRY_STATUS(queue_.copy(found, results, sizeof found));
    RIDGE_TRY_STATUS(queue_.synchronize());
    max_error_ = std::max(max_error_, static_cast<double>(found[0].max_error_ratio));
    // If cuBLASLt exceeds the bound, differences from it do not count: it adds splits of k in D's format.
    return found[0].sampled_wrong + found[0].above_typical_error +
           (found[1].above_typical_error > 0 ? 0 : found[0].differing);
  }

  Result<RecordedLaunches> record_launches(int heuristic, std::int64_t launches) const {
    RIDGE_TRY(work, record_work(queue_, launches, [&](std::int64_t i) {
                return queue_launch(heuristic, pool_data() + i % set_count_ * (a_bytes_ + b_bytes_),
                                    output_data() + i % set_count_ * d_bytes_);
              }));
    return RecordedLaunches{std::move(work), heuristic};
  }

  // Returns the median of three replays after one that is not counted.
  Result<double> estimate_seconds(const RecordedLaunches& r) const {
    std::vector<double> samples;
    for (int turn = 0; turn < 4; ++turn) {
      RIDGE_TRY(seconds, time_work(queue_, r.work));
      if (turn > 0) samples.push_back(seconds);
    }
    return compute_statistics(samples).median;
  }

  // Records cuBLASLt's first heuristic and, if it is another one, the best of the first eight.
  Result<Baselines> record_baselines() const {
    Baselines out;
    double best_seconds = 0;
    for (int i = 0; i < heuristic_count_; ++i) {
      auto recorded = record_launches(i, launches_per_graph_);
      if (!recorded) continue;  // the library may refuse its own heuristic
      RIDGE_TRY(seconds, estimate_seconds(*recorded));
      if (out.best && seconds >= best_seconds) continue;
      if (out.best && !out.first) out.first = std::move(out.best);
      out.best = *std::move(recorded);
      best_seconds = seconds;
    }
    return out;
  }

  // Returns the model's best plans, fastest first, and leaves the fastest in `tuned_plan_`.
  Result<std::vector<CandidateTime>> time_candidates() {
    auto plans = cuda::list_candidates(call_, static_cast<std::size_t>(workspace_bytes), device_, 2);
    plans.resize(std::min(plans.size(), static_cast<std::size_t>(candidate_count_)));
    std::vector<CandidateTime> out;
    for (const cuda::MatmulPlan& plan : plans) {
      tuned_plan_ = plan;
      RIDGE_TRY(recorded, record_launches(tuned_plan_index, std::max(std::min(set_count_, launches_per_graph_),
                                                                     launches_per_graph_ / 4)));
      RIDGE_TRY(seconds, estimate_seconds(recorded));
      out.push_back({plan, seconds});
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const CandidateTime& x, const CandidateTime& y) { return x.seconds < y.seconds; });
    if (!out.empty()) tuned_plan_ = out.front().plan;
    return out;
  }

  void fill_numbers(ComparisonRow& row, const std::vector<CandidateTime>& candidates) const {
    Competitor &ridge = row.competitors[0], &best = row.competitors[1], &first = row.competitors[2];
    if (!first.is_supported && best.is_supported) {  // the same heuristic
      first = best;
      first.name = "first";
    }
    if (best.is_supported) set_ratio(row, 1);
    const Statistics time = ridge.time();
    row.numbers["ours_s"] = {{"median", time.median}, {"min", time.min}, {"max", time.max}, {"runs", time.runs}};
    row.numbers["best_heuristic"] = recorded_[1] ? recorded_[1]->heuristic : 0;
    row.numbers["ratio_first"] = positive_or_null(ratio_of_rounds(first, ridge).median);
    row.numbers["predicted_s"] = plan_.predicted_s;
    row.numbers["plan"] = plan_json(plan_);
    if (candidates.empty()) return;
    row.numbers["tuned_ratio"] = positive_or_null(ratio_of_rounds(best, row.competitors[3]).median);
    for (const CandidateTime& each : candidates) {
      Json json = plan_json(each.plan);
      json["predicted_s"] = each.plan.predicted_s;
      json["measured_s"] = each.seconds;
      row.numbers["tuned"].push_back(std::move(json));
    }
  }

  static Json plan_json(const cuda::MatmulPlan& plan) {
    return {{"kernel", cuda::plan_name(plan)},
            {"split", plan.splits},
            {"split_mode", cuda::describe_split(plan.split_mode).name},
            {"waves", plan.waves},
            {"copies", static_cast<int>(plan.copy_a) + static_cast<int>(plan.copy_b)}};
  }

  CublasLt cublaslt_;
  device::Queue queue_;
  ops::DeviceNumbers device_;
  int rounds_, candidate_count_;
  std::vector<device::DeviceBuffer> memory_ = {};
  std::vector<std::optional<RecordedLaunches>> recorded_ = {};  // by competitor; empty if it is not timed
  std::optional<DType> filled_dtype_ = {};
  std::int64_t a_bytes_ = 0, b_bytes_ = 0, d_bytes_ = 0, set_count_ = 1,
               launches_per_graph_ = 1;  // bytes per matrix; number of sets and launches
  int heuristic_count_ = 0;
  double max_error_ = 0;
  cuda::MatmulCall call_ = {};
  cuda::MatmulPlan plan_ = {}, tuned_plan_ = {};
  CublasLt::Product product_ = {};
};

}  // namespace

Json fraction_of_cycle_peak(double flops, double seconds, double sm_hz, double peak_flops_per_cycle) {
  const double max_flops = seconds * sm_hz * peak_flops_per_cycle;
  return max_flops > 0 ? Json(flops / max_flops) : Json(nullptr);
}

std::optional<double> matrix_flops_per_cycle(const Machine& machine, DType dtype) {
  const Peak* const peak = machine.find_peak(ComputeUnit::matrix, dtype);
  const auto cores = machine.numbers.find("cores"), clock = machine.numbers.find("matrix_clock_hz");
  if (peak == nullptr || cores == machine.numbers.end() || clock == machine.numbers.end()) return std::nullopt;
  return peak->rate.value / (cores->second.value * clock->second.value);
}

Result<Comparison> compare_device_products(const std::vector<BenchmarkShape>& shapes, const BenchOptions& options) {
  RIDGE_TRY(properties, device::device_properties());
  Comparison out = start_comparison("matmul", options, 9);
  RIDGE_TRY(products, ProductComparison::open(out.rounds, options.tuned_candidates));
  set_device_product_columns(out);
  describe_device(out, properties);
  out.clocks_before = read_device_clocks();
  const auto machine = guess_device_machine(properties);
  std::vector<BenchmarkShape> timed;
  for (const BenchmarkShape& shape : shapes)
    if ((RandomDTypes::contains(shape.dtype) || shape.dtype == DType::e4m3_128) && ProductComparison::fits_pool(shape))
      timed.push_back(shape);
  RIDGE_TRY_STATUS(time_rows(out, timed, options, [&](const BenchmarkShape& shape) {
    const double per_cycle = machine ? matrix_flops_per_cycle(*machine, shape.dtype).value_or(0) : 0;
    return products.compare_product(shape, per_cycle * properties.multiprocessors);
  }));
  out.clocks_after = read_device_clocks();
  const std::size_t v = products.version(), skipped = shapes.size() - timed.size();
  const std::string version = fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  out.notes.push_back("library: cuBLASLt " + version);
  if (skipped > 0)
    out.notes.push_back(fmt::format("skipped {} rows: none of {} or e4m3_128, or larger than the pool", skipped,
                                    RandomDTypes::names()));
  out.settings["baseline"] = {{"library", "cuBLASLt"}, {"version", version}, {"heuristics", 8}};
  out.settings["passed_over"] = skipped;
  return out;
}

}  // namespace ridge
