#include "ridge/simulate/metapipe_clock.h"

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
  std::size_t id = 0;                   // of its StageActivity
  std::int64_t started = 0;             // iterations
  std::int64_t worked = 0;              // done, perhaps not yet handed on
  std::int64_t finished = 0;            // done and handed on
  std::int64_t accepts_at = 0;          // when the next iteration may enter
  std::int64_t last_end = 0;            // iterations end in order
  std::vector<std::int64_t> ends = {};  // of finished iterations
  std::unique_ptr<LoopRun> inner = {};
};

struct LoopRun {
  const Metapipe* pipe = nullptr;
  LoopRun* parent = nullptr;
  std::size_t parent_stage = 0;
  std::int64_t copies = 1;  // of this loop that run side by side
  std::int64_t began = 0;
  bool over = false;
  std::vector<PipeBuffer> edges = {};
  std::vector<StageRun> stages = {};
};

// One queue in front of memory or network.
struct Server {
  double bytes_per_cycle = 0;
  std::int64_t free_at = 0;
  struct Service {
    std::int64_t begin, end;
  };
  Service serve(std::int64_t bytes, std::int64_t now) {
    if (bytes == 0 || bytes_per_cycle == 0) return {now, now};
    const std::int64_t begin = std::max(now, free_at);
    free_at = begin + static_cast<std::int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_cycle));
    return {begin, free_at};
  }
};

struct PipeEvent {
  std::int64_t time;
  std::int64_t order;
  LoopRun* loop;
  std::size_t stage;
  enum class Kind : std::uint8_t { done, wake } kind;
  std::int64_t pcus, pmus;
  bool operator>(const PipeEvent& o) const { return time != o.time ? time > o.time : order > o.order; }
};

class Clock {
 public:
  Clock(const Metapipe& pipe, const PipeResources& resources)
      : resources_(resources),
        pcus_free_(resources.pcus),
        pmus_free_(resources.pmus),
        memory_{resources.memory_bytes_per_cycle},
        network_{resources.network_bytes_per_cycle} {
    name_stages(pipe, "");
    top_ = begin_loop(pipe, nullptr, 0, 0, 1);
  }

  MetapipeRun run() {
    settle(*top_);
    while (!events_.empty() && !top_->over) {
      const PipeEvent event = events_.top();
      events_.pop();
      now_ = event.time;
      if (event.kind == PipeEvent::Kind::done) {
        pcus_free_ += event.pcus;
        pmus_free_ += event.pmus;
        StageRun& stage = event.loop->stages[event.stage];
        if (stage.inner) end_inner(stage);
        ++stage.worked;
      }
      settle(*event.loop);
      if (event.pcus + event.pmus > 0) settle_all(*top_);
    }
    RIDGE_CHECK(top_->over, "stages wait for one another");
    finish();
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
                                      std::int64_t copies) {
    auto loop = std::make_unique<LoopRun>();
    loop->pipe = &pipe;
    loop->parent = parent;
    loop->parent_stage = stage;
    loop->copies = copies;
    loop->began = now;
    loop->edges = edges(pipe);
    for (const PipeStage& s : pipe.stages) {
      StageRun run;
      run.stage = &s;
      run.id = ids_.at(&s);
      run.accepts_at = run.last_end = now;
      loop->stages.push_back(std::move(run));
    }
    return loop;
  }

  void end_inner(StageRun& stage) {
    run_.stages[stage.id].busy += now_ - stage.inner->began;
    record(stage.id, Phase::compute, stage.inner->began, now_, stage.worked);
    stage.inner.reset();
  }

