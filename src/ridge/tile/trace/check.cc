#include "ridge/tile/trace/check.h"

#include <algorithm>

#include "ridge/tile/trace/simulator_state.h"

namespace ridge::tile::trace {
namespace {

// Runs a program once, in an order that `seed` determines.
class ScheduleRun {
 public:
  ScheduleRun(const RecordedProgram& program, unsigned seed) : w_(program, seed), program_(program) {}

  std::string operator()() {
    // In a third of the runs asynchronous operations are slow, in a third they are fast.
    const unsigned delay_mode = static_cast<unsigned>(w_.random() % 3);
    if (!program_.streams.empty()) choose_timeout_mode();
    while (w_.error.empty()) {
      ready_.clear();
      for (std::size_t t = 0; t < w_.threads.size(); ++t)
        if (!w_.threads[t].done && is_ready(static_cast<int>(t))) ready_.push_back(static_cast<int>(t));
      ending_.clear();
      for (std::size_t f = 0; f < w_.in_flight.size(); ++f)
        if (can_end(w_.in_flight[f])) ending_.push_back(static_cast<int>(f));
      if (ready_.empty() && ending_.empty()) break;
      if (choose_thread_first(delay_mode))
        run_step(ready_[w_.random() % ready_.size()]);
      else
        end_operation(ending_[w_.random() % ending_.size()]);
    }
    if (w_.error.empty()) {
      for (const SimulatedThread& t : w_.threads)
        if (!t.done && w_.error.empty()) w_.report_error(diagnose_deadlock(w_));
    }
    check_results();
    return w_.error;
  }
  const std::vector<int>& gave_up() const { return w_.gave_up; }

 private:
  // Chooses which waits for other blocks time out: in a quarter of the runs none; in a quarter some; in a quarter all;
  // and in a quarter the device cannot start some of the blocks until others have ended, so that waits must time out.
  void choose_timeout_mode() {
    mode_ = static_cast<TimeoutMode>(w_.random() % 4);
    if (mode_ != TimeoutMode::few_resident) return;
    free_clusters_ = 1 + static_cast<int>(w_.random() % w_.waits_to_start.size());
    for (char& is_waiting : w_.waits_to_start) is_waiting = 1;
    start_clusters();
  }
  int choose_poll_limit() {
    const bool waits = mode_ == TimeoutMode::all || (mode_ == TimeoutMode::some && w_.random() % 2 == 0);
    return waits ? -1 : static_cast<int>(w_.random() % (1U << w_.random() % 8));
  }
  void start_clusters() {  // starts as many clusters as the device has space for, in any order
    for (; free_clusters_ > 0; --free_clusters_) {
      std::vector<char*> is_waiting;
      for (char& h : w_.waits_to_start)
        if (h) is_waiting.push_back(&h);
      if (is_waiting.empty()) return;
      *is_waiting[w_.random() % is_waiting.size()] = 0;
    }
  }

  void check_results() {
    for (std::size_t i = 0; i < program_.cells.size() && w_.error.empty(); ++i)
      if (program_.cells[i].kind == CellKind::output && w_.cells[i].writes == 0)
        w_.report_error(diagnose_unstored(w_, static_cast<int>(i)));
    for (std::size_t i = 0; i < program_.counters.size() && w_.error.empty(); ++i)
      if (program_.counters[i].returns_to_zero && w_.counters[i].value != 0)
        w_.report_error(diagnose_nonzero_counter(w_, static_cast<int>(i)));
  }

  // Returns true to run a thread's step next, false to end an asynchronous operation.
  bool choose_thread_first(unsigned mode) {
    if (ready_.empty() || ending_.empty()) return ending_.empty();
    unsigned chance = 32;  // probability times 64
    if (mode == 0) chance = 8;
    if (mode == 1) chance = 56;
    return w_.random() % 64 < chance;
  }

  // True if the operation can end now. The multiplies of a group end in order.
  bool can_end(const AsyncOperation& f) const {
    if (f.step->what != RecordedStepKind::multiply) return true;
    const SimulatedGroup& g = w_.groups[program_.threads[f.access.thread].group];
    return static_cast<int>(g.ended.size()) == f.number;
  }

