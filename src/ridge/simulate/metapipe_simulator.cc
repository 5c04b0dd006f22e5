#include "ridge/simulate/metapipe_simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <queue>
#include <unordered_map>

namespace ridge {
namespace {

constexpr std::int64_t max_runs = 1 << 24;

struct LoopRun;

struct StageRun {
  const PipeStage* stage = nullptr;
  std::size_t id = 0;                            // index of its StageActivity and timeline lane
  std::int64_t started = 0;                      // iterations started
  std::int64_t computed = 0;                     // iterations computed; outputs may be waiting for space
  std::int64_t released = 0;                     // iterations whose outputs are released
  std::int64_t next_accept_at = 0;               // cycle at which the next iteration may start
  std::int64_t last_end_at = 0;                  // end of the last started iteration; iterations end in order
  std::vector<std::int64_t> release_times = {};  // release cycle of each iteration
  std::unique_ptr<LoopRun> inner = {};
};

struct LoopRun {
  const Metapipe* pipe = nullptr;
  LoopRun* parent = nullptr;
  std::size_t parent_stage = 0;
  std::int64_t parallel_copies = 1;  // copies of this loop that run concurrently
  std::int64_t began_at = 0;
  bool is_over = false;
  std::vector<PipeBuffer> edges = {};
  std::vector<StageRun> stages = {};
};

// First-come-first-served queue of memory or network.
struct TransferQueue {
  double bytes_per_cycle = 0;
  std::int64_t free_at = 0;
  struct ServiceTime {
    std::int64_t begin, end;
  };
  ServiceTime queue_bytes(std::int64_t bytes, std::int64_t now) {
    if (bytes == 0 || bytes_per_cycle == 0) return {now, now};
    const std::int64_t begin = std::max(now, free_at);
    free_at = begin + static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_cycle));
    return {begin, free_at};
  }
};

struct PipeEvent {
  std::int64_t time;
  std::int64_t sequence;
  LoopRun* loop;
  std::size_t stage;
  enum class EventKind : std::uint8_t { done, wake } kind;
  std::int64_t pcus, pmus;
  bool operator>(const PipeEvent& o) const { return time != o.time ? time > o.time : sequence > o.sequence; }
};

class MetapipeSimulator {
 public:
  MetapipeSimulator(const Metapipe& pipe, const PipeResources& resources)
      : resources_(resources),
        pcus_free_(resources.pcus),
        pmus_free_(resources.pmus),
        memory_{resources.memory_bytes_per_cycle},
        network_{resources.network_bytes_per_cycle} {
    name_stages(pipe, "");
    top_ = begin_loop(pipe, nullptr, 0, 0, 1);
  }