  // Starts and hands on whatever can; then, if the loop has ended, tells its parent.
  void settle(LoopRun& loop) {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t s = 0; s < loop.stages.size(); ++s) {
        changed |= hand_on(loop, s);
        while (can_start(loop, s)) {
          start(loop, s);
          changed = true;
        }
      }
    }
    const auto done = [&](const StageRun& s) { return s.finished == loop.pipe->turns(); };
    if (loop.over || !std::all_of(loop.stages.begin(), loop.stages.end(), done)) return;
    loop.over = true;
    if (loop.parent == nullptr)
      run_.cycles = now_ + loop.pipe->overhead;
    else
      push(now_ + loop.pipe->overhead, *loop.parent, loop.parent_stage, PipeEvent::Kind::done);
  }

  void settle_all(LoopRun& loop) {
    for (StageRun& s : loop.stages)
      if (s.inner) settle_all(*s.inner);
    settle(loop);
  }

  void push(std::int64_t time, LoopRun& loop, std::size_t stage, PipeEvent::Kind kind, std::int64_t pcus = 0,
            std::int64_t pmus = 0) {
    events_.push({time, order_++, &loop, stage, kind, pcus, pmus});
  }

  // A finished iteration leaves its stage; a FIFO may have no room for it.
  bool hand_on(LoopRun& loop, std::size_t s) {
    StageRun& run = loop.stages[s];
    bool any = false;
    while (run.finished < run.worked && room_in_fifos(loop, s)) {
      ++run.finished;
      run.ends.push_back(now_);
      run_.stages[run.id].blocked += std::max<std::int64_t>(0, now_ - run.last_end);
      any = true;
    }
    return any;
  }
  static bool room_in_fifos(const LoopRun& loop, std::size_t s) {
    if (loop.pipe->schedule != Schedule::streaming) return true;
    return std::all_of(loop.edges.begin(), loop.edges.end(), [&](const PipeBuffer& e) {
      return e.producer != static_cast<std::int64_t>(s) ||
             loop.stages[s].finished - stage_of(loop, e.consumer).started < e.depth();
    });
  }
  static const StageRun& stage_of(const LoopRun& loop, std::int64_t s) {
    return loop.stages[static_cast<std::size_t>(s)];
  }

  bool can_start(LoopRun& loop, std::size_t s) {
    const StageRun& run = loop.stages[s];
    const std::int64_t i = run.started;
    if (i >= loop.pipe->turns() || now_ < run.accepts_at) return false;
    const bool overlaps = run.stage->body.empty() && run.stage->accept > 0;
    // A FIFO that is full stops its stage; what is inside stays inside.
    if (overlaps ? run.worked > run.finished : run.finished < i) return false;
    return inputs_ready(loop, s, i) && units_free(loop, s);
  }

  static bool inputs_ready(const LoopRun& loop, std::size_t s, std::int64_t i) {
    const auto index = static_cast<std::int64_t>(s);
    switch (loop.pipe->schedule) {
      case Schedule::sequential: return s == 0 ? loop.stages.back().finished >= i : loop.stages[s - 1].finished > i;
      case Schedule::fork_join:
        return std::all_of(loop.stages.begin(), loop.stages.end(), [&](const StageRun& r) { return r.finished >= i; });
      case Schedule::pipelined:
      case Schedule::streaming: break;
    }
    for (const PipeBuffer& e : loop.edges) {
      if (e.consumer == index && stage_of(loop, e.producer).finished <= i) return false;
      if (e.producer == index && loop.pipe->schedule == Schedule::pipelined &&
          stage_of(loop, e.consumer).finished <= i - e.depth())
        return false;
    }
    for (const Recurrence& r : loop.pipe->recurrences)
      if (r.to == index && stage_of(loop, r.from).finished <= i - r.distance) return false;
    return true;
  }

  // Copies of the stage that work on turn i: the loop's, and the last turn may fill only some of its own.
  static std::int64_t copies_of(const LoopRun& loop, std::int64_t i) {
    return loop.copies * std::min(loop.pipe->parallel, loop.pipe->iterations - i * loop.pipe->parallel);
  }

  struct Units {
    std::int64_t pcus = 0, pmus = 0;
  };
  Units units_of(const LoopRun& loop, const StageRun& run) const {
    if (!run.stage->body.empty()) return {};
    const std::int64_t copies = copies_of(loop, run.started) * run.stage->parallel;
    return {resources_.pcus > 0 ? copies * run.stage->pcus : 0, resources_.pmus > 0 ? copies * run.stage->pmus : 0};
  }
  bool units_free(const LoopRun& loop, std::size_t s) {
    const Units units = units_of(loop, loop.stages[s]);
    return units.pcus <= pcus_free_ && units.pmus <= pmus_free_;
  }

  void start(LoopRun& loop, std::size_t s) {
    StageRun& run = loop.stages[s];
    const PipeStage& stage = *run.stage;
    const std::int64_t i = run.started;
    StageActivity& activity = run_.stages[run.id];
    count_wait(loop, s, i, activity);
    ++activity.runs;
    if (!stage.body.empty()) {
      ++run.started;
      run.last_end = std::numeric_limits<std::int64_t>::max();  // not known before the loop ends
      run.inner = begin_loop(stage.body[0], &loop, s, now_, copies_of(loop, i));
      settle(*run.inner);
      return;
    }
    const Units units = units_of(loop, run);
    ++run.started;
    pcus_free_ -= units.pcus;
    pmus_free_ -= units.pmus;
    const std::int64_t copies = copies_of(loop, i);
    const Server::Service memory = memory_.serve(stage.memory_bytes * copies, now_),
                          network = network_.serve(stage.network_bytes * copies, now_);
    // Work and transfers go on together; a queue in front of the transfers delays all of it.
    const std::int64_t alone =
        std::max({leaf_latency(stage, i), memory.end - memory.begin, network.end - network.begin});
    std::int64_t end = std::max({now_ + leaf_latency(stage, i), memory.end, network.end, run.last_end});
    const std::int64_t queued = std::max<std::int64_t>(0, end - now_ - alone);
    activity.contended += queued;
    activity.busy += end - now_ - queued;
    record(run.id, Phase::stall, now_, now_ + queued, i);
    record(run.id, stage.phase, now_ + queued, end, i);
    run.last_end = end;
    if (stage.accept > 0) {
      run.accepts_at = now_ + stage.accept;
      push(run.accepts_at, loop, s, PipeEvent::Kind::wake);
    }
    push(end, loop, s, PipeEvent::Kind::done, units.pcus, units.pmus);
  }

  // Why iteration i did not start as soon as the stage was free: first inputs, then room, then the chip's units.
  void count_wait(const LoopRun& loop, std::size_t s, std::int64_t i, StageActivity& activity) {
    const StageRun& run = loop.stages[s];
    const std::int64_t previous = run.ends.empty() ? loop.began : run.ends.back();
    const std::int64_t free = std::min(now_, run.stage->accept > 0 ? run.accepts_at : previous);
    std::int64_t inputs = free, room = free;
    const auto index = static_cast<std::int64_t>(s);
    const auto end_of = [&](std::int64_t stage, std::int64_t iteration) {
      const std::vector<std::int64_t>& ends = stage_of(loop, stage).ends;
      return iteration >= 0 && iteration < static_cast<std::int64_t>(ends.size())
                 ? ends[static_cast<std::size_t>(iteration)]
                 : free;
    };
    if (loop.pipe->schedule == Schedule::sequential || loop.pipe->schedule == Schedule::fork_join) {
      inputs = now_;
    } else {
      for (const PipeBuffer& e : loop.edges) {
        if (e.consumer == index) inputs = std::max(inputs, end_of(e.producer, i));
        if (e.producer == index && loop.pipe->schedule == Schedule::pipelined)
          room = std::max(room, end_of(e.consumer, i - e.depth()));
      }
      for (const Recurrence& r : loop.pipe->recurrences)
        if (r.to == index) inputs = std::max(inputs, end_of(r.from, i - r.distance));
    }
    inputs = std::min(inputs, now_);
    room = std::clamp(room, inputs, now_);
    activity.starved += inputs - free;
    activity.blocked += room - inputs;
    activity.contended += now_ - room;
    record(run.id, Phase::stall, free, now_, i);
  }

  void record(std::size_t id, Phase phase, std::int64_t begin, std::int64_t end, std::int64_t step) {
    if (run_.timeline.events.size() < MetapipeRun::max_events)
      run_.timeline.add(static_cast<std::int32_t>(id), phase, begin, end, step);
  }

  void finish() {
    const StageActivity* longest = nullptr;
    for (const auto& [stage, id] : ids_) {
      const StageActivity& a = run_.stages[id];
      if (!stage->body.empty()) continue;
      if (longest == nullptr || a.busy > longest->busy || (a.busy == longest->busy && &a < longest)) longest = &a;
    }
    run_.bottleneck = longest->name;
    run_.bottleneck_busy = run_.cycles > 0 ? static_cast<double>(longest->busy) / static_cast<double>(run_.cycles) : 0;
  }

  PipeResources resources_;
  std::int64_t pcus_free_, pmus_free_;
  Server memory_, network_;
  std::priority_queue<PipeEvent, std::vector<PipeEvent>, std::greater<>> events_;
  std::int64_t order_ = 0, now_ = 0;
  std::unordered_map<const PipeStage*, std::size_t> ids_;
  MetapipeRun run_;
  std::unique_ptr<LoopRun> top_;
};

