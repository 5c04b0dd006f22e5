#include "ridge/tile/trace/timing_model.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ridge::tile::trace {
namespace {

using Tick = std::int64_t;
constexpr Tick never = std::numeric_limits<Tick>::max();

struct Port {  // a resource that serves one request after another
  std::int32_t lane = -1;
  Tick free_at = 0;
};

struct Completion {  // end of an asynchronous operation
  Tick at = 0;
  int barrier = -1;  // barrier at which the bytes arrive, or -1
  std::int64_t bytes = 0;
};

class TimingModel {
 public:
  TimingModel(const RecordedProgram& p, const BlockRates& rates)
      : program_(p),
        rates_(rates),
        threads_(p.threads.size()),
        barriers_(p.barriers.size()),
        named_(p.named_barriers.size()),
        counters_(p.counters.size()),
        groups_(p.groups) {
    timeline_.ticks_per_second = rates.ticks_per_second;
    int blocks = 0;
    for (const RecordedThread& t : p.threads) blocks = std::max(blocks, t.block + 1);
    for (int b = 0; b < blocks; ++b) {
      const std::string prefix = blocks > 1 ? "block " + std::to_string(b) + " " : "";
      ports_.push_back({{timeline_.add_lane(prefix + "copies")},
                        {timeline_.add_lane(prefix + "multiplier")},
                        {timeline_.add_lane(prefix + "stores")}});
    }
    for (std::size_t t = 0; t < p.threads.size(); ++t)
      threads_[t].lane = p.threads[t].leads ? timeline_.add_lane(p.threads[t].name) : -1;
    for (std::size_t i = 0; i < p.barriers.size(); ++i) barriers_[i].missing_arrivals = p.barriers[i].arrivals;
    for (const RecordedThread& t : p.threads)
      if (t.group >= 0) ++groups_[t.group].threads;
  }