  std::size_t next_step_index(int t) const {
    const RecordedThread& thread = program_.threads[t];
    std::size_t at = w_.threads[t].step_index;
    while (at < thread.steps.size() && !thread.steps[at].is_enabled_by(w_.granted_slice_mask(thread))) ++at;
    return at;
  }
  const RecordedStep* next_step(int t) {
    const std::vector<RecordedStep>& steps = program_.threads[t].steps;
    const std::size_t at = next_step_index(t);
    if (at == steps.size()) return nullptr;
    if (steps[at].what != RecordedStepKind::run_stream) return &steps[at];
    SimulatedThread& s = w_.threads[t];
    const bool begins = s.cursor.current_step() == nullptr;
    const RecordedStep* const step = s.cursor.replay_to_step(program_, steps[at]);
    if (begins) s.polls_left = choose_poll_limit();
    return step;
  }

  bool is_ready(int t) {
    const SimulatedThread& s = w_.threads[t];
    if (w_.is_waiting_to_start(t)) return false;
    const RecordedStep* const step = next_step(t);
    if (step == nullptr) return true;  // the thread can end
    switch (step->what) {
      case RecordedStepKind::wait:
        return (w_.barriers[step->object].phases & 1) != static_cast<std::uint32_t>(step->amount);
      case RecordedStepKind::sync: return !s.waits_at_sync || w_.named[step->object].generation != s.generation;
      case RecordedStepKind::poll: return is_count_reached(*step);
      case RecordedStepKind::poll_until_timeout: return s.polls_left >= 0 || is_count_reached(*step);
      case RecordedStepKind::wait_multiply: return required_multiplies(t, *step) <= ended_multiplies(t);
      case RecordedStepKind::wait_read: return have_stores_reached(t, *step, 1);
      case RecordedStepKind::wait_written: return have_stores_reached(t, *step, 2);
      default: return true;
    }
  }
  bool is_count_reached(const RecordedStep& poll) const {
    return (w_.counters[poll.object].value & poll.other) >= poll.amount;
  }

  int ended_multiplies(int t) const { return static_cast<int>(w_.groups[program_.threads[t].group].ended.size()); }
  int required_multiplies(int t, const RecordedStep& step) const {
    const std::vector<int>& batches = w_.threads[t].multiply_batches;
    const std::ptrdiff_t last = std::ssize(batches) - 1 - step.amount;
    return last < 0 ? 0 : batches[last];
  }
  int required_stores(int t, const RecordedStep& step) const {
    const std::vector<int>& batches = w_.threads[t].store_batches;
    const std::ptrdiff_t last = std::ssize(batches) - 1 - step.amount;
    return last < 0 ? 0 : batches[last];
  }
  bool have_stores_reached(int t, const RecordedStep& step, int state) const {
    const std::vector<char>& s = w_.threads[t].store_states;
    return std::all_of(s.begin(), s.begin() + required_stores(t, step), [&](char x) { return x >= state; });
  }

  // Skips steps that are not granted to the group, then runs one step.
  void run_step(int t) {
    SimulatedThread& s = w_.threads[t];
    const RecordedStep* const step = next_step(t);
    if (step == nullptr) return finish_thread(t);
    s.step_index = next_step_index(t);
    if (step->what == RecordedStepKind::sync && !s.waits_at_sync) {
      s.known.seen.advance_thread(t);
      s.waits_at_sync = true;
      s.generation = w_.named[step->object].generation;
      return arrive_named(t, *step);
    }
    s.known.seen.advance_thread(t);
    if (step->what == RecordedStepKind::poll_until_timeout && !is_count_reached(*step) && s.polls_left-- > 0)
      return;  // polls again
    const RecordedStep& listed = program_.threads[t].steps[s.step_index];
    execute_step(t, *step);
    if (listed.what != RecordedStepKind::run_stream || !s.cursor.advance_with_result(program_, listed, result_))
      ++s.step_index;
  }

