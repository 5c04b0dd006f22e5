// The state of a program under way: threads with their clocks, barriers, cells with who touched them last, operations
// in flight. Internal to the checker.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ridge/tile/trace/clock.h"
#include "ridge/tile/trace/protocol.h"

namespace ridge::tile::trace {

struct Knowledge {
  Clock seen;        // what happened before
  Clock fenced;      // of it, what asynchronous operations may see of threads' writes
  Clock unacquired;  // what counters that were read without acquire could have told
  Clock unreleased;  // what counters that were raised without release could have told
  void join(const Knowledge& o) {
    seen.join(o.seen);
    fenced.join(o.fenced);
    unacquired.join(o.unacquired);
    unreleased.join(o.unreleased);
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
  int writes = 0;
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

struct Raise {  // of a counter
  Access by;
  std::int64_t before = 0;
};
struct CounterState {
  std::int64_t value = 0;
  Clock shown, shown_fenced, hidden;
  std::vector<Raise> raises;  // in their order
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
  Speaker speaker;
  int patience = 0;  // looks at a counter until it gives up
  bool done = false;
};

struct GroupState {
  int threads = 0;
  std::uint32_t granted = 0;  // by its first thread, the last time
  std::vector<int> issued;    // threads that have issued multiply i
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
  std::vector<char> held_back;     // by cluster: the device has no room for it yet
  std::vector<int> left;           // threads that have gone before all pieces of their tile had come
  std::string fault;

  Clock empty_clock() const { return {static_cast<int>(threads.size()), total_operations}; }
  int total_operations = 0;

  void say(const std::string& what) {
    if (fault.empty()) fault = program.kernel + ": " + what;
  }
  bool is_held_back(int thread) const { return held_back[program.threads[thread].block / program.cluster] != 0; }
  std::uint32_t granted(const Thread& t) const { return t.group < 0 ? 0 : groups[t.group].granted; }
  const Step* word(int thread, const Step& step) const {  // what it says where it talks, else the step
    return step.what == Do::talk ? threads[thread].speaker.word() : &step;
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
std::string place(const Access& a);  // "stage 3 of tile 0"

// Of pieces that wait for each other: a share that nobody has stored at the end, or two; a counter that is not zero.
std::string blame_unstored(const World& w, int cell);
std::string blame_twice(const World& w, int cell, const Access& before, const Access& now);
std::string blame_counter(const World& w, int counter);
std::string blame_leaver(const World& w, const Access& now);  // what is missing if it has left; else nothing

}  // namespace ridge::tile::trace