  Timeline operator()() {
    for (Tick now = 0; now != never; now = next_event_tick(now)) {
      deliver_completions(now);
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t t = 0; t < threads_.size(); ++t)
          while (try_step(static_cast<int>(t), now)) moved = true;
      }
    }
    return std::move(timeline_);
  }

 private:
  struct Ports {
    Port copies, multiplier, stores;
  };
  struct TimedThread {
    std::int32_t lane = -1;
    std::size_t step_index = 0;
    Tick busy_until = 0, waits_since = -1;
    bool at_sync = false;
    int generation = 0, multiplies = 0;
    std::vector<int> multiply_batches, store_batches;
    std::vector<Tick> read_at, written_at;
    StreamCursor cursor;
  };
  struct TimedBarrier {
    int missing_arrivals = 0;
    std::int64_t missing_bytes = 0;
    std::uint32_t phases = 0;
  };
  struct TimedNamedBarrier {
    std::int64_t arrived = 0;
    int generation = 0;
  };
  struct TimedGroup {
    int threads = 0;
    std::uint32_t granted = 0;
    std::vector<int> issued;
    std::vector<Tick> ended;
  };

  Tick next_event_tick(Tick now) const {
    Tick next = never;
    for (const Completion& s : completions_) next = std::min(next, s.at);
    for (const TimedThread& t : threads_)
      if (t.busy_until > now) next = std::min(next, t.busy_until);
    return next;
  }

  void deliver_completions(Tick now) {
    for (const Completion& s : completions_)
      if (s.at <= now && s.barrier >= 0) arrive_at_barrier(s.barrier, 0, s.bytes);
    std::erase_if(completions_, [now](const Completion& s) { return s.at <= now; });
  }

  void arrive_at_barrier(int barrier, int arrivals, std::int64_t bytes) {
    TimedBarrier& b = barriers_[barrier];
    b.missing_arrivals -= arrivals;
    b.missing_bytes -= bytes;
    if (b.missing_arrivals > 0 || b.missing_bytes != 0) return;
    ++b.phases;
    b.missing_arrivals = program_.barriers[barrier].arrivals;
  }

  // Runs a thread's next step. Returns false if the thread cannot run it yet.
  bool try_step(int t, Tick now) {
    TimedThread& s = threads_[t];
    const RecordedThread& thread = program_.threads[t];
    while (s.step_index < thread.steps.size() && !thread.steps[s.step_index].is_enabled_by(granted_slice_mask(thread)))
      ++s.step_index;
    if (s.step_index == thread.steps.size() || s.busy_until > now) return false;
    const bool is_in_stream = thread.steps[s.step_index].what == RecordedStepKind::run_stream;
    const RecordedStep& step =
        is_in_stream ? *s.cursor.replay_to_step(program_, thread.steps[s.step_index]) : thread.steps[s.step_index];
    if (step.what == RecordedStepKind::sync && !s.at_sync) {
      s.at_sync = true;
      s.generation = named_[step.object].generation;
      arrive_named(t, step);
    }
    if (!is_ready(t, step, now)) {
      if (s.waits_since < 0) s.waits_since = now;
      return false;
    }
    if (s.waits_since >= 0 && s.lane >= 0)
      timeline_.add_event(s.lane, wait_phase(step.what), s.waits_since, now, step.stage);
    s.waits_since = -1;
    execute_step(t, step, now);
    if (!is_in_stream || !s.cursor.advance_with_result(program_, thread.steps[s.step_index], result_)) ++s.step_index;
    return true;
  }
  std::uint32_t granted_slice_mask(const RecordedThread& thread) const {
    return thread.group < 0 ? 0 : groups_[thread.group].granted;
  }

  static Phase wait_phase(RecordedStepKind what) {
    switch (what) {
      case RecordedStepKind::wait: return Phase::stall;
      case RecordedStepKind::wait_multiply: return Phase::compute;
      case RecordedStepKind::wait_read:
      case RecordedStepKind::wait_written: return Phase::store;
      default: return Phase::sync;
    }
  }

  int last_required(const std::vector<int>& batches, const RecordedStep& step) const {
    const std::ptrdiff_t last = std::ssize(batches) - 1 - step.amount;
    return last < 0 ? 0 : batches[last];
  }

  bool is_ready(int t, const RecordedStep& step, Tick now) const {
    const TimedThread& s = threads_[t];
    const auto all_before = [now](const std::vector<Tick>& at, int count) {
      return count <= static_cast<int>(at.size()) &&
             std::all_of(at.begin(), at.begin() + count, [now](Tick x) { return x <= now; });
    };
    switch (step.what) {
      case RecordedStepKind::wait:
        return (barriers_[step.object].phases & 1) != static_cast<std::uint32_t>(step.amount);
      case RecordedStepKind::sync: return named_[step.object].generation != s.generation;
      case RecordedStepKind::poll:
      case RecordedStepKind::poll_until_timeout: return (counters_[step.object] & step.other) >= step.amount;
      case RecordedStepKind::wait_multiply:
        return all_before(groups_[program_.threads[t].group].ended, last_required(s.multiply_batches, step));
      case RecordedStepKind::wait_read: return all_before(s.read_at, last_required(s.store_batches, step));
      case RecordedStepKind::wait_written: return all_before(s.written_at, last_required(s.store_batches, step));
      default: return true;
    }
  }

  // Occupies the port for `ticks` as soon as it is free and adds the event to the timeline. Returns the end.
  Tick use_port(Port& port, Phase phase, Tick now, double ticks, std::int64_t stage) {
    const Tick begin = std::max(now, port.free_at);
    port.free_at = begin + std::max<Tick>(1, std::llround(ticks));
    timeline_.add_event(port.lane, phase, begin, port.free_at, stage);
    return port.free_at;
  }

  void execute_step(int t, const RecordedStep& step, Tick now) {
    TimedThread& s = threads_[t];
    Ports& ports = ports_[program_.threads[t].block];
    const double amount = static_cast<double>(step.amount);
    switch (step.what) {
      case RecordedStepKind::arrive: return arrive_at_barrier(step.object, 1, 0);
      case RecordedStepKind::expect_bytes: barriers_[step.object].missing_bytes += step.amount; return;
      case RecordedStepKind::copy: {
        const Tick end = use_port(ports.copies, Phase::load, now, amount / rates_.copy_bytes_per_tick, step.stage);
        completions_.push_back({end + rates_.copy_latency, step.other, step.amount});
        return;
      }
      case RecordedStepKind::multiply: return issue_multiply(t, step, now);
      case RecordedStepKind::commit_multiply: s.multiply_batches.push_back(s.multiplies); return;
      case RecordedStepKind::commit_store: s.store_batches.push_back(static_cast<int>(s.read_at.size())); return;
      case RecordedStepKind::sync: s.at_sync = false; return;
      case RecordedStepKind::bar_arrive: return arrive_named(t, step);
      case RecordedStepKind::write:
        s.busy_until = now + std::llround(amount / rates_.thread_bytes_per_tick * 2);  // a group has two threads
        if (s.lane >= 0) timeline_.add_event(s.lane, Phase::drain, now, s.busy_until, step.stage);
        return;
      case RecordedStepKind::store:
        return record_store(
            s, use_port(ports.stores, Phase::store, now, amount / rates_.store_bytes_per_tick, step.stage));
      case RecordedStepKind::add: return add_to_counter(t, step);
      case RecordedStepKind::poll_until_timeout: result_ = 1; return;
      case RecordedStepKind::clear: counters_[step.object] = 0; return;
      case RecordedStepKind::grant:
        groups_[program_.threads[t].group].granted = static_cast<std::uint32_t>(step.amount);
        return;
      default: return;
    }
  }

  void record_store(TimedThread& s, Tick end) {
    s.read_at.push_back(end);
    s.written_at.push_back(end + rates_.store_latency);
    completions_.push_back({end});
    completions_.push_back({end + rates_.store_latency});
  }

  void add_to_counter(int t, const RecordedStep& step) {
    std::int64_t& value = counters_[step.object];
    result_ = value;
    value += step.by;
    if (step.amount == 0) return;
    const bool last = value == step.amount;
    if (last) value = 0;
    groups_[program_.threads[t].group].granted = last ? 1 : 0;
  }

  void issue_multiply(int t, const RecordedStep& step, Tick now) {
    TimedGroup& g = groups_[program_.threads[t].group];
    const int number = threads_[t].multiplies++;
    if (number == static_cast<int>(g.issued.size())) g.issued.push_back(0);
    if (++g.issued[number] < g.threads) return;
    const double ticks = static_cast<double>(step.amount) / rates_.flops_per_tick;
    g.ended.push_back(use_port(ports_[program_.threads[t].block].multiplier, Phase::compute, now, ticks, step.stage));
    completions_.push_back({g.ended.back()});
  }

  void arrive_named(int t, const RecordedStep& step) {
    TimedNamedBarrier& b = named_[step.object];
    b.arrived += program_.threads[t].represented_threads;
    if (b.arrived < step.amount) return;
    b.arrived = 0;
    ++b.generation;
  }

  const RecordedProgram& program_;
  BlockRates rates_;
  Timeline timeline_;
  std::vector<Ports> ports_;
  std::vector<TimedThread> threads_;
  std::vector<TimedBarrier> barriers_;
  std::vector<TimedNamedBarrier> named_;
  std::vector<std::int64_t> counters_;
  std::vector<TimedGroup> groups_;
  std::vector<Completion> completions_;
  std::int64_t result_ = 0;  // result of the last step of a stream
};

}  // namespace

Timeline simulate_timeline(const RecordedProgram& program, const BlockRates& rates) {
  return TimingModel(program, rates)();
}

}  // namespace ridge::tile::trace