  void execute_step(int t, const RecordedStep& step) {
    SimulatedThread& s = w_.threads[t];
    const Access now{t, s.known.seen.step(t), -1, &step};
    switch (step.what) {
      case RecordedStepKind::wait: return s.known.merge_clocks(w_.barriers[step.object].completed);
      case RecordedStepKind::arrive:
        if (program_.threads[t].block != program_.barriers[step.object].block)
          w_.shared_accesses.push_back({program_.barriers[step.object].block, now});
        return arrive_at_barrier(step.object, now, s.known, 0);
      case RecordedStepKind::expect_bytes: w_.barriers[step.object].missing_bytes += step.amount; return;
      case RecordedStepKind::copy:
      case RecordedStepKind::store: return start_operation(t, step);
      case RecordedStepKind::fence_sums: s.sums_fenced = true; return;
      case RecordedStepKind::multiply: return issue_multiply(t, step);
      case RecordedStepKind::commit_multiply: s.multiply_batches.push_back(s.multiplies); return;
      case RecordedStepKind::wait_multiply: return learn_multiply_ends(t, step);
      case RecordedStepKind::sync:
        s.waits_at_sync = false;
        return s.known.merge_clocks(w_.named[step.object].completed);
      case RecordedStepKind::bar_arrive: return arrive_named(t, step);
      case RecordedStepKind::fence_proxy: return s.known.fenced.merge_clock(s.known.seen);
      case RecordedStepKind::write:
      case RecordedStepKind::read: return access_cell(t, step, now);
      case RecordedStepKind::commit_store: s.store_batches.push_back(static_cast<int>(s.stores.size())); return;
      case RecordedStepKind::wait_read: return learn_store_ends(t, step, 1);
      case RecordedStepKind::wait_written: return learn_store_ends(t, step, 2);
      case RecordedStepKind::next_buffer: s.buffer = (s.buffer + 1) % program_.buffers; return;
      case RecordedStepKind::add: return add_to_counter(t, step);
      case RecordedStepKind::poll:
      case RecordedStepKind::poll_until_timeout: return read_counter(t, step);
      case RecordedStepKind::clear: w_.counters[step.object].value = 0; return;
      case RecordedStepKind::grant:
        if (step.amount == 0) w_.gave_up.push_back(t);
        w_.groups[program_.threads[t].group].granted = static_cast<std::uint32_t>(step.amount);
        return w_.write_cell(step.object, now, s.known);
      case RecordedStepKind::run_stream: return;  // the steps of the stream run instead
    }
  }

  void learn_multiply_ends(int t, const RecordedStep& step) {
    const int ended = required_multiplies(t, step);
    if (ended > 0) w_.threads[t].known.seen.merge_clock(w_.groups[program_.threads[t].group].ended[ended - 1]);
  }

  void access_cell(int t, const RecordedStep& step, const Access& now) {
    SimulatedThread& s = w_.threads[t];
    const RecordedCell& cell = program_.cells[step.object];
    if (cell.kind == CellKind::sums) s.sums_fenced = false;
    const int index = step.object + buffer_offset(t, step);
    if (step.what == RecordedStepKind::write) return w_.write_cell(index, now, s.known);
    if (cell.block >= 0 && cell.block != program_.threads[t].block)
      w_.shared_accesses.push_back({cell.block, now});  // the other block must not end before this read
    w_.read_cell(index, now, s.known);
  }

  // After a timeout the thread has learned nothing.
  void read_counter(int t, const RecordedStep& step) {
    result_ = step.what == RecordedStepKind::poll || is_count_reached(step) ? 1 : 0;
    if (result_ != 0) acquire_counter(t, step);
  }

  int buffer_offset(int t, const RecordedStep& step) const {
    return step.is_buffer ? w_.threads[t].buffer * program_.cells_per_buffer : 0;
  }

