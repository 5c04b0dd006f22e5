#include "ridge/bench/device_benchmark.h"

#include <algorithm>
#include <cmath>

#include "ridge/bench/cublaslt.h"
#include "ridge/device/device.h"
#include "ridge/ops/verify/cuda.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t gib = std::int64_t{1} << 30, pool_bytes = 6 * gib, output_bytes = 3 * gib, workspace_bytes = gib;
constexpr std::int64_t baseline_workspace_bytes = std::int64_t{64} << 20, cold_bytes = std::int64_t{256} << 20;
constexpr double replay_seconds = 2e-3, warmup_seconds = 0.04;

std::int64_t round_up_to_kib(std::int64_t bytes) { return (bytes + 1023) / 1024 * 1024; }

constexpr int model_plan_index = -1, tuned_plan_index = -2;  // used in place of the index of a cuBLASLt heuristic

struct RecordedLaunches {
  device::RecordedGraph recording;
  int heuristic = model_plan_index;
  std::int64_t launches = 1;
  std::vector<double> seconds = {};
};

double median_seconds(const std::vector<double>& x) { return compute_statistics(x).median; }
// Returns the median ratio of two runners that take turns.
double median_ratio(const std::vector<double>& theirs, const std::vector<double>& mine) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < mine.size(); ++i) ratios.push_back(theirs[i] / mine[i]);
  return median_seconds(ratios);
}

class BenchmarkSession {
 public:
  static Result<BenchmarkSession> open(const DeviceBenchmarkOptions& options) {
    RIDGE_TRY(lt, CublasLt::load());
    RIDGE_TRY(queue, device::Queue::create());
    RIDGE_TRY(device, current_device_numbers());
    BenchmarkSession session(std::move(lt), std::move(queue), device, options);
    for (const std::int64_t bytes :
         {pool_bytes, output_bytes, workspace_bytes, baseline_workspace_bytes, std::int64_t{4096}}) {
      RIDGE_TRY(memory, device::DeviceBuffer::allocate(bytes));
      session.memory_.push_back(std::move(memory));
    }
    RIDGE_TRY_STATUS(
        session.queue_.set_bytes(session.workspace_data(), 0, static_cast<std::int64_t>(device::counter_bytes)));
    return session;
  }
  std::size_t version() const { return cublaslt_.version(); }

  static bool fits_pool(const BenchmarkShape& s) {
    const std::int64_t size = dtype_bits(s.dtype) / 8;
    return round_up_to_kib(s.m * s.k * size) + round_up_to_kib(s.n * s.k * size) <= pool_bytes &&
           2 * round_up_to_kib(s.m * s.n * dtype_bits(s.out) / 8) <= output_bytes;
  }

  Result<DeviceBenchmarkRow> benchmark_product(const BenchmarkShape& shape) {
    RIDGE_TRY_STATUS(prepare_product(shape));
    DeviceBenchmarkRow row{.shape = shape};
    row.plan = plan_;
    RIDGE_TRY(before, count_wrong_elements());
    RIDGE_TRY(all, record_baselines());
    RIDGE_TRY(chosen, record_launches(model_plan_index));
    RIDGE_TRY_STATUS(time_candidates(row));
    if (!row.candidates.empty()) {
      RIDGE_TRY(best, record_launches(tuned_plan_index));
      all.push_back(std::move(best));
    }
    all.push_back(std::move(chosen));
    RIDGE_TRY_STATUS(time_in_turns(all));
    if (const auto clocks = read_device_clocks()) row.sm_hz = clocks->sm_hz;
    RIDGE_TRY(after, count_wrong_elements());
    row.is_correct = before == 0 && after == 0;
    row.error_over_bound = max_error_;
    return fill_statistics(std::move(row), all);
  }

 private:
  BenchmarkSession(CublasLt lt, device::Queue queue, const ops::DeviceNumbers& device,
                   const DeviceBenchmarkOptions& options)
      : cublaslt_(std::move(lt)),
        queue_(std::move(queue)),
        device_(device),
        rounds_(options.rounds),
        candidate_count_(options.tuned_candidates) {}
  std::byte* pool_data() const { return memory_[0].data(); }
  std::byte* output_data() const { return memory_[1].data(); }
  std::byte* workspace_data() const { return memory_[2].data(); }
  std::byte* baseline_workspace() const { return memory_[3].data(); }
  std::byte* check_buffer() const { return memory_[4].data(); }

