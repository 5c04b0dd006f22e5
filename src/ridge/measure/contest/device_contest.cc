#include "ridge/measure/contest/device_contest.h"

#include <algorithm>
#include <cmath>

#include "ridge/device/device.h"
#include "ridge/measure/contest/cublaslt.h"
#include "ridge/measure/device_machine.h"
#include "ridge/ops/judge/cuda.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t gib = std::int64_t{1} << 30, pool_bytes = 6 * gib, output_bytes = 3 * gib, workspace_bytes = gib;
constexpr std::int64_t their_workspace_bytes = std::int64_t{64} << 20, cold_bytes = std::int64_t{256} << 20;
constexpr double replay_seconds = 2e-3, warm_seconds = 0.04;

std::int64_t padded(std::int64_t bytes) { return (bytes + 1023) / 1024 * 1024; }

Status said(const std::optional<std::string>& trouble) {
  if (trouble) return absent_error("the CUDA device failed at " + *trouble, "`nvidia-smi` shows the device's state");
  return Done{};
}

constexpr int ours = -1, tuned = -2;  // used in place of the index of a cuBLASLt heuristic

struct Runner {
  cuda::Recording recording;
  int heuristic = ours;
  std::int64_t launches = 1;
  std::vector<double> seconds = {};
};

double median(const std::vector<double>& x) { return statistics(x).median; }
// Returns the median ratio of two runners that take turns.
double ratio(const std::vector<double>& theirs, const std::vector<double>& mine) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < mine.size(); ++i) ratios.push_back(theirs[i] / mine[i]);
  return median(ratios);
}

class Session {
 public:
  static Result<Session> open(const DeviceContestOptions& options) {
    auto lt = CublasLt::load();
    if (!lt) return lt.error();
    auto queue = cuda::Queue::make();
    if (!queue) return queue.error();
    const auto device = device_numbers_here();
    if (!device) return device.error();
    Session session(std::move(*lt), std::move(*queue), *device, options);
    for (const std::int64_t bytes :
         {pool_bytes, output_bytes, workspace_bytes, their_workspace_bytes, std::int64_t{4096}}) {
      auto memory = cuda::Memory::make(bytes);
      if (!memory) return memory.error();
      session.memory_.push_back(std::move(*memory));
    }
    const Status set = session.queue_.set(session.workspace(), 0, static_cast<std::int64_t>(cuda::counter_bytes));
    if (!set) return set.error();
    return session;
  }
  std::size_t version() const { return lt_.version(); }

  static bool fits(const ContestShape& s) {
    const std::int64_t size = bits(s.dtype) / 8;
    return padded(s.m * s.k * size) + padded(s.n * s.k * size) <= pool_bytes &&
           2 * padded(s.m * s.n * bits(s.out) / 8) <= output_bytes;
  }

  Result<DeviceContestRow> play(const ContestShape& shape) {
    if (const Status set = prepare(shape); !set) return set.error();
    DeviceContestRow row{.shape = shape};
    row.plan = plan_;
    const auto before = judged();
    if (!before) return before.error();
    auto all = baselines();
    if (!all) return all.error();
    auto chosen = recorded(ours);
    if (!chosen) return chosen.error();
    if (const Status timed = tune(row); !timed) return timed.error();
    if (!row.tuned.empty()) {
      auto best = recorded(tuned);
      if (!best) return best.error();
      all->push_back(std::move(*best));
    }
    all->push_back(std::move(*chosen));
    if (const Status ran = take_turns(*all); !ran) return ran.error();
    if (const auto clocks = device_clocks()) row.sm_hz = clocks->sm_hz;
    const auto after = judged();
    if (!after) return after.error();
    row.right = *before == 0 && *after == 0;
    row.worst_error = worst_;
    return summarized(std::move(row), *all);
  }

 private:
  Session(CublasLt lt, cuda::Queue queue, const ops::DeviceNumbers& device, const DeviceContestOptions& options)
      : lt_(std::move(lt)), queue_(std::move(queue)), device_(device), rounds_(options.rounds), tune_(options.tune) {}
  std::byte* pool() const { return memory_[0].data(); }
  std::byte* outputs() const { return memory_[1].data(); }
  std::byte* workspace() const { return memory_[2].data(); }
  std::byte* their_workspace() const { return memory_[3].data(); }
  std::byte* small() const { return memory_[4].data(); }

