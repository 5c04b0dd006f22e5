// Operations by which concurrent splits of a tile wait for each other (`wait_for_splits`, ring.h), recorded as one step
// each, so that the checker can run steps of other blocks between any two of them and can let any wait time out.
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/trace/recorded_program.h"

namespace ridge::tile::trace {

struct SplitOperations {
  StepReplay& replay;
  int counter, flag;  // `flag` is the cell by which a group's first thread sends the grant to the others

  std::uint32_t add_acquire_release(const WorkItem&, std::uint32_t by) {
    return add_to_counter(by, MemoryOrder::acquire_release);
  }
  std::uint32_t add_relaxed(const WorkItem&, std::uint32_t by) { return add_to_counter(by, MemoryOrder::relaxed); }
  bool have_all_arrived(const WorkItem& item) {
    return poll_counter(RecordedStepKind::poll_until_timeout, item.splits, MemoryOrder::acquire);
  }
  void grant_slices(std::uint32_t shares) {
    replay.replay_step({.what = RecordedStepKind::grant, .object = flag, .amount = shares});
  }
  void clear_counter(const WorkItem&) { replay.replay_step({.what = RecordedStepKind::clear, .object = counter}); }

  std::uint32_t add_to_counter(std::uint32_t by, MemoryOrder order) {
    return static_cast<std::uint32_t>(
        replay.replay_step({.what = RecordedStepKind::add, .object = counter, .by = by, .order = order}));
  }
  bool poll_counter(RecordedStepKind what, int splits, MemoryOrder order) {
    return replay.replay_step(
               {.what = what, .object = counter, .other = count_mask, .amount = splits, .order = order}) != 0;
  }
};

}  // namespace ridge::tile::trace