  // Records an arrival of a thread, or of the bytes of a copy that has ended.
  void arrive_at_barrier(int barrier, const Access& from, const HappensBefore& known, std::int64_t bytes) {
    SimulatedBarrier& b = w_.barriers[barrier];
    const RecordedBarrier& named = program_.barriers[barrier];
    b.missing_arrivals -= from.operation < 0 ? 1 : 0;
    b.missing_bytes -= bytes;
    b.arriving.merge_clocks(known);
    if (b.missing_arrivals < 0) return w_.report_error(diagnose_extra_arrival(w_, barrier, from));
    if (w_.running_threads[named.block] == 0) return w_.report_error(diagnose_early_end(w_, from));
    if (b.missing_arrivals > 0 || b.missing_bytes != 0) return;
    ++b.phases;
    b.missing_arrivals = named.arrivals;
    b.completed = b.arriving;
    b.arriving = empty_knowledge();
  }

  void arrive_named(int t, const RecordedStep& step) {
    SimulatedNamedBarrier& b = w_.named[step.object];
    b.arrived += program_.threads[t].represented_threads;
    b.arriving.merge_clocks(w_.threads[t].known);
    if (b.arrived > step.amount)
      return w_.report_error(program_.named_barriers[step.object] + ": " + std::to_string(b.arrived) +
                             " threads arrive, expected " + std::to_string(step.amount) +
                             "; missing: a wait between phases");
    if (b.arrived < step.amount) return;
    b.arrived = 0;
    ++b.generation;
    b.completed = b.arriving;
    b.arriving = empty_knowledge();
  }

  HappensBefore empty_knowledge() const {
    const VectorClock c = w_.empty_clock();
    return {c, c, c, c};
  }

  void start_operation(int t, const RecordedStep& step) {
    SimulatedThread& s = w_.threads[t];
    AsyncOperation f{&step, {t, s.known.seen.step(t), w_.operations++, &step}, s.known};
    f.buffer = buffer_offset(t, step);
    if (step.what == RecordedStepKind::copy) {
      w_.shared_accesses.push_back({program_.cells[step.object].block, f.access});
    } else {
      ++w_.operations;  // a store has a second operation, its write
      f.number = static_cast<int>(s.stores.size());
      s.stores.push_back(f.access.operation);
      s.store_states.push_back(0);
      for (const int cell : step.cells)
        if (program_.cells[cell].block >= 0) w_.shared_accesses.push_back({program_.cells[cell].block, f.access});
    }
    w_.in_flight.push_back(std::move(f));
  }

  void issue_multiply(int t, const RecordedStep& step) {
    SimulatedThread& s = w_.threads[t];
    SimulatedGroup& g = w_.groups[program_.threads[t].group];
    if (!s.sums_fenced) return w_.report_error(diagnose_sums_fence(w_, step.object, {t, 0, -1, &step}));
    const int number = s.multiplies++;
    if (number == static_cast<int>(g.issued.size())) {
      g.issued.push_back(0);
      g.issuing.push_back(empty_knowledge());
      g.issuer.push_back({});
    }
    if (program_.threads[t].leads) g.issuer[number] = {t, s.known.seen.step(t), -1, &step};
    g.issuing[number].merge_clocks(s.known);
    if (++g.issued[number] < g.threads) return;
    AsyncOperation f{&step, g.issuer[number], g.issuing[number]};
    f.access.operation = w_.operations++;
    f.number = number;
    if (!step.cells.empty()) w_.shared_accesses.push_back({program_.threads[t].block, f.access});
    w_.in_flight.push_back(std::move(f));
  }

  void end_operation(int index) {
    AsyncOperation f = w_.in_flight[index];
    HappensBefore& k = f.known;
    switch (f.step->what) {
      case RecordedStepKind::copy:
        w_.write_cell(f.step->object, f.access, k);
        k.seen.learn_end(f.access.operation);
        arrive_at_barrier(f.step->other, f.access, k, f.step->amount);
        break;
      case RecordedStepKind::multiply: {
        SimulatedGroup& g = w_.groups[program_.threads[f.access.thread].group];
        for (const int cell : f.step->cells) w_.read_cell(cell, f.access, k);
        if (!g.ended.empty()) k.seen.merge_clock(g.ended.back());  // multiplies add in order
        w_.write_cell(f.step->object, f.access, k);
        k.seen.learn_end(f.access.operation);
        g.ended.push_back(k.seen);
        break;
      }
      default: return end_store(index, f);
    }
    w_.in_flight.erase(w_.in_flight.begin() + index);
  }

