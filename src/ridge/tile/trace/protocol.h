// A kernel's synchronisation, written down: for each role the list of what it does to barriers, tiles, stores and
// counters, in order. A block with one producer and two consumers is five lists: the producer's thread, and two threads
// of each consumer (its first, which arrives and stores for the group, and one that stands for all the others). What a
// role does does not depend on when others do it, but for two things: what a group stores may depend on what its first
// thread was told, so an operation may have to be `granted`; and a thread may ask what to do next (`talk`). Lists are
// recorded from the real text (record.h) or written by hand, may be edited (that is how faults are made), and are then
// run in any order that their waits allow (check.h).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ridge::tile::trace {

enum class Do : std::uint8_t {
  wait,           // for the end of phase `amount` of barrier `object`
  arrive,         // at barrier `object`
  expect,         // `amount` more bytes in this phase of barrier `object`
  copy,           // starts an asynchronous copy into cell `object`; its `amount` bytes arrive at barrier `other`
  fence_sums,     // what was done to sums before is ordered before the multiplies after
  multiply,       // starts an asynchronous multiply of `cells` into the sums, cell `object`; the whole group issues it.
                  // `amount`: FLOPs of the group
  commit,         // closes a batch of multiplies
  wait_multiply,  // until at most `amount` batches are not finished
  sync,           // `amount` threads at named barrier `object`: arrives and waits
  join,           // arrives there without waiting
  fence_proxy,    // writes before are visible to asynchronous operations after
  write,          // `amount` bytes to cell `object`
  read,           // from it
  store,          // starts an asynchronous store of `amount` bytes from `cells` to cell `other`
  commit_store,   // closes a batch of stores
  wait_read,      // until at most `amount` batches of stores still read their source
  wait_written,   // until at most `amount` batches of stores have not arrived
  next_buffer,    // of the group's output buffers
  add,            // `by` to counter `object`; who finds `amount` then is last, is told so and sets it to 0 (0: never)
  poll,           // until the bits `other` of counter `object` are at least `amount`
  poll_awhile,    // the same, or until the thread's patience has ended; answers which
  clear,          // sets counter `object` to 0
  grant,          // the group, through cell `object`: the bits `amount`
  talk,           // what talk `object` of the program asks for
};

// How an operation on a counter orders what is around it.
enum class Order : std::uint8_t { relaxed, acquire, release, acquire_release };

struct Step {
  Do what;
  int object = -1, other = -1;
  std::int64_t amount = 0, by = 1;
  Order order = Order::acquire_release;
  int granted = -1;        // only if the group was told this bit
  bool is_buffer = false;  // the cells are of the group's output buffer whose turn it is: + turn * lanes
  int item = -1, stage = -1;
  std::vector<int> cells{};
  bool is_done_by(std::uint32_t group_granted) const { return granted < 0 || (group_granted >> granted & 1) != 0; }
};

struct Thread {
  std::string name;           // "consumer 1"
  int block = 0, group = -1;  // group of threads that multiplies together; -1: none
  bool leads = true;
  std::int64_t weight = 1;  // threads it stands for at a named barrier
  std::vector<Step> steps{};
};

struct Barrier {
  std::string name;  // "slot 2 full"
  int arrivals = 1, block = 0;
};

enum class Kind : std::uint8_t { tile, sums, buffer, output, memory };
struct Cell {        // what is read and written as a whole
  std::string name;  // "slot 2 tile b"
  Kind kind = Kind::memory;
  int block = -1;
};

struct Counter {
  std::string name;
  bool returns = false;  // is zero when the kernel ends, as it was when it began
};

// What a text asks for that reads what others write and goes on as it reads. It is run again from its beginning for
// every step, with the answers that it has had, and must come to an end whatever it is answered.
class Asking {
 public:
  explicit Asking(const std::vector<std::int64_t>& answers) : answers_(answers) {}
  std::int64_t ask(Step step) {
    if (at_ < answers_.size()) return answers_[at_++];
    if (!next) next = std::move(step);
    return 0;
  }
  std::optional<Step> next{};  // none: the text has ended

 private:
  const std::vector<std::int64_t>& answers_;
  std::size_t at_ = 0;
};

struct Talk {  // of a group's first thread about the pieces of a tile
  int counter = -1, split = 0, splits = 1;
  std::function<void(Asking&)> text{};
};

struct Program {
  std::string kernel;
  std::deque<Thread> threads{};
  std::vector<Barrier> barriers{};
  std::vector<std::string> named_barriers{};
  std::vector<Cell> cells{};
  std::vector<Counter> counters{};
  std::vector<Talk> talks{};
  int groups = 0, buffers = 1, lanes = 1;  // buffers of a group, cells of a buffer
  int cluster = 1;                         // blocks that start together
  std::string fault{};                     // found while writing down: a tile that is multiplied and was never loaded

  int barrier(std::string name, int arrivals, int block = 0) {
    barriers.push_back({std::move(name), arrivals, block});
    return static_cast<int>(barriers.size()) - 1;
  }
  int cell(std::string name, Kind kind = Kind::memory, int block = -1) {
    cells.push_back({std::move(name), kind, block});
    return static_cast<int>(cells.size()) - 1;
  }
  int counter(std::string name) {
    counters.push_back({std::move(name)});
    return static_cast<int>(counters.size()) - 1;
  }
  Thread& thread(std::string name, int block = 0) {
    threads.push_back({.name = std::move(name), .block = block});
    return threads.back();
  }
};

// One thread's place in its talks.
class Speaker {
 public:
  // What it does next; null: the talk has ended. It stays where it lies.
  const Step* word(const Program& program, const Step& talk) {
    if (!open_) {
      Asking asking(answers_);
      program.talks[talk.object].text(asking);
      if (!asking.next) {
        answers_.clear();
        return nullptr;
      }
      said_.push_back(std::move(*asking.next));
      said_.back().item = talk.item;
      said_.back().stage = talk.stage;
      open_ = true;
    }
    return &said_.back();
  }
  const Step* word() const { return open_ ? &said_.back() : nullptr; }  // that it is at
  // What its step has found. True: the talk goes on.
  bool answer(const Program& program, const Step& talk, std::int64_t found) {
    answers_.push_back(found);
    open_ = false;
    return word(program, talk) != nullptr;
  }

 private:
  std::deque<Step> said_;
  std::vector<std::int64_t> answers_;
  bool open_ = false;
};

}  // namespace ridge::tile::trace
