#include "ridge/tile/trace/check.h"

#include <algorithm>

#include "ridge/tile/trace/world.h"

namespace ridge::tile::trace {
namespace {

// One run of a program.
class Run {
 public:
  Run(const Program& program, unsigned seed) : w_(program, seed), program_(program) {}

  std::string operator()() {
    // In a third of the runs asynchronous operations are slow, in a third they are fast.
    const unsigned threads_first = static_cast<unsigned>(w_.random() % 3);
    if (!program_.talks.empty()) set_patience();
    while (w_.fault.empty()) {
      ready_.clear();
      for (std::size_t t = 0; t < w_.threads.size(); ++t)
        if (!w_.threads[t].done && is_ready(static_cast<int>(t))) ready_.push_back(static_cast<int>(t));
      ending_.clear();
      for (std::size_t f = 0; f < w_.flights.size(); ++f)
        if (may_end(w_.flights[f])) ending_.push_back(static_cast<int>(f));
      if (ready_.empty() && ending_.empty()) break;
      if (pick_thread(threads_first))
        step(ready_[w_.random() % ready_.size()]);
      else
        end(ending_[w_.random() % ending_.size()]);
    }
    if (w_.fault.empty()) {
      for (const ThreadState& t : w_.threads)
        if (!t.done && w_.fault.empty()) w_.say(blame_stuck(w_));
    }
    check_results();
    return w_.fault;
  }
  const std::vector<int>& left() const { return w_.left; }

 private:
  // Chooses which waits for other blocks time out: in a quarter of the runs none; in a quarter some; in a quarter all;
  // and in a quarter the device cannot start some of the blocks until others have ended, so that waits must time out.
  void set_patience() {
    mode_ = static_cast<Patience>(w_.random() % 4);
    if (mode_ != Patience::little_room) return;
    room_ = 1 + static_cast<int>(w_.random() % w_.held_back.size());
    for (char& held : w_.held_back) held = 1;
    make_room();
  }
  int patience() {
    const bool waits = mode_ == Patience::all || (mode_ == Patience::some && w_.random() % 2 == 0);
    return waits ? -1 : static_cast<int>(w_.random() % (1U << w_.random() % 8));
  }
  void make_room() {  // starts as many clusters as the device has space for, in any order
    for (; room_ > 0; --room_) {
      std::vector<char*> held;
      for (char& h : w_.held_back)
        if (h) held.push_back(&h);
      if (held.empty()) return;
      *held[w_.random() % held.size()] = 0;
    }
  }

  void check_results() {
    for (std::size_t i = 0; i < program_.cells.size() && w_.fault.empty(); ++i)
      if (program_.cells[i].kind == Kind::output && w_.cells[i].writes == 0)
        w_.say(blame_unstored(w_, static_cast<int>(i)));
    for (std::size_t i = 0; i < program_.counters.size() && w_.fault.empty(); ++i)
      if (program_.counters[i].returns && w_.counters[i].value != 0) w_.say(blame_counter(w_, static_cast<int>(i)));
  }

  bool pick_thread(unsigned mode) {
    if (ready_.empty() || ending_.empty()) return ending_.empty();
    unsigned chance = 32;  // probability times 64
    if (mode == 0) chance = 8;
    if (mode == 1) chance = 56;
    return w_.random() % 64 < chance;
  }

  // True if an operation may end now; the multiplies of a group end in order.
  bool may_end(const Flight& f) const {
    if (f.step->what != Do::multiply) return true;
    const GroupState& g = w_.groups[program_.threads[f.access.thread].group];
    return static_cast<int>(g.ended.size()) == f.number;
  }

  std::size_t next_at(int t) const {
    const Thread& thread = program_.threads[t];
    std::size_t at = w_.threads[t].at;
    while (at < thread.steps.size() && !thread.steps[at].is_done_by(w_.granted(thread))) ++at;
    return at;
  }
  const Step* next(int t) {
    const std::vector<Step>& steps = program_.threads[t].steps;
    const std::size_t at = next_at(t);
    if (at == steps.size()) return nullptr;
    if (steps[at].what != Do::talk) return &steps[at];
    ThreadState& s = w_.threads[t];
    const bool begins = s.speaker.word() == nullptr;
    const Step* const word = s.speaker.word(program_, steps[at]);
    if (begins) s.patience = patience();
    return word;
  }

