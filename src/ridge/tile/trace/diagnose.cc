// Error messages of the checker. The checker finds two unordered accesses; the missing wait is inferred from what the
// later access knows of the earlier one. For example, if a copy knows that a multiply has started but not that it has
// ended, the slot was released without a wait for the multiply.
#include <algorithm>

#include "ridge/tile/trace/simulator_state.h"

namespace ridge::tile::trace {
namespace {

const std::string& thread_name(const SimulatorState& w, const Access& a) { return w.program.threads[a.thread].name; }

std::string tile_suffix(const Access& a) { return a.step->item >= 0 ? " of tile " + std::to_string(a.step->item) : ""; }

// True if the producer starts the copy `a` before `b`.
bool is_earlier_stage(const Access& a, const Access& b) {
  return std::pair(a.step->item, a.step->stage) < std::pair(b.step->item, b.step->stage);
}

std::string describe_reused_slot(const SimulatorState& w, const std::string& cell, const Access& reader,
                                 const Access& copy, const VectorClock& copy_knew) {
  const std::string missing = reader.is_start_known_to(copy_knew)
                                  ? thread_name(w, reader) + "'s wait for its multiply before it releases the slot"
                                  : "the producer's wait for the slot to be released";
  return cell + ": the copy for " + describe_stage(copy) + " overwrites " + describe_stage(reader) +
         " while the multiply of " + thread_name(w, reader) + " may still read it; missing: " + missing;
}

// True if the thread that started the store waits for the store to read its buffer before it writes the buffer again.
bool waits_for_store(const SimulatorState& w, const Access& store) {
  const std::vector<RecordedStep>& steps = w.program.threads[store.thread].steps;
  int commits = 0, turns = 0;
  for (const RecordedStep* s = store.step + 1; s < steps.data() + steps.size(); ++s) {
    commits += s->what == RecordedStepKind::commit_store;
    turns += s->what == RecordedStepKind::next_buffer;
    if ((s->what == RecordedStepKind::wait_read || s->what == RecordedStepKind::wait_written) && s->amount < commits)
      return true;
    if (s->what == RecordedStepKind::write && turns >= w.program.buffers) return false;
  }
  return false;
}

// Returns the state of a group's first thread, which accesses counters for the group.
const SimulatedThread& find_leader(const SimulatorState& w, int thread) {
  const RecordedThread& t = w.program.threads[thread];
  for (std::size_t i = 0; i < w.threads.size(); ++i)
    if (t.group >= 0 && w.program.threads[i].group == t.group && w.program.threads[i].leads) return w.threads[i];
  return w.threads[thread];
}

// True if the thread knows of an add by the writer's group to the counter that the thread read last.
bool knows_add(const SimulatorState& w, const SimulatedThread& thread, const Access& writer) {
  const HappensBefore& k = thread.known;
  for (const CounterAdd& r : w.counters[thread.last_counter].adds)
    if (w.program.threads[r.by.thread].group == w.program.threads[writer.thread].group &&
        (r.by.is_known_to(k.seen) || r.by.is_known_to(k.unacquired) || r.by.is_known_to(k.unreleased)))
      return true;
  return false;
}

std::string missing_counter_order(const SimulatorState& w, const Access& writer, const Access& reader) {
  const SimulatedThread& leader = find_leader(w, reader.thread);
  if (leader.last_counter < 0) return "any order between the two";
  const std::string& name = w.program.counters[leader.last_counter].name;
  const HappensBefore& k = leader.known;
  if (const std::string leaver = diagnose_timed_out_split(w, reader); !leaver.empty()) return leaver;
  if (writer.is_known_to(k.unreleased)) return "a release where " + thread_name(w, writer) + " adds to the " + name;
  if (writer.is_known_to(k.unacquired)) return "an acquire where " + thread_name(w, reader) + " reads the " + name;
  const bool started = writer.is_start_known_to(k.seen) || writer.is_start_known_to(k.unacquired) ||
                       writer.is_start_known_to(k.unreleased);
  if (writer.operation >= 0 && started)
    return thread_name(w, writer) + "'s wait until its store has arrived, before it adds to the " + name;
  if (!w.program.threads[writer.thread].leads && knows_add(w, leader, writer))
    return "the group's barrier before the first thread of " + thread_name(w, writer) + " adds to the " + name;
  return "a wait of " + thread_name(w, reader) + " for the " + name;
}

// Returns the next access that writes a cell; its `step` is null if there is none.
Access find_next_writer(const SimulatorState& w, int cell) {
  for (const AsyncOperation& f : w.in_flight)
    if (f.step->what == RecordedStepKind::store && f.step->other == cell)
      return {f.access.thread, f.access.thread_step, f.access.operation + 1, f.step};
  constexpr std::uint32_t never = 0xffffffff;
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    for (const RecordedStep& s : w.program.threads[t].steps)
      if ((s.what == RecordedStepKind::write && s.object == cell) ||
          (s.what == RecordedStepKind::store && s.other == cell))
        return {static_cast<int>(t), never, -1, &s};
  return {};
}

std::string describe_sums_race(const std::string& cell, const Access& reader, const Access& multiply) {
  return cell + ": the sums" + tile_suffix(reader) + " are read while the multiply for " + describe_stage(multiply) +
         " may still add to them; missing: the wait for all multiplies before the sums are used";
}

std::string diagnose_buffer(const SimulatorState& w, const std::string& cell, const Access& before, const Access& now) {
  if (before.step->what == RecordedStepKind::store) {
    const std::string missing = waits_for_store(w, before)
                                    ? "the group's barrier after its first thread has waited for the store"
                                    : "the wait until the store has read the buffer, before it is written again";
    return cell + ": the sums of tile " + std::to_string(now.step->item) + " overwrite those of tile " +
           std::to_string(before.step->item) + " while the store of " + thread_name(w, before) +
           " may still read them; missing: " + missing;
  }
  return cell + ": " + thread_name(w, now) + " writes for tile " + std::to_string(now.step->item) +
         " while other threads of " + thread_name(w, before) + " may still use it for tile " +
         std::to_string(before.step->item) + "; missing: the group's barrier before the write";
}

std::string describe_overwritten_scales(const SimulatorState& w, const std::string& cell, const Access& reader,
                                        const Access& writer) {
  return cell + ": those for " + describe_stage(writer) + " overwrite those for " + describe_stage(reader) + " while " +
         thread_name(w, reader) +
         " may still read them; missing: its release of the buffer, or the scale loader's wait for it";
}

}  // namespace

std::string describe_stage(const Access& a) {
  std::string s;
  if (a.step->stage >= 0) s += "stage " + std::to_string(a.step->stage) + " of ";
  if (a.step->item >= 0) return s + "tile " + std::to_string(a.step->item);
  if (s.empty()) return s;
  return s + "its tile";
}

std::string diagnose_write(const SimulatorState& w, int cell, const Access& before, const Access& now,
                           const HappensBefore& knows) {
  const RecordedCell& c = w.program.cells[cell];
  switch (c.kind) {
    case CellKind::tile:
      if (now.step->what == RecordedStepKind::write)
        return c.name + ": " + thread_name(w, now) + " writes sums to it while the multiply of " +
               thread_name(w, before) + " may still read " + describe_stage(before) +
               "; missing: the barrier of the block's consumers before the write";
      if (before.step->what == RecordedStepKind::multiply)
        return describe_reused_slot(w, c.name, before, now, knows.seen);
      return c.name + ": the copy for " + describe_stage(is_earlier_stage(now, before) ? before : now) +
             " races with the copy for " + describe_stage(is_earlier_stage(now, before) ? now : before) +
             "; missing: the producer's wait for the slot to be released";
    case CellKind::scales: return describe_overwritten_scales(w, c.name, before, now);
    case CellKind::sums: return describe_sums_race(c.name, before, now);
    case CellKind::buffer: return diagnose_buffer(w, c.name, before, now);
    case CellKind::output:
      return c.name + ": written by " + thread_name(w, before) + tile_suffix(before) + " and by " +
             thread_name(w, now) + tile_suffix(now) + "; missing: any order between the two";
    case CellKind::memory:
      return c.name + ": " + thread_name(w, now) + " writes while " + thread_name(w, before) +
             " may still use it; missing: " + missing_counter_order(w, before, now);
  }
  return c.name;
}

std::string diagnose_read(const SimulatorState& w, int cell, const Access& now, const HappensBefore& knows) {
  const RecordedCell& c = w.program.cells[cell];
  const Access& writer = w.cells[cell].writer;
  const bool is_written = writer.step != nullptr;
  if (is_written && writer.is_known_to(knows.seen) && !writer.is_known_to(knows.fenced) && writer.operation < 0 &&
      now.operation >= 0)
    return diagnose_proxy_fence(w, cell, writer, now);
  switch (c.kind) {
    case CellKind::tile:
      if (is_written && is_earlier_stage(now, writer))
        return describe_reused_slot(w, c.name, now, writer, w.cells[cell].writer_knew);
      return c.name + ": the multiply of " + thread_name(w, now) + " may read " + describe_stage(now) +
             " before its copy has arrived; missing: " + thread_name(w, now) + "'s wait for the slot to be full";
    case CellKind::scales:
      if (is_written && is_earlier_stage(now, writer)) return describe_overwritten_scales(w, c.name, now, writer);
      return c.name + ": " + thread_name(w, now) + " may read those for " + describe_stage(now) +
             " before they are stored; missing: its wait for the buffer to be full, or the scale loader's barrier";
    case CellKind::sums:
      if (is_written) return describe_sums_race(c.name, now, writer);
      return c.name + ": the sums" + tile_suffix(now) +
             " are used and no multiply has written them; missing: a stage of k for this work item";
    case CellKind::buffer:
      return c.name + ": the sums" + tile_suffix(now) + " may be read before the threads of " + thread_name(w, now) +
             " have written them; missing: the group's barrier after the write";
    case CellKind::output:
    case CellKind::memory:
      if (const Access from = is_written ? writer : find_next_writer(w, cell); from.step != nullptr)
        return c.name + ": " + thread_name(w, now) + " may not see what " + thread_name(w, from) + " writes" +
               tile_suffix(from) + "; missing: " + missing_counter_order(w, from, now);
      return c.name + ": " + thread_name(w, now) + " reads data that no thread writes";
  }
  return c.name;
}

std::string diagnose_proxy_fence(const SimulatorState& w, int cell, const Access& writer, const Access& now) {
  const char* const does = now.step->what == RecordedStepKind::copy ? "the copy of " : "the store of ";
  return w.program.cells[cell].name + ": " + does + thread_name(w, now) + tile_suffix(now) +
         " may not see what threads of " + thread_name(w, writer) +
         " wrote; missing: a proxy fence between the write and the asynchronous operation";
}

std::string diagnose_sums_fence(const SimulatorState& w, int cell, const Access& now) {
  return w.program.cells[cell].name + ": the multiply for " + describe_stage(now) + " may overtake what " +
         thread_name(w, now) + " did to the sums before; missing: the fence between the two";
}

std::string diagnose_early_end(const SimulatorState& w, const Access& pending) {
  const std::string end = w.program.threads[pending.thread].name;
  switch (pending.step->what) {
    case RecordedStepKind::arrive:
      return w.program.barriers[pending.step->object].name + ": " + end +
             " may arrive when the block has ended; missing: the cluster's barrier at the end";
    case RecordedStepKind::read:
      return w.program.cells[pending.step->object].name + ": " + end +
             " may still read it when its block has ended; missing: the cluster's barrier at the end";
    case RecordedStepKind::copy:
      return end + " ends while the copy for " + describe_stage(pending) +
             " may still write a slot; missing: a wait for it to be full";
    case RecordedStepKind::multiply:
      return end + " ends while its multiply for " + describe_stage(pending) +
             " may still read a slot; missing: the wait for all multiplies";
    default:
      return end + " ends while the store" + tile_suffix(pending) +
             " may still read its buffer; missing: the wait until all stores have read";
  }
}

std::string diagnose_extra_arrival(const SimulatorState& w, int barrier, const Access& now) {
  const bool fills = w.program.threads[now.thread].group < 0;
  return w.program.barriers[barrier].name + ": " + thread_name(w, now) + " arrives for " + describe_stage(now) +
         " before the previous phase has ended; missing: " +
         (fills ? "the producer's wait for the slot to be released"
                : thread_name(w, now) + "'s wait for the slot to be full");
}

std::string diagnose_deadlock(const SimulatorState& w) {
  std::string waits, missing;
  for (std::size_t t = 0; t < w.threads.size(); ++t) {
    const RecordedThread& thread = w.program.threads[t];
    if (w.threads[t].done || !thread.leads) continue;
    std::size_t at = w.threads[t].step_index;
    while (!thread.steps[at].is_enabled_by(w.granted_slice_mask(thread))) ++at;
    const bool is_waiting = w.is_waiting_to_start(static_cast<int>(t));
    const RecordedStep& step = is_waiting ? thread.steps[at] : *w.current_step(static_cast<int>(t), thread.steps[at]);
    std::string what;
    if (is_waiting) {
      what = "a free multiprocessor";
    } else if (step.what == RecordedStepKind::wait) {
      const RecordedBarrier& b = w.program.barriers[step.object];
      what = b.name;
      const SimulatedBarrier& s = w.barriers[step.object];
      if (missing.empty() && s.missing_arrivals > 0)
        missing = std::to_string(s.missing_arrivals) + " of " + std::to_string(b.arrivals) + " arrivals at " + b.name;
      if (missing.empty()) missing = std::to_string(s.missing_bytes) + " bytes at " + b.name;
    } else if (step.what == RecordedStepKind::sync) {
      what = w.program.named_barriers[step.object];
      const std::int64_t arrived = w.named[step.object].arrived;
      if (missing.empty())
        missing = std::to_string(step.amount - arrived) + " of " + std::to_string(step.amount) + " threads at " + what;
    } else if (step.what == RecordedStepKind::poll || step.what == RecordedStepKind::poll_until_timeout) {
      what = w.program.counters[step.object].name;
      const bool full = std::count(w.waits_to_start.begin(), w.waits_to_start.end(), 1) > 0;
      if (missing.empty() && full)
        missing = "a timeout of " + thread.name + "'s wait: other blocks start only when its block has ended";
      if (missing.empty()) missing = "an add to " + what;
    } else {
      what = "its asynchronous operations";
    }
    const Access access{static_cast<int>(t), 0, -1, &step};
    waits += (waits.empty() ? "" : ", ") + thread.name + " waits for " + what;
    if (const std::string where = describe_stage(access); !where.empty()) waits += " (after " + where + ")";
  }
  return "deadlock: " + waits + "; missing: " + missing;
}

}  // namespace ridge::tile::trace
