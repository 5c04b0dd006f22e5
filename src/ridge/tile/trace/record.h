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
#include "ridge/tile/role_checks.h"
#include "ridge/tile/sum_functions.h"
#include "ridge/tile/trace/split_operations.h"

namespace ridge::tile::trace {

struct RecordOptions {
  std::string kernel;
  ProductShape sizes;
  int blocks = 1;                   // a multiple of the cluster
  bool prefetch_constants = false;  // true if constants are loaded before the end of earlier kernels
  bool bulk = true;                 // true if bulk stores write the output, false if threads write it
  std::vector<int> starts{};        // first rows of the groups of a grouped product
};

// Barriers, cells and counters of the program being recorded, by name. Each is created at its first use.
class SymbolTable {
 public:
  explicit SymbolTable(int blocks) : blocks_(blocks) {}
  RecordedProgram program;

  int full_barrier(int block, int slot) { return barriers_.at({block, slot, 0}); }
  int empty_barrier(int block, int slot) { return barriers_.at({block, slot, 1}); }
  // Adds the barriers of a slot that is full after `arrivals` and empty after `releases`.
  void add_slot_barriers(int block, int slot, const std::string& name, int arrivals, int releases);

  // Rows of a tile that one copy loads. A tile is identified by its offset in the stage.
  struct LoadedRows {
    int first = 0, count = 0;
    bool operator<(const LoadedRows& o) const { return std::tie(first, count) < std::tie(o.first, o.count); }
  };
  int tile_cell(int block, int slot, std::ptrdiff_t tile, LoadedRows part);
  std::vector<int> tile_cells(int block, int slot, std::ptrdiff_t tile, int rows);
  std::vector<int> all_tile_cells(int block) const;  // cells of all tiles that any step loads

  int named_barrier(int block, const std::string& name);
  int find_or_add_cell(const std::string& name, CellKind kind, int block = -1);
  int find_or_add_counter(const std::string& name);  // The counter must be zero when the kernel ends.
  int add_stream(StepStream stream_step);
  std::string block_prefixed(int block,
                             const std::string& name) const;  // "block 1 " + name if there are several blocks