  bool is_ready(int t) {
    const ThreadState& s = w_.threads[t];
    if (w_.is_held_back(t)) return false;
    const Step* const step = next(t);
    if (step == nullptr) return true;  // the thread can end
    switch (step->what) {
      case Do::wait: return (w_.barriers[step->object].phases & 1) != static_cast<std::uint32_t>(step->amount);
      case Do::sync: return !s.waits_at_sync || w_.named[step->object].generation != s.generation;
      case Do::poll: return has_come(*step);
      case Do::poll_awhile: return s.patience >= 0 || has_come(*step);
      case Do::wait_multiply: return multiplies_to_end(t, *step) <= ended_multiplies(t);
      case Do::wait_read: return stores_pass(t, *step, 1);
      case Do::wait_written: return stores_pass(t, *step, 2);
      default: return true;
    }
  }
  bool has_come(const Step& poll) const { return (w_.counters[poll.object].value & poll.other) >= poll.amount; }

  int ended_multiplies(int t) const { return static_cast<int>(w_.groups[program_.threads[t].group].ended.size()); }
  int multiplies_to_end(int t, const Step& step) const {
    const std::vector<int>& batches = w_.threads[t].multiply_batches;
    const std::ptrdiff_t last = std::ssize(batches) - 1 - step.amount;
    return last < 0 ? 0 : batches[last];
  }
  int stores_to_pass(int t, const Step& step) const {
    const std::vector<int>& batches = w_.threads[t].store_batches;
    const std::ptrdiff_t last = std::ssize(batches) - 1 - step.amount;
    return last < 0 ? 0 : batches[last];
  }
  bool stores_pass(int t, const Step& step, int state) const {
    const std::vector<char>& s = w_.threads[t].store_state;
    return std::all_of(s.begin(), s.begin() + stores_to_pass(t, step), [&](char x) { return x >= state; });
  }

  // Skips steps that are not granted to the group, then runs one step.
  void step(int t) {
    ThreadState& s = w_.threads[t];
    const Step* const step = next(t);
    if (step == nullptr) return finish(t);
    s.at = next_at(t);
    if (step->what == Do::sync && !s.waits_at_sync) {
      s.knows.seen.tick(t);
      s.waits_at_sync = true;
      s.generation = w_.named[step->object].generation;
      return arrive_named(t, *step);
    }
    s.knows.seen.tick(t);
    if (step->what == Do::poll_awhile && !has_come(*step) && s.patience-- > 0) return;  // polls again
    const Step& listed = program_.threads[t].steps[s.at];
    act(t, *step);
    if (listed.what != Do::talk || !s.speaker.answer(program_, listed, answer_)) ++s.at;
  }

  void act(int t, const Step& step) {
    ThreadState& s = w_.threads[t];
    const Access now{t, s.knows.seen.step(t), -1, &step};
    switch (step.what) {
      case Do::wait: return s.knows.join(w_.barriers[step.object].opened);
      case Do::arrive:
        if (program_.threads[t].block != program_.barriers[step.object].block)
          w_.in_shared.push_back({program_.barriers[step.object].block, now});
        return arrive(step.object, now, s.knows, 0);
      case Do::expect: w_.barriers[step.object].bytes += step.amount; return;
      case Do::copy:
      case Do::store: return start(t, step);
      case Do::fence_sums: s.sums_fenced = true; return;
      case Do::multiply: return multiply(t, step);
      case Do::commit: s.multiply_batches.push_back(s.multiplies); return;
      case Do::wait_multiply: {
        const int ended = multiplies_to_end(t, step);
        if (ended > 0) s.knows.seen.join(w_.groups[program_.threads[t].group].ended[ended - 1]);
        return;
      }
      case Do::sync: s.waits_at_sync = false; return s.knows.join(w_.named[step.object].opened);
      case Do::join: return arrive_named(t, step);
      case Do::fence_proxy: return s.knows.fenced.join(s.knows.seen);
      case Do::write:
        if (program_.cells[step.object].kind == Kind::sums) s.sums_fenced = false;
        return w_.write(step.object + shift(t, step), now, s.knows);
      case Do::read:
        if (const int home = program_.cells[step.object].block; home >= 0 && home != program_.threads[t].block)
          w_.in_shared.push_back({home, now});  // the other block must not end before this read
        if (program_.cells[step.object].kind == Kind::sums) s.sums_fenced = false;
        return w_.read(step.object + shift(t, step), now, s.knows);
      case Do::commit_store: s.store_batches.push_back(static_cast<int>(s.stores.size())); return;
      case Do::wait_read: return pass_stores(t, step, 1);
      case Do::wait_written: return pass_stores(t, step, 2);
      case Do::next_buffer: s.buffer = (s.buffer + 1) % program_.buffers; return;
      case Do::add: return add(t, step);
      case Do::poll: answer_ = 1; return acquire(t, step);
      case Do::poll_awhile:  // after a timeout the thread has learned nothing
        answer_ = has_come(step) ? 1 : 0;
        if (answer_ != 0) acquire(t, step);
        return;
      case Do::clear: w_.counters[step.object].value = 0; return;
      case Do::grant:
        if (step.amount == 0) w_.left.push_back(t);
        w_.groups[program_.threads[t].group].granted = static_cast<std::uint32_t>(step.amount);
        return w_.write(step.object, now, s.knows);
      case Do::talk: return;  // the steps of the stream run instead
    }
  }

