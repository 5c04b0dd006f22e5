// State of the simulation that checks a recorded program: threads with their clocks, barriers, cells with their last
// accesses, and operations in flight. Internal to the checker (check.cc).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ridge/tile/trace/recorded_program.h"

namespace ridge::tile::trace {

// A vector clock: for each thread the number of its last step that is known to have happened, and for each asynchronous
// operation a bit that is 1 if its end is known. [5 2 | 101] knows five steps of the first thread, two of the second,
// and the ends of two of three copies.
class VectorClock {
 public:
  static constexpr int max_words = 96;
  VectorClock() = default;
  VectorClock(int threads, int operations) : threads_(threads), words_(threads + (operations + 31) / 32) {}
  static bool fits_in(int threads, int operations) { return threads + (operations + 31) / 32 <= max_words; }

  void merge_clock(const VectorClock& o) {
    for (int i = 0; i < threads_; ++i) word_[i] = std::max(word_[i], o.word_[i]);
    for (int i = threads_; i < words_; ++i) word_[i] |= o.word_[i];
  }
  void advance_thread(int thread) { ++word_[thread]; }
  std::uint32_t step(int thread) const { return word_[thread]; }
  bool knows_step(int thread, std::uint32_t step) const { return word_[thread] >= step; }
  void learn_end(int operation) { word_[threads_ + operation / 32] |= 1U << (operation % 32); }
  bool knows_end(int operation) const { return word_[threads_ + operation / 32] >> (operation % 32) & 1; }

 private:
  int threads_ = 0, words_ = 0;
  std::array<std::uint32_t, max_words> word_{};
};

struct HappensBefore {  // events that a thread or an operation knows to have happened
  VectorClock seen;     // known events
  VectorClock fenced;   // known events whose writes are also visible to asynchronous operations (after a proxy fence)
  VectorClock unacquired;  // events that would be known if counters had been read with acquire
  VectorClock unreleased;  // events that would be known if others had added to counters with release
  void merge_clocks(const HappensBefore& o) {
    seen.merge_clock(o.seen);
    fenced.merge_clock(o.fenced);
    unacquired.merge_clock(o.unacquired);
    unreleased.merge_clock(o.unreleased);
  }
};

struct Access {                   // one access to a cell
  int thread = -1;                // thread that made the access or started it
  std::uint32_t thread_step = 0;  // number of that thread's step
  int operation = -1;             // number of the asynchronous operation; -1 for an access by the thread itself
  const RecordedStep* step = nullptr;
  bool is_known_to(const VectorClock& clock) const {
    return operation < 0 ? clock.knows_step(thread, thread_step) : clock.knows_end(operation);
  }
  bool is_start_known_to(const VectorClock& clock) const { return clock.knows_step(thread, thread_step); }
};

struct SimulatedCell {
  Access writer;                // last write
  VectorClock writer_knew;      // clock of the writer at that write
  std::vector<Access> readers;  // reads since the last write
  int writes = 0;               // number of writes so far
};

struct SimulatedBarrier {
  int missing_arrivals = 0;        // arrivals that this phase still needs
  std::int64_t missing_bytes = 0;  // bytes that this phase still needs
  std::uint32_t phases = 0;        // completed phases
  HappensBefore arriving, completed;
};

struct SimulatedNamedBarrier {
  std::int64_t arrived = 0;
  std::uint32_t generation = 0;
  HappensBefore arriving, completed;
};

struct CounterAdd {  // an add to a counter
  Access by;
  std::int64_t before = 0;  // value before the add
};
struct SimulatedCounter {
  std::int64_t value = 0;
  VectorClock released;          // events that adds with release have published
  VectorClock released_fences;   // the same for events before a proxy fence
  VectorClock all_adders;        // events known to any thread that added, with or without release
  std::vector<CounterAdd> adds;  // in chronological order
};

struct AsyncOperation {  // an asynchronous operation that has not ended
  const RecordedStep* step = nullptr;
  Access access;
  HappensBefore known;
  int buffer = 0;         // offset of the group's current buffer
  bool has_read = false;  // true if a store has read its source
  int number = 0;         // index of a multiply in its group, or of a store in its thread
};

struct SimulatedThread {
  std::size_t step_index = 0;  // next step of its list
  HappensBefore known;
  bool waits_at_sync = false;
  std::uint32_t generation = 0;  // generation of the named barrier at which it arrived
  bool sums_fenced = false;      // true if its sums were not accessed since the last fence_sums
  int multiplies = 0, buffer = 0;
  std::vector<int> multiply_batches, store_batches;  // operations started before each batch was closed
  std::vector<int> stores;                           // number of each store's read; the write has the next number
  std::vector<char> store_states;                    // 0 in flight, 1 has read, 2 has written
  int last_counter = -1;
  StreamCursor cursor;
  int polls_left = 0;  // polls of a counter before the timeout; -1: no timeout
  bool done = false;
};

struct SimulatedGroup {
  int threads = 0;
  std::uint32_t granted = 0;  // latest grant by its first thread
  std::vector<int> issued;    // number of threads that have issued multiply i
  std::vector<HappensBefore> issuing;
  std::vector<Access> issuer;      // access of the group's first thread
  std::vector<VectorClock> ended;  // clocks at the end of multiply i, cumulative
};

struct SimulatorState {
  SimulatorState(const RecordedProgram& p, unsigned seed);

