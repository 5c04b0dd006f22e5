// Error messages for splits that wait for each other: a slice of the tile that no split or more than one split stores,
// or a counter that is not zero at the end. The values that the splits have read from the counter show which check is
// missing.
#include <algorithm>

#include "ridge/tile/trace/simulator_state.h"
#include "ridge/tile/trace/split_operations.h"

namespace ridge::tile::trace {
namespace {

struct Participant {  // first thread of a group that computes one split of a tile
  int thread = -1;
  const RecordedStep* stream = nullptr;
  Access as_access() const { return {thread, 0, -1, stream}; }
};

std::vector<Participant> find_participants(const SimulatorState& w, int counter) {
  std::vector<Participant> all;
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    for (const RecordedStep& s : w.program.threads[t].steps)
      if (s.what == RecordedStepKind::run_stream && w.program.streams[s.object].counter == counter)
        all.push_back({static_cast<int>(t), &s});
  return all;
}
const StepStream& stream_of(const SimulatorState& w, const Participant& p) {
  return w.program.streams[p.stream->object];
}

// Returns, for example, "block 1 consumer 0, after stage 3 of tile 0".
std::string describe_participant(const SimulatorState& w, const Participant& p) {
  return w.program.threads[p.thread].name + ", after " + describe_stage(p.as_access());
}

// Returns the participant's add to the counter that matches, or null. A participant adds once when it arrives, once
// when it departs, and once if it gives up its slice.
const CounterAdd* find_add(const SimulatorState& w, const Participant& p, bool (*is_matching)(std::int64_t)) {
  for (const CounterAdd& r : w.counters[stream_of(w, p).counter].adds)
    if (r.by.thread == p.thread && is_matching(r.by.step->by)) return &r;
  return nullptr;
}
bool is_arrival(std::int64_t by) { return by == one_arrival; }
bool is_departure(std::int64_t by) { return by == one_departure; }
bool is_slice_given_up(std::int64_t by) { return by >= one_skipped_slice; }

// Returns the participant for this tile in the group of `thread`.
Participant find_participant(const SimulatorState& w, int thread, int item) {
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    if (const RecordedThread& x = w.program.threads[t];
        x.leads && x.group >= 0 && x.group == w.program.threads[thread].group)
      for (const RecordedStep& s : x.steps)
        if (s.what == RecordedStepKind::run_stream && s.item == item) return {static_cast<int>(t), &s};
  return {};
}

// Returns the participant that owns an output cell; its `thread` is -1 if the cell is not a slice.
Participant find_slice_owner(const SimulatorState& w, int cell) {
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    for (const RecordedStep& s : w.program.threads[t].steps) {
      if (s.what != RecordedStepKind::write || s.object != cell || s.required_bit < 0) continue;
      const Participant writer = find_participant(w, static_cast<int>(t), s.item);
      if (writer.thread < 0) continue;
      for (const Participant& p : find_participants(w, stream_of(w, writer).counter))
        if (stream_of(w, p).split == s.required_bit) return p;
    }
  return {};
}

// Returns the participant that arrived last, which has to store the slices that others gave up.
Participant find_last_arrival(const SimulatorState& w, int counter) {
  Participant last;
  for (const Participant& p : find_participants(w, counter))
    if (const CounterAdd* const r = find_add(w, p, is_arrival);
        r != nullptr && (r->before & count_mask) + 1 == stream_of(w, p).splits)
      last = p;
  return last;
}
// True if the participant gave up its slice after all splits had arrived; no split checks its bit then.
bool gave_up_too_late(const SimulatorState& w, const Participant& p) {
  const CounterAdd* const r = find_add(w, p, is_slice_given_up);
  return r != nullptr && (r->before & count_mask) >= stream_of(w, p).splits;
}

}  // namespace

std::string diagnose_unstored(const SimulatorState& w, int cell) {
  const std::string begin = w.program.cells[cell].name + ": not stored when the kernel ends; missing: ";
  const Participant p = find_slice_owner(w, cell);
  if (p.thread < 0) return begin + "a store of these sums";
  const std::string owner = describe_participant(w, p);
  const bool left = std::count(w.gave_up.begin(), w.gave_up.end(), p.thread) > 0;
  if (left && find_add(w, p, is_slice_given_up) == nullptr)
    return begin + "the bit of " + owner + ", in the counter when it gives up its slice";
  if (!left) return begin + "its slice among those that " + owner + ", is granted";
  if (gave_up_too_late(w, p))
    return begin + "a check of " + owner + ", whether all splits have arrived when it gives up";
  const Participant last = find_last_arrival(w, stream_of(w, p).counter);
  if (last.thread < 0) return begin + "a split that finds that it arrived last, because " + owner + ", gave up";
  return begin + "a check of " + describe_participant(w, last) +
         ", for splits that gave up before it arrived last: " + owner;
}

std::string diagnose_double_store(const SimulatorState& w, int cell, const Access& before, const Access& now) {
  const std::string begin = w.program.cells[cell].name + ": written by " + w.program.threads[before.thread].name +
                            " (" + describe_stage(before) + ") and by " + w.program.threads[now.thread].name + " (" +
                            describe_stage(now) + "); missing: ";
  const Participant p = find_slice_owner(w, cell);
  if (p.thread < 0) return begin + "a single owner of the output";
  if (const std::string leaver = diagnose_timed_out_split(w, p.as_access()); !leaver.empty()) return begin + leaver;
  return begin + "a check for splits that gave up: " + describe_participant(w, p) + ", has not";
}

std::string diagnose_timed_out_split(const SimulatorState& w, const Access& now) {
  const Participant p = now.step->item < 0 ? Participant{} : find_participant(w, now.thread, now.step->item);
  if (p.thread < 0 || find_add(w, p, is_slice_given_up) == nullptr || gave_up_too_late(w, p)) return "";
  return "a grant of zero for " + describe_participant(w, p) + ": it gave up its slice to the split that arrives last";
}

std::string diagnose_nonzero_counter(const SimulatorState& w, int counter) {
  const std::int64_t value = w.counters[counter].value;
  const std::string begin = w.program.counters[counter].name + ": ";
  const std::vector<Participant> all = find_participants(w, counter);
  if (all.empty())
    return begin + std::to_string(value) +
           " when the kernel ends, expected 0; missing: the reset by the group that arrives last";
  std::string left;
  for (const Participant& p : all)
    if ((value / one_skipped_slice >> stream_of(w, p).split & 1) != 0)
      left += (left.empty() ? "" : ", ") + describe_participant(w, p);
  const std::string state = begin + std::to_string(value & count_mask) + " splits have arrived and " +
                            std::to_string(value / one_departure & count_mask) + " have departed when the kernel ends" +
                            (left.empty() ? "" : " (gave up: " + left + ")") + ", expected 0; missing: ";
  for (const Participant& p : all)
    if (find_add(w, p, is_departure) == nullptr) return state + "the departure of " + describe_participant(w, p);
  for (const Participant& p : all)
    if ((find_add(w, p, is_departure)->before / one_departure & count_mask) + 1 == stream_of(w, p).splits)
      return state + "the reset by the split that departs last: " + describe_participant(w, p);
  return state + "a split that finds that it departs last, of tile " + std::to_string(all.front().stream->item);
}

}  // namespace ridge::tile::trace