// Runs of stages, saturating at the limit.
std::int64_t runs_of(const Metapipe& pipe) {
  std::int64_t runs = 0;
  for (const PipeStage& stage : pipe.stages)
    runs = std::min(max_runs + 1, runs + 1 + (stage.body.empty() ? 0 : runs_of(stage.body[0])));
  return pipe.turns() > max_runs ? max_runs + 1 : std::min(max_runs + 1, runs * pipe.turns());
}

// Copies: of the loop, run side by side.
Status check_units(const Metapipe& pipe, const PipeResources& resources, std::int64_t copies) {
  for (const PipeStage& stage : pipe.stages) {
    const std::int64_t loops = copies * std::min(pipe.parallel, pipe.iterations);
    if (!stage.body.empty()) {
      if (const Status status = check_units(stage.body[0], resources, loops); !status) return status;
      continue;
    }
    for (const auto& [what, each, limit] :
         {std::tuple{"PCUs", stage.pcus, resources.pcus}, {"PMUs", stage.pmus, resources.pmus}})
      if (limit > 0 && static_cast<double>(loops) * static_cast<double>(stage.parallel) * static_cast<double>(each) >
                           static_cast<double>(limit))
        return input_error(fmt::format("stage '{}' of loop '{}' wants {} copies of {} {}, the chip has {}", stage.name,
                                       pipe.name, loops * stage.parallel, each, what, limit),
                           "lower the parallel factors");
  }
  return Done{};
}

}  // namespace

Result<MetapipeRun> simulate_metapipe(const Metapipe& pipe, const PipeResources& resources) {
  if (const Status status = check_metapipe(pipe); !status) return status.error();
  for (const auto& [what, value] : {std::pair{"PCUs", static_cast<double>(resources.pcus)},
                                    {"PMUs", static_cast<double>(resources.pmus)},
                                    {"memory bytes a cycle", resources.memory_bytes_per_cycle},
                                    {"network bytes a cycle", resources.network_bytes_per_cycle}})
    if (!(value >= 0) || !std::isfinite(value))
      return input_error(fmt::format("expected {} of at least 0, found {}", what, value));
  if (const Status status = check_units(pipe, resources, 1); !status) return status.error();
  if (runs_of(pipe) > max_runs)
    return input_error(fmt::format("expected at most {} runs of stages, found more", max_runs),
                       "the closed form needs no clock, or simulate fewer iterations");
  return Clock(pipe, resources).run();
}

std::string MetapipeRun::text() const {
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