  Status prepare(const ContestShape& s) {
    if (filled_ != s.dtype) {
      if (const Status filled = queue_.fill_normal(pool(), s.dtype, pool_bytes / 2, 1); !filled) return filled;
      filled_ = s.dtype;
    }
    a_ = padded(s.m * s.k * 2);
    b_ = padded(s.n * s.k * 2);
    d_ = padded(s.m * s.n * bits(s.out) / 8);
    sets_ = std::max<std::int64_t>(
        1, std::min({cold_bytes / (a_ + b_ + d_) + 1, pool_bytes / (a_ + b_), output_bytes / d_, std::int64_t{512}}));
    const double busy = 4096.0 * device_.multiprocessors * device_.busy_clock_hz;  // FLOP/s
    const double estimate =
        std::max(s.flops() / busy, static_cast<double>(a_ + b_ + d_) / device_.memory_bytes_per_s) + device_.launch_s;
    launches_ = static_cast<std::int64_t>(std::clamp(replay_seconds / estimate, 2.0, 256.0));
    launches_ = std::max(launches_, std::min<std::int64_t>(sets_, 64));
    call_ = {};
    call_.problem = s.problem();
    call_.a = pool();
    call_.b = pool() + a_;
    call_.d = outputs();
    call_.constant_b = s.op != "tn";  // weights, unless both operands are activations (a layer's weight gradient)
    if (const auto refusal = cuda::refuse(call_)) return input_error(s.text() + ": " + *refusal);
    plan_ = cuda::choose(call_, static_cast<std::size_t>(workspace_bytes), device_);
    product_ = {s.m, s.n, s.k, s.op == "tn" || s.op == "tt", s.op != "nn" && s.op != "tn", s.dtype, s.out};
    const auto found = lt_.prepare(product_, static_cast<std::size_t>(their_workspace_bytes));
    if (!found) return found.error();
    found_ = *found;
    worst_ = 0;
    return Done{};
  }

  Status queue_one(int heuristic, std::byte* a, std::byte* d) const {
    if (heuristic >= 0) {
      if (lt_.run(heuristic, a, a + a_, d, their_workspace(), queue_.stream())) return Done{};
      return absent_error("cuBLASLt refused its own heuristic");
    }
    cuda::MatmulCall call = call_;
    call.a = a;
    call.b = a + a_;
    call.d = d;
    const cuda::Workspace w{workspace(), static_cast<std::size_t>(workspace_bytes), true};
    return said(cuda::launch(call, heuristic == tuned ? tuned_ : plan_, w, queue_.stream()));
  }

  // Returns the number of wrong elements.
  Result<unsigned> judged() {
    std::byte* const theirs = outputs() + d_;
    auto* const verdicts = reinterpret_cast<cuda::Comparison*>(small());
    const cuda::JudgedProduct p{
        product_.m,   product_.n, product_.k, product_.a_transposed, product_.b_transposed, product_.dtype,
        product_.out, call_.a,    call_.b};
    cuda::Comparison found[2];
    const auto steps = [&]() -> Status {
      if (const Status s = queue_.set(outputs(), 0xff, d_); !s) return s;
      if (const Status s = queue_.set(verdicts, 0, sizeof found); !s) return s;
      if (const Status s = queue_one(ours, pool(), outputs()); !s) return s;
      if (const Status s = said(cuda::judge_samples(p, outputs(), verdicts, queue_.stream())); !s) return s;
      if (found_ > 0 && queue_one(0, pool(), theirs)) {
        if (const Status s = said(cuda::judge_samples(p, theirs, verdicts + 1, queue_.stream())); !s) return s;
        if (const Status s = said(cuda::judge_all(p, outputs(), theirs, verdicts, queue_.stream())); !s) return s;
      }
      if (const Status s = queue_.copy(found, verdicts, sizeof found); !s) return s;
      return queue_.wait();
    };
    if (const Status done = steps(); !done) return done.error();
    worst_ = std::max(worst_, static_cast<double>(found[0].worst));
    // If cuBLASLt exceeds the bound, differences from it do not count: it adds splits of k in D's format.
    return found[0].sampled_wrong + found[0].loose + (found[1].loose > 0 ? 0 : found[0].differing);
  }

  Result<Runner> recorded(int heuristic, std::int64_t launches) const {
    auto recording = queue_.record([&]() -> Status {
      for (std::int64_t i = 0; i < launches; ++i)
        if (const Status s = queue_one(heuristic, pool() + i % sets_ * (a_ + b_), outputs() + i % sets_ * d_); !s)
          return s;
      return Done{};
    });
    if (!recording) return recording.error();
    return Runner{std::move(*recording), heuristic, launches};
  }