  Status prepare_product(const BenchmarkShape& s) {
    if (filled_dtype_ != s.dtype) {
      RIDGE_TRY_STATUS(queue_.fill_normal(pool_data(), s.dtype, pool_bytes / 2, 1));
      filled_dtype_ = s.dtype;
    }
    a_bytes_ = round_up_to_kib(s.m * s.k * 2);
    b_bytes_ = round_up_to_kib(s.n * s.k * 2);
    d_bytes_ = round_up_to_kib(s.m * s.n * dtype_bits(s.out) / 8);
    set_count_ = std::max<std::int64_t>(
        1, std::min({cold_bytes / (a_bytes_ + b_bytes_ + d_bytes_) + 1, pool_bytes / (a_bytes_ + b_bytes_),
                     output_bytes / d_bytes_, std::int64_t{512}}));
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
    product_ = {s.m, s.n, s.k, s.op == "tn" || s.op == "tt", s.op != "nn" && s.op != "tn", s.dtype, s.out};
    RIDGE_TRY(found, cublaslt_.prepare_product(product_, static_cast<std::size_t>(baseline_workspace_bytes)));
    heuristic_count_ = found;
    max_error_ = 0;
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

  // Returns the number of wrong elements.
  Result<unsigned> count_wrong_elements() {
    std::byte* const theirs = output_data() + d_bytes_;
    auto* const results = reinterpret_cast<cuda::CheckCounters*>(check_buffer());
    const cuda::CheckedProduct p{
        product_.m,   product_.n, product_.k, product_.a_transposed, product_.b_transposed, product_.dtype,
        product_.out, call_.a,    call_.b};
    cuda::CheckCounters found[2];
    const auto steps = [&]() -> Status {
      RIDGE_TRY_STATUS(queue_.set_bytes(output_data(), 0xff, d_bytes_));
      RIDGE_TRY_STATUS(queue_.set_bytes(results, 0, sizeof found));
      RIDGE_TRY_STATUS(queue_launch(model_plan_index, pool_data(), output_data()));
      RIDGE_TRY_STATUS(cuda::verify_samples(p, output_data(), results, queue_.stream()));
      if (heuristic_count_ > 0 && queue_launch(0, pool_data(), theirs)) {
        RIDGE_TRY_STATUS(cuda::verify_samples(p, theirs, results + 1, queue_.stream()));
        RIDGE_TRY_STATUS(cuda::verify_all(p, output_data(), theirs, results, queue_.stream()));
      }
      RIDGE_TRY_STATUS(queue_.copy(found, results, sizeof found));
      return queue_.synchronize();
    };
    RIDGE_TRY_STATUS(steps());
    max_error_ = std::max(max_error_, static_cast<double>(found[0].max_error_ratio));
    // If cuBLASLt exceeds the bound, differences from it do not count: it adds splits of k in D's format.
    return found[0].sampled_wrong + found[0].above_typical_error +
           (found[1].above_typical_error > 0 ? 0 : found[0].differing);
  }

  Result<RecordedLaunches> record_launches(int heuristic, std::int64_t launches) const {
    RIDGE_TRY(recording, queue_.record_graph([&]() -> Status {
      for (std::int64_t i = 0; i < launches; ++i)
        RIDGE_TRY_STATUS(queue_launch(heuristic, pool_data() + i % set_count_ * (a_bytes_ + b_bytes_),
                                      output_data() + i % set_count_ * d_bytes_));
      return Done{};
    }));
    return RecordedLaunches{std::move(recording), heuristic, launches};
  }

  Result<double> time_launch(const RecordedLaunches& r) const {
    RIDGE_TRY(seconds, queue_.measure_seconds([&] { return queue_.launch_graph(r.recording); }));
    return seconds / static_cast<double>(r.launches);
  }
  Result<RecordedLaunches> record_launches(int heuristic) const {
    return record_launches(heuristic, launches_per_graph_);
  }

  // Records cuBLASLt's first heuristic and, if it is another one, the best of the first eight by three replays each.
  Result<std::vector<RecordedLaunches>> record_baselines() const {
    std::vector<RecordedLaunches> all;
    for (int i = 0; i < heuristic_count_; ++i) {
      auto runner = record_launches(i);
      if (!runner) continue;  // the library may refuse its own heuristic
      for (int turn = 0; turn < 4; ++turn) {
        RIDGE_TRY(seconds, time_launch(*runner));
        if (turn > 0) runner->seconds.push_back(seconds);
      }
      all.push_back(std::move(*runner));
    }
    std::vector<RecordedLaunches> baselines;
    if (all.empty()) return baselines;
    const auto best =
        std::min_element(all.begin(), all.end(), [](const RecordedLaunches& x, const RecordedLaunches& y) {
          return median_seconds(x.seconds) < median_seconds(y.seconds);
        });
    const bool is_other = best != all.begin();
    RecordedLaunches fastest = std::move(*best);
    if (is_other) baselines.push_back(std::move(all[0]));
    baselines.push_back(std::move(fastest));
    for (RecordedLaunches& r : baselines) r.seconds.clear();
    return baselines;
  }

  // Times the model's best plans by three replays each and leaves the fastest in `tuned_plan_`.
  Status time_candidates(DeviceBenchmarkRow& row) {
    auto plans = cuda::list_candidates(call_, static_cast<std::size_t>(workspace_bytes), device_, 2);
    plans.resize(std::min(plans.size(), static_cast<std::size_t>(candidate_count_)));
    for (const cuda::MatmulPlan& plan : plans) {
      tuned_plan_ = plan;
      RIDGE_TRY(runner, record_launches(tuned_plan_index,
                                        std::max(std::min(set_count_, launches_per_graph_), launches_per_graph_ / 4)));
      std::vector<double> samples;
      for (int turn = 0; turn < 4; ++turn) {
        RIDGE_TRY(seconds, time_launch(runner));
        if (turn > 0) samples.push_back(seconds);
      }
      row.candidates.push_back({plan, median_seconds(samples)});
    }
    std::stable_sort(row.candidates.begin(), row.candidates.end(),
                     [](const CandidateTime& x, const CandidateTime& y) { return x.seconds < y.seconds; });
    if (!row.candidates.empty()) tuned_plan_ = row.candidates.front().plan;
    return Done{};
  }

  Status time_in_turns(std::vector<RecordedLaunches>& all) const {
    for (double warmed = 0; warmed < warmup_seconds;)  // until the clock settles at the power limit
      for (RecordedLaunches& r : all) {
        RIDGE_TRY(seconds, time_launch(r));
        warmed += seconds * static_cast<double>(r.launches) + 1e-6;
      }
    for (RecordedLaunches& r : all) r.seconds.resize(rounds_);
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds_); ++round)
      for (std::size_t i = 0; i < all.size(); ++i) {  // each is first in some rounds
        RecordedLaunches& r = all[(i + round) % all.size()];
        RIDGE_TRY(seconds, time_launch(r));
        r.seconds[round] = seconds;
      }
    return Done{};
  }

  Result<DeviceBenchmarkRow> fill_statistics(DeviceBenchmarkRow row, const std::vector<RecordedLaunches>& all) const {
    const std::vector<double>& mine = all.back().seconds;
    row.ridge_time = compute_statistics(mine);
    const std::size_t theirs = all.size() - 1 - (row.candidates.empty() ? 0 : 1);
    if (theirs > 0) {
      const RecordedLaunches &first = all[0], &best = all[theirs - 1];
      row.first_heuristic_time = compute_statistics(first.seconds);
      row.best_heuristic_time = compute_statistics(best.seconds);
      row.best_heuristic = best.heuristic;
      row.ratio = median_ratio(best.seconds, mine);
      row.ratio_to_first = median_ratio(first.seconds, mine);
      if (!row.candidates.empty()) row.tuned_ratio = median_ratio(best.seconds, all[theirs].seconds);
    }
    return row;
  }

  CublasLt cublaslt_;
  device::Queue queue_;
  ops::DeviceNumbers device_;
  int rounds_, candidate_count_;
  std::vector<device::DeviceBuffer> memory_ = {};
  std::optional<DType> filled_dtype_ = {};
  std::int64_t a_bytes_ = 0, b_bytes_ = 0, d_bytes_ = 0, set_count_ = 1,
               launches_per_graph_ = 1;  // bytes per matrix; number of sets and launches
  int heuristic_count_ = 0;
  double max_error_ = 0;
  cuda::MatmulCall call_ = {};
  cuda::MatmulPlan plan_ = {}, tuned_plan_ = {};
  CublasLt::Product product_ = {};
};