  int shift(int t, const Step& step) const { return step.is_buffer ? w_.threads[t].buffer * program_.lanes : 0; }

  // Records an arrival of a thread, or of the bytes of a copy that has ended.
  void arrive(int barrier, const Access& from, const Knowledge& knows, std::int64_t bytes) {
    BarrierState& b = w_.barriers[barrier];
    const Barrier& named = program_.barriers[barrier];
    b.missing -= from.operation < 0 ? 1 : 0;
    b.bytes -= bytes;
    b.gathering.join(knows);
    if (b.missing < 0) return w_.say(blame_arrival(w_, barrier, from));
    if (w_.block_threads[named.block] == 0) return w_.say(blame_end(w_, from));
    if (b.missing > 0 || b.bytes != 0) return;
    ++b.phases;
    b.missing = named.arrivals;
    b.opened = b.gathering;
    b.gathering = fresh();
  }

  void arrive_named(int t, const Step& step) {
    NamedState& b = w_.named[step.object];
    b.arrived += program_.threads[t].weight;
    b.gathering.join(w_.threads[t].knows);
    if (b.arrived > step.amount)
      return w_.say(program_.named_barriers[step.object] + ": " + std::to_string(b.arrived) +
                    " threads arrive, expected " + std::to_string(step.amount) + "; missing: a wait between phases");
    if (b.arrived < step.amount) return;
    b.arrived = 0;
    ++b.generation;
    b.opened = b.gathering;
    b.gathering = fresh();
  }

  Knowledge fresh() const {
    const Clock c = w_.empty_clock();
    return {c, c, c, c};
  }

  void start(int t, const Step& step) {
    ThreadState& s = w_.threads[t];
    Flight f{&step, {t, s.knows.seen.step(t), w_.operations++, &step}, s.knows};
    f.buffer = shift(t, step);
    if (step.what == Do::copy) {
      w_.in_shared.push_back({program_.cells[step.object].block, f.access});
    } else {
      ++w_.operations;  // a store has a second operation, its write
      f.number = static_cast<int>(s.stores.size());
      s.stores.push_back(f.access.operation);
      s.store_state.push_back(0);
      for (const int cell : step.cells)
        if (program_.cells[cell].block >= 0) w_.in_shared.push_back({program_.cells[cell].block, f.access});
    }
    w_.flights.push_back(std::move(f));
  }

  void multiply(int t, const Step& step) {
    ThreadState& s = w_.threads[t];
    GroupState& g = w_.groups[program_.threads[t].group];
    if (!s.sums_fenced) return w_.say(blame_fence(w_, step.object, {t, 0, -1, &step}));
    const int number = s.multiplies++;
    if (number == static_cast<int>(g.issued.size())) {
      g.issued.push_back(0);
      g.issuing.push_back(fresh());
      g.issuer.push_back({});
    }
    if (program_.threads[t].leads) g.issuer[number] = {t, s.knows.seen.step(t), -1, &step};
    g.issuing[number].join(s.knows);
    if (++g.issued[number] < g.threads) return;
    Flight f{&step, g.issuer[number], g.issuing[number]};
    f.access.operation = w_.operations++;
    f.number = number;
    if (!step.cells.empty()) w_.in_shared.push_back({program_.threads[t].block, f.access});
    w_.flights.push_back(std::move(f));
  }