  Result<double> once(const Runner& r) const {
    const auto seconds = queue_.elapsed([&] { return queue_.replay(r.recording); });
    if (!seconds) return seconds.error();
    return *seconds / static_cast<double>(r.launches);
  }
  Result<Runner> recorded(int heuristic) const { return recorded(heuristic, launches_); }

  // Records cuBLASLt's first heuristic and, if it is another one, the best of the first eight by three replays each.
  Result<std::vector<Runner>> baselines() const {
    std::vector<Runner> all;
    for (int i = 0; i < found_; ++i) {
      auto runner = recorded(i);
      if (!runner) continue;  // the library may refuse its own heuristic
      for (int turn = 0; turn < 4; ++turn) {
        const auto seconds = once(*runner);
        if (!seconds) return seconds.error();
        if (turn > 0) runner->seconds.push_back(*seconds);
      }
      all.push_back(std::move(*runner));
    }
    std::vector<Runner> kept;
    if (all.empty()) return kept;
    const auto best = std::min_element(
        all.begin(), all.end(), [](const Runner& x, const Runner& y) { return median(x.seconds) < median(y.seconds); });
    const bool other = best != all.begin();
    Runner fastest = std::move(*best);
    if (other) kept.push_back(std::move(all[0]));
    kept.push_back(std::move(fastest));
    for (Runner& r : kept) r.seconds.clear();
    return kept;
  }

  // Times the model's best plans by three replays each and leaves the fastest in `tuned_plan_`.
  Status tune(DeviceContestRow& row) {
    auto plans = cuda::candidates(call_, static_cast<std::size_t>(workspace_bytes), device_, 2);
    plans.resize(std::min(plans.size(), static_cast<std::size_t>(tune_)));
    for (const cuda::MatmulPlan& plan : plans) {
      tuned_ = plan;
      const auto runner = recorded(tuned, std::max(std::min(sets_, launches_), launches_ / 4));
      if (!runner) return runner.error();
      std::vector<double> taken;
      for (int turn = 0; turn < 4; ++turn) {
        const auto seconds = once(*runner);
        if (!seconds) return seconds.error();
        if (turn > 0) taken.push_back(*seconds);
      }
      row.tuned.push_back({plan, median(taken)});
    }
    std::stable_sort(row.tuned.begin(), row.tuned.end(),
                     [](const TunedPlan& x, const TunedPlan& y) { return x.seconds < y.seconds; });
    if (!row.tuned.empty()) tuned_ = row.tuned.front().plan;
    return Done{};
  }

  Status take_turns(std::vector<Runner>& all) const {
    for (double warmed = 0; warmed < warm_seconds;)  // until the clock settles at the power limit
      for (Runner& r : all) {
        const auto seconds = once(r);
        if (!seconds) return seconds.error();
        warmed += *seconds * static_cast<double>(r.launches) + 1e-6;
      }
    for (Runner& r : all) r.seconds.resize(static_cast<std::size_t>(rounds_));
    for (std::size_t round = 0; round < static_cast<std::size_t>(rounds_); ++round)
      for (std::size_t i = 0; i < all.size(); ++i) {  // each is first in some rounds
        Runner& r = all[(i + round) % all.size()];
        const auto seconds = once(r);
        if (!seconds) return seconds.error();
        r.seconds[round] = *seconds;
      }
    return Done{};
  }

  Result<DeviceContestRow> summarized(DeviceContestRow row, const std::vector<Runner>& all) const {
    const std::vector<double>& mine = all.back().seconds;
    row.ours = statistics(mine);
    const std::size_t theirs = all.size() - 1 - (row.tuned.empty() ? 0 : 1);
    if (theirs > 0) {
      const Runner &first = all[0], &best = all[theirs - 1];
      row.first = statistics(first.seconds);
      row.best = statistics(best.seconds);
      row.best_heuristic = best.heuristic;
      row.ratio = ratio(best.seconds, mine);
      row.ratio_first = ratio(first.seconds, mine);
      if (!row.tuned.empty()) row.tuned_ratio = ratio(best.seconds, all[theirs].seconds);
    }
    return row;
  }

  CublasLt lt_;
  cuda::Queue queue_;
  ops::DeviceNumbers device_;
  int rounds_, tune_;
  std::vector<cuda::Memory> memory_ = {};
  std::optional<DType> filled_ = {};
  std::int64_t a_ = 0, b_ = 0, d_ = 0, sets_ = 1, launches_ = 1;  // bytes per matrix; number of sets and launches
  int found_ = 0;
  double worst_ = 0;
  cuda::MatmulCall call_ = {};
  cuda::MatmulPlan plan_ = {}, tuned_ = {};
  CublasLt::Product product_ = {};
};

