#include "ridge/tile/target/trace/check.h"

#include <algorithm>

#include "ridge/tile/target/trace/world.h"

namespace ridge::tile::trace {
namespace {

bool is_asynchronous(Do what) { return what == Do::copy || what == Do::multiply || what == Do::store; }

// One run of a program.
class Run {
 public:
  Run(const Program& program, unsigned seed) : w_(program, seed), program_(program) {}

  std::string operator()() {
    // A third of the runs lets asynchronous operations linger, a third hurries them.
    const unsigned threads_first = static_cast<unsigned>(w_.random() % 3);
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
    return w_.fault;
  }

 private:
  bool pick_thread(unsigned mode) {
    if (ready_.empty() || ending_.empty()) return ending_.empty();
    const unsigned chance = mode == 0 ? 8 : mode == 1 ? 56 : 32;  // of 64
    return w_.random() % 64 < chance;
  }

  // Multiplies of a group end in order.
  bool may_end(const Flight& f) const {
    if (f.step->what != Do::multiply) return true;
    const GroupState& g = w_.groups[program_.threads[f.access.thread].group];
    return static_cast<int>(g.ended.size()) == f.number;
  }

  const Step* next(int t) const {
    const Thread& thread = program_.threads[t];
    std::size_t at = w_.threads[t].at;
    while (at < thread.steps.size() && thread.steps[at].guarded && !w_.groups[thread.group].last) ++at;
    return at < thread.steps.size() ? &thread.steps[at] : nullptr;
  }

  bool is_ready(int t) const {
    const ThreadState& s = w_.threads[t];
    const Step* const step = next(t);
    if (step == nullptr) return true;  // to end
    switch (step->what) {
      case Do::wait: return (w_.barriers[step->object].phases & 1) != static_cast<std::uint32_t>(step->amount);
      case Do::sync: return !s.waits_at_sync || w_.named[step->object].generation != s.generation;
      case Do::poll: return w_.counters[step->object].value >= step->amount;
      case Do::wait_multiply: return multiplies_to_end(t, *step) <= ended_multiplies(t);
      case Do::wait_read: return stores_pass(t, *step, 1);
      case Do::wait_written: return stores_pass(t, *step, 2);
      default: return true;
    }
  }

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

  // Steps over what another group was last for, then does one thing.
  void step(int t) {
    ThreadState& s = w_.threads[t];
    const Step* const step = next(t);
    if (step == nullptr) return finish(t);
    s.at = step - program_.threads[t].steps.data();
    if (step->what == Do::sync && !s.waits_at_sync) {
      s.knows.seen.tick(t);
      s.waits_at_sync = true, s.generation = w_.named[step->object].generation;
      return arrive_named(t, *step);
    }
    s.knows.seen.tick(t);
    act(t, *step);
    ++s.at;
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
      case Do::write: return w_.write(step.object + shift(t, step), now, s.knows);
      case Do::read:
        if (const int home = program_.cells[step.object].block; home >= 0 && home != program_.threads[t].block)
          w_.in_shared.push_back({home, now});  // another block's memory must outlive this
        if (program_.cells[step.object].kind == Kind::sums) s.sums_fenced = false;
        return w_.read(step.object + shift(t, step), now, s.knows);
      case Do::commit_store: s.store_batches.push_back(static_cast<int>(s.stores.size())); return;
      case Do::wait_read: return pass_stores(t, step, 1);
      case Do::wait_written: return pass_stores(t, step, 2);
      case Do::next_buffer: s.buffer = (s.buffer + 1) % program_.buffers; return;
      case Do::add: return add(t, step);
      case Do::poll: return poll(t, step);
    }
  }

  int shift(int t, const Step& step) const { return step.is_buffer ? w_.threads[t].buffer * program_.lanes : 0; }

  // Of a thread, or of the bytes of a copy that has ended.
  void arrive(int barrier, const Access& from, const Knowledge& knows, std::int64_t bytes) {
    BarrierState& b = w_.barriers[barrier];
    const Barrier& named = program_.barriers[barrier];
    b.missing -= from.operation < 0 ? 1 : 0, b.bytes -= bytes;
    b.gathering.join(knows);
    if (b.missing < 0) return w_.say(blame_arrival(w_, barrier, from));
    if (w_.block_threads[named.block] == 0) return w_.say(blame_end(w_, from));
    if (b.missing > 0 || b.bytes != 0) return;
    ++b.phases, b.missing = named.arrivals;
    b.opened = b.gathering;
    b.gathering = fresh();
  }