  const RecordedProgram& program;
  std::mt19937 random;
  std::vector<SimulatedThread> threads;
  std::vector<SimulatedBarrier> barriers;
  std::vector<SimulatedNamedBarrier> named;
  std::vector<SimulatedCell> cells;
  std::vector<SimulatedCounter> counters;
  std::vector<SimulatedGroup> groups;
  std::vector<AsyncOperation> in_flight;
  int operations = 0;
  std::vector<std::pair<int, Access>> shared_accesses;  // a block, and an access to its shared memory
  std::vector<VectorClock> block_end;
  std::vector<int> running_threads;  // threads of a block that are not done
  std::vector<char> waits_to_start;  // by cluster: 1 if the device has not started it yet
  std::vector<int> gave_up;          // threads that gave up before all splits of their tile had arrived
  std::string error;

  VectorClock empty_clock() const { return {static_cast<int>(threads.size()), total_operations}; }
  int total_operations = 0;

  void report_error(const std::string& what) {
    if (error.empty()) error = program.kernel + ": " + what;
  }
  bool is_waiting_to_start(int thread) const {
    return waits_to_start[program.threads[thread].block / program.cluster] != 0;
  }
  std::uint32_t granted_slice_mask(const RecordedThread& t) const { return t.group < 0 ? 0 : groups[t.group].granted; }
  const RecordedStep* current_step(
      int thread, const RecordedStep& step) const {  // the stream's current step for run_stream, else `step` itself
    return step.what == RecordedStepKind::run_stream ? threads[thread].cursor.current_step() : &step;
  }
  void write_cell(int cell, const Access& access, const HappensBefore& known);
  void read_cell(int cell, const Access& access, const HappensBefore& known);
};

// Each diagnose_… returns an error message: a sentence that says what is wrong and which wait is missing.
std::string diagnose_write(const SimulatorState& w, int cell, const Access& before, const Access& now,
                           const HappensBefore& known);
std::string diagnose_read(const SimulatorState& w, int cell, const Access& now, const HappensBefore& known);
std::string diagnose_proxy_fence(const SimulatorState& w, int cell, const Access& writer,
                                 const Access& now);  // an asynchronous access without a proxy fence before it
std::string diagnose_extra_arrival(const SimulatorState& w, int barrier,
                                   const Access& now);  // too many arrivals in a phase
std::string diagnose_deadlock(const SimulatorState& w);
// A block ends while the access `pending` to its shared memory may still run.
std::string diagnose_early_end(const SimulatorState& w, const Access& pending);
// A multiply is issued without the fence_sums after an earlier access to its sums.
std::string diagnose_sums_fence(const SimulatorState& w, int cell, const Access& now);
std::string describe_stage(const Access& a);  // for example "stage 3 of tile 0"

// Error messages for splits that wait for each other: a slice is not stored, or stored twice; a counter is not zero.
std::string diagnose_unstored(const SimulatorState& w, int cell);
std::string diagnose_double_store(const SimulatorState& w, int cell, const Access& before, const Access& now);
std::string diagnose_nonzero_counter(const SimulatorState& w, int counter);
// Returns the error of an access to a slice that its split gave up after a timeout, else an empty text.
std::string diagnose_timed_out_split(const SimulatorState& w,
                                     const Access& now);  // Is empty if the split has not given up

}  // namespace ridge::tile::trace
