// State of a simulated program: threads with their clocks, barriers, cells with their last accesses, and operations in
// flight. Internal to the checker.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "ridge/tile/trace/clock.h"
#include "ridge/tile/trace/protocol.h"

namespace ridge::tile::trace {

struct Knowledge {
  Clock seen;        // events that happened before
  Clock fenced;      // events whose writes asynchronous operations see (after a proxy fence)
  Clock unacquired;  // events that would be known if counters had been read with acquire
  Clock unreleased;  // events that would be known if others had added to counters with release
  void join(const Knowledge& o) {
    seen.join(o.seen);
    fenced.join(o.fenced);
    unacquired.join(o.unacquired);
    unreleased.join(o.unreleased);
  }
};

struct Access {               // one access to a cell
  int thread = -1;            // thread that made the access or started it
  std::uint32_t started = 0;  // step of that thread
  int operation = -1;         // number of the asynchronous operation; -1 for an access by the thread itself
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
  int missing = 0;           // arrivals that this phase still needs
  std::int64_t bytes = 0;    // bytes that this phase still needs
  std::uint32_t phases = 0;  // completed phases
  Knowledge gathering, opened;
};

struct NamedState {
  std::int64_t arrived = 0;
  std::uint32_t generation = 0;
  Knowledge gathering, opened;
};

struct Raise {  // an add to a counter
  Access by;
  std::int64_t before = 0;
};
struct CounterState {
  std::int64_t value = 0;
  Clock shown, shown_fenced, hidden;
  std::vector<Raise> raises;  // in chronological order
};

struct Flight {  // an asynchronous operation that has not ended
  const Step* step = nullptr;
  Access access;
  Knowledge knows;
  int buffer = 0;         // offset of the group's current buffer
  bool has_read = false;  // true if a store has read its source
  int number = 0;         // index of a multiply in its group, or of a store in its thread
};

struct ThreadState {
  std::size_t at = 0;
  Knowledge knows;
  bool waits_at_sync = false;
  std::uint32_t generation = 0;  // generation of the named barrier at which it arrived
  bool sums_fenced = false;
  int multiplies = 0, buffer = 0;
  std::vector<int> multiply_batches, store_batches;  // operations started before each batch was closed
  std::vector<int> stores;                           // operation that reads; the next number is the one that writes
  std::vector<char> store_state;                     // 0 in flight, 1 has read, 2 has written
  int last_counter = -1;
  Speaker speaker;
  int patience = 0;  // polls of a counter before the timeout; -1: no timeout
  bool done = false;
};

struct GroupState {
  int threads = 0;
  std::uint32_t granted = 0;  // latest grant by its first thread
  std::vector<int> issued;    // number of threads that have issued multiply i
  std::vector<Knowledge> issuing;
  std::vector<Access> issuer;  // access of the group's first thread
  std::vector<Clock> ended;    // clocks at the end of multiply i, cumulative
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
  std::vector<std::pair<int, Access>> in_shared;  // block, and an access to its shared memory
  std::vector<Clock> block_end;
  std::vector<int> block_threads;  // threads of a block that are not done
  std::vector<char> held_back;     // by cluster: 1 if the device has not started it yet
  std::vector<int> left;           // threads that gave up before all splits of their tile had arrived
  std::string fault;

  Clock empty_clock() const { return {static_cast<int>(threads.size()), total_operations}; }
  int total_operations = 0;

  void say(const std::string& what) {
    if (fault.empty()) fault = program.kernel + ": " + what;
  }
  bool is_held_back(int thread) const { return held_back[program.threads[thread].block / program.cluster] != 0; }
  std::uint32_t granted(const Thread& t) const { return t.group < 0 ? 0 : groups[t.group].granted; }
  const Step* word(int thread, const Step& step) const {  // the current step of a stream, else `step` itself
    return step.what == Do::talk ? threads[thread].speaker.word() : &step;
  }
  void write(int cell, const Access& access, const Knowledge& knows);
  void read(int cell, const Access& access, const Knowledge& knows);
};

// Return a sentence that says what is wrong and which wait is missing.
std::string blame_write(const World& w, int cell, const Access& before, const Access& now, const Knowledge& knows);
std::string blame_read(const World& w, int cell, const Access& now, const Knowledge& knows);
std::string blame_blind(const World& w, int cell, const Access& writer, const Access& now);  // missing proxy fence
std::string blame_arrival(const World& w, int barrier, const Access& now);                   // too many in a phase
std::string blame_stuck(const World& w);
std::string blame_end(const World& w, const Access& left);
std::string blame_fence(const World& w, int cell, const Access& now);
std::string place(const Access& a);  // for example "stage 3 of tile 0"

// The same for splits that wait for each other: a slice that is not stored, or twice; a counter that is not zero.
std::string blame_unstored(const World& w, int cell);
std::string blame_twice(const World& w, int cell, const Access& before, const Access& now);
std::string blame_counter(const World& w, int counter);
std::string blame_leaver(const World& w, const Access& now);  // is empty if it has not given up

}  // namespace ridge::tile::trace