DeviceBenchmarkSummary summarize_rows(const std::string& name, const std::vector<const DeviceBenchmarkRow*>& rows) {
  DeviceBenchmarkSummary out{.name = name, .rows = rows.size()};
  std::vector<double> ratios;
  double sum = 0, firsts = 0, tuned_sum = 0, per_cycle = 0;
  int known = 0;
  for (const DeviceBenchmarkRow* row : rows) {
    out.wrong += row->is_correct ? 0 : 1;
    out.prediction_error +=
        std::fabs(row->plan.predicted_s / row->ridge_time.median - 1) / static_cast<double>(rows.size());
    if (row->fraction_of_cycle_peak() > 0) {
      per_cycle += std::log(row->fraction_of_cycle_peak());
      ++known;
    }
    if (!(row->ratio > 0)) continue;
    ratios.push_back(row->ratio);
    sum += std::log(row->ratio);
    firsts += std::log(row->ratio_to_first);
    if (row->tuned_ratio > 0) tuned_sum += std::log(row->tuned_ratio);
  }
  if (known > 0) out.fraction_of_cycle_peak = std::exp(per_cycle / known);
  if (ratios.empty()) return out;
  std::sort(ratios.begin(), ratios.end());
  const double n = static_cast<double>(ratios.size());
  out.geometric_mean = std::exp(sum / n);
  out.geometric_mean_first = std::exp(firsts / n);
  if (tuned_sum != 0) out.tuned_geometric_mean = std::exp(tuned_sum / n);
  out.worst_ratio = ratios.front();
  out.percentile_5 = ratios[ratios.size() / 20];
  return out;
}

}  // namespace

