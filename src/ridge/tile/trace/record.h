// Records the steps of a kernel's roles: ring.h and the kernel's functions run once for each recorded thread, with
// operations that only append steps to a list. A group of 128 threads is recorded twice, as its first thread and as one
// of the others, so that a missing barrier between the two is found.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "ridge/tile/ring.h"
#include "ridge/tile/sums.h"
#include "ridge/tile/trace/await.h"
#include "ridge/tile/words.h"

namespace ridge::tile::trace {

struct RecordOptions {
  std::string kernel;
  Sizes sizes;
  int blocks = 1;                   // a multiple of the cluster
  bool prefetch_constants = false;  // true if constants are loaded before the end of earlier kernels
  bool bulk = true;                 // true if bulk stores write the output, false if threads write it
  std::vector<int> starts{};        // first rows of the groups of a grouped product
};

// The barriers, cells and counters of a program by name, created at their first use.
class Scribe {
 public:
  explicit Scribe(int blocks) : blocks_(blocks) {}
  Program program;

  int full(int block, int slot) { return barriers_.at({block, slot, 0}); }
  int empty(int block, int slot) { return barriers_.at({block, slot, 1}); }
  void add_slot(int block, int slot, int gives_back);

  // Rows of a tile that one copy loads. A tile is identified by its offset in the stage.
  struct Part {
    int first = 0, count = 0;
    bool operator<(const Part& o) const { return std::tie(first, count) < std::tie(o.first, o.count); }
  };
  int tile_cell(int block, int slot, std::ptrdiff_t tile, Part part);
  std::vector<int> tile_cells(int block, int slot, std::ptrdiff_t tile, int rows);
  std::vector<int> all_tile_cells(int block) const;  // the tiles that any step loads

  int named_barrier(int block, const std::string& name);
  int shared_cell(const std::string& name, Kind kind, int block = -1);
  int counter(const std::string& name);  // a counter that is zero between launches
  int talk(Talk talk);
  std::string in_block(int block, const std::string& name) const;  // adds the block if there are several