  MetapipeRun run() {
    advance_loop(*top_);
    while (!events_.empty() && !top_->is_over) {
      const PipeEvent event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == PipeEvent::EventKind::done) {
        pcus_free_ += event.pcus;
        pmus_free_ += event.pmus;
        StageRun& stage = event.loop->stages[event.stage];
        if (stage.inner) end_inner_loop(stage);
        ++stage.computed;
      }
      advance_loop(*event.loop);
      if (event.pcus + event.pmus > 0) advance_all(*top_);
    }
    RIDGE_CHECK(top_->is_over, "deadlock: stages wait for one another");
    find_bottleneck();
    return std::move(run_);
  }

 private:
  void name_stages(const Metapipe& pipe, const std::string& prefix) {
    for (const PipeStage& stage : pipe.stages) {
      ids_[&stage] = run_.stages.size();
      run_.stages.push_back({.name = prefix + stage.name});
      run_.timeline.add_lane(prefix + stage.name);
      if (!stage.body.empty()) name_stages(stage.body[0], prefix + stage.name + "/");
    }
  }

  std::unique_ptr<LoopRun> begin_loop(const Metapipe& pipe, LoopRun* parent, std::size_t stage, std::int64_t now,
                                      std::int64_t parallel_copies) {
    auto loop = std::make_unique<LoopRun>();
    loop->pipe = &pipe;
    loop->parent = parent;
    loop->parent_stage = stage;
    loop->parallel_copies = parallel_copies;
    loop->began_at = now;
    loop->edges = effective_buffers(pipe);
    for (const PipeStage& s : pipe.stages) {
      StageRun run;
      run.stage = &s;
      run.id = ids_.at(&s);
      run.next_accept_at = run.last_end_at = now;
      loop->stages.push_back(std::move(run));
    }
    return loop;
  }

  void end_inner_loop(StageRun& stage) {
    run_.stages[stage.id].busy += now_ - stage.inner->began_at;
    record_event(stage.id, Phase::compute, stage.inner->began_at, now_, stage.computed);
    stage.inner.reset();
  }

  // Starts iterations and releases outputs until nothing changes. Notifies the parent if the loop has ended.
  void advance_loop(LoopRun& loop) {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t s = 0; s < loop.stages.size(); ++s) {
        changed |= release_outputs(loop, s);
        while (can_start(loop, s)) {
          start_iteration(loop, s);
          changed = true;
        }
      }
    }
    const auto done = [&](const StageRun& s) { return s.released == loop.pipe->round_count(); };
    if (loop.is_over || !std::all_of(loop.stages.begin(), loop.stages.end(), done)) return;
    loop.is_over = true;
    if (loop.parent == nullptr)
      run_.cycles = now_ + loop.pipe->overhead;
    else
      push_event(now_ + loop.pipe->overhead, *loop.parent, loop.parent_stage, PipeEvent::EventKind::done);
  }

  void advance_all(LoopRun& loop) {
    for (StageRun& s : loop.stages)
      if (s.inner) advance_all(*s.inner);
    advance_loop(loop);
  }

  void push_event(std::int64_t time, LoopRun& loop, std::size_t stage, PipeEvent::EventKind kind, std::int64_t pcus = 0,
                  std::int64_t pmus = 0) {
    events_.push({time, next_sequence_++, &loop, stage, kind, pcus, pmus});
  }

  // Releases the outputs of computed iterations while the FIFOs have space. True if any was released.
  bool release_outputs(LoopRun& loop, std::size_t s) {
    StageRun& run = loop.stages[s];
    bool any = false;
    while (run.released < run.computed && has_fifo_space(loop, s)) {
      ++run.released;
      run.release_times.push_back(now_);
      run_.stages[run.id].blocked += std::max<std::int64_t>(0, now_ - run.last_end_at);
      any = true;
    }
    return any;
  }
  static bool has_fifo_space(const LoopRun& loop, std::size_t s) {
    if (loop.pipe->schedule != PipeSchedule::streaming) return true;
    return std::all_of(loop.edges.begin(), loop.edges.end(), [&](const PipeBuffer& e) {
      return e.producer != static_cast<std::int64_t>(s) ||
             loop.stages[s].released - stage_run(loop, e.consumer).started < e.tile_count();
    });
  }
  static const StageRun& stage_run(const LoopRun& loop, std::int64_t s) { return loop.stages[s]; }

  bool can_start(LoopRun& loop, std::size_t s) {
    const StageRun& run = loop.stages[s];
    const std::int64_t i = run.started;
    if (i >= loop.pipe->round_count() || now_ < run.next_accept_at) return false;
    const bool overlaps = run.stage->body.empty() && run.stage->accept_cycles > 0;
    // A full FIFO stops its stage, and the computed iteration stays in the stage.
    if (overlaps ? run.computed > run.released : run.released < i) return false;
    return has_inputs_and_space(loop, s, i) && has_free_units(loop, s);
  }

  static bool has_inputs_and_space(const LoopRun& loop, std::size_t s, std::int64_t i) {
    const auto index = static_cast<std::int64_t>(s);
    switch (loop.pipe->schedule) {
      case PipeSchedule::sequential: return s == 0 ? loop.stages.back().released >= i : loop.stages[s - 1].released > i;
      case PipeSchedule::fork_join:
        return std::all_of(loop.stages.begin(), loop.stages.end(), [&](const StageRun& r) { return r.released >= i; });
      case PipeSchedule::pipelined:
      case PipeSchedule::streaming: break;
    }
    for (const PipeBuffer& e : loop.edges) {
      if (e.consumer == index && stage_run(loop, e.producer).released <= i) return false;
      if (e.producer == index && loop.pipe->schedule == PipeSchedule::pipelined &&
          stage_run(loop, e.consumer).released <= i - e.tile_count())
        return false;
    }
    for (const Recurrence& r : loop.pipe->recurrences)
      if (r.to == index && stage_run(loop, r.from).released <= i - r.distance) return false;
    return true;
  }

  // Returns the copies of a stage that work in round i; the last round may use only some of them.
  static std::int64_t copies_in_round(const LoopRun& loop, std::int64_t i) {
    return loop.parallel_copies * std::min(loop.pipe->parallel, loop.pipe->iterations - i * loop.pipe->parallel);
  }

  struct StageUnits {
    std::int64_t pcus = 0, pmus = 0;
  };
  StageUnits units_needed(const LoopRun& loop, const StageRun& run) const {
    if (!run.stage->body.empty()) return {};
    const std::int64_t parallel_copies = copies_in_round(loop, run.started) * run.stage->parallel;
    return {resources_.pcus > 0 ? parallel_copies * run.stage->pcus : 0,
            resources_.pmus > 0 ? parallel_copies * run.stage->pmus : 0};
  }
  bool has_free_units(const LoopRun& loop, std::size_t s) {
    const StageUnits units = units_needed(loop, loop.stages[s]);
    return units.pcus <= pcus_free_ && units.pmus <= pmus_free_;
  }

  void start_iteration(LoopRun& loop, std::size_t s) {
    StageRun& run = loop.stages[s];
    const PipeStage& stage = *run.stage;
    const std::int64_t i = run.started;
    StageActivity& activity = run_.stages[run.id];
    count_wait(loop, s, i, activity);
    ++activity.runs;
    if (!stage.body.empty()) {
      ++run.started;
      run.last_end_at = std::numeric_limits<std::int64_t>::max();  // unknown until the loop ends
      run.inner = begin_loop(stage.body[0], &loop, s, now_, copies_in_round(loop, i));
      advance_loop(*run.inner);
      return;
    }
    const StageUnits units = units_needed(loop, run);
    ++run.started;
    pcus_free_ -= units.pcus;
    pmus_free_ -= units.pmus;
    const std::int64_t parallel_copies = copies_in_round(loop, i);
    const TransferQueue::ServiceTime memory = memory_.queue_bytes(stage.memory_bytes * parallel_copies, now_),
                                     network = network_.queue_bytes(stage.network_bytes * parallel_copies, now_);
    // Computation and transfers overlap; waiting in a transfer queue delays the iteration.
    const std::int64_t uncontended_cycles =
        std::max({leaf_latency(stage, i), memory.end - memory.begin, network.end - network.begin});
    std::int64_t end = std::max({now_ + leaf_latency(stage, i), memory.end, network.end, run.last_end_at});
    const std::int64_t queued_cycles = std::max<std::int64_t>(0, end - now_ - uncontended_cycles);
    activity.contended += queued_cycles;
    activity.busy += end - now_ - queued_cycles;
    record_event(run.id, Phase::stall, now_, now_ + queued_cycles, i);
    record_event(run.id, stage.phase, now_ + queued_cycles, end, i);
    run.last_end_at = end;
    if (stage.accept_cycles > 0) {
      run.next_accept_at = now_ + stage.accept_cycles;
      push_event(run.next_accept_at, loop, s, PipeEvent::EventKind::wake);
    }
    push_event(end, loop, s, PipeEvent::EventKind::done, units.pcus, units.pmus);
  }

  // Attributes the wait of iteration i since the stage was free: first to inputs, then to buffer space, then to units.
  void count_wait(const LoopRun& loop, std::size_t s, std::int64_t i, StageActivity& activity) {
    const StageRun& run = loop.stages[s];
    const std::int64_t previous = run.release_times.empty() ? loop.began_at : run.release_times.back();
    const std::int64_t free_from = std::min(now_, run.stage->accept_cycles > 0 ? run.next_accept_at : previous);
    std::int64_t inputs_from = free_from, space_from = free_from;
    const auto index = static_cast<std::int64_t>(s);
    const auto end_of = [&](std::int64_t stage, std::int64_t iteration) {
      const std::vector<std::int64_t>& release_times = stage_run(loop, stage).release_times;
      return iteration >= 0 && iteration < static_cast<std::int64_t>(release_times.size()) ? release_times[iteration]
                                                                                           : free_from;
    };
    if (loop.pipe->schedule == PipeSchedule::sequential || loop.pipe->schedule == PipeSchedule::fork_join) {
      inputs_from = now_;
    } else {
      for (const PipeBuffer& e : loop.edges) {
        if (e.consumer == index) inputs_from = std::max(inputs_from, end_of(e.producer, i));
        if (e.producer == index && loop.pipe->schedule == PipeSchedule::pipelined)
          space_from = std::max(space_from, end_of(e.consumer, i - e.tile_count()));
      }
      for (const Recurrence& r : loop.pipe->recurrences)
        if (r.to == index) inputs_from = std::max(inputs_from, end_of(r.from, i - r.distance));
    }
    inputs_from = std::min(inputs_from, now_);
    space_from = std::clamp(space_from, inputs_from, now_);
    activity.starved += inputs_from - free_from;
    activity.blocked += space_from - inputs_from;
    activity.contended += now_ - space_from;
    record_event(run.id, Phase::stall, free_from, now_, i);
  }

  void record_event(std::size_t id, Phase phase, std::int64_t begin, std::int64_t end, std::int64_t step) {
    if (run_.timeline.events.size() < MetapipeRun::max_events)
      run_.timeline.add_event(static_cast<std::int32_t>(id), phase, begin, end, step);
  }

  void find_bottleneck() {
    const StageActivity* busiest = nullptr;
    for (const auto& [stage, id] : ids_) {
      const StageActivity& a = run_.stages[id];
      if (!stage->body.empty()) continue;
      if (busiest == nullptr || a.busy > busiest->busy || (a.busy == busiest->busy && &a < busiest)) busiest = &a;
    }
    run_.bottleneck = busiest->name;
    run_.bottleneck_busy = run_.cycles > 0 ? static_cast<double>(busiest->busy) / static_cast<double>(run_.cycles) : 0;
  }

  PipeResources resources_;
  std::int64_t pcus_free_, pmus_free_;
  TransferQueue memory_, network_;
  std::priority_queue<PipeEvent, std::vector<PipeEvent>, std::greater<>> events_;
  std::int64_t next_sequence_ = 0, now_ = 0;
  std::unordered_map<const PipeStage*, std::size_t> ids_;
  MetapipeRun run_;
  std::unique_ptr<LoopRun> top_;
};