double DeviceBenchmarkRow::fraction_of_cycle_peak() const {
  const double max_flops = ridge_time.median * sm_hz * peak_flops_per_cycle;
  return max_flops > 0 ? shape.flops() / max_flops : 0;
}

std::optional<double> matrix_flops_per_cycle(const Machine& machine, DType dtype) {
  const Peak* const peak = machine.find_peak(ComputeUnit::matrix, dtype);
  const auto cores = machine.numbers.find("cores"), clock = machine.numbers.find("matrix_clock_hz");
  if (peak == nullptr || cores == machine.numbers.end() || clock == machine.numbers.end()) return std::nullopt;
  return peak->rate.value / (cores->second.value * clock->second.value);
}

std::vector<DeviceBenchmarkSummary> DeviceBenchmark::summarize_shape_classes() const {
  const auto aligned = [](const BenchmarkShape& s) { return s.n % 8 == 0 && s.k % 8 == 0; };
  const std::pair<const char*, std::function<bool(const BenchmarkShape&)>> all[] = {
      {"M <= 128", [&](const BenchmarkShape& s) { return aligned(s) && s.m <= 128; }},
      {"128 < M < 2048", [&](const BenchmarkShape& s) { return aligned(s) && s.m > 128 && s.m < 2048; }},
      {"M >= 2048", [&](const BenchmarkShape& s) { return aligned(s) && s.m >= 2048; }},
      {"M >= 512", [&](const BenchmarkShape& s) { return aligned(s) && s.m >= 512; }},
      {"n or k not a multiple of 8", [&](const BenchmarkShape& s) { return !aligned(s); }},
      {"all", [](const BenchmarkShape&) { return true; }}};
  std::vector<DeviceBenchmarkSummary> out;
  for (const auto& [name, belongs] : all) {
    std::vector<const DeviceBenchmarkRow*> members;
    for (const DeviceBenchmarkRow& row : rows)
      if (belongs(row.shape)) members.push_back(&row);
    if (!members.empty()) out.push_back(summarize_rows(name, members));
  }
  return out;
}

Result<DeviceBenchmark> run_device_benchmark(const std::vector<BenchmarkShape>& shapes,
                                             const DeviceBenchmarkOptions& options) {
  RIDGE_TRY(properties, device::device_properties());
  RIDGE_TRY(session, BenchmarkSession::open(options));
  DeviceBenchmark out{.device = properties.name,
                      .driver = properties.driver,
                      .cublaslt_version = session.version(),
                      .rounds = options.rounds};
  out.clocks_before = read_device_clocks();
  const auto machine = guess_device_machine(properties);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (options.progress) options.progress(i, shapes.size());
    const bool is_supported_dtype = shapes[i].dtype == DType::bf16 || shapes[i].dtype == DType::f16;
    if (!is_supported_dtype || !BenchmarkSession::fits_pool(shapes[i])) {
      out.skipped.push_back(shapes[i]);
      continue;
    }
    RIDGE_TRY(row, session.benchmark_product(shapes[i]));
    if (machine)
      row.peak_flops_per_cycle =
          matrix_flops_per_cycle(*machine, shapes[i].dtype).value_or(0) * properties.multiprocessors;
    out.rows.push_back(std::move(row));
  }
  out.clocks_after = read_device_clocks();
  return out;
}

}  // namespace ridge
