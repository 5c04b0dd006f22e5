// A recorded program: the steps of each role that affect synchronisation (barriers, tiles, stores and counters), in
// order. A block with one producer and two consumers has five lists: the producer's thread, and two threads of each
// consumer (its first, which arrives and stores for the group, and one that represents the others). The steps do not
// depend on timing, with two exceptions: a group's stores may depend on a decision of its first thread, so a step may
// have to be `granted`; and the steps of a stream (`run_stream`) depend on the results of earlier ones. Lists are
// recorded from the kernel itself (record.h) or written by hand, may be edited (to inject errors), and are then run in
// any order that their waits allow (check.h).
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
  wait,           // waits for the end of phase `amount` of barrier `object`
  arrive,         // arrives at barrier `object`
  expect,         // adds `amount` bytes to this phase of barrier `object`
  copy,           // starts an asynchronous copy into cell `object`; its `amount` bytes arrive at barrier `other`
  fence_sums,     // orders earlier accesses to sums before later multiplies
  multiply,       // starts an asynchronous multiply of `cells` into the sums, cell `object`; the whole group issues it.
                  // `amount` is the number of FLOPs of the group
  commit,         // closes a batch of multiplies
  wait_multiply,  // waits until at most `amount` batches are not finished
  sync,           // arrives at named barrier `object` and waits for its `amount` threads
  join,           // arrives there without waiting
  fence_proxy,    // makes earlier writes visible to later asynchronous operations
  write,          // writes `amount` bytes to cell `object`
  read,           // reads from it
  store,          // starts an asynchronous store of `amount` bytes from `cells` to cell `other`
  commit_store,   // closes a batch of stores
  wait_read,      // waits until at most `amount` batches of stores still read their source
  wait_written,   // waits until at most `amount` batches of stores have not arrived
  next_buffer,    // advances to the next of the group's output buffers
  add,            // adds `by` to counter `object`; if that makes it `amount` (not 0), resets it and grants bit 0
  poll,           // waits until the bits `other` of counter `object` are at least `amount`
  poll_until_timeout,  // the same with a timeout; the result is 0 after a timeout
  clear,               // sets counter `object` to 0
  grant,               // grants the bits `amount` to the group, through cell `object`
  run_stream,          // runs the steps of stream `object` of the program
};

// Memory order of an operation on a counter.
enum class MemoryOrder : std::uint8_t { relaxed, acquire, release, acquire_release };

struct RecordedStep {
  RecordedStepKind what;
  int object = -1, other = -1;
  std::int64_t amount = 0, by = 1;
  MemoryOrder order = MemoryOrder::acquire_release;
  int granted = -1;        // bit that must be granted for the step to run; -1: always
  bool is_buffer = false;  // true if the cells are those of buffer 0 and mean the group's current buffer
  int item = -1, stage = -1;
  std::vector<int> cells{};
  bool is_done_by(std::uint32_t group_granted) const { return granted < 0 || (group_granted >> granted & 1) != 0; }
};

struct RecordedThread {
  std::string name;           // "consumer 1"
  int block = 0, group = -1;  // group of threads that multiplies together, or -1
  bool leads = true;
  std::int64_t weight = 1;  // number of threads that it represents at a named barrier
  std::vector<RecordedStep> steps{};
};

struct RecordedBarrier {
  std::string name;  // "slot 2 full"
  int arrivals = 1, block = 0;
};

enum class CellKind : std::uint8_t { tile, sums, buffer, output, memory };
struct RecordedCell {  // memory that is read and written as a unit
  std::string name;    // for example "slot 2 tile b"
  CellKind kind = CellKind::memory;
  int block = -1;
};

struct RecordedCounter {
  std::string name;
  bool returns_to_zero = false;  // true if it must be zero again when the kernel ends
};

// Runs code whose steps depend on the results of earlier steps. For every step the code is run again from its beginning
// with the results so far; it must end for any results.
class StepReplay {
 public:
  explicit StepReplay(const std::vector<std::int64_t>& answers) : answers_(answers) {}
  std::int64_t perform_step(RecordedStep step) {
    if (at_ < answers_.size()) return answers_[at_++];
    if (!next) next = std::move(step);
    return 0;
  }
  std::optional<RecordedStep> next{};  // the next step, or nullopt if the code has ended

 private:
  const std::vector<std::int64_t>& answers_;
  std::size_t at_ = 0;
};

struct StepStream {  // steps by which a group's first thread waits for the other splits of a tile
  int counter = -1, split = 0, splits = 1;
  std::function<void(StepReplay&)> text{};
};

struct RecordedProgram {
  std::string kernel;
  std::deque<RecordedThread> threads{};
  std::vector<RecordedBarrier> barriers{};
  std::vector<std::string> named_barriers{};
  std::vector<RecordedCell> cells{};
  std::vector<RecordedCounter> counters{};
  std::vector<StepStream> streams{};
  int groups = 0, buffers = 1, lanes = 1;  // groups of threads, buffers of a group, cells of a buffer
  int cluster = 1;                         // number of blocks that start together
  std::string error{};                     // error of the recording: a tile that is multiplied but was not loaded

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

// Position of a thread in its streams.
class StreamCursor {
 public:
  // Returns the next step, or null if the stream has ended. The pointer stays valid.
  const RecordedStep* current_step(const RecordedProgram& program, const RecordedStep& talk) {
    if (!open_) {
      StepReplay asking(answers_);
      program.streams[talk.object].text(asking);
      if (!asking.next) {
        answers_.clear();
        return nullptr;
      }
      steps_.push_back(std::move(*asking.next));
      steps_.back().item = talk.item;
      steps_.back().stage = talk.stage;
      open_ = true;
    }
    return &steps_.back();
  }
  const RecordedStep* current_step() const {
    return open_ ? &steps_.back() : nullptr;
  }  // is null before the first step
  // Sets the result of the current step. Returns true if another step follows.
  bool finish_step(const RecordedProgram& program, const RecordedStep& talk, std::int64_t result) {
    answers_.push_back(result);
    open_ = false;
    return current_step(program, talk) != nullptr;
  }

 private:
  std::deque<RecordedStep> steps_;
  std::vector<std::int64_t> answers_;
  bool open_ = false;
};

}  // namespace ridge::tile::trace
