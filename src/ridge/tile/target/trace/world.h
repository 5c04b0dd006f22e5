// The state of a program under way: threads with their clocks, barriers, cells with who touched them last, operations
// in flight. Internal to the checker.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ridge/tile/target/trace/clock.h"
#include "ridge/tile/target/trace/protocol.h"

namespace ridge::tile::trace {

struct Knowledge {
  Clock seen;        // what happened before
  Clock fenced;      // of it, what asynchronous operations may see of threads' writes
  Clock unacquired;  // what counters that were read without acquire could have told
  Clock unreleased;  // what counters that were raised without release could have told
  void join(const Knowledge& o) {
    seen.join(o.seen), fenced.join(o.fenced);
    unacquired.join(o.unacquired), unreleased.join(o.unreleased);
  }
};

struct Access {               // one touch of a cell
  int thread = -1;            // that did it or started it
  std::uint32_t started = 0;  // at this step of that thread
  int operation = -1;         // asynchronous: which; -1: the thread itself
  const Step* step = nullptr;
  bool known_to(const Clock& clock) const {
    return operation < 0 ? clock.knows_step(thread, started) : clock.knows_end(operation);
  }
  bool start_known_to(const Clock& clock) const { return clock.knows_step(thread, started); }
};

struct CellState {
  Access writer;
  Clock writer_knew;
  std::vector<Access> readers;
};

struct BarrierState {
  int missing = 0;           // arrivals of this phase
  std::int64_t bytes = 0;    // of this phase
  std::uint32_t phases = 0;  // complete
  Knowledge gathering, opened;
};

struct NamedState {
  std::int64_t arrived = 0;
  std::uint32_t generation = 0;
  Knowledge gathering, opened;
};

struct CounterState {
  std::int64_t value = 0;
  Clock shown, shown_fenced, hidden;
};

struct Flight {  // an asynchronous operation that has not ended
  const Step* step = nullptr;
  Access access;
  Knowledge knows;
  int buffer = 0;         // turn of the group's buffers
  bool has_read = false;  // store
  int number = 0;         // multiply: in its group; store: in its thread
};

struct ThreadState {
  std::size_t at = 0;
  Knowledge knows;
  bool waits_at_sync = false;
  std::uint32_t generation = 0;  // that it arrived in
  bool sums_fenced = false;
  int multiplies = 0, buffer = 0;
  std::vector<int> multiply_batches, store_batches;  // how many had been started when the batch was closed
  std::vector<int> stores;                           // operations: read = id, written = id + 1
  std::vector<char> store_state;                     // 0 under way, 1 has read, 2 has written
  int last_counter = -1;
  bool done = false;
};

struct GroupState {
  int threads = 0;
  bool last = false;        // finished its piece last
  std::vector<int> issued;  // threads that have issued multiply i
  std::vector<Knowledge> issuing;
  std::vector<Access> issuer;  // the group's first thread
  std::vector<Clock> ended;    // cumulative
};

struct World {
  World(const Program& p, unsigned seed);

  const Program& program;
  std::mt19937 random;
  std::vector<ThreadState> threads;
  std::vector<BarrierState> barriers;
  std::vector<NamedState> named;
  std::vector<CellState> cells;
  std::vector<CounterState> counters;
  std::vector<GroupState> groups;
  std::vector<Flight> flights;
  int operations = 0;
  std::vector<std::pair<int, Access>> in_shared;  // block, operations on its memory
  std::vector<Clock> block_end;
  std::vector<int> block_threads;  // not done
  std::string fault;

  Clock empty_clock() const { return {static_cast<int>(threads.size()), total_operations}; }
  int total_operations = 0;

  void say(const std::string& what) {
    if (fault.empty()) fault = program.kernel + ": " + what;
  }
  void write(int cell, const Access& access, const Knowledge& knows);
  void read(int cell, const Access& access, const Knowledge& knows);
};

// What went wrong and which wait is missing, as a sentence.
std::string blame_write(const World& w, int cell, const Access& before, const Access& now, const Knowledge& knows);
std::string blame_read(const World& w, int cell, const Access& now, const Knowledge& knows);
std::string blame_blind(const World& w, int cell, const Access& writer, const Access& now);  // no proxy fence
std::string blame_arrival(const World& w, int barrier, const Access& now);                   // one too many in a phase
std::string blame_stuck(const World& w);
std::string blame_end(const World& w, const Access& left);
std::string blame_fence(const World& w, int cell, const Access& now);

}  // namespace ridge::tile::trace