DeviceContestClass summary(const std::string& name, const std::vector<const DeviceContestRow*>& rows) {
  DeviceContestClass out{.name = name, .rows = rows.size()};
  std::vector<double> ratios;
  double sum = 0, firsts = 0, tuned_sum = 0, per_cycle = 0;
  int known = 0;
  for (const DeviceContestRow* row : rows) {
    out.wrong += row->right ? 0 : 1;
    out.prediction_error += std::fabs(row->plan.predicted_s / row->ours.median - 1) / static_cast<double>(rows.size());
    if (row->per_cycle() > 0) {
      per_cycle += std::log(row->per_cycle());
      ++known;
    }
    if (!(row->ratio > 0)) continue;
    ratios.push_back(row->ratio);
    sum += std::log(row->ratio);
    firsts += std::log(row->ratio_first);
    if (row->tuned_ratio > 0) tuned_sum += std::log(row->tuned_ratio);
  }
  if (known > 0) out.per_cycle = std::exp(per_cycle / known);
  if (ratios.empty()) return out;
  std::sort(ratios.begin(), ratios.end());
  const double n = static_cast<double>(ratios.size());
  out.geometric_mean = std::exp(sum / n);
  out.geometric_mean_first = std::exp(firsts / n);
  if (tuned_sum != 0) out.tuned = std::exp(tuned_sum / n);
  out.worst = ratios.front();
  out.percentile_5 = ratios[ratios.size() / 20];
  return out;
}

}  // namespace

double DeviceContestRow::per_cycle() const {
  const double most = ours.median * sm_hz * flops_per_cycle;
  return most > 0 ? shape.flops() / most : 0;
}

std::optional<double> matrix_flops_per_cycle(const Machine& machine, DType dtype) {
  const Peak* const peak = machine.peak(Unit::matrix, dtype);
  const auto cores = machine.numbers.find("cores"), clock = machine.numbers.find("matrix_clock_hz");
  if (peak == nullptr || cores == machine.numbers.end() || clock == machine.numbers.end()) return std::nullopt;
  return peak->rate.value / (cores->second.value * clock->second.value);
}

std::vector<DeviceContestClass> DeviceContest::classes() const {
  const auto aligned = [](const ContestShape& s) { return s.n % 8 == 0 && s.k % 8 == 0; };
  const std::pair<const char*, std::function<bool(const ContestShape&)>> all[] = {
      {"M <= 128", [&](const ContestShape& s) { return aligned(s) && s.m <= 128; }},
      {"128 < M < 2048", [&](const ContestShape& s) { return aligned(s) && s.m > 128 && s.m < 2048; }},
      {"M >= 2048", [&](const ContestShape& s) { return aligned(s) && s.m >= 2048; }},
      {"M >= 512", [&](const ContestShape& s) { return aligned(s) && s.m >= 512; }},
      {"n or k not a multiple of 8", [&](const ContestShape& s) { return !aligned(s); }},
      {"all", [](const ContestShape&) { return true; }}};
  std::vector<DeviceContestClass> out;
  for (const auto& [name, belongs] : all) {
    std::vector<const DeviceContestRow*> members;
    for (const DeviceContestRow& row : rows)
      if (belongs(row.shape)) members.push_back(&row);
    if (!members.empty()) out.push_back(summary(name, members));
  }
  return out;
}

Result<DeviceContest> device_contest(const std::vector<ContestShape>& shapes, const DeviceContestOptions& options) {
  const auto facts = cuda::device_facts();
  if (!facts) return facts.error();
  auto session = Session::open(options);
  if (!session) return session.error();
  DeviceContest out{
      .device = facts->name, .driver = facts->driver, .baseline_version = session->version(), .rounds = options.rounds};
  out.before = device_clocks();
  const auto machine = guess_device(*facts);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (options.progress) options.progress(i, shapes.size());
    const bool ours = shapes[i].dtype == DType::bf16 || shapes[i].dtype == DType::f16;
    if (!ours || !Session::fits(shapes[i])) {
      out.passed_over.push_back(shapes[i]);
      continue;
    }
    auto row = session->play(shapes[i]);
    if (!row) return row.error();
    if (machine)
      row->flops_per_cycle = matrix_flops_per_cycle(*machine, shapes[i].dtype).value_or(0) * facts->multiprocessors;
    out.rows.push_back(*std::move(row));
  }
  out.after = device_clocks();
  return out;
}

}  // namespace ridge
