// Error messages of the checker. It finds two unordered accesses; the missing wait is inferred from what the later one
// knows of the earlier. For example, if it knows that a multiply was started but not that it ended, then the slot was
// released without a wait for the multiply.
#include <algorithm>

#include "ridge/tile/trace/world.h"

namespace ridge::tile::trace {
namespace {

const std::string& who(const World& w, const Access& a) { return w.program.threads[a.thread].name; }

std::string of_tile(const Access& a) { return a.step->item >= 0 ? " of tile " + std::to_string(a.step->item) : ""; }

// True if the producer starts the copy `a` before `b`.
bool earlier(const Access& a, const Access& b) {
  return std::pair(a.step->item, a.step->stage) < std::pair(b.step->item, b.step->stage);
}

std::string reused(const World& w, const std::string& cell, const Access& reader, const Access& copy,
                   const Clock& copy_knew) {
  const std::string missing = reader.start_known_to(copy_knew)
                                  ? who(w, reader) + "'s wait for its multiply before it releases the slot"
                                  : "the producer's wait for the slot to be released";
  return cell + ": the copy for " + place(copy) + " overwrites " + place(reader) + " while the multiply of " +
         who(w, reader) + " may still read it; missing: " + missing;
}

// True if the thread that started a store waits until the store has read its buffer, before it uses the buffer again.
bool waits_for_store(const World& w, const Access& store) {
  const std::vector<Step>& steps = w.program.threads[store.thread].steps;
  int commits = 0, turns = 0;
  for (const Step* s = store.step + 1; s < steps.data() + steps.size(); ++s) {
    commits += s->what == Do::commit_store;
    turns += s->what == Do::next_buffer;
    if ((s->what == Do::wait_read || s->what == Do::wait_written) && s->amount < commits) return true;
    if (s->what == Do::write && turns >= w.program.buffers) return false;
  }
  return false;
}

// Returns the state of a group's first thread, which accesses counters for the group.
const ThreadState& speaker(const World& w, int thread) {
  const Thread& t = w.program.threads[thread];
  for (std::size_t i = 0; i < w.threads.size(); ++i)
    if (t.group >= 0 && w.program.threads[i].group == t.group && w.program.threads[i].leads) return w.threads[i];
  return w.threads[thread];
}

// True if the thread knows of an add to its counter by the writer's group.
bool knows_raise(const World& w, const ThreadState& granted, const Access& writer) {
  const Knowledge& k = granted.knows;
  for (const Raise& r : w.counters[granted.last_counter].raises)
    if (w.program.threads[r.by.thread].group == w.program.threads[writer.thread].group &&
        (r.by.known_to(k.seen) || r.by.known_to(k.unacquired) || r.by.known_to(k.unreleased)))
      return true;
  return false;
}

std::string counter_missing(const World& w, const Access& writer, const Access& reader) {
  const ThreadState& granted = speaker(w, reader.thread);
  if (granted.last_counter < 0) return "any order between the two";
  const std::string& name = w.program.counters[granted.last_counter].name;
  const Knowledge& k = granted.knows;
  if (const std::string leaver = blame_leaver(w, reader); !leaver.empty()) return leaver;
  if (writer.known_to(k.unreleased)) return "a release where " + who(w, writer) + " adds to the " + name;
  if (writer.known_to(k.unacquired)) return "an acquire where " + who(w, reader) + " reads the " + name;
  const bool started =
      writer.start_known_to(k.seen) || writer.start_known_to(k.unacquired) || writer.start_known_to(k.unreleased);
  if (writer.operation >= 0 && started)
    return who(w, writer) + "'s wait until its store has arrived, before it adds to the " + name;
  if (!w.program.threads[writer.thread].leads && knows_raise(w, granted, writer))
    return "the group's barrier before the first thread of " + who(w, writer) + " adds to the " + name;
  return "a wait of " + who(w, reader) + " for the " + name;
}

// Returns the next access that writes a cell; its `step` is null if there is none.
Access later_writer(const World& w, int cell) {
  for (const Flight& f : w.flights)
    if (f.step->what == Do::store && f.step->other == cell)
      return {f.access.thread, f.access.started, f.access.operation + 1, f.step};
  constexpr std::uint32_t never = 0xffffffff;
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    for (const Step& s : w.program.threads[t].steps)
      if ((s.what == Do::write && s.object == cell) || (s.what == Do::store && s.other == cell))
        return {static_cast<int>(t), never, -1, &s};
  return {};
}

std::string unfinished(const std::string& cell, const Access& reader, const Access& multiply) {
  return cell + ": the sums" + of_tile(reader) + " are read while the multiply for " + place(multiply) +
         " may still add to them; missing: the wait for all multiplies before the sums are used";
}

std::string blame_buffer(const World& w, const std::string& cell, const Access& before, const Access& now) {
  if (before.step->what == Do::store) {
    const std::string missing = waits_for_store(w, before)
                                    ? "the group's barrier after its first thread has waited for the store"
                                    : "the wait until the store has read the buffer, before it is written again";
    return cell + ": the sums of tile " + std::to_string(now.step->item) + " overwrite those of tile " +
           std::to_string(before.step->item) + " while the store of " + who(w, before) +
           " may still read them; missing: " + missing;
  }
  return cell + ": " + who(w, now) + " writes for tile " + std::to_string(now.step->item) + " while other threads of " +
         who(w, before) + " may still use it for tile " + std::to_string(before.step->item) +
         "; missing: the group's barrier before the write";
}

}  // namespace

std::string place(const Access& a) {
  std::string s;
  if (a.step->stage >= 0) s += "stage " + std::to_string(a.step->stage) + " of ";
  if (a.step->item >= 0) return s + "tile " + std::to_string(a.step->item);
  if (s.empty()) return s;
  return s + "its tile";
}

std::string blame_write(const World& w, int cell, const Access& before, const Access& now, const Knowledge& knows) {
  const Cell& c = w.program.cells[cell];
  switch (c.kind) {
    case Kind::tile:
      if (now.step->what == Do::write)
        return c.name + ": " + who(w, now) + " writes sums to it while the multiply of " + who(w, before) +
               " may still read " + place(before) + "; missing: the barrier of the block's consumers before the write";
      if (before.step->what == Do::multiply) return reused(w, c.name, before, now, knows.seen);
      return c.name + ": the copy for " + place(earlier(now, before) ? before : now) + " races with the copy for " +
             place(earlier(now, before) ? now : before) +
             "; missing: the producer's wait for the slot to be released";
    case Kind::sums: return unfinished(c.name, before, now);
    case Kind::buffer: return blame_buffer(w, c.name, before, now);
    case Kind::output:
      return c.name + ": written by " + who(w, before) + of_tile(before) + " and by " + who(w, now) + of_tile(now) +
             "; missing: any order between the two";
    case Kind::memory:
      return c.name + ": " + who(w, now) + " writes while " + who(w, before) +
             " may still use it; missing: " + counter_missing(w, before, now);
  }
  return c.name;
}

std::string blame_read(const World& w, int cell, const Access& now, const Knowledge& knows) {
  const Cell& c = w.program.cells[cell];
  const Access& writer = w.cells[cell].writer;
  const bool is_written = writer.step != nullptr;
  if (is_written && writer.known_to(knows.seen) && !writer.known_to(knows.fenced) && writer.operation < 0 &&
      now.operation >= 0)
    return blame_blind(w, cell, writer, now);
  switch (c.kind) {
    case Kind::tile:
      if (is_written && earlier(now, writer)) return reused(w, c.name, now, writer, w.cells[cell].writer_knew);
      return c.name + ": the multiply of " + who(w, now) + " may read " + place(now) +
             " before its copy has arrived; missing: " + who(w, now) + "'s wait for the slot to be full";
    case Kind::sums:
      if (is_written) return unfinished(c.name, now, writer);
      return c.name + ": the sums" + of_tile(now) +
             " are used and no multiply has written them; missing: a stage of k for this work item";
    case Kind::buffer:
      return c.name + ": the sums" + of_tile(now) + " may be read before the threads of " + who(w, now) +
             " have written them; missing: the group's barrier after the write";
    case Kind::output:
    case Kind::memory:
      if (const Access from = is_written ? writer : later_writer(w, cell); from.step != nullptr)
        return c.name + ": " + who(w, now) + " may not see what " + who(w, from) + " writes" + of_tile(from) +
               "; missing: " + counter_missing(w, from, now);
      return c.name + ": " + who(w, now) + " reads data that no thread writes";
  }
  return c.name;
}

std::string blame_blind(const World& w, int cell, const Access& writer, const Access& now) {
  const char* const does = now.step->what == Do::copy ? "the copy of " : "the store of ";
  return w.program.cells[cell].name + ": " + does + who(w, now) + of_tile(now) + " may not see what threads of " +
         who(w, writer) + " wrote; missing: a proxy fence between the write and the asynchronous operation";
}

std::string blame_fence(const World& w, int cell, const Access& now) {
  return w.program.cells[cell].name + ": the multiply for " + place(now) + " may overtake what " + who(w, now) +
         " did to the sums before; missing: the fence between the two";
}

std::string blame_end(const World& w, const Access& left) {
  const std::string end = w.program.threads[left.thread].name;
  switch (left.step->what) {
    case Do::arrive:
      return w.program.barriers[left.step->object].name + ": " + end +
             " may arrive when the block has ended; missing: the cluster's barrier at the end";
    case Do::read:
      return w.program.cells[left.step->object].name + ": " + end +
             " may still read it when its block has ended; missing: the cluster's barrier at the end";
    case Do::copy:
      return end + " ends while the copy for " + place(left) +
             " may still write a slot; missing: a wait for it to be full";
    case Do::multiply:
      return end + " ends while its multiply for " + place(left) +
             " may still read a slot; missing: the wait for all multiplies";
    default:
      return end + " ends while the store" + of_tile(left) +
             " may still read its buffer; missing: the wait until all stores have read";
  }
}

std::string blame_arrival(const World& w, int barrier, const Access& now) {
  const bool fills = w.program.threads[now.thread].group < 0;
  return w.program.barriers[barrier].name + ": " + who(w, now) + " arrives for " + place(now) +
         " before the previous phase has ended; missing: " +
         (fills ? "the producer's wait for the slot to be released"
                : who(w, now) + "'s wait for the slot to be full");
}

std::string blame_stuck(const World& w) {
  std::string waits, missing;
  for (std::size_t t = 0; t < w.threads.size(); ++t) {
    const Thread& thread = w.program.threads[t];
    if (w.threads[t].done || !thread.leads) continue;
    std::size_t at = w.threads[t].at;
    while (!thread.steps[at].is_done_by(w.granted(thread))) ++at;
    const bool held = w.is_held_back(static_cast<int>(t));
    const Step& step = held ? thread.steps[at] : *w.word(static_cast<int>(t), thread.steps[at]);
    std::string what;
    if (held) {
      what = "a free multiprocessor";
    } else if (step.what == Do::wait) {
      const Barrier& b = w.program.barriers[step.object];
      what = b.name;
      const BarrierState& s = w.barriers[step.object];
      if (missing.empty() && s.missing > 0)
        missing = std::to_string(s.missing) + " of " + std::to_string(b.arrivals) + " arrivals at " + b.name;
      if (missing.empty()) missing = std::to_string(s.bytes) + " bytes at " + b.name;
    } else if (step.what == Do::sync) {
      what = w.program.named_barriers[step.object];
      const std::int64_t come = w.named[step.object].arrived;
      if (missing.empty())
        missing = std::to_string(step.amount - come) + " of " + std::to_string(step.amount) + " threads at " + what;
    } else if (step.what == Do::poll || step.what == Do::poll_awhile) {
      what = w.program.counters[step.object].name;
      const bool full = std::count(w.held_back.begin(), w.held_back.end(), 1) > 0;
      if (missing.empty() && full)
        missing = "a timeout of " + thread.name + "'s wait: other blocks start only when its block has ended";
      if (missing.empty()) missing = "an add to " + what;
    } else {
      what = "its asynchronous operations";
    }
    const Access here{static_cast<int>(t), 0, -1, &step};
    waits += (waits.empty() ? "" : ", ") + thread.name + " waits for " + what;
    if (const std::string where = place(here); !where.empty()) waits += " (after " + where + ")";
  }
  return "deadlock: " + waits + "; missing: " + missing;
}

}  // namespace ridge::tile::trace
