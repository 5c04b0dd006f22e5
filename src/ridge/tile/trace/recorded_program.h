// A recorded program: for each thread role of a kernel, the list of steps that affect synchronisation (barriers, tiles,
// stores and counters). A block with one producer and two consumers has five lists: one of the producer's thread, and
// two of each consumer (one of its first thread, which arrives and stores for the group, and one that represents the
// others). The steps do not depend on timing, with two exceptions: a step may need a bit that the group's first thread
// grants, and the steps of a stream (`run_stream`) depend on the results of earlier steps. Lists are recorded from the
// kernel itself (record.h) or written by hand. Tests edit them to inject errors. The checker (check.h) runs them in any
// order that their waits allow.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ridge::tile::trace {

enum class RecordedStepKind : std::uint8_t {
  wait,          // waits for the end of phase `amount` of barrier `object`
  arrive,        // arrives at barrier `object`
  expect_bytes,  // adds `amount` bytes to this phase of barrier `object`
  copy,          // starts an asynchronous copy into cell `object`; its `amount` bytes arrive at barrier `other`
  fence_sums,    // orders earlier accesses to sums before later multiplies
  multiply,      // starts an asynchronous multiply of `cells` into the sums, cell `object`; the whole group issues it.
                 // `amount` is the number of FLOPs of the group
  commit_multiply,     // closes a batch of multiplies
  wait_multiply,       // waits until at most `amount` batches are not finished
  sync,                // arrives at named barrier `object` and waits for its `amount` threads
  bar_arrive,          // arrives at named barrier `object` without waiting
  fence_proxy,         // makes earlier writes visible to later asynchronous operations
  write,               // writes `amount` bytes to cell `object`
  read,                // reads cell `object`
  store,               // starts an asynchronous store of `amount` bytes from `cells` to cell `other`
  commit_store,        // closes a batch of stores
  wait_read,           // waits until at most `amount` batches of stores still read their source
  wait_written,        // waits until at most `amount` batches of stores have not arrived
  next_buffer,         // advances to the next of the group's output buffers
  add,                 // adds `by` to counter `object`; if that makes it `amount` (not 0), resets it and grants bit 0
  poll,                // waits until the bits `other` of counter `object` are at least `amount`
  poll_until_timeout,  // same as `poll`, but with a timeout; the result is 0 after a timeout
  clear,               // sets counter `object` to 0
  grant,               // grants the bits `amount` to the group, through cell `object`
  run_stream,          // runs the steps of stream `object` of the program
};

// Memory order of an operation on a counter.
enum class MemoryOrder : std::uint8_t { relaxed, acquire, release, acquire_release };

struct RecordedStep {
  RecordedStepKind what;
  int object = -1, other = -1;      // indices of a barrier, cell, counter or stream, see RecordedStepKind
  std::int64_t amount = 0, by = 1;  // operands, see RecordedStepKind
  MemoryOrder order = MemoryOrder::acquire_release;
  int required_bit = -1;      // bit that must be granted for the step to run; -1: always runs
  bool is_buffer = false;     // true if `cells` name buffer 0 and stand for the group's current buffer
  int item = -1, stage = -1;  // work item (tile) and stage along K; -1: none
  std::vector<int> cells{};   // cells that a multiply or a store reads
  bool is_enabled_by(std::uint32_t granted_slice_mask) const {
    return required_bit < 0 || (granted_slice_mask >> required_bit & 1) != 0;
  }
};

struct RecordedThread {
  std::string name;                      // "consumer 1"
  int block = 0, group = -1;             // group of threads that multiplies together, or -1
  bool leads = true;                     // true for the first thread of its group
  std::int64_t represented_threads = 1;  // number of threads that it counts as at a named barrier
  std::vector<RecordedStep> steps{};
};

struct RecordedBarrier {
  std::string name;  // "slot 2 full"
  int arrivals = 1, block = 0;
};

