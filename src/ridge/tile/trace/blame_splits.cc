// Error messages for splits that wait for each other: a slice of the tile that no split or more than one split stores,
// or a counter that is not zero at the end. The values that the splits have read from the counter show which check is
// missing.
#include <algorithm>

#include "ridge/tile/trace/await.h"
#include "ridge/tile/trace/world.h"

namespace ridge::tile::trace {
namespace {

struct Party {  // the first thread of the group that has a split of a tile
  int thread = -1;
  const Step* talk = nullptr;
  Access access() const { return {thread, 0, -1, talk}; }
};

std::vector<Party> parties(const World& w, int counter) {
  std::vector<Party> all;
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    for (const Step& s : w.program.threads[t].steps)
      if (s.what == Do::talk && w.program.talks[s.object].counter == counter) all.push_back({static_cast<int>(t), &s});
  return all;
}
const Talk& talk_of(const World& w, const Party& p) { return w.program.talks[p.talk->object]; }

// Returns, for example, "block 1 consumer 0, after stage 3 of tile 0".
std::string named(const World& w, const Party& p) {
  return w.program.threads[p.thread].name + ", after " + place(p.access());
}

// Returns a participant's matching add to the counter, or null. It adds once for its arrival, once for its departure,
// and once if it gives up its slice.
const Raise* raised(const World& w, const Party& p, bool (*by_so_much)(std::int64_t)) {
  for (const Raise& r : w.counters[talk_of(w, p).counter].raises)
    if (r.by.thread == p.thread && by_so_much(r.by.step->by)) return &r;
  return nullptr;
}
bool comes(std::int64_t by) { return by == one_come; }
bool goes(std::int64_t by) { return by == one_gone; }
bool leaves(std::int64_t by) { return by >= one_left; }

// Returns the participant for this tile in the group of `thread`.
Party party_of(const World& w, int thread, int item) {
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    if (const Thread& x = w.program.threads[t]; x.leads && x.group >= 0 && x.group == w.program.threads[thread].group)
      for (const Step& s : x.steps)
        if (s.what == Do::talk && s.item == item) return {static_cast<int>(t), &s};
  return {};
}

// Returns the participant that owns an output cell; its `thread` is -1 if the cell is not a slice.
Party owner(const World& w, int cell) {
  for (std::size_t t = 0; t < w.program.threads.size(); ++t)
    for (const Step& s : w.program.threads[t].steps) {
      if (s.what != Do::write || s.object != cell || s.granted < 0) continue;
      const Party writer = party_of(w, static_cast<int>(t), s.item);
      if (writer.thread < 0) continue;
      for (const Party& p : parties(w, talk_of(w, writer).counter))
        if (talk_of(w, p).split == s.granted) return p;
    }
  return {};
}

// Returns the participant that arrived last, which has to store the slices that others gave up.
Party last_to_come(const World& w, int counter) {
  Party last;
  for (const Party& p : parties(w, counter))
    if (const Raise* const r = raised(w, p, comes);
        r != nullptr && (r->before & count_mask) + 1 == talk_of(w, p).splits)
      last = p;
  return last;
}
// True if it gave up its slice after all splits had arrived; then no split checks its bit any more.
bool left_too_late(const World& w, const Party& p) {
  const Raise* const r = raised(w, p, leaves);
  return r != nullptr && (r->before & count_mask) >= talk_of(w, p).splits;
}

}  // namespace

std::string blame_unstored(const World& w, int cell) {
  const std::string begin = w.program.cells[cell].name + ": not stored when the kernel ends; missing: ";
  const Party p = owner(w, cell);
  if (p.thread < 0) return begin + "a store of these sums";
  const std::string whose = named(w, p);
  const bool left = std::count(w.left.begin(), w.left.end(), p.thread) > 0;
  if (left && raised(w, p, leaves) == nullptr)
    return begin + "the bit of " + whose + ", in the counter when it gives up its slice";
  if (!left) return begin + "its slice among those that " + whose + ", is granted";
  if (left_too_late(w, p)) return begin + "a check of " + whose + ", whether all splits have arrived when it gives up";
  const Party last = last_to_come(w, talk_of(w, p).counter);
  if (last.thread < 0) return begin + "a split that finds that it arrived last, because " + whose + ", gave up";
  return begin + "a check of " + named(w, last) + ", for splits that gave up before it arrived last: " + whose;
}

std::string blame_twice(const World& w, int cell, const Access& before, const Access& now) {
  const std::string begin = w.program.cells[cell].name + ": written by " + w.program.threads[before.thread].name +
                            " (" + place(before) + ") and by " + w.program.threads[now.thread].name + " (" +
                            place(now) + "); missing: ";
  const Party p = owner(w, cell);
  if (p.thread < 0) return begin + "a single owner of the output";
  if (const std::string leaver = blame_leaver(w, p.access()); !leaver.empty()) return begin + leaver;
  return begin + "a check for splits that gave up: " + named(w, p) + ", has not";
}

std::string blame_leaver(const World& w, const Access& now) {
  const Party p = now.step->item < 0 ? Party{} : party_of(w, now.thread, now.step->item);
  if (p.thread < 0 || raised(w, p, leaves) == nullptr || left_too_late(w, p)) return "";
  return "a grant of zero for " + named(w, p) + ": it gave up its slice to the split that arrives last";
}

std::string blame_counter(const World& w, int counter) {
  const std::int64_t value = w.counters[counter].value;
  const std::string begin = w.program.counters[counter].name + ": ";
  const std::vector<Party> all = parties(w, counter);
  if (all.empty())
    return begin + std::to_string(value) +
           " when the kernel ends, expected 0; missing: the reset by the group that arrives last";
  std::string left;
  for (const Party& p : all)
    if ((value / one_left >> talk_of(w, p).split & 1) != 0) left += (left.empty() ? "" : ", ") + named(w, p);
  const std::string state = begin + std::to_string(value & count_mask) + " splits have arrived and " +
                            std::to_string(value / one_gone & count_mask) + " have departed when the kernel ends" +
                            (left.empty() ? "" : " (gave up: " + left + ")") + ", expected 0; missing: ";
  for (const Party& p : all)
    if (raised(w, p, goes) == nullptr) return state + "the departure of " + named(w, p);
  for (const Party& p : all)
    if ((raised(w, p, goes)->before / one_gone & count_mask) + 1 == talk_of(w, p).splits)
      return state + "the reset by the split that departs last: " + named(w, p);
  return state + "a split that finds that it departs last, of tile " + std::to_string(all.front().talk->item);
}

}  // namespace ridge::tile::trace