// Returns the total number of stage iterations, saturated just above the limit.
std::int64_t count_stage_runs(const Metapipe& pipe) {
  std::int64_t runs = 0;
  for (const PipeStage& stage : pipe.stages)
    runs = std::min(max_runs + 1, runs + 1 + (stage.body.empty() ? 0 : count_stage_runs(stage.body[0])));
  return pipe.round_count() > max_runs ? max_runs + 1 : std::min(max_runs + 1, runs * pipe.round_count());
}

// Checks that every stage fits onto the chip alone; `parallel_copies` is the number of concurrent copies of the loop.
Status check_units(const Metapipe& pipe, const PipeResources& resources, std::int64_t parallel_copies) {
  for (const PipeStage& stage : pipe.stages) {
    const std::int64_t loop_copies = parallel_copies * std::min(pipe.parallel, pipe.iterations);
    if (!stage.body.empty()) {
      RIDGE_TRY_STATUS(check_units(stage.body[0], resources, loop_copies));
      continue;
    }
    for (const auto& [what, each, limit] :
         {std::tuple{"PCUs", stage.pcus, resources.pcus}, {"PMUs", stage.pmus, resources.pmus}})
      if (limit > 0 &&
          static_cast<double>(loop_copies) * static_cast<double>(stage.parallel) * static_cast<double>(each) >
              static_cast<double>(limit))
        return input_error(fmt::format("stage '{}' of loop '{}' needs {} copies of {} {}, the chip has {}", stage.name,
                                       pipe.name, loop_copies * stage.parallel, each, what, limit),
                           "lower the parallel factors");
  }
  return Done{};
}

}  // namespace