 private:
  int blocks_;
  std::map<std::tuple<int, int, int>, int> barriers_;
  std::map<std::tuple<int, int, std::ptrdiff_t>, std::map<Part, int>> tiles_;
  std::map<std::string, int> named_barriers_, cells_, counters_;
  std::map<std::ptrdiff_t, char> letters_;
};

// `Operations` are those by which splits wait for each other.
template <class Kernel, class Words = Awaiting> class Record {
 public:
  using Globals = typename Kernel::Globals;
  using Stage = typename Kernel::Stage;
  using State = typename Kernel::State;
  static constexpr auto config = Kernel::config;

  Record(const Globals& globals, const RecordOptions& options)
      : globals_(globals), options_(options), scribe_(options.blocks) {}

  Program operator()() {
    scribe_.program.kernel = options_.kernel;
    scribe_.program.buffers = config.staging;
    scribe_.program.lanes = 2;
    scribe_.program.cluster = cluster();
    for (int b = 0; b < options_.blocks; ++b)
      for (int s = 0; s < config.stages; ++s) scribe_.add_slot(b, s, config.sharers() * config.loaders());
    for (int b = 0; b < options_.blocks; ++b) {
      Thread& t = scribe_.program.thread(scribe_.in_block(b, "producer"), b);
      Producer on{{*this, t, b}};
      if (!shares()) on.sync_cluster();
      produce<Kernel>(on, scheduler(b), options_.prefetch_constants);
      if (shares()) on.sync_cluster();
      on.sync_cluster();
    }
    for (int b = 0; b < options_.blocks; ++b)
      for (int id = 0; id < config.consumers; ++id, ++scribe_.program.groups)
        for (int lane = 0; lane < 2; ++lane) {
          Thread& t = scribe_.program.thread(scribe_.in_block(b, "consumer " + std::to_string(id)), b);
          t.group = scribe_.program.groups;
          t.leads = lane == 0;
          t.weight = 64;
          Consumer on{{*this, t, b}, id, lane};
          if (!shares()) on.sync_cluster();
          consume<Kernel>(on, scheduler(b), id);
          on.sync_cluster();
        }
    return std::move(scribe_.program);
  }

 private:
  static constexpr Cut cut() {
    return {config.m, columns_of<Kernel>(), config.k, config.cluster_m, config.cluster_n, config.can_split()};
  }
  bool shares() const { return config.shares() && options_.sizes.split_mode == SplitMode::cluster_split_k; }
  int cluster() const { return shares() ? options_.sizes.splits : cut().cluster(); }
  SchedulerOf<Kernel> scheduler(int block) const {
    if constexpr (is_grouped<Kernel>)
      return {cut(), options_.sizes, {options_.starts.data(), config.swap}, options_.blocks, block};
    else
      return {cut(), options_.sizes, options_.blocks, block, block % cut().cluster()};
  }
  // True if bulk stores write the item; threads write tiles that extend beyond their group of rows.
  bool stores_in_bulk(const Item& item) const {
    if constexpr (is_grouped<Kernel>)
      if ((config.swap ? item.n0 + config.n : item.m0 + config.m) > item.end) return false;
    return options_.bulk;
  }
  std::ptrdiff_t place_of(const void* tile) const {
    return static_cast<const char*>(tile) - reinterpret_cast<const char*>(&stage_);
  }

  struct Role {
    Record& record;
    Thread& thread;
    int block;
    int tile_now = -1, stage_now = -1;  // tile and stage of the steps that are being recorded
    int granted = -1;                   // bit that the steps being recorded need; -1: always run

    Step& note(Do what, int object = -1, std::int64_t amount = 0) {
      thread.steps.push_back({.what = what, .object = object, .amount = amount, .granted = granted});
      thread.steps.back().item = tile_now;
      thread.steps.back().stage = stage_now;
      return thread.steps.back();
    }
    int rank() const { return block % cut().cluster(); }
    int first_of_cluster() const { return block - rank(); }
    // Barrier of all recorded threads of a cluster; the producer counts as one thread.
    void sync_cluster() {
      const int blocks = record.cluster();
      if (blocks == 1) return;
      const int all = record.scribe_.named_barrier(block / blocks * blocks, "of the cluster");
      note(Do::sync, all, blocks * (1 + 128 * config.consumers));
    }
  };

  struct Position {
    Row row_range;
    Col col_range;
    Row row() const { return row_range; }
    Col col() const { return col_range; }
  };
  static Position position(const Item& x) { return {{{x.m0, config.m}}, {{x.n0, columns_of<Kernel>()}}}; }

  struct Producer : Role {
    template <Half half> void fill(const Item& item, int slot, int stage) {
      this->tile_now = item.tile;
      this->stage_now = stage;
      Loader<half> at{position(item), *this, slot};
      this->record.stage_ = {};
      Kernel::load(at, this->record.stage_, this->record.globals_, Range{Index{stage} * config.k, config.k});
    }
    void wait_for_earlier_kernels() {}
    void wait_empty(int slot, std::uint32_t phase) {
      this->note(Do::wait, this->record.scribe_.empty(this->block, slot), phase);
    }
    void arrive_full(int slot) { this->note(Do::arrive, this->record.scribe_.full(this->block, slot)); }
  };

  // Each role has its own operations, so a multiply in `load` does not compile.
  template <Half half> struct Loader : OnlyLoads<Position> {
    Producer& on;
    int slot;
    template <class Tile, class Box, class Along, bool is_constant, class Where>
    void load(Tile& tile, const GlobalView<Box, Along, is_constant>& view, Where where, Range k) const {
      static_assert(std::is_same_v<Along, Where>,
                    "load: a view along rows is loaded at a row, one along columns at a column");
      load(rows<0, Tile::rows>(tile), view, where, k);
    }
    template <int first, int count, class Tile, class Box, class Along, bool is_constant>
    void load(tile::Part<first, count, Tile> part, const GlobalView<Box, Along, is_constant>&, Along, Range) const {
      static_assert(Box::rows == count && Box::cols == Tile::cols,
                    "load: a view is loaded into a tile of its own shape, or into as many rows of one");
      if (half != Half::both && (is_constant != config.swap) != (half == Half::constants)) return;
      constexpr bool is_left = std::is_same_v<Along, Row>;
      constexpr int sharers = is_left ? config.cluster_n : config.cluster_m,
                    row_bytes = Tile::cols * sizeof(typename Tile::type);
      Scribe& scribe = on.record.scribe_;
      on.note(Do::expect, scribe.full(on.block, slot), count * row_bytes);
      const int my_share = is_left ? on.rank() / config.cluster_m : on.rank() % config.cluster_m;
      const std::ptrdiff_t tile = on.record.place_of(&part.tile);
      for (int r = 0; r < cut().cluster(); ++r) {
        const bool wants = is_left ? r % config.cluster_m == on.rank() % config.cluster_m
                                   : r / config.cluster_m == on.rank() / config.cluster_m;
        if (!wants) continue;
        const int to = on.first_of_cluster() + r, mine = count / sharers;
        Step& step =
            on.note(Do::copy, scribe.tile_cell(to, slot, tile, {first + my_share * mine, mine}), mine * row_bytes);
        step.other = scribe.full(to, slot);
      }
    }
  };

  struct Consumer : Role {
    int id, lane;

    void wait_for_earlier_kernels() {}
    void wait_full(int slot, std::uint32_t phase) {
      this->note(Do::wait, this->record.scribe_.full(this->block, slot), phase);
    }
    void mma_fence() { this->note(Do::fence_sums); }
    void compute(State& acc, const Item& item, int slot, int stage) {
      this->tile_now = item.tile;
      this->stage_now = stage;
      Multiplier at{position(item), *this, slot};
      Kernel::compute(at, acc, this->record.stage_);
    }
    void mma_commit() { this->note(Do::commit); }
    template <int most> void mma_wait() { this->note(Do::wait_multiply, -1, most); }
    void release(int slot) {
      if (lane != 0) return;
      for (int r = 0; r < cut().cluster(); ++r)
        if (config.share_loads(r, this->rank()))
          this->note(Do::arrive, this->record.scribe_.empty(this->first_of_cluster() + r, slot));
    }
    void wait_turn(int of) { this->note(Do::sync, turn(of), 256); }
    void pass_turn(int to) { this->note(Do::join, turn(to), 256); }
    int turn(int of) { return named("of consumer " + std::to_string(of) + "'s turn"); }

    bool leads() const { return lane == 0; }
    void sync_group() { this->note(Do::sync, named("of consumer " + std::to_string(id)), 128); }
    int named(const std::string& name) { return this->record.scribe_.named_barrier(this->block, name); }
    int own_cell(const std::string& name, Kind kind) {
      Scribe& scribe = this->record.scribe_;
      return scribe.shared_cell(scribe.in_block(this->block, "consumer " + std::to_string(id) + name), kind,
                                this->block);
    }
    int sums() { return own_cell(" sums", Kind::sums); }

    // Index of this consumer's part of the tile; in ping-pong one consumer has all of it.
    int share() const { return config.sharers() > 1 ? id : 0; }
    std::string part_of(const Item& x) const {
      return "of tile " + std::to_string(x.block_tile) +
             (config.sharers() > 1 ? " part " + std::to_string(share()) : "");
    }
    std::string lane_name() const { return lane == 0 ? "" : " (other threads)"; }
    int partial(const Item& x, int split) {
      return this->record.scribe_.shared_cell("partial sums " + std::to_string(split) + " " + part_of(x) + lane_name(),
                                              Kind::memory);
    }
    void write_partial(const State&, const Item& x) {
      this->note(Do::read, sums());
      this->note(Do::write, partial(x, x.split));
    }
    void count_arrival(const Item& x) {
      this->note(Do::add, this->record.scribe_.counter("counter " + part_of(x)), x.splits);
      this->note(Do::write, own_cell(" flag", Kind::buffer));
    }
    bool is_last() {
      this->note(Do::read, own_cell(" flag", Kind::buffer));
      this->granted = 0;
      return true;
    }
    void add_partials(State&, const Item& x) {
      for (int split = 0; split < x.splits; ++split) this->note(Do::read, partial(x, split));
    }

    // Operations of splits that run concurrently.
    bool is_cooperative() const { return this->record.options_.sizes.split_mode == SplitMode::cooperative_split_k; }
    void await_splits(const Item& x) {
      const int counter = this->record.scribe_.counter("counter " + part_of(x)), flag = own_cell(" flag", Kind::buffer);
      const auto text = [=](Asking& asking) {
        Words on{asking, counter, flag};
        tile::await_splits(on, x);
      };
      this->note(Do::talk, this->record.scribe_.talk({counter, x.split, x.splits, text}));
    }
    bool has_share(const Item&) {
      if (is_cooperative()) this->note(Do::read, own_cell(" flag", Kind::buffer));
      return true;
    }

    // Operations of splits in a cluster. The sums of all groups are written over the ring's slots; the first thread of
    // one group represents all threads that overwrite them.
    bool shares() const { return this->record.shares(); }
    void sync_consumers() {
      if (config.consumers > 1) this->note(Do::sync, named("of the consumers"), 128 * config.consumers);
    }
    void put_sums(const State&) {
      this->note(Do::read, sums());
      if (id == 0 && lane == 0)
        for (const int cell : this->record.scribe_.all_tile_cells(this->block)) this->note(Do::write, cell);
      this->note(Do::write, shared_sums(this->block, lane));
    }
    int shared_sums(int of_block, int of_lane) {
      Scribe& scribe = this->record.scribe_;
      return scribe.shared_cell(scribe.in_block(of_block, "consumer " + std::to_string(id) + " shared sums") +
                                    (of_lane == 0 ? "" : " (other threads)"),
                                Kind::buffer, of_block);
    }

    void store(const State& acc, const Item& item) {
      Storer at{position(item), *this, item};
      Kernel::store(at, this->record.globals_, acc);
      this->granted = -1;
    }
    int buffer(int of_lane) {
      int first = -1;  // the cells of a group's buffers have consecutive numbers
      for (int b = 0; b < config.staging; ++b)
        for (int l = 0; l < 2; ++l) {
          const int cell = own_cell(" buffer " + std::to_string(b) + (l == 0 ? "" : " (other threads)"), Kind::buffer);
          if (first < 0) first = cell;
        }
      return first + of_lane;
    }
    void shared_writes_done() { this->note(Do::fence_proxy); }
    template <int most> void store_wait() { this->note(Do::wait_read, -1, most); }
    void store_commit() { this->note(Do::commit_store); }
    void next_buffer() { this->note(Do::next_buffer); }
  };

  struct Multiplier : OnlyMultiplies<Position> {
    Consumer& on;
    int slot;
    template <int m, int n, int sharers, class Sum, class A, class B>
    void mma(Accumulator<m, n, sharers, Sum>& acc, const A& a, Transposed<B> b) const {
      static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
      Scribe& scribe = on.record.scribe_;
      std::vector<int> cells = scribe.tile_cells(on.block, slot, on.record.place_of(&a), A::rows);
      const std::vector<int> right = scribe.tile_cells(on.block, slot, on.record.place_of(&b.tile), B::rows);
      cells.insert(cells.end(), right.begin(), right.end());
      constexpr std::int64_t flops = std::int64_t{2} * (m / sharers) * n * A::cols;
      on.note(Do::multiply, on.sums(), flops).cells = std::move(cells);
      acc.live = true;
    }
    template <class Sums> void settle(Sums&) const {
      on.note(Do::commit);
      on.note(Do::wait_multiply, -1, 0);
    }
    // Recorded as a read, because a later multiply needs a fence after a thread has used its registers.
    template <class Sums, class F> void map(Sums&, F) const { on.note(Do::read, on.sums()); }
  };

  struct Storer : OnlyStores<Position> {
    Consumer& on;
    Item item;
    template <class Sums, class F> Mapped<Sums, F> map(const Sums& sums, F f) const { return {sums, f}; }
    template <class Sums, class F> Folded<Sums, F> fold(const Sums& sums, F f) const { return {sums, f}; }
    template <class T, int m, int n, class Sums>
    void store(const OutputView<T, m, n>&, const Sums&, Row row, Col col) const {
      static_assert(Sums::rows == m && Sums::cols == n, "store: the output's tile has the shape of what is stored");
      if (item.splits > 1 && (on.shares() || on.is_cooperative())) return share(row.begin, col.begin);
      on.note(Do::read, on.sums());
      constexpr int boxes = config.swap ? 1 : (n + 63) / 64;
      for (int i = 0; i < m / config.sharers() / 64; ++i)
        for (int c = 0; c < boxes; ++c) {
          const Index at_row = row.begin + on.share() * (m / config.sharers()) + i * 64;
          const int wide = config.swap ? n : std::min(64, n - c * 64);
          box(at_row, col.begin + c * 64, std::int64_t{64} * wide * sizeof(T));
        }
    }
    std::string output(Index row, Index col) const {
      return "output at row " + std::to_string(row) + ", column " + std::to_string(col) +
             (item.batch > 0 ? ", product " + std::to_string(item.batch) : "");
    }
    // Stores slices of a tile: the block's own slice if the splits are in a cluster, else every slice that may be
    // granted.
    void share(Index row, Index col) const {
      if (on.shares()) return share(row, col, item.split);
      for (on.granted = 0; on.granted < item.splits; ++on.granted) share(row, col, on.granted);
      on.granted = -1;
    }
    void share(Index row, Index col, int of_split) const {
      const int first = on.block / item.splits * item.splits;
      for (int split = 0; split < item.splits; ++split)
        on.note(Do::read, on.shares() ? on.shared_sums(first + split, on.lane) : on.partial(item, split));
      const std::string name = output(row, col) + " slice " + std::to_string(of_split) + " of consumer " +
                               std::to_string(on.id) + on.lane_name();
      on.note(Do::write, on.record.scribe_.shared_cell(name, Kind::output));
    }
    void box(Index row, Index col, std::int64_t bytes) const {
      const std::string name = output(row, col);
      Scribe& scribe = on.record.scribe_;
      if (on.record.stores_in_bulk(item)) {
        send_box<config.staging>(
            on, [&] { on.note(Do::write, on.buffer(on.lane), bytes / 2).is_buffer = true; },
            [&] {
              Step& step = on.note(Do::store, -1, bytes);
              step.cells = {on.buffer(0), on.buffer(1)};
              step.is_buffer = true;
              step.other = scribe.shared_cell(name, Kind::output);
            });
        return;
      }
      take_buffers<Kernel>(on);
      on.sync_group();  // all threads have read the previous sums
      on.note(Do::write, on.buffer(on.lane), bytes / 2);
      on.sync_group();
      on.note(Do::read, on.buffer(0));
      on.note(Do::read, on.buffer(1));
      on.note(Do::write, scribe.shared_cell(name + on.lane_name(), Kind::output), bytes / 2);
    }
  };

  const Globals& globals_;
  RecordOptions options_;
  Scribe scribe_;
  Stage stage_{};  // only the addresses of its tiles are used
};

template <class Kernel, class Words = Awaiting>
Program record(const RecordOptions& options, const typename Kernel::Globals& globals = {}) {
  return Record<Kernel, Words>(globals, options)();
}

}  // namespace ridge::tile::trace