  void end(int index) {
    Flight f = w_.flights[index];
    Knowledge& k = f.knows;
    switch (f.step->what) {
      case Do::copy:
        w_.write(f.step->object, f.access, k);
        k.seen.learn_end(f.access.operation);
        arrive(f.step->other, f.access, k, f.step->amount);
        break;
      case Do::multiply: {
        GroupState& g = w_.groups[program_.threads[f.access.thread].group];
        for (const int cell : f.step->cells) w_.read(cell, f.access, k);
        if (!g.ended.empty()) k.seen.join(g.ended.back());  // multiplies add in order
        w_.write(f.step->object, f.access, k);
        k.seen.learn_end(f.access.operation);
        g.ended.push_back(k.seen);
        break;
      }
      default: return end_store(index, f);
    }
    w_.flights.erase(w_.flights.begin() + index);
  }

  void end_store(int index, Flight& f) {
    char& state = w_.threads[f.access.thread].store_state[f.number];
    if (!f.has_read) {
      for (const int cell : f.step->cells) w_.read(cell + f.buffer, f.access, f.knows);
      f.has_read = true;
      state = 1;
      w_.flights[index] = f;
      return;
    }
    Access written = f.access;
    ++written.operation;
    w_.write(f.step->other, written, f.knows);
    state = 2;
    w_.flights.erase(w_.flights.begin() + index);
  }

  void pass_stores(int t, const Step& step, int state) {
    ThreadState& s = w_.threads[t];
    for (int i = 0; i < stores_to_pass(t, step); ++i)
      for (int part = 0; part < state; ++part) s.knows.seen.learn_end(s.stores[i] + part);
  }

  void add(int t, const Step& step) {
    ThreadState& s = w_.threads[t];
    CounterState& c = w_.counters[step.object];
    const bool releases = step.order == Order::release || step.order == Order::acquire_release;
    acquire(t, step);
    c.hidden.join(s.knows.seen);
    if (releases) {
      c.shown.join(s.knows.seen);
      c.shown_fenced.join(s.knows.fenced);
    }
    c.raises.push_back({{t, s.knows.seen.step(t), -1, &step}, c.value});
    answer_ = c.value;
    c.value += step.by;
    if (step.amount == 0) return;
    const bool last = c.value == step.amount;
    if (last) c.value = 0;
    w_.groups[program_.threads[t].group].granted = last ? 1 : 0;
  }

  void acquire(int t, const Step& step) {
    ThreadState& s = w_.threads[t];
    const CounterState& c = w_.counters[step.object];
    s.last_counter = step.object;
    if (step.order == Order::acquire || step.order == Order::acquire_release) {
      s.knows.seen.join(c.shown);
      s.knows.fenced.join(c.shown_fenced);
      s.knows.unreleased.join(c.hidden);
    } else {
      s.knows.unacquired.join(c.hidden);
    }
  }

  void finish(int t) {
    const int block = program_.threads[t].block;
    w_.threads[t].done = true;
    w_.block_end[block].join(w_.threads[t].knows.seen);
    if (--w_.block_threads[block] > 0) return;
    for (const auto& [where, access] : w_.in_shared)
      if (where == block && !access.known_to(w_.block_end[block])) return w_.say(blame_end(w_, access));
    const int first = block / program_.cluster * program_.cluster;
    for (int b = first; b < first + program_.cluster; ++b)
      if (w_.block_threads[b] > 0) return;
    ++room_;
    make_room();
  }

  enum class Patience { all, some, none, little_room };

  World w_;
  const Program& program_;
  std::vector<int> ready_, ending_;
  Patience mode_ = Patience::all;
  int room_ = 0;             // number of clusters that the device can start now
  std::int64_t answer_ = 0;  // result of the last step of a stream
};

}  // namespace

std::string check(const Program& program, unsigned seed) {
  if (!program.fault.empty()) return program.fault;
  return Run(program, seed)();
}

CheckResult check_schedules(const Program& program, int schedules) {
  CheckResult v;
  if (!program.fault.empty()) return {schedules, schedules, program.fault};
  for (int seed = 0; seed < schedules; ++seed) {
    Run run(program, static_cast<unsigned>(seed));
    const std::string fault = run();
    ++v.schedules;
    std::set<std::string> left;
    for (const int t : run.left()) left.insert(program.threads[t].name);
    ++v.left[left];
    if (fault.empty()) continue;
    if (v.faulty++ == 0) v.first = fault;
  }
  return v;
}

}  // namespace ridge::tile::trace