  void arrive_named(int t, const Step& step) {
    NamedState& b = w_.named[step.object];
    b.arrived += program_.threads[t].weight;
    b.gathering.join(w_.threads[t].knows);
    if (b.arrived > step.amount)
      return w_.say(program_.named_barriers[step.object] + ": " + std::to_string(b.arrived) + " threads arrive where " +
                    std::to_string(step.amount) + " belong; missing: a wait between two rounds");
    if (b.arrived < step.amount) return;
    b.arrived = 0, ++b.generation;
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
      ++w_.operations;  // its end
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
      g.issued.push_back(0), g.issuing.push_back(fresh()), g.issuer.push_back({});
    }
    if (program_.threads[t].leads) g.issuer[number] = {t, s.knows.seen.step(t), -1, &step};
    g.issuing[number].join(s.knows);
    if (++g.issued[number] < g.threads) return;
    Flight f{&step, g.issuer[number], g.issuing[number]};
    f.access.operation = w_.operations++, f.number = number;
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
      f.has_read = true, state = 1;
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
    if (releases) c.shown.join(s.knows.seen), c.shown_fenced.join(s.knows.fenced);
    ++c.value;
    if (step.amount == 0) return;
    const bool last = c.value == step.amount;
    if (last) c.value = 0;
    w_.groups[program_.threads[t].group].last = last;
  }

  void poll(int t, const Step& step) { acquire(t, step); }

  void acquire(int t, const Step& step) {
    ThreadState& s = w_.threads[t];
    const CounterState& c = w_.counters[step.object];
    s.last_counter = step.object;
    if (step.order == Order::acquire || step.order == Order::acquire_release) {
      s.knows.seen.join(c.shown), s.knows.fenced.join(c.shown_fenced);
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
  }

  World w_;
  const Program& program_;
  std::vector<int> ready_, ending_;
};

}  // namespace

World::World(const Program& p, unsigned seed)
    : program(p),
      random(seed),
      threads(p.threads.size()),
      barriers(p.barriers.size()),
      named(p.named_barriers.size()),
      cells(p.cells.size()),
      counters(p.counters.size()),
      groups(p.groups) {
  int blocks = 1;
  for (const Thread& t : p.threads) {
    blocks = std::max(blocks, t.block + 1);
    if (t.group >= 0) ++groups[t.group].threads;
    for (const Step& s : t.steps) total_operations += is_asynchronous(s.what) ? (s.what == Do::store ? 2 : 1) : 0;
  }
  if (!Clock::fits(static_cast<int>(threads.size()), total_operations)) {
    say("too long to check: " + std::to_string(total_operations) + " asynchronous operations, expected at most " +
        std::to_string((Clock::most_words - static_cast<int>(threads.size())) * 32) + "; check fewer stages");
    total_operations = 0;
  }
  const Clock c = empty_clock();
  const Knowledge k{c, c, c, c};
  for (ThreadState& t : threads) t.knows = k;
  for (std::size_t i = 0; i < barriers.size(); ++i)
    barriers[i].missing = p.barriers[i].arrivals, barriers[i].gathering = barriers[i].opened = k;
  for (NamedState& b : named) b.gathering = b.opened = k;
  for (CounterState& x : counters) x.shown = x.shown_fenced = x.hidden = c;
  block_end.assign(blocks, c);
  block_threads.assign(blocks, 0);
  for (const Thread& t : p.threads) ++block_threads[t.block];
}

void World::write(int cell, const Access& access, const Knowledge& knows) {
  CellState& s = cells[cell];
  if (s.writer.step != nullptr && !s.writer.known_to(knows.seen))
    say(blame_write(*this, cell, s.writer, access, knows));
  else if (s.writer.step != nullptr && s.writer.operation < 0 && access.operation >= 0 &&
           !s.writer.known_to(knows.fenced))
    say(blame_blind(*this, cell, s.writer, access));
  for (const Access& r : s.readers)
    if (!r.known_to(knows.seen)) say(blame_write(*this, cell, r, access, knows));
  s.readers.clear();
  s.writer = access, s.writer_knew = knows.seen;
}

void World::read(int cell, const Access& access, const Knowledge& knows) {
  CellState& s = cells[cell];
  const bool blind = access.operation >= 0 && s.writer.operation < 0 && !s.writer.known_to(knows.fenced);
  const bool other = program.cells[cell].kind == Kind::tile && s.writer.step != nullptr &&
                     (s.writer.step->item != access.step->item || s.writer.step->stage != access.step->stage);
  if (s.writer.step == nullptr || !s.writer.known_to(knows.seen) || blind || other)
    say(blame_read(*this, cell, access, knows));
  s.readers.push_back(access);
}

std::string check(const Program& program, unsigned seed) {
  if (!program.fault.empty()) return program.fault;
  return Run(program, seed)();
}

Verdict check_schedules(const Program& program, int schedules) {
  Verdict v;
  for (int seed = 0; seed < schedules; ++seed) {
    const std::string fault = check(program, static_cast<unsigned>(seed));
    ++v.schedules;
    if (fault.empty()) continue;
    if (v.faulty++ == 0) v.first = fault;
  }
  return v;
}

}  // namespace ridge::tile::trace
