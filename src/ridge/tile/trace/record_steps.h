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
template <class T> struct RecordedElement { using type = T; };  // element type of tiles without data
struct RecordedColumns {
  static constexpr int cols = 0;
  int cell;  // cell of the tile from which the columns are read
};
}  // namespace trace

template <class T, int Rows, int Cols> struct SharedTile<trace::RecordedElement<T>, Rows, Cols> {
  using type = T;
  static constexpr int rows = Rows, cols = Cols;
  char address = 0;
};
template <class T, int Rows, int Cols> struct ResidentTile<trace::RecordedElement<T>, Rows, Cols>
    : SharedTile<trace::RecordedElement<T>, Rows, Cols> {};
template <class T> struct AccumulatedType<trace::RecordedElement<T>> { using type = trace::RecordedElement<float>; };
template <int M, int N, int WarpgroupsPerTile, class T>
struct Accumulator<M, N, WarpgroupsPerTile, trace::RecordedElement<T>> {
  static constexpr int rows = M, cols = N;
  bool is_written = false;
  int last_product = 0;
  Accumulator() = default;
  Accumulator(Zero) {}
  Accumulator(NegativeInfinity) {}
};
template <int M, int N, int WarpgroupsPerTile, class T>
struct RegisterOperand<M, N, WarpgroupsPerTile, trace::RecordedElement<T>> {
  using type = T;
  static constexpr int rows = M, cols = N;
};

