// Records the roles of a kernel that runs in steps (tile/step_ring.h) for the checker, as record.h does for products. A
// group of 128 threads is recorded twice, as its first thread and as one of the others. Tiles, sums and registers have
// no data (`RecordedElement<T>`), and functions of `map` are not run, because synchronisation does not depend on
// values. Items are assigned to blocks in turn. Kernels that merge parts of a tile are not supported.
#pragma once

#include <algorithm>

#include "ridge/tile/step_ring.h"
#include "ridge/tile/trace/record.h"

namespace ridge::tile {

namespace trace {
template <class T> struct Noted { using type = T; };  // element type of tiles without data
struct NotedColumns {
  static constexpr int cols = 0;
  int cell;  // cell of the tile from which they are read
};
}  // namespace trace

template <class T, int Rows, int Cols> struct SharedTile<trace::Noted<T>, Rows, Cols> {
  using type = T;
  static constexpr int rows = Rows, cols = Cols;
  char place = 0;
};
template <class T, int Rows, int Cols> struct HeldTile<trace::Noted<T>, Rows, Cols>
    : SharedTile<trace::Noted<T>, Rows, Cols> {};
template <class T> struct SumOf<trace::Noted<T>> { using type = trace::Noted<float>; };
template <int M, int N, int Sharers, class T> struct Accumulator<M, N, Sharers, trace::Noted<T>> {
  static constexpr int rows = M, cols = N;
  bool live = false;
  int age = 0;
  Accumulator() = default;
  Accumulator(Nought) {}
  Accumulator(Lowest) {}
};
template <int M, int N, int Sharers, class T> struct Operands<M, N, Sharers, trace::Noted<T>> {
  using type = T;
  static constexpr int rows = M, cols = N;
};

namespace trace {

struct RecordStepsOptions {
  std::string kernel;
  StepOrder order;
  int blocks = 1;
};

template <class Kernel> class RecordSteps {
 public:
  using Globals = typename Kernel::Globals;
  using State = typename Kernel::State;
  static constexpr auto config = Kernel::config;

  RecordSteps(const Globals& globals, const RecordStepsOptions& options)
      : globals_(globals), options_(options), scribe_(options.blocks) {}

  Program operator()() {
    scribe_.program.kernel = options_.kernel;
    scribe_.program.lanes = 2;
    for (int b = 0; b < options_.blocks; ++b) add_barriers(b);
    for (int b = 0; b < options_.blocks; ++b) {
      Producer on{{}, {*this, scribe_.program.thread(scribe_.in_block(b, "producer"), b), b}};
      on.next = b;
      produce_steps<Kernel>(on);
    }
    for (int b = 0; b < options_.blocks; ++b)
      for (int id = 0; id < config.consumers; ++id, ++scribe_.program.groups) {
        if constexpr (AddsInOrder<Kernel>)
          keeper_ = &scribe_.program.thread(scribe_.in_block(b, "turn server " + std::to_string(id)), b);
        for (int lane = 0; lane < 2; ++lane) {
          Thread& t = scribe_.program.thread(scribe_.in_block(b, "consumer " + std::to_string(id)), b);
          t.group = scribe_.program.groups;
          t.leads = lane == 0;
          t.weight = 64;
          Consumer on(id, {*this, t, b}, lane);
          consume_steps<Kernel>(on);
        }
      }
    return std::move(scribe_.program);
  }

 private:
  void add_barriers(int block) {
    const auto pair = [&](const std::string& name) {
      const int full = scribe_.program.barrier(scribe_.in_block(block, name) + " full", 1, block);
      scribe_.program.barrier(scribe_.in_block(block, name) + " empty", config.consumers, block);
      return full;
    };
    std::vector<int>& all = barriers_.emplace_back();
    for (int r = 0; r < Kernel::rings; ++r)
      for (int s = 0; s < config.stages; ++s)
        all.push_back(pair("ring " + std::to_string(r) + " slot " + std::to_string(s)));
    for (int s = 0; s < config.helds; ++s) all.push_back(pair("resident " + std::to_string(s)));
    for (int s = 0; s < 2; ++s) all.push_back(pair("item " + std::to_string(s)));
    if constexpr (AddsInOrder<Kernel>)
      for (int id = 0; id < config.consumers; ++id) {
        const std::string of = " of consumer " + std::to_string(id);
        all.push_back(scribe_.program.barrier(scribe_.in_block(block, "turn requested" + of), 1, block));
        scribe_.program.barrier(scribe_.in_block(block, "turn granted" + of), 1, block);
        scribe_.program.barrier(scribe_.in_block(block, "turn finished" + of), 2, block);  // threads
      }
  }

  struct Role {
    RecordSteps& record;
    Thread& thread;
    int block;

    // Returns the number of the full barrier; the empty barrier has the next number.
    int slot(int ring, int s) const {
      return record.barriers_[static_cast<std::size_t>(block)][static_cast<std::size_t>(ring * config.stages + s)];
    }
    int held(int s) const { return slot(Kernel::rings, s); }
    int item(int s) const { return slot(Kernel::rings, config.helds + s); }
    int turn_asked(int id) const { return slot(Kernel::rings, config.helds + 2 + id); }  // granted and finished follow
    Step& note(const StepPlace& at, Do what, int object = -1, std::int64_t amount = 0) const {
      thread.steps.push_back({.what = what, .object = object, .amount = amount});
      thread.steps.back().item = at.item.tile;
      thread.steps.back().stage = at.number;
      return thread.steps.back();
    }
    int cell(const std::string& name, Kind kind) const {
      return record.scribe_.shared_cell(record.scribe_.in_block(block, name), kind, block);
    }
    int tile_cell(int ring, int s) const {
      return cell("ring " + std::to_string(ring) + " slot " + std::to_string(s), Kind::tile);
    }
    // Returns the cells of a group's rows of a resident tile, one for each of its two recorded threads.
    std::vector<int> held_cells(int s, std::ptrdiff_t tile, int group) const {
      const std::string name = "resident " + std::to_string(s) + (tile > 0 ? " tile " + std::to_string(tile) : "") +
                               " rows of consumer " + std::to_string(group);
      return {cell(name, Kind::buffer), cell(name + " (other threads)", Kind::buffer)};
    }
    template <class Tile> std::ptrdiff_t number_of(const Tile& tile) const {  // a recorded tile has a size of one byte
      return reinterpret_cast<const char*>(&tile) - reinterpret_cast<const char*>(&record.held_);
    }
    int item_cell(int s) const { return cell("item " + std::to_string(s), Kind::buffer); }
  };

  struct Producer : StepLoads<Kernel, Producer> {
    Role role;
    int next = 0;

    Producer(StepLoads<Kernel, Producer>, Role r) : role(r) {}
    void begin_item() {
      const StepOrder& order = role.record.options_.order;
      this->template begin<Kernel>(order, order.item<has_parts<Kernel>>(next), role.record.globals_);
    }
    void next_item() { next += role.record.options_.blocks; }
    void wait_item_empty(int s, int phase) { role.note(*this, Do::wait, role.item(s) + 1, phase); }
    void put_item(int s) {
      role.note(*this, Do::write, role.item_cell(s));
      role.note(*this, Do::arrive, role.item(s));
    }
    void wait_held_empty(int s, int phase) { role.note(*this, Do::wait, role.held(s) + 1, phase); }
    void hold(int s) {
      Kernel::hold(*this, role.record.held_, role.record.globals_);
      role.note(*this, Do::arrive, role.held(s));
    }
    void load_step() { Kernel::load(*this, role.record.stage_, role.record.globals_); }
    void wait_empty(int r, int s, int phase) { role.note(*this, Do::wait, role.slot(r, s) + 1, phase); }
    void arrive_full(int r, int s) { role.note(*this, Do::arrive, role.slot(r, s)); }
    template <class Tile, class View> void fill(int r, int s, Tile&, const View&, int, int, int) {
      copy(role.tile_cell(r, s), role.slot(r, s), Tile::rows * Tile::cols * sizeof(typename Tile::type));
    }
    template <class Tile, class View> void fill_held(int s, Tile& tile, const View&, int, int, int) {
      for (int group = 0; group < config.consumers; ++group)
        for (const int cell : role.held_cells(s, role.number_of(tile), group))
          copy(cell, role.held(s), Tile::rows * Tile::cols * sizeof(typename Tile::type) / (2 * config.consumers));
    }
    void copy(int cell, int full, std::int64_t bytes) {
      role.note(*this, Do::expect, full, bytes);
      role.note(*this, Do::copy, cell, bytes).other = full;
    }
  };

  template <bool first_, bool last_> struct Computer;
  struct Storer;

  struct Consumer : StepGroup<Kernel, Consumer> {
    Role role;
    int lane;
    const State* state = nullptr;

    Consumer(int group, Role r, int of) : StepGroup<Kernel, Consumer>(group), role(r), lane(of) {}
    std::string name() const { return "consumer " + std::to_string(this->id); }
    int named(const std::string& what) const { return role.record.scribe_.named_barrier(role.block, what); }
    void sync_group() { role.note(*this, Do::sync, named("of " + name()), 128); }
    void take_item(int s, int phase) {
      role.note(*this, Do::wait, role.item(s), phase);
      role.note(*this, Do::read, role.item_cell(s));
      const StepOrder& order = role.record.options_.order;
      this->template begin<Kernel>(
          order, order.item<has_parts<Kernel>>(role.block + items * role.record.options_.blocks), role.record.globals_);
      ++items;
    }
    void give_item(int s) {
      if (lane == 0) role.note(*this, Do::arrive, role.item(s) + 1);
    }
    void wait_held(int s, int phase) { role.note(*this, Do::wait, role.held(s), phase); }
    void give_held(int s) {
      if (lane != 0) return;
      role.note(*this, Do::wait_read);
      role.note(*this, Do::arrive, role.held(s) + 1);
    }
    void await_stores() {
      if (lane == 0) role.note(*this, Do::wait_read);
    }
    template <bool first, bool last> void compute(State& x) {
      state = &x;
      of_step.clear();
      Computer<first, last> at{*this};
      Kernel::compute(at, x, role.record.held_, role.record.stage_, role.record.globals_);
    }
    void store(State& x) {
      Storer at{*this};
      Kernel::store(at, x, role.record.globals_);
    }
    void wait_full(int r, int s, int phase) { role.note(*this, Do::wait, role.slot(r, s), phase); }
    void give_slot(int r, int s) {
      if (lane == 0) role.note(*this, Do::arrive, role.slot(r, s) + 1);
    }
    int meeting_of(int group, int meeting) const {
      return named("of consumer " + std::to_string(group) + "'s barrier " + std::to_string(meeting));
    }
    void sync_groups(int meeting) { role.note(*this, Do::sync, meeting_of((this->id + 1) % 2, meeting), 256); }
    void join_groups(int meeting) { role.note(*this, Do::join, meeting_of(this->id, meeting), 256); }
    int turn(int of) const { return named("of consumer " + std::to_string(of) + "'s turn"); }
    void sync_turn(int of) { role.note(*this, Do::sync, turn(of), 256); }
    void join_turn(int of) { role.note(*this, Do::join, turn(of), 256); }
    void mma_fence() { role.note(*this, Do::fence_sums); }
    void mma_commit() { role.note(*this, Do::commit); }
    template <int left> void mma_wait() { role.note(*this, Do::wait_multiply, -1, left); }
    void lean() {}

    // Returns the cell of sums. Sums of the state are named by their offset, others by their width and order of use.
    template <class X> int sums(const X& x) {
      const auto at = reinterpret_cast<const char*>(&x) - reinterpret_cast<const char*>(state);
      if (at >= 0 && at < static_cast<std::ptrdiff_t>(sizeof(State)))
        return role.cell(name() + " state at " + std::to_string(at), Kind::sums);
      const auto known = std::find(of_step.begin(), of_step.end(), &x);
      const auto number = known - of_step.begin();
      if (known == of_step.end()) of_step.push_back(&x);
      return role.cell(
          name() + " sums of " + std::to_string(X::cols) + (number > 0 ? ", number " + std::to_string(number) : ""),
          Kind::sums);
    }
    // Returns the cells of an operand's registers, one for each of the two recorded threads.
    template <class X> std::vector<int> registers(const X& x) const {
      const auto at = std::to_string(reinterpret_cast<const char*>(&x) - reinterpret_cast<const char*>(state));
      return {role.cell(name() + " operands at " + at, Kind::sums),
              role.cell(name() + " operands at " + at + " (other threads)", Kind::sums)};
    }
    template <class X> static constexpr bool is_row = X::cols == 1;  // numbers per row: no product writes them
    template <class X> void touch(const X& x) {
      if constexpr (!is_row<X>) role.note(*this, Do::read, sums(x));
    }
    void touch(const NotedColumns& x) { role.note(*this, Do::read, x.cell); }
    template <int M, int N, int S, class T> void touch(const Operands<M, N, S, Noted<T>>& x) {
      role.note(*this, Do::read, registers(x)[static_cast<std::size_t>(lane)]);
    }
    void ask_turn(int counter, int before) {
      if (lane != 0) return;
      role.note(*this, Do::write, role.cell(name() + " turn", Kind::buffer));
      role.note(*this, Do::arrive, role.turn_asked(this->id));
      const Role keeper{role.record, *role.record.keeper_, role.block};
      keeper.note(*this, Do::wait, role.turn_asked(this->id), turns & 1);
      keeper.note(*this, Do::read, role.cell(name() + " turn", Kind::buffer));
      Step& poll = keeper.note(*this, Do::poll, counter, before);
      poll.other = -1;
      poll.order = Order::acquire;
      keeper.note(*this, Do::arrive, role.turn_asked(this->id) + 1);
      keeper.note(*this, Do::wait, role.turn_asked(this->id) + 2, turns & 1);
      Step& told = keeper.note(*this, Do::add, counter);
      told.order = Order::release;
    }
    int items = 0, turns = 0;
    std::vector<const void*> of_step{};  // sums of this step that are not part of the state
  };

  template <bool first_, bool last_> struct Computer {
    static constexpr bool first = first_, last = last_;
    Consumer& on;
    int matrix() const { return on.matrix(); }
    int row() const { return on.row(); }
    int step() const { return on.step(); }
    int steps() const { return on.steps(); }
    int length() const { return on.length(); }
    Range own_rows() const { return {on.first_row(), 64}; }

    int round() const { return on.round(); }
    int step_of_round() const { return on.step_of_round(); }
    template <class X> int own_column(const X&) const {
      return on.by_columns ? on.id * (X::cols / config.consumers) : 0;
    }

    // Returns the cells of a tile that a product reads: of a resident tile the group's own rows, or all.
    template <class Tile> std::vector<int> cells(const Tile& tile, bool own_rows = false) const {
      if constexpr (InARing<Tile>) {
        return {on.role.tile_cell(Tile::ring, on.template ring<Tile::ring>().slot)};
      } else {
        std::vector<int> all;
        for (int group = 0; group < config.consumers; ++group)
          if (!own_rows || on.by_columns || group == on.id)
            for (const int cell : on.role.held_cells(on.held.slot, on.role.number_of(tile), group)) all.push_back(cell);
        return all;
      }
    }
    template <class Sum, class A, class B> void mma(Sum& sum, const A& a, Transposed<B> b) const {
      static_assert(A::rows == Sum::rows && B::rows == Sum::cols && A::cols == B::cols,
                    "mma: [m, k] x [n, k] transposed -> [m, n]");
      multiply(sum, b.tile, cells(a, true), A::cols);
    }
    template <class Sum, class A, class B> void mma(Sum& sum, const A& a, const B& b) const {
      static_assert(A::rows == Sum::rows && B::cols == Sum::cols && A::cols == B::rows,
                    "mma: [m, k] x [k, n] -> [m, n]");
      multiply(sum, b, cells(a), A::cols);
    }
    template <class Sum, class A, class B> void mma(Sum& sum, Transposed<A> a, Transposed<B> b) const {
      static_assert(A::cols == Sum::rows && B::rows == Sum::cols && A::rows == B::cols,
                    "mma: [k, m] transposed x [n, k] transposed -> [m, n]");
      multiply(sum, b.tile, cells(a.tile), A::rows);
    }
    template <class Sum, class A, class B> void mma(Sum& sum, Transposed<A> a, const B& b) const {
      static_assert(A::cols == Sum::rows && B::cols == Sum::cols && A::rows == B::rows,
                    "mma: [k, m] transposed x [k, n] -> [m, n]");
      multiply(sum, b, cells(a.tile), A::rows);
    }
    template <int m, int n, int k, int s, class S, class T, class B>
    void mma(Accumulator<m, n, s, Noted<S>>& sum, const Operands<m, k, s, Noted<T>>& a, const B& b) const {
      static_assert(B::rows == k && B::cols == n, "mma: [m, k] x [k, n] -> [m, n]");
      multiply(sum, b, on.registers(a), k);
    }
    template <int m, int n, int s, class T, class B>
    void multiply(Accumulator<m, n, s, Noted<T>>& sum, const B& b, std::vector<int> read, std::int64_t depth) const {
      on.template begin_product<last>(b);
      const std::vector<int> right = cells(b);
      read.insert(read.end(), right.begin(), right.end());
      on.role.note(on, Do::multiply, on.sums(sum), std::int64_t{2} * m / s * n * depth).cells = std::move(read);
      on.end_product(sum);
    }
    template <class Sum> void settle(const Sum& sum) const { on.template settle<last>(sum); }
    template <class X, class F, class... Others> void map(X& x, const F&, Others&... others) const {
      on.touch(x);
      (on.touch(others), ...);
    }
    template <class X, class F> void clip(X& x, const F&, float = 0) const { on.touch(x); }
    template <class Tile, class X> NotedColumns columns(const Tile& tile, int, const X&) const {
      on.begin_reading(tile);
      return {cells(tile)[0]};
    }
    void join() const {
      on.role.note(on, Do::fence_proxy);
      on.join_groups(on.template meeting<last>());
    }
    void meet() const { on.template meet<last>(); }
    // The counter need not be zero at the end, because a pass before the kernel clears it.
    template <class X> void ask_turn(const SumsInMemory&, const X&, int matrix, int number, int before) const {
      Scribe& scribe = on.role.record.scribe_;
      const int counter = scribe.counter("adds to tile " + std::to_string(number) + " of matrix " +
                                         std::to_string(matrix) + " by " + on.name());
      scribe.program.counters[static_cast<std::size_t>(counter)].returns = false;
      on.ask_turn(counter, before);
    }
    // Unordered adds commute and are not recorded; an ordered add is a write.
    template <class X> void add(const SumsInMemory&, X& x, int matrix, int number) const {
      on.touch(x);
      x.live = false;
      if constexpr (AddsInOrder<Kernel>) {
        on.role.note(on, Do::wait, on.role.turn_asked(on.id) + 1, on.turns & 1);
        on.role.note(on, Do::write,
                     on.role.record.scribe_.shared_cell("sums of tile " + std::to_string(number) + " of matrix " +
                                                            std::to_string(matrix) + " of " + on.name() +
                                                            std::to_string(on.lane),
                                                        Kind::memory));
        on.role.note(on, Do::arrive, on.role.turn_asked(on.id) + 2);
        ++on.turns;
      }
    }
    template <class X, class F> bool any(const X& x, const F&) const {
      on.touch(x);
      return true;
    }
    template <class Row, class X> void reduce(Row&, const X& x, Max) const { on.touch(x); }
    template <class Row, class X> void reduce(Row&, const X& x, Add, const Row&) const { on.touch(x); }
    template <class To, class From> void copy(To& to, const From& from) const {
      on.touch(from);
      constexpr std::int64_t bytes = std::int64_t{64} * To::cols * sizeof(typename To::type);  // bytes of the group
      on.role.note(on, Do::write, on.registers(to)[static_cast<std::size_t>(on.lane)], bytes / 2);
    }
    template <class T, int rows, int cols, int s>
    void copy(const HeldTile<Noted<T>, rows, cols>& to, Transposed<Operands<cols, rows, s, Noted<T>>> from) const {
      share(to, from.tile, rows);
    }
    template <class T, int rows, int cols, int s>
    void copy(const HeldTile<Noted<T>, rows, cols>& to, const Operands<rows, cols, s, Noted<T>>& from) const {
      share(to, from, cols / s);
    }
    template <class Tile, class From> void share(const Tile& to, const From& from, std::int64_t columns) const {
      on.touch(from);
      const auto part = on.role.held_cells(on.held.slot, on.role.number_of(to), on.id);
      on.role.note(on, Do::write, part[static_cast<std::size_t>(on.lane)], 64 * columns);
    }
  };

  struct Storer {
    Consumer& on;
    int outputs = 0;
    int matrix() const { return on.matrix(); }
    int row() const { return on.row(); }
    template <class X, class F, class... Others> void map(X& x, const F&, Others&... others) const {
      on.touch(x);
      (on.touch(others), ...);
    }
    template <class T, int m, class X> void store(const MatricesOut<T, m, 1>&, const X&) {}  // threads store it
    template <class T, int m, int n, class X> void store(const MatricesOut<T, m, n>&, const X& x) {
      on.sync_group();
      on.touch(x);
      const int number = outputs++;
      const std::vector<int> from = on.role.held_cells(on.held.slot, number, on.id);
      constexpr std::int64_t bytes = std::int64_t{m} * n / config.consumers * sizeof(typename T::type);
      on.role.note(on, Do::write, from[static_cast<std::size_t>(on.lane)], bytes / 2);
      on.role.note(on, Do::fence_proxy);
      on.sync_group();
      if (on.lane != 0) return;
      Step& step = on.role.note(on, Do::store, -1, bytes);
      step.cells = from;
      step.other = on.role.record.scribe_.shared_cell("output of tile " + std::to_string(on.item.tile) +
                                                          " of consumer " + std::to_string(on.id) +
                                                          (number > 0 ? ", number " + std::to_string(number) : ""),
                                                      Kind::output);
      on.role.note(on, Do::commit_store);
    }
  };

  const Globals& globals_;
  RecordStepsOptions options_;
  Scribe scribe_;
  std::vector<std::vector<int>> barriers_;  // numbers of the full barriers of each block
  Thread* keeper_ = nullptr;                // thread that serves the turns of the group being recorded
  typename Kernel::Held held_{};
  typename Kernel::Stage stage_{};
};

template <class Kernel>
Program record_steps(const RecordStepsOptions& options, const typename Kernel::Globals& globals) {
  return RecordSteps<Kernel>(globals, options)();
}

}  // namespace trace
}  // namespace ridge::tile