enum class CellKind : std::uint8_t { tile, scales, sums, buffer, output, memory };
struct RecordedCell {  // memory that is read and written as a unit
  std::string name;    // for example "slot 2 tile b"
  CellKind kind = CellKind::memory;
  int block = -1;  // block whose shared memory or registers hold the cell; -1: global memory
};

struct RecordedCounter {
  std::string name;
  bool returns_to_zero = false;  // true if it must be zero again when the kernel ends
};

// Finds the next step of code whose steps depend on the results of earlier steps: the code runs again from its
// beginning with the known results, up to the first step without one. The code must end for any results.
class StepReplay {
 public:
  explicit StepReplay(const std::vector<std::int64_t>& results) : results_(results) {}
  // Returns the known result of a step. A step without one becomes `next`, and 0 is returned.
  std::int64_t replay_step(RecordedStep step) {
    if (at_ < results_.size()) return results_[at_++];
    if (!next) next = std::move(step);
    return 0;
  }
  std::optional<RecordedStep> next{};  // the next step, or nullopt if the code has ended

 private:
  const std::vector<std::int64_t>& results_;
  std::size_t at_ = 0;
};

struct StepStream {  // steps by which a group's first thread waits for the other splits of a tile
  int counter = -1, split = 0, splits = 1;
  std::function<void(StepReplay&)> body{};
};

struct RecordedProgram {
  std::string kernel;
  std::deque<RecordedThread> threads{};
  std::vector<RecordedBarrier> barriers{};
  std::vector<std::string> named_barriers{};
  std::vector<RecordedCell> cells{};
  std::vector<RecordedCounter> counters{};
  std::vector<StepStream> streams{};
  int groups = 0;            // number of groups of threads
  int buffers = 1;           // output buffers per group
  int cells_per_buffer = 1;  // cells of a buffer
  int cluster = 1;           // blocks per cluster; they start together
  std::string error{};       // error found while recording: a tile that is multiplied but was not loaded

  int add_barrier(std::string name, int arrivals, int block = 0) {
    barriers.push_back({std::move(name), arrivals, block});
    return static_cast<int>(barriers.size()) - 1;
  }
  int add_cell(std::string name, CellKind kind = CellKind::memory, int block = -1) {
    cells.push_back({std::move(name), kind, block});
    return static_cast<int>(cells.size()) - 1;
  }
  int add_counter(std::string name) {
    counters.push_back({std::move(name)});
    return static_cast<int>(counters.size()) - 1;
  }
  RecordedThread& add_thread(std::string name, int block = 0) {
    threads.push_back({.name = std::move(name), .block = block});
    return threads.back();
  }
};

// Position of a thread in its current stream. `stream_step` is the run_stream step that started the stream.
class StreamCursor {
 public:
  // Replays the stream up to its next step and returns that step, or null if the stream has ended. The pointer stays
  // valid.
  const RecordedStep* replay_to_step(const RecordedProgram& program, const RecordedStep& stream_step) {
    if (!open_) {
      StepReplay replay(results_);
      program.streams[stream_step.object].body(replay);
      if (!replay.next) {
        results_.clear();
        return nullptr;
      }
      steps_.push_back(std::move(*replay.next));
      steps_.back().item = stream_step.item;
      steps_.back().stage = stream_step.stage;
      open_ = true;
    }
    return &steps_.back();
  }
  const RecordedStep* current_step() const {
    return open_ ? &steps_.back() : nullptr;
  }  // Is null before the first step
  // Stores the result of the current step and replays to the next one. Returns false if the stream has ended.
  bool advance_with_result(const RecordedProgram& program, const RecordedStep& stream_step, std::int64_t result) {
    results_.push_back(result);
    open_ = false;
    return replay_to_step(program, stream_step) != nullptr;
  }

 private:
  std::deque<RecordedStep> steps_;
  std::vector<std::int64_t> results_;
  bool open_ = false;
};

}  // namespace ridge::tile::trace