Result<MetapipeRun> simulate_metapipe(const Metapipe& pipe, const PipeResources& resources) {
  RIDGE_TRY_STATUS(check_metapipe(pipe));
  for (const auto& [what, value] : {std::pair{"PCUs", static_cast<double>(resources.pcus)},
                                    {"PMUs", static_cast<double>(resources.pmus)},
                                    {"memory bytes a cycle", resources.memory_bytes_per_cycle},
                                    {"network bytes a cycle", resources.network_bytes_per_cycle}})
    if (!(value >= 0) || !std::isfinite(value))
      return input_error(fmt::format("expected {} of at least 0, found {}", what, value));
  RIDGE_TRY_STATUS(check_units(pipe, resources, 1));
  if (count_stage_runs(pipe) > max_runs)
    return input_error(fmt::format("expected at most {} runs of stages, found more", max_runs),
                       "simulate fewer iterations, or use the closed form");
  return MetapipeSimulator(pipe, resources).run();
}

std::string MetapipeRun::to_text() const {
  std::string out =
      fmt::format("cycles {}, bottleneck {} ({:.1f} % busy)\n", cycles, bottleneck, 100 * bottleneck_busy);
  std::size_t width = 5;
  for (const StageActivity& s : stages) width = std::max(width, s.name.size());
  out += fmt::format("  {:<{}} {:>10} {:>12} {:>12} {:>12} {:>12}\n", "stage", width, "runs", "busy", "starved",
                     "blocked", "contended");
  for (const StageActivity& s : stages)
    out += fmt::format("  {:<{}} {:>10} {:>12} {:>12} {:>12} {:>12}\n", s.name, width, s.runs, s.busy, s.starved,
                       s.blocked, s.contended);
  return out;
}

}  // namespace ridge