  void end_store(int index, AsyncOperation& f) {
    char& state = w_.threads[f.access.thread].store_states[f.number];
    if (!f.has_read) {
      for (const int cell : f.step->cells) w_.read_cell(cell + f.buffer, f.access, f.known);
      f.has_read = true;
      state = 1;
      w_.in_flight[index] = f;
      return;
    }
    Access written = f.access;
    ++written.operation;
    w_.write_cell(f.step->other, written, f.known);
    state = 2;
    w_.in_flight.erase(w_.in_flight.begin() + index);
  }

  void learn_store_ends(int t, const RecordedStep& step, int state) {
    SimulatedThread& s = w_.threads[t];
    for (int i = 0; i < required_stores(t, step); ++i)
      for (int part = 0; part < state; ++part) s.known.seen.learn_end(s.stores[i] + part);
  }

  void add_to_counter(int t, const RecordedStep& step) {
    SimulatedThread& s = w_.threads[t];
    SimulatedCounter& c = w_.counters[step.object];
    const bool releases = step.order == MemoryOrder::release || step.order == MemoryOrder::acquire_release;
    acquire_counter(t, step);
    c.all_adders.merge_clock(s.known.seen);
    if (releases) {
      c.released.merge_clock(s.known.seen);
      c.released_fences.merge_clock(s.known.fenced);
    }
    c.adds.push_back({{t, s.known.seen.step(t), -1, &step}, c.value});
    result_ = c.value;
    c.value += step.by;
    if (step.amount == 0) return;
    const bool last = c.value == step.amount;
    if (last) c.value = 0;
    w_.groups[program_.threads[t].group].granted = last ? 1 : 0;
  }

  void acquire_counter(int t, const RecordedStep& step) {
    SimulatedThread& s = w_.threads[t];
    const SimulatedCounter& c = w_.counters[step.object];
    s.last_counter = step.object;
    if (step.order == MemoryOrder::acquire || step.order == MemoryOrder::acquire_release) {
      s.known.seen.merge_clock(c.released);
      s.known.fenced.merge_clock(c.released_fences);
      s.known.unreleased.merge_clock(c.all_adders);
    } else {
      s.known.unacquired.merge_clock(c.all_adders);
    }
  }

  void finish_thread(int t) {
    const int block = program_.threads[t].block;
    w_.threads[t].done = true;
    w_.block_end[block].merge_clock(w_.threads[t].known.seen);
    if (--w_.running_threads[block] > 0) return;
    for (const auto& [where, access] : w_.shared_accesses)
      if (where == block && !access.is_known_to(w_.block_end[block]))
        return w_.report_error(diagnose_early_end(w_, access));
    const int first = block / program_.cluster * program_.cluster;
    for (int b = first; b < first + program_.cluster; ++b)
      if (w_.running_threads[b] > 0) return;
    ++free_clusters_;
    start_clusters();
  }

  enum class TimeoutMode { all, some, none, few_resident };

  SimulatorState w_;
  const RecordedProgram& program_;
  std::vector<int> ready_, ending_;
  TimeoutMode mode_ = TimeoutMode::all;
  int free_clusters_ = 0;    // number of clusters that the device can start now
  std::int64_t result_ = 0;  // result of the last step of a stream
};

}  // namespace

std::string check_schedule(const RecordedProgram& program, unsigned seed) {
  if (!program.error.empty()) return program.error;
  return ScheduleRun(program, seed)();
}

CheckResult check_schedules(const RecordedProgram& program, int schedules) {
  CheckResult v;
  if (!program.error.empty()) return {schedules, schedules, program.error};
  for (int seed = 0; seed < schedules; ++seed) {
    ScheduleRun run(program, static_cast<unsigned>(seed));
    const std::string error = run();
    ++v.schedules;
    std::set<std::string> gave_up;
    for (const int t : run.gave_up()) gave_up.insert(program.threads[t].name);
    ++v.gave_up[gave_up];
    if (error.empty()) continue;
    if (v.failed++ == 0) v.first_error = error;
  }
  return v;
}

}  // namespace ridge::tile::trace