namespace trace {

struct RecordStepsOptions {
  std::string kernel;
  ItemOrder order;
  int blocks = 1;
};

template <class Kernel> class StepRecorder {
 public:
  using Globals = typename Kernel::Globals;
  using State = typename Kernel::State;
  static constexpr auto config = Kernel::config;

  StepRecorder(const Globals& globals, const RecordStepsOptions& options)
      : globals_(globals), options_(options), symbols_(options.blocks) {}

  RecordedProgram operator()() {
    symbols_.program.kernel = options_.kernel;
    symbols_.program.cells_per_buffer = 2;
    for (int b = 0; b < options_.blocks; ++b) add_barriers(b);
    for (int b = 0; b < options_.blocks; ++b) {
      RecordingStepProducer on{{}, {*this, symbols_.program.add_thread(symbols_.block_prefixed(b, "producer"), b), b}};
      on.next = b;
      produce_steps<Kernel>(on);
    }
    for (int b = 0; b < options_.blocks; ++b)
      for (int id = 0; id < config.consumers; ++id, ++symbols_.program.groups) {
        if constexpr (AddsInOrder<Kernel>)
          turn_server_ =
              &symbols_.program.add_thread(symbols_.block_prefixed(b, "turn server " + std::to_string(id)), b);
        for (int lane = 0; lane < 2; ++lane) {
          RecordedThread& t =
              symbols_.program.add_thread(symbols_.block_prefixed(b, "consumer " + std::to_string(id)), b);
          t.group = symbols_.program.groups;
          t.leads = lane == 0;
          t.represented_threads = 64;
          RecordingStepConsumer on(id, {*this, t, b}, lane);
          consume_steps<Kernel>(on);
        }
      }
    return std::move(symbols_.program);
  }

 private:
  void add_barriers(int block) {
    const auto pair = [&](const std::string& name) {
      const int full = symbols_.program.add_barrier(symbols_.block_prefixed(block, name) + " full", 1, block);
      symbols_.program.add_barrier(symbols_.block_prefixed(block, name) + " empty", config.consumers, block);
      return full;
    };
    std::vector<int>& all = barriers_.emplace_back();
    for (int r = 0; r < Kernel::rings; ++r)
      for (int s = 0; s < config.stages; ++s)
        all.push_back(pair("ring " + std::to_string(r) + " slot " + std::to_string(s)));
    for (int s = 0; s < config.resident_slots; ++s) all.push_back(pair("resident " + std::to_string(s)));
    for (int s = 0; s < 2; ++s) all.push_back(pair("item " + std::to_string(s)));
    if constexpr (AddsInOrder<Kernel>)
      for (int id = 0; id < config.consumers; ++id) {
        const std::string of = " of consumer " + std::to_string(id);
        all.push_back(symbols_.program.add_barrier(symbols_.block_prefixed(block, "turn requested" + of), 1, block));
        symbols_.program.add_barrier(symbols_.block_prefixed(block, "turn granted" + of), 1, block);
        symbols_.program.add_barrier(symbols_.block_prefixed(block, "turn finished" + of), 2, block);  // threads
      }
  }

  struct StepRole {
    StepRecorder& record;
    RecordedThread& thread;
    int block;

    // Each ..._barrier returns the number of a full barrier; its empty barrier has the next number.
    int slot_barrier(int ring, int s) const { return record.barriers_[block][ring * config.stages + s]; }
    int resident_barrier(int s) const { return slot_barrier(Kernel::rings, s); }
    int item_barrier(int s) const { return slot_barrier(Kernel::rings, config.resident_slots + s); }
    int turn_request_barrier(int id) const {
      return slot_barrier(Kernel::rings, config.resident_slots + 2 + id);
    }  // the barriers "turn granted" and "turn finished" have the next two numbers
    RecordedStep& add_step(const StepPosition& at, RecordedStepKind what, int object = -1,
                           std::int64_t amount = 0) const {
      thread.steps.push_back({.what = what, .object = object, .amount = amount});
      thread.steps.back().item = at.item.tile;
      thread.steps.back().stage = at.step_index;
      return thread.steps.back();
    }
    int cell(const std::string& name, CellKind kind) const {
      return record.symbols_.find_or_add_cell(record.symbols_.block_prefixed(block, name), kind, block);
    }
    int tile_cell(int ring, int s) const {
      return cell("ring " + std::to_string(ring) + " slot " + std::to_string(s), CellKind::tile);
    }
    // Returns the cells of a group's rows of a resident tile, one for each of its two recorded threads.
    std::vector<int> resident_cells(int s, std::ptrdiff_t tile, int group) const {
      const std::string name = "resident " + std::to_string(s) + (tile > 0 ? " tile " + std::to_string(tile) : "") +
                               " rows of consumer " + std::to_string(group);
      return {cell(name, CellKind::buffer), cell(name + " (other threads)", CellKind::buffer)};
    }
    template <class Tile>
    std::ptrdiff_t tile_number(const Tile& tile) const {  // a recorded tile has a size of one byte
      return reinterpret_cast<const char*>(&tile) - reinterpret_cast<const char*>(&record.resident_);
    }
    int item_cell(int s) const { return cell("item " + std::to_string(s), CellKind::buffer); }
  };

  struct RecordingStepProducer : RingLoader<Kernel, RecordingStepProducer> {
    StepRole role;
    int next = 0;

    RecordingStepProducer(RingLoader<Kernel, RecordingStepProducer>, StepRole r) : role(r) {}
    void begin_item() {
      const ItemOrder& order = role.record.options_.order;
      this->template set_item<Kernel>(order, order.item_at<can_divide_steps<Kernel>>(next), role.record.globals_);
    }
    void next_item() { next += role.record.options_.blocks; }
    void wait_item_empty(int s, int phase) {
      role.add_step(*this, RecordedStepKind::wait, role.item_barrier(s) + 1, phase);
    }
    void publish_item(int s) {
      role.add_step(*this, RecordedStepKind::write, role.item_cell(s));
      role.add_step(*this, RecordedStepKind::arrive, role.item_barrier(s));
    }
    void wait_resident_empty(int s, int phase) {
      role.add_step(*this, RecordedStepKind::wait, role.resident_barrier(s) + 1, phase);
    }
    void load_resident(int s) {
      Kernel::load_resident(*this, role.record.resident_, role.record.globals_);
      role.add_step(*this, RecordedStepKind::arrive, role.resident_barrier(s));
    }
    void load_step() { Kernel::load(*this, role.record.stage_, role.record.globals_); }
    void wait_empty(int r, int s, int phase) {
      role.add_step(*this, RecordedStepKind::wait, role.slot_barrier(r, s) + 1, phase);
    }
    void arrive_full(int r, int s) { role.add_step(*this, RecordedStepKind::arrive, role.slot_barrier(r, s)); }
    template <class Tile, class View> void fill(int r, int s, Tile&, const View&, int, int, int) {
      copy(role.tile_cell(r, s), role.slot_barrier(r, s), Tile::rows * Tile::cols * sizeof(typename Tile::type));
    }
    template <class Tile, class View> void fill_resident(int s, Tile& tile, const View&, int, int, int) {
      for (int group = 0; group < config.consumers; ++group)
        for (const int cell : role.resident_cells(s, role.tile_number(tile), group))
          copy(cell, role.resident_barrier(s),
               Tile::rows * Tile::cols * sizeof(typename Tile::type) / (2 * config.consumers));
    }
    void copy(int cell, int full, std::int64_t bytes) {
      role.add_step(*this, RecordedStepKind::expect_bytes, full, bytes);
      role.add_step(*this, RecordedStepKind::copy, cell, bytes).other = full;
    }
  };

  template <bool first_, bool last_> struct RecordingStepCompute;
  struct RecordingStepStore;

  struct RecordingStepConsumer : StepWarpgroup<Kernel, RecordingStepConsumer> {
    StepRole role;
    int lane;
    const State* state = nullptr;

    RecordingStepConsumer(int group, StepRole r, int of)
        : StepWarpgroup<Kernel, RecordingStepConsumer>(group), role(r), lane(of) {}
    std::string name() const { return "consumer " + std::to_string(this->id); }
    int named_barrier(const std::string& what) const { return role.record.symbols_.named_barrier(role.block, what); }
    void sync_group() { role.add_step(*this, RecordedStepKind::sync, named_barrier("of " + name()), 128); }
    void acquire_item(int s, int phase) {
      role.add_step(*this, RecordedStepKind::wait, role.item_barrier(s), phase);
      role.add_step(*this, RecordedStepKind::read, role.item_cell(s));
      const ItemOrder& order = role.record.options_.order;
      this->template set_item<Kernel>(
          order, order.item_at<can_divide_steps<Kernel>>(role.block + items * role.record.options_.blocks),
          role.record.globals_);
      ++items;
    }
    void release_item(int s) {
      if (lane == 0) role.add_step(*this, RecordedStepKind::arrive, role.item_barrier(s) + 1);
    }
    void wait_for_resident(int s, int phase) {
      role.add_step(*this, RecordedStepKind::wait, role.resident_barrier(s), phase);
    }
    void release_resident(int s) {
      if (lane != 0) return;
      role.add_step(*this, RecordedStepKind::wait_read);
      role.add_step(*this, RecordedStepKind::arrive, role.resident_barrier(s) + 1);
    }
    void wait_for_stores() {
      if (lane == 0) role.add_step(*this, RecordedStepKind::wait_read);
    }
    template <bool first, bool last> void compute(State& x) {
      state = &x;
      temporary_sums.clear();
      RecordingStepCompute<first, last> at{*this};
      Kernel::compute(at, x, role.record.resident_, role.record.stage_, role.record.globals_);
    }
    void store(State& x) {
      RecordingStepStore at{*this};
      Kernel::store(at, x, role.record.globals_);
    }
    void wait_full(int r, int s, int phase) {
      role.add_step(*this, RecordedStepKind::wait, role.slot_barrier(r, s), phase);
    }
    void release_slot(int r, int s) {
      if (lane == 0) role.add_step(*this, RecordedStepKind::arrive, role.slot_barrier(r, s) + 1);
    }
    int group_named_barrier(int group, int index) const {
      return named_barrier("of consumer " + std::to_string(group) + "'s barrier " + std::to_string(index));
    }
    void sync_groups(int index) {
      role.add_step(*this, RecordedStepKind::sync, group_named_barrier((this->id + 1) % 2, index), 256);
    }
    void arrive_groups(int index) {
      role.add_step(*this, RecordedStepKind::bar_arrive, group_named_barrier(this->id, index), 256);
    }
    int product_turn_barrier(int of) const { return named_barrier("of consumer " + std::to_string(of) + "'s turn"); }
    void sync_turn(int of) { role.add_step(*this, RecordedStepKind::sync, product_turn_barrier(of), 256); }
    void pass_turn_to(int of) { role.add_step(*this, RecordedStepKind::bar_arrive, product_turn_barrier(of), 256); }
    void mma_fence() { role.add_step(*this, RecordedStepKind::fence_sums); }
    void mma_commit() { role.add_step(*this, RecordedStepKind::commit_multiply); }
    template <int left> void mma_wait() { role.add_step(*this, RecordedStepKind::wait_multiply, -1, left); }
    void prevent_reordering() {}

    // Returns the cell of sums. Sums of the state are named by their offset, others by their width and order of use.
    template <class X> int sums_cell(const X& x) {
      const auto at = reinterpret_cast<const char*>(&x) - reinterpret_cast<const char*>(state);
      if (at >= 0 && at < static_cast<std::ptrdiff_t>(sizeof(State)))
        return role.cell(name() + " state at " + std::to_string(at), CellKind::sums);
      const auto found = std::find(temporary_sums.begin(), temporary_sums.end(), &x);
      const auto number = found - temporary_sums.begin();
      if (found == temporary_sums.end()) temporary_sums.push_back(&x);
      return role.cell(
          name() + " sums of " + std::to_string(X::cols) + (number > 0 ? ", number " + std::to_string(number) : ""),
          CellKind::sums);
    }
    // Returns the cells of an operand's registers, one for each of the two recorded threads.
    template <class X> std::vector<int> register_cells(const X& x) const {
      const auto at = std::to_string(reinterpret_cast<const char*>(&x) - reinterpret_cast<const char*>(state));
      return {role.cell(name() + " operands at " + at, CellKind::sums),
              role.cell(name() + " operands at " + at + " (other threads)", CellKind::sums)};
    }
    template <class X> static constexpr bool is_row = X::cols == 1;  // numbers per row: no product writes them
    template <class X> void read_registers(const X& x) {
      if constexpr (!is_row<X>) role.add_step(*this, RecordedStepKind::read, sums_cell(x));
    }
    void read_registers(const RecordedColumns& x) { role.add_step(*this, RecordedStepKind::read, x.cell); }
    template <int M, int N, int S, class T> void read_registers(const RegisterOperand<M, N, S, RecordedElement<T>>& x) {
      role.add_step(*this, RecordedStepKind::read, register_cells(x)[lane]);
    }
    void request_turn(int counter, int before) {
      if (lane != 0) return;
      role.add_step(*this, RecordedStepKind::write, role.cell(name() + " turn", CellKind::buffer));
      role.add_step(*this, RecordedStepKind::arrive, role.turn_request_barrier(this->id));
      const StepRole turn_server{role.record, *role.record.turn_server_, role.block};
      turn_server.add_step(*this, RecordedStepKind::wait, role.turn_request_barrier(this->id), turns & 1);
      turn_server.add_step(*this, RecordedStepKind::read, role.cell(name() + " turn", CellKind::buffer));
      RecordedStep& poll = turn_server.add_step(*this, RecordedStepKind::poll, counter, before);
      poll.other = -1;
      poll.order = MemoryOrder::acquire;
      turn_server.add_step(*this, RecordedStepKind::arrive, role.turn_request_barrier(this->id) + 1);
      turn_server.add_step(*this, RecordedStepKind::wait, role.turn_request_barrier(this->id) + 2, turns & 1);
      RecordedStep& add = turn_server.add_step(*this, RecordedStepKind::add, counter);
      add.order = MemoryOrder::release;
    }
    int items = 0, turns = 0;
    std::vector<const void*> temporary_sums{};  // addresses of this step's sums that are not part of the state
  };

  template <bool first_, bool last_> struct RecordingStepCompute {
    static constexpr bool first = first_, last = last_;
    RecordingStepConsumer& on;
    int matrix() const { return on.matrix(); }
    int row() const { return on.row(); }
    int step() const { return on.step(); }
    int steps() const { return on.steps(); }
    int length() const { return on.length(); }
    Range own_rows() const { return {on.first_row(), 64}; }

    int round() const { return on.round(); }
    int step_of_round() const { return on.step_of_round(); }
    template <class X> int first_own_column(const X&) const {
      return on.splits_columns ? on.id * (X::cols / config.consumers) : 0;
    }

    // Returns the cells of a tile that a product reads: of a resident tile the group's own rows, or all.
    template <class Tile> std::vector<int> cells(const Tile& tile, bool own_rows = false) const {
      if constexpr (IsRingTile<Tile>) {
        return {on.role.tile_cell(Tile::ring, on.template ring<Tile::ring>().slot)};
      } else {
        std::vector<int> all;
        for (int group = 0; group < config.consumers; ++group)
          if (!own_rows || on.splits_columns || group == on.id)
            for (const int cell : on.role.resident_cells(on.resident.slot, on.role.tile_number(tile), group))
              all.push_back(cell);
        return all;
      }
    }
    template <class Sum, class A, class B> void mma(Sum& sum, const A& a, Transposed<B> b) const {
      static_assert(A::rows == Sum::rows && B::rows == Sum::cols && A::cols == B::cols,
                    "mma: [m, k] x [n, k] transposed -> [m, n]");
      record_multiply(sum, b.tile, cells(a, true), A::cols);
    }
    template <class Sum, class A, class B> void mma(Sum& sum, const A& a, const B& b) const {
      static_assert(A::rows == Sum::rows && B::cols == Sum::cols && A::cols == B::rows,
                    "mma: [m, k] x [k, n] -> [m, n]");
      record_multiply(sum, b, cells(a), A::cols);
    }
    template <class Sum, class A, class B> void mma(Sum& sum, Transposed<A> a, Transposed<B> b) const {
      static_assert(A::cols == Sum::rows && B::rows == Sum::cols && A::rows == B::cols,
                    "mma: [k, m] transposed x [n, k] transposed -> [m, n]");
      record_multiply(sum, b.tile, cells(a.tile), A::rows);
    }
    template <class Sum, class A, class B> void mma(Sum& sum, Transposed<A> a, const B& b) const {
      static_assert(A::cols == Sum::rows && B::cols == Sum::cols && A::rows == B::rows,
                    "mma: [k, m] transposed x [k, n] -> [m, n]");
      record_multiply(sum, b, cells(a.tile), A::rows);
    }
    template <int m, int n, int k, int s, class S, class T, class B>
    void mma(Accumulator<m, n, s, RecordedElement<S>>& sum, const RegisterOperand<m, k, s, RecordedElement<T>>& a,
             const B& b) const {
      static_assert(B::rows == k && B::cols == n, "mma: [m, k] x [k, n] -> [m, n]");
      record_multiply(sum, b, on.register_cells(a), k);
    }
    template <int m, int n, int s, class T, class B> void record_multiply(Accumulator<m, n, s, RecordedElement<T>>& sum,
                                                                          const B& b, std::vector<int> read,
                                                                          std::int64_t depth) const {
      on.template begin_product<last>(b);
      const std::vector<int> right = cells(b);
      read.insert(read.end(), right.begin(), right.end());
      on.role.add_step(on, RecordedStepKind::multiply, on.sums_cell(sum), std::int64_t{2} * m / s * n * depth).cells =
          std::move(read);
      on.end_product(sum);
    }
    template <class Sum> void wait_for_product(const Sum& sum) const { on.template wait_for_product<last>(sum); }
    template <class X, class F, class... Others> void map(X& x, const F&, Others&... others) const {
      on.read_registers(x);
      (on.read_registers(others), ...);
    }
    template <class X, class F> void mask_columns(X& x, const F&, float = 0) const { on.read_registers(x); }
    template <class Tile, class X> RecordedColumns column_values(const Tile& tile, int, const X&) const {
      on.begin_reading(tile);
      return {cells(tile)[0]};
    }
    void arrive_at_barrier() const {
      on.role.add_step(on, RecordedStepKind::fence_proxy);
      on.arrive_groups(on.template barrier_number<last>());
    }
    void wait_at_barrier() const { on.template wait_at_barrier<last>(); }
    // The counter need not be zero at the end, because a pass before the kernel clears it.
    template <class X> void request_turn(const SumsInMemory&, const X&, int matrix, int number, int before) const {
      SymbolTable& symbols = on.role.record.symbols_;
      const int counter = symbols.find_or_add_counter("adds to tile " + std::to_string(number) + " of matrix " +
                                                      std::to_string(matrix) + " by " + on.name());
      symbols.program.counters[counter].returns_to_zero = false;
      on.request_turn(counter, before);
    }
    // Unordered adds commute and are not recorded; an ordered add is a write.
    template <class X> void add_to_memory(const SumsInMemory&, X& x, int matrix, int number) const {
      on.read_registers(x);
      x.is_written = false;
      if constexpr (AddsInOrder<Kernel>) {
        on.role.add_step(on, RecordedStepKind::wait, on.role.turn_request_barrier(on.id) + 1, on.turns & 1);
        on.role.add_step(on, RecordedStepKind::write,
                         on.role.record.symbols_.find_or_add_cell("sums of tile " + std::to_string(number) +
                                                                      " of matrix " + std::to_string(matrix) + " of " +
                                                                      on.name() + std::to_string(on.lane),
                                                                  CellKind::memory));
        on.role.add_step(on, RecordedStepKind::arrive, on.role.turn_request_barrier(on.id) + 2);
        ++on.turns;
      }
    }
    template <class X, class F> bool has_any(const X& x, const F&) const {
      on.read_registers(x);
      return true;
    }
    template <class Row, class X> void reduce(Row&, const X& x, Max) const { on.read_registers(x); }
    template <class Row, class X> void reduce(Row&, const X& x, Add, const Row&) const { on.read_registers(x); }
    template <class To, class From> void copy(To& to, const From& from) const {
      on.read_registers(from);
      constexpr std::int64_t bytes = std::int64_t{64} * To::cols * sizeof(typename To::type);  // bytes of the group
      on.role.add_step(on, RecordedStepKind::write, on.register_cells(to)[on.lane], bytes / 2);
    }
    template <class T, int rows, int cols, int s>
    void copy(const ResidentTile<RecordedElement<T>, rows, cols>& to,
              Transposed<RegisterOperand<cols, rows, s, RecordedElement<T>>> from) const {
      copy_to_resident(to, from.tile, rows);
    }
    template <class T, int rows, int cols, int s>
    void copy(const ResidentTile<RecordedElement<T>, rows, cols>& to,
              const RegisterOperand<rows, cols, s, RecordedElement<T>>& from) const {
      copy_to_resident(to, from, cols / s);
    }
    template <class Tile, class From>
    void copy_to_resident(const Tile& to, const From& from, std::int64_t columns) const {
      on.read_registers(from);
      const auto part = on.role.resident_cells(on.resident.slot, on.role.tile_number(to), on.id);
      on.role.add_step(on, RecordedStepKind::write, part[on.lane], 64 * columns);
    }
  };

  struct RecordingStepStore {
    RecordingStepConsumer& on;
    int outputs = 0;
    int matrix() const { return on.matrix(); }
    int row() const { return on.row(); }
    template <class X, class F, class... Others> void map(X& x, const F&, Others&... others) const {
      on.read_registers(x);
      (on.read_registers(others), ...);
    }
    template <class T, int m, class X> void store(const MatricesOut<T, m, 1>&, const X&) {}  // threads store it
    template <class T, int m, int n, class X> void store(const MatricesOut<T, m, n>&, const X& x) {
      on.sync_group();
      on.read_registers(x);
      const int number = outputs++;
      const std::vector<int> from = on.role.resident_cells(on.resident.slot, number, on.id);
      constexpr std::int64_t bytes = std::int64_t{m} * n / config.consumers * sizeof(typename T::type);
      on.role.add_step(on, RecordedStepKind::write, from[on.lane], bytes / 2);
      on.role.add_step(on, RecordedStepKind::fence_proxy);
      on.sync_group();
      if (on.lane != 0) return;
      RecordedStep& step = on.role.add_step(on, RecordedStepKind::store, -1, bytes);
      step.cells = from;
      step.other = on.role.record.symbols_.find_or_add_cell(
          "output of tile " + std::to_string(on.item.tile) + " of consumer " + std::to_string(on.id) +
              (number > 0 ? ", number " + std::to_string(number) : ""),
          CellKind::output);
      on.role.add_step(on, RecordedStepKind::commit_store);
    }
  };

  const Globals& globals_;
  RecordStepsOptions options_;
  SymbolTable symbols_;
  std::vector<std::vector<int>> barriers_;  // numbers of the full barriers of each block
  RecordedThread* turn_server_ = nullptr;   // thread that serves the turns of the group being recorded
  typename Kernel::Resident resident_{};
  typename Kernel::Stage stage_{};
};

template <class Kernel>
RecordedProgram record_steps(const RecordStepsOptions& options, const typename Kernel::Globals& globals) {
  return StepRecorder<Kernel>(globals, options)();
}

}  // namespace trace
}  // namespace ridge::tile