 private:
  int blocks_;
  std::map<std::tuple<int, int, int>, int> barriers_;
  std::map<std::tuple<int, int, std::ptrdiff_t>, std::map<LoadedRows, int>> tiles_;
  std::map<std::string, int> named_barriers_, cells_, counters_;
  std::map<std::ptrdiff_t, char> letters_;
};

// `Operations` are the recorded operations by which splits wait for each other; tests replace them.
template <class Kernel, class Operations = SplitOperations> class Recorder {
 public:
  using Globals = typename Kernel::Globals;
  using Stage = typename Kernel::Stage;
  using State = typename Kernel::State;
  static constexpr auto config = Kernel::config;

  Recorder(const Globals& globals, const RecordOptions& options)
      : globals_(globals), options_(options), symbols_(options.blocks) {}

  RecordedProgram operator()() {
    symbols_.program.kernel = options_.kernel;
    symbols_.program.buffers = config.staging;
    symbols_.program.cells_per_buffer = 2;
    symbols_.program.cluster = cluster();
    for (int b = 0; b < options_.blocks; ++b)
      for (int s = 0; s < config.stages; ++s)
        symbols_.add_slot_barriers(b, s, "slot " + std::to_string(s), 1,
                                   config.warpgroups_per_tile() * config.blocks_sharing_loads());
    for (int b = 0; b < options_.blocks; ++b) {
      RecordedThread& t = symbols_.program.add_thread(symbols_.block_prefixed(b, "producer"), b);
      RecordingProducer on{{*this, t, b}};
      if (!splits_in_cluster()) on.sync_cluster();
      run_producer<Kernel>(on, scheduler(b), options_.prefetch_constants);
      if (splits_in_cluster()) on.sync_cluster();
      on.sync_cluster();
    }
    if constexpr (has_block_scales<Kernel>)
      for (int b = 0; b < options_.blocks; ++b) record_scale_loader(b);
    for (int b = 0; b < options_.blocks; ++b)
      for (int id = 0; id < config.consumers; ++id, ++symbols_.program.groups)
        for (int lane = 0; lane < 2; ++lane) {
          RecordedThread& t =
              symbols_.program.add_thread(symbols_.block_prefixed(b, "consumer " + std::to_string(id)), b);
          t.group = symbols_.program.groups;
          t.leads = lane == 0;
          t.represented_threads = 64;
          RecordingConsumer on{{*this, t, b}, id, lane};
          if (!splits_in_cluster()) on.sync_cluster();
          run_consumer<Kernel>(on, scheduler(b), id);
          on.sync_cluster();
        }
    return std::move(symbols_.program);
  }

 private:
  // Records two of the threads that load scales. Both recorded threads of each group release a buffer.
  void record_scale_loader(int block) {
    for (int i = 0; i < scale_buffers; ++i)
      symbols_.add_slot_barriers(block, config.stages + i, "scales " + std::to_string(i), 2,
                                 2 * config.warpgroups_per_tile());
    for (int lane = 0; lane < 2; ++lane) {
      RecordedThread& t = symbols_.program.add_thread(symbols_.block_prefixed(block, "scale loader"), block);
      t.represented_threads = scale_loader_threads / 2;
      RecordingScaleLoader on{{*this, t, block}, lane};
      if (!splits_in_cluster()) on.sync_cluster();
      run_scale_loader<Kernel>(on, scheduler(block));
      if (splits_in_cluster()) on.sync_cluster();
      on.sync_cluster();
    }
  }
  static constexpr int scale_loader_threads = has_block_scales<Kernel> ? 96 : 0;
  static constexpr TileShape tile_shape() {
    return {config.m, output_columns<Kernel>(), config.k, config.cluster_m, config.cluster_n, config.can_split()};
  }
  bool splits_in_cluster() const {
    return config.can_split_in_cluster() && options_.sizes.split_mode == SplitMode::cluster_split_k;
  }
  int cluster() const { return splits_in_cluster() ? options_.sizes.splits : tile_shape().cluster(); }
  SchedulerOf<Kernel> scheduler(int block) const {
    if constexpr (is_grouped<Kernel>)
      return {tile_shape(), options_.sizes, {options_.starts.data(), config.swap}, options_.blocks, block};
    else
      return {tile_shape(), options_.sizes, options_.blocks, block, block % tile_shape().cluster()};
  }
  // True if bulk stores write the item; threads write tiles that extend beyond their group of rows.
  bool stores_in_bulk(const WorkItem& item) const {
    if constexpr (is_grouped<Kernel>)
      if ((config.swap ? item.n0 + config.n : item.m0 + config.m) > item.row_end) return false;
    return options_.bulk;
  }
  std::ptrdiff_t tile_offset(const void* tile) const {
    return static_cast<const char*>(tile) - reinterpret_cast<const char*>(&stage_);
  }

  struct RecordingRole {
    Recorder& record;
    RecordedThread& thread;
    int block;
    int current_tile = -1, current_stage = -1;  // tile and stage of the steps that are being recorded
    int required_bit = -1;                      // bit that the steps being recorded need; -1: none

    RecordedStep& add_step(RecordedStepKind what, int object = -1, std::int64_t amount = 0) {
      thread.steps.push_back({.what = what, .object = object, .amount = amount, .required_bit = required_bit});
      thread.steps.back().item = current_tile;
      thread.steps.back().stage = current_stage;
      return thread.steps.back();
    }
    int cluster_rank() const { return block % tile_shape().cluster(); }
    int first_cluster_block() const { return block - cluster_rank(); }
    // Barrier of all recorded threads of a cluster; the producer counts as one thread.
    void sync_cluster() {
      const int blocks = record.cluster();
      if (blocks == 1) return;
      const int all = record.symbols_.named_barrier(block / blocks * blocks, "of the cluster");
      add_step(RecordedStepKind::sync, all, blocks * (1 + scale_loader_threads + 128 * config.consumers));
    }
    // The scales in a buffer that each of the two recorded threads loads.
    int scales_cell(int buffer, int of_lane) {
      SymbolTable& symbols = record.symbols_;
      const std::string name = "scales " + std::to_string(buffer) + (of_lane == 0 ? "" : " (other threads)");
      return symbols.find_or_add_cell(symbols.block_prefixed(block, name), CellKind::scales, block);
    }
  };

  struct RecordedPosition {
    Row row_range;
    Col col_range;
    Row row() const { return row_range; }
    Col col() const { return col_range; }
  };
  static RecordedPosition item_position(const WorkItem& x) {
    return {{{x.m0, config.m}}, {{x.n0, output_columns<Kernel>()}}};
  }

  struct RecordingProducer : RecordingRole {
    template <LoadSubset subset> void fill(const WorkItem& item, int slot, int stage) {
      this->current_tile = item.cluster_tile;
      this->current_stage = stage;
      RecordingLoader<subset> at{item_position(item), *this, slot};
      this->record.stage_ = {};
      Kernel::load(at, this->record.stage_, this->record.globals_, Range{Index{stage} * config.k, config.k});
    }
    void wait_for_earlier_kernels() {}
    void wait_empty(int slot, std::uint32_t phase) {
      this->add_step(RecordedStepKind::wait, this->record.symbols_.empty_barrier(this->block, slot), phase);
    }
    void arrive_full(int slot) {
      this->add_step(RecordedStepKind::arrive, this->record.symbols_.full_barrier(this->block, slot));
    }
  };

  struct RecordingScaleLoader : RecordingRole {
    int lane;
    void wait_for_earlier_kernels() {}
    void load_scales(const WorkItem& item, int quad) {
      this->current_tile = item.cluster_tile;
      this->current_stage = std::max(item.first_stage, quad * scale_quad);
    }
    void wait_scales_read(int buffer, std::uint32_t phase) {
      this->add_step(RecordedStepKind::wait, this->record.symbols_.empty_barrier(this->block, config.stages + buffer),
                     phase);
    }
    // A thread compares the scales of others with its own.
    void store_scales(const WorkItem&, int buffer) {
      SymbolTable& symbols = this->record.symbols_;
      this->add_step(RecordedStepKind::write, this->scales_cell(buffer, lane));
      this->add_step(RecordedStepKind::sync, symbols.named_barrier(this->block, "of the scale loader"),
                     scale_loader_threads);
      for (int of = 0; of < 2; ++of) this->add_step(RecordedStepKind::read, this->scales_cell(buffer, of));
      this->add_step(RecordedStepKind::arrive, symbols.full_barrier(this->block, config.stages + buffer));
    }
  };

  // Each role has its own operations, so a multiply in `load` does not compile.
  template <LoadSubset subset> struct RecordingLoader : CheckedLoads<RecordingLoader<subset>, RecordedPosition> {
    RecordingProducer& on;
    int slot;
    template <int first, int count, class Tile, class Box, class Along, bool is_constant>
    void load_rows(tile::TileRows<first, count, Tile> part, const GlobalView<Box, Along, is_constant>&, Along,
                   Range) const {
      if (subset != LoadSubset::all_operands && (is_constant != config.swap) != (subset == LoadSubset::constants))
        return;
      constexpr bool is_left = std::is_same_v<Along, Row>;
      constexpr int sharing_blocks = is_left ? config.cluster_n : config.cluster_m,
                    row_bytes = Tile::cols * sizeof(typename Tile::type);
      SymbolTable& symbols = on.record.symbols_;
      on.add_step(RecordedStepKind::expect_bytes, symbols.full_barrier(on.block, slot), count * row_bytes);
      const int my_share = is_left ? on.cluster_rank() / config.cluster_m : on.cluster_rank() % config.cluster_m;
      const std::ptrdiff_t tile = on.record.tile_offset(&part.tile);
      for (int r = 0; r < tile_shape().cluster(); ++r) {
        const bool is_sharing = is_left ? r % config.cluster_m == on.cluster_rank() % config.cluster_m
                                        : r / config.cluster_m == on.cluster_rank() / config.cluster_m;
        if (!is_sharing) continue;
        const int to = on.first_cluster_block() + r, mine = count / sharing_blocks;
        RecordedStep& step =
            on.add_step(RecordedStepKind::copy, symbols.tile_cell(to, slot, tile, {first + my_share * mine, mine}),
                        mine * row_bytes);
        step.other = symbols.full_barrier(to, slot);
      }
    }
  };

  struct RecordingConsumer : RecordingRole {
    int id, lane;  // number of the consumer; 0 for its first thread, 1 for the thread that represents the others

    void wait_for_earlier_kernels() {}
    void wait_full(int slot, std::uint32_t phase) {
      this->add_step(RecordedStepKind::wait, this->record.symbols_.full_barrier(this->block, slot), phase);
    }
    void mma_fence() { this->add_step(RecordedStepKind::fence_sums); }
    void compute(State& acc, const WorkItem& item, int slot, int stage) {
      this->current_tile = item.cluster_tile;
      this->current_stage = stage;
      RecordingMultiplier at{item_position(item), *this, slot};
      Kernel::compute(at, acc, this->record.stage_);
    }
    int scale_buffer = 0;  // The buffer that the group reads
    void wait_scales(int buffer, std::uint32_t phase) {
      scale_buffer = buffer;
      this->add_step(RecordedStepKind::wait, this->record.symbols_.full_barrier(this->block, config.stages + buffer),
                     phase);
    }
    void release_scales(int buffer) {
      this->add_step(RecordedStepKind::arrive,
                     this->record.symbols_.empty_barrier(this->block, config.stages + buffer));
    }
    void mma_commit() { this->add_step(RecordedStepKind::commit_multiply); }
    template <int max_pending> void mma_wait() { this->add_step(RecordedStepKind::wait_multiply, -1, max_pending); }
    void release_slot(int slot) {
      if (lane != 0) return;
      for (int r = 0; r < tile_shape().cluster(); ++r)
        if (config.shares_loads(r, this->cluster_rank()))
          this->add_step(RecordedStepKind::arrive,
                         this->record.symbols_.empty_barrier(this->first_cluster_block() + r, slot));
    }
    void wait_turn(int of) { this->add_step(RecordedStepKind::sync, turn_barrier(of), 256); }
    void pass_turn(int to) { this->add_step(RecordedStepKind::bar_arrive, turn_barrier(to), 256); }
    int turn_barrier(int of) { return named_barrier_of_block("of consumer " + std::to_string(of) + "'s turn"); }

    bool leads() const { return lane == 0; }
    void sync_group() {
      this->add_step(RecordedStepKind::sync, named_barrier_of_block("of consumer " + std::to_string(id)), 128);
    }
    int named_barrier_of_block(const std::string& name) {
      return this->record.symbols_.named_barrier(this->block, name);
    }
    int consumer_cell(const std::string& name, CellKind kind) {
      SymbolTable& symbols = this->record.symbols_;
      return symbols.find_or_add_cell(symbols.block_prefixed(this->block, "consumer " + std::to_string(id) + name),
                                      kind, this->block);
    }
    // Sums that the tensor cores write have one cell; those that threads add to have one for each thread.
    int sums_cell() {
      constexpr bool threads_add = requires { State::pieces; };
      return consumer_cell(threads_add ? " sums" + lane_name() : " sums", CellKind::sums);
    }

    // Index of this consumer's part of the tile; in ping-pong one consumer has all of it.
    int tile_part() const { return config.warpgroups_per_tile() > 1 ? id : 0; }
    std::string part_name(const WorkItem& x) const {
      return "of tile " + std::to_string(x.block_tile) +
             (config.warpgroups_per_tile() > 1 ? " part " + std::to_string(tile_part()) : "");
    }
    std::string lane_name() const { return lane == 0 ? "" : " (other threads)"; }
    int partial_cell(const WorkItem& x, int split) {
      return this->record.symbols_.find_or_add_cell(
          "partial sums " + std::to_string(split) + " " + part_name(x) + lane_name(), CellKind::memory);
    }
    void write_partial(const State&, const WorkItem& x) {
      this->add_step(RecordedStepKind::read, sums_cell());
      this->add_step(RecordedStepKind::write, partial_cell(x, x.split));
    }
    void count_arrival(const WorkItem& x) {
      this->add_step(RecordedStepKind::add, this->record.symbols_.find_or_add_counter("counter " + part_name(x)),
                     x.splits);
      this->add_step(RecordedStepKind::write, consumer_cell(" flag", CellKind::buffer));
    }
    bool arrived_last() {
      this->add_step(RecordedStepKind::read, consumer_cell(" flag", CellKind::buffer));
      this->required_bit = 0;
      return true;
    }
    void add_partials(State&, const WorkItem& x) {
      for (int split = 0; split < x.splits; ++split) this->add_step(RecordedStepKind::read, partial_cell(x, split));
    }

    // Operations of splits that run concurrently.
    bool is_cooperative() const { return this->record.options_.sizes.split_mode == SplitMode::cooperative_split_k; }
    void wait_for_splits(const WorkItem& x) {
      const int counter = this->record.symbols_.find_or_add_counter("counter " + part_name(x)),
                flag = consumer_cell(" flag", CellKind::buffer);
      const auto body = [=](StepReplay& replay) {
        Operations on{replay, counter, flag};
        tile::wait_for_splits(on, x);
      };
      this->add_step(RecordedStepKind::run_stream,
                     this->record.symbols_.add_stream({counter, x.split, x.splits, body}));
    }
    bool has_slice(const WorkItem&) {
      if (is_cooperative()) this->add_step(RecordedStepKind::read, consumer_cell(" flag", CellKind::buffer));
      return true;
    }

    // Operations of splits in a cluster. The sums of all groups are written over the ring's slots; the first thread of
    // one group represents all threads that overwrite them.
    bool splits_in_cluster() const { return this->record.splits_in_cluster(); }
    void sync_consumers() {
      if (config.consumers > 1)
        this->add_step(RecordedStepKind::sync, named_barrier_of_block("of the consumers"), 128 * config.consumers);
    }
    void publish_sums(const State&) {
      this->add_step(RecordedStepKind::read, sums_cell());
      if (id == 0 && lane == 0)
        for (const int cell : this->record.symbols_.all_tile_cells(this->block))
          this->add_step(RecordedStepKind::write, cell);
      this->add_step(RecordedStepKind::write, shared_sums(this->block, lane));
    }
    int shared_sums(int of_block, int of_lane) {
      SymbolTable& symbols = this->record.symbols_;
      return symbols.find_or_add_cell(
          symbols.block_prefixed(of_block, "consumer " + std::to_string(id) + " shared sums") +
              (of_lane == 0 ? "" : " (other threads)"),
          CellKind::buffer, of_block);
    }

    void store(const State& acc, const WorkItem& item) {
      RecordingStorer at{item_position(item), *this, item};
      Kernel::store(at, this->record.globals_, acc);
      this->required_bit = -1;
    }
    int buffer_cell(int of_lane) {
      int first = -1;  // the cells of a group's buffers have consecutive numbers
      for (int b = 0; b < config.staging; ++b)
        for (int l = 0; l < 2; ++l) {
          const int cell =
              consumer_cell(" buffer " + std::to_string(b) + (l == 0 ? "" : " (other threads)"), CellKind::buffer);
          if (first < 0) first = cell;
        }
      return first + of_lane;
    }
    void fence_shared_proxy() { this->add_step(RecordedStepKind::fence_proxy); }
    template <int max_pending> void wait_for_store_reads() {
      this->add_step(RecordedStepKind::wait_read, -1, max_pending);
    }
    void commit_stores() { this->add_step(RecordedStepKind::commit_store); }
    void next_buffer() { this->add_step(RecordedStepKind::next_buffer); }
  };

  struct RecordingMultiplier : OnlyMultiplies<RecordedPosition> {
    RecordingConsumer& on;
    int slot;
    template <int m, int n, int warpgroups_per_tile, class Sum, class A, class B>
    void mma(Accumulator<m, n, warpgroups_per_tile, Sum>& acc, const A& a, Transposed<B> b) const {
      static_assert(A::rows == m && B::rows == n && A::cols == B::cols, "mma: [m, k] x [n, k] transposed -> [m, n]");
      SymbolTable& symbols = on.record.symbols_;
      std::vector<int> cells = symbols.tile_cells(on.block, slot, on.record.tile_offset(&a), A::rows);
      const std::vector<int> right = symbols.tile_cells(on.block, slot, on.record.tile_offset(&b.tile), B::rows);
      cells.insert(cells.end(), right.begin(), right.end());
      constexpr std::int64_t flops = std::int64_t{2} * (m / warpgroups_per_tile) * n * A::cols;
      on.add_step(RecordedStepKind::multiply, on.sums_cell(), flops).cells = std::move(cells);
      acc.is_written = true;
    }
    // Each piece of the sums has registers of its own, which are the cell of its number modulo 2.
    template <int m, int n, int warpgroups_per_tile, class A, class B>
    void mma(StagedAccumulator<m, n, warpgroups_per_tile>& acc, const A& a, Transposed<B> b) const {
      RecordingPieces<StagedAccumulator<m, n, warpgroups_per_tile>, A, B> at{*this, a, b.tile};
      for (int k = 0; k < A::cols; k += SumPieces::added_bytes) multiply_in_pieces<acc.pieces>(at);
      acc.is_written = true;
    }
    template <int m, int n, int warpgroups_per_tile, class A, class B>
    void mma_scaled(StagedAccumulator<m, n, warpgroups_per_tile>& acc, const A& a, Transposed<B> b) const {
      RecordingPieces<StagedAccumulator<m, n, warpgroups_per_tile>, A, B> at{*this, a, b.tile};
      at.scales = {on.scales_cell(on.scale_buffer, 0), on.scales_cell(on.scale_buffer, 1)};
      multiply_in_pieces<acc.pieces>(at);
      acc.is_written = true;
    }
    template <class Sums> void wait_for_product(Sums&) const {
      on.add_step(RecordedStepKind::commit_multiply);
      on.add_step(RecordedStepKind::wait_multiply, -1, 0);
    }
    // Recorded as a read, because a later multiply needs a fence after a thread has used its registers.
    template <class Sums, class F> void map(Sums&, F) const { on.add_step(RecordedStepKind::read, on.sums_cell()); }
  };

  // Operations of `multiply_in_pieces` (ring.h).
  template <class Sums, class A, class B> struct RecordingPieces {
    const RecordingMultiplier& multiplier;
    const A& a;
    const B& b;
    std::vector<int> scales = {};  // cells of the scales that threads read
    int cell(int piece) const {
      return multiplier.on.consumer_cell(" piece " + std::to_string(piece % Sums::pieces.buffers()), CellKind::sums);
    }
    void wait_turn() const {
      if constexpr (config.takes_turns()) multiplier.on.wait_turn(multiplier.on.id);
    }
    void pass_turn() const {
      if constexpr (config.takes_turns()) multiplier.on.pass_turn((multiplier.on.id + 1) % config.consumers);
    }
    void mma_fence() const { multiplier.on.mma_fence(); }
    void mma_commit() const { multiplier.on.mma_commit(); }
    template <int left> void mma_wait() const { multiplier.on.template mma_wait<left>(); }
    template <int piece> void multiply_piece() const {
      RecordingConsumer& on = multiplier.on;
      SymbolTable& symbols = on.record.symbols_;
      std::vector<int> cells = symbols.tile_cells(on.block, multiplier.slot, on.record.tile_offset(&a), A::rows);
      const std::vector<int> right = symbols.tile_cells(on.block, multiplier.slot, on.record.tile_offset(&b), B::rows);
      cells.insert(cells.end(), right.begin(), right.end());
      constexpr std::int64_t flops = std::int64_t{2} * 64 * Sums::pieces.columns(piece) * SumPieces::added_bytes;
      on.add_step(RecordedStepKind::multiply, cell(piece), flops).cells = std::move(cells);
    }
    template <int piece> void add_piece() const {
      multiplier.on.add_step(RecordedStepKind::read, cell(piece));
      for (const int scale : scales) multiplier.on.add_step(RecordedStepKind::read, scale);
      multiplier.on.add_step(RecordedStepKind::write, multiplier.on.sums_cell());
    }
  };

  struct RecordingStorer : OnlyStores<RecordedPosition> {
    RecordingConsumer& on;
    WorkItem item;
    template <class Sums, class F> MappedSums<Sums, F> map(const Sums& sums, F f) const { return {sums, f}; }
    template <class Sums, class F> FoldedColumns<Sums, F> fold(const Sums& sums, F f) const { return {sums, f}; }
    template <class T, int m, int n, class Sums>
    void store(const OutputView<T, m, n>&, const Sums&, Row row, Col col) const {
      static_assert(Sums::rows == m && Sums::cols == n, "store: the output's tile has the shape of what is stored");
      if (item.splits > 1 && (on.splits_in_cluster() || on.is_cooperative())) return store_slice(row.begin, col.begin);
      on.add_step(RecordedStepKind::read, on.sums_cell());
      constexpr int boxes = config.swap ? 1 : (n + 63) / 64;
      for (int i = 0; i < m / config.warpgroups_per_tile() / 64; ++i)
        for (int c = 0; c < boxes; ++c) {
          const Index at_row = row.begin + on.tile_part() * (m / config.warpgroups_per_tile()) + i * 64;
          const int wide = config.swap ? n : std::min(64, n - c * 64);
          store_box(at_row, col.begin + c * 64, std::int64_t{64} * wide * sizeof(T));
        }
    }
    std::string output_name(Index row, Index col) const {
      return "output at row " + std::to_string(row) + ", column " + std::to_string(col) +
             (item.batch > 0 ? ", product " + std::to_string(item.batch) : "");
    }
    // Stores slices of a tile: the block's own slice if the splits are in a cluster, else every slice that may be
    // granted.
    void store_slice(Index row, Index col) const {
      if (on.splits_in_cluster()) return store_slice(row, col, item.split);
      for (on.required_bit = 0; on.required_bit < item.splits; ++on.required_bit)
        store_slice(row, col, on.required_bit);
      on.required_bit = -1;
    }
    void store_slice(Index row, Index col, int of_split) const {
      const int first = on.block / item.splits * item.splits;
      for (int split = 0; split < item.splits; ++split)
        on.add_step(RecordedStepKind::read,
                    on.splits_in_cluster() ? on.shared_sums(first + split, on.lane) : on.partial_cell(item, split));
      const std::string name = output_name(row, col) + " slice " + std::to_string(of_split) + " of consumer " +
                               std::to_string(on.id) + on.lane_name();
      on.add_step(RecordedStepKind::write, on.record.symbols_.find_or_add_cell(name, CellKind::output));
    }
    void store_box(Index row, Index col, std::int64_t bytes) const {
      const std::string name = output_name(row, col);
      SymbolTable& symbols = on.record.symbols_;
      if (on.record.stores_in_bulk(item)) {
        store_through_buffer<config.staging>(
            on, [&] { on.add_step(RecordedStepKind::write, on.buffer_cell(on.lane), bytes / 2).is_buffer = true; },
            [&] {
              RecordedStep& step = on.add_step(RecordedStepKind::store, -1, bytes);
              step.cells = {on.buffer_cell(0), on.buffer_cell(1)};
              step.is_buffer = true;
              step.other = symbols.find_or_add_cell(name, CellKind::output);
            });
        return;
      }
      wait_for_buffers<Kernel>(on);
      on.sync_group();  // all threads have read the previous sums
      on.add_step(RecordedStepKind::write, on.buffer_cell(on.lane), bytes / 2);
      on.sync_group();
      on.add_step(RecordedStepKind::read, on.buffer_cell(0));
      on.add_step(RecordedStepKind::read, on.buffer_cell(1));
      on.add_step(RecordedStepKind::write, symbols.find_or_add_cell(name + on.lane_name(), CellKind::output),
                  bytes / 2);
    }
  };

  const Globals& globals_;
  RecordOptions options_;
  SymbolTable symbols_;
  Stage stage_{};  // only the addresses of its tiles are used
};

template <class Kernel, class Operations = SplitOperations>
RecordedProgram record_program(const RecordOptions& options, const typename Kernel::Globals& globals = {}) {
  return Recorder<Kernel, Operations>(globals, options)();
}

}  // namespace ridge::tile::trace
