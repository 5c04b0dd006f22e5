// The synchronisation of kernels that run in steps (steps.h). One thread loads an item's resident tiles and fills the
// rings; groups of 128 threads multiply. A ring slot is released when the product that read it has finished, resident
// tiles when the output stores have read them. With `config.issues_in_turn` the groups issue the products of a step one
// after the other, so that one group multiplies while another processes its results. The target supplies the operations
// that wait and arrive (`On`): instructions on Hopper (sm90/run_steps.h), recorded steps for the checker (trace/).
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/steps.h"

namespace ridge::tile {

template <class Tile>
concept IsRingTile = requires {
  Tile::ring;
};

// True if the steps of a tile may be divided among items. With two thread groups too few registers are left.
template <class Kernel> inline constexpr bool can_divide_steps = Kernel::config.consumers == 1;

// Kernels in which every step loads all tiles of a Stage, so that all rings advance together. The steps form rounds.
template <class Kernel>
concept InLockstep = requires {
  requires Kernel::lockstep;
};
template <class Kernel> inline constexpr int ring_count = InLockstep<Kernel> ? 1 : Kernel::rings;

// Kernels of sequences with different lengths. An item may have no steps and is then skipped.
template <class Kernel>
concept IsRagged = requires {
  requires Kernel::config.ragged;
};

// Kernels that add to sums in memory in a fixed order: a group requests its turn early (`request_turn`), waits for the
// turn, adds, and signals the next group.
template <class Kernel>
concept AddsInOrder = requires {
  requires Kernel::config.ordered;
};

// The current step of a work item.
struct StepPosition {
  StepItem item;
  int step_index = 0, step_count = 0;  // step_count: steps of the tile of rows, over all items that share it
  IntRange own_steps;                  // steps of this item
  int rounds_done = 0, round_step = 0, round_steps = 0;
  int item_length = 0;  // sequence length of this item, from Kernel::sequence_length
  TILE_FN int length() const { return item_length; }
  TILE_FN int matrix() const { return item.matrix; }
  TILE_FN int row() const { return item.row; }
  TILE_FN int step() const { return step_index; }
  TILE_FN int steps() const { return step_count; }
  TILE_FN int round() const { return rounds_done; }
  TILE_FN int step_of_round() const { return round_step; }
  TILE_FN bool is_first() const { return step_index == own_steps.begin; }
  TILE_FN bool is_last() const { return step_index == own_steps.end; }

  template <class Kernel>
  TILE_FN void set_item(const ItemOrder& order, StepItem next, const typename Kernel::Globals& g) {
    item = next;
    if (!item.is_valid) return;
    if constexpr (requires { Kernel::sequence_length(*this, g); }) item_length = Kernel::sequence_length(*this, g);
    const StepCount steps = Kernel::count_steps(*this, g);
    step_count = steps.count;
    own_steps = {0, step_count};
    if constexpr (can_divide_steps<Kernel>) own_steps = order.steps_of_part(item.part, step_count);
    if constexpr (InLockstep<Kernel>) {
      round_steps = steps.steps_per_round;
      rounds_done = round_step = 0;
    }
  }
  template <class Kernel> TILE_FN void next_step() {
    ++step_index;
    if constexpr (InLockstep<Kernel>)
      if (++round_step == round_steps) {
        round_step = 0;
        ++rounds_done;
      }
  }
};

// Operations for a kernel's `load_resident` and `load`. `Self` supplies wait_empty, fill and arrive_full of a ring
// slot, and `fill_resident`.
template <class Kernel, class Self> struct RingLoader : StepPosition {
  RingPosition<Kernel::config.stages> rings[ring_count<Kernel>];
  RingPosition<Kernel::config.resident_slots> resident;

  template <class Tile, class Box>
  TILE_FN void load(Tile& tile, const MatricesView<Box>& view, int matrix, int first_row, int = 0) {
    load_rows<Box>(tile, view, matrix, first_row, 0);
  }
  template <class Tile, class Box>
  TILE_FN void load(Tile& tile, const RaggedView<Box>& view, int matrix, int first_row, int rows) {
    load_rows<Box>(tile, view, matrix, first_row, rows);
  }
  template <class Box, class Tile, class View>
  TILE_FN void load_rows(Tile& tile, const View& view, int matrix, int first_row, int rows) {
    static_assert(Tile::rows == Box::rows && Tile::cols == Box::cols,
                  "load: a view is loaded into a tile of its own shape");
    Self& self = static_cast<Self&>(*this);
    if constexpr (IsRingTile<Tile>) {
      constexpr int r = Tile::ring;
      auto& ring = rings[InLockstep<Kernel> ? 0 : r];
      self.wait_empty(r, ring.slot, ring.phase ^ 1);
      self.fill(r, ring.slot, tile, view, matrix, first_row, rows);
      self.arrive_full(r, ring.slot);
      if constexpr (!InLockstep<Kernel>) ring.advance();
    } else {
      self.fill_resident(resident.slot, tile, view, matrix, first_row, rows);
    }
  }
  TILE_FN void advance() {
    this->template next_step<Kernel>();
    if constexpr (InLockstep<Kernel>) rings[0].advance();
  }
};

// Runs the loading thread until `next_item` takes an item that is not valid.
template <class Kernel, class On> TILE_FN void produce_steps(On& on) {
  for (int iteration = 0;; ++iteration) {
    on.begin_item();
    if constexpr (can_divide_steps<Kernel> || IsRagged<Kernel>)
      while (on.item.is_valid && on.own_steps.begin == on.own_steps.end) {
        on.next_item();
        on.begin_item();
      }
    on.wait_item_empty(iteration & 1, (iteration >> 1 & 1) ^ 1);
    on.publish_item(iteration & 1);
    if (!on.item.is_valid) return;
    on.step_index = on.own_steps.begin;
    // With one resident slot, the previous item uses the slot until its end. Meanwhile the first step's tiles are
    // loaded.
    if constexpr (Kernel::config.resident_slots == 1) {
      on.load_step();
      on.advance();
    }
    on.wait_resident_empty(on.resident.slot, on.resident.phase ^ 1);
    on.load_resident(on.resident.slot);
    on.resident.advance();
    TILE_ROLLED
    for (; on.step_index < on.own_steps.end; on.advance()) on.load_step();
    on.next_item();
    if constexpr (!InLockstep<Kernel>) on.load_step();
  }
}

// State of one ring's tile within a step.
struct TileUse {
  int last_product = 0;             // number, from 1, of the last product issued that reads the tile; 0 if none
  int products_left = 0;            // products of the step that read the tile and are not issued yet
  bool is_read_by_threads = false;  // true while threads read the tile
};

// A group of 128 threads that multiplies: its ring positions and its products in flight. `Self` supplies wait_full and
// release_slot of a slot, sync_turn, pass_turn_to, sync_groups, mma_fence, mma_commit, mma_wait and prevent_reordering.
template <class Kernel, class Self> struct StepWarpgroup : StepPosition {
  static constexpr auto config = Kernel::config;
  RingPosition<config.stages> rings[ring_count<Kernel>];
  RingPosition<config.resident_slots> resident;
  int id;          // number of the group
  int issued = 0;  // number of products of this step issued so far
  TileUse uses[Kernel::rings];
  bool has_turn = false;

  TILE_FN explicit StepWarpgroup(int group) : id(group) {}
  TILE_FN Self& self() { return static_cast<Self&>(*this); }
  // True if all groups own the same 64 rows and split the columns; otherwise each group owns 64 rows.
  static constexpr bool splits_columns = config.m < 64 * config.consumers;
  TILE_FN int first_row() const { return row() + (splits_columns ? 0 : id * 64); }

  TILE_FN void begin_step() {
    issued = 0;
    has_turn = false;
  }
  TILE_FN void end_step() {  // waits for products in flight that the kernel has not waited for
    self().template mma_wait<0>();
    release_finished(issued);
  }
  TILE_FN void advance() {
    this->template next_step<Kernel>();
    if constexpr (InLockstep<Kernel>) rings[0].advance();
  }
  template <int r> TILE_FN auto& ring() { return rings[InLockstep<Kernel> ? 0 : r]; }
  template <bool is_last, class Tile> TILE_FN void begin_product(const Tile&) {
    if constexpr (IsRingTile<Tile>) {
      constexpr int r = Tile::ring;
      if (uses[r].last_product == 0) {
        self().wait_full(r, ring<r>().slot, ring<r>().phase);
        uses[r].products_left = Tile::products;
      }
      uses[r].last_product = issued + 1;
      --uses[r].products_left;
    }
    if constexpr (config.issues_in_turn && !is_last)
      if (issued == 0) {
        self().sync_turn(id);
        has_turn = true;
      }
    self().mma_fence();
  }
  template <class Sum> TILE_FN void end_product(Sum& sum) {
    self().mma_commit();
    sum.is_written = true;
    sum.last_product = ++issued;
  }
  template <bool is_last, class Sum> TILE_FN void wait_for_product(const Sum& sum) {
    if constexpr (config.issues_in_turn && !is_last) {
      if (has_turn) self().pass_turn_to((id + 1) % config.consumers);
      has_turn = false;
    }
    self().prevent_reordering();
    wait_for_all_but(issued - sum.last_product);
    release_finished(sum.last_product);
  }
  // Waits until a tile that threads will read is loaded.
  template <class Tile> TILE_FN void begin_reading(const Tile&) {
    constexpr int r = Tile::ring;
    if (!uses[r].is_read_by_threads) self().wait_full(r, ring<r>().slot, ring<r>().phase);
    uses[r].is_read_by_threads = true;
  }
  // Waits until all groups have arrived, so that data written before `arrive_at_barrier` can be read, and releases
  // tiles that threads have read. Consecutive steps use different barriers, because a group may reach the next barrier
  // before all groups have left this barrier.
  template <bool is_last> TILE_FN void wait_at_barrier() {
    self().sync_groups(barrier_number<is_last>());
    release_read_tiles<0>();
  }
  template <bool is_last> TILE_FN int barrier_number() const {
    static_assert(config.consumers <= 2 && config.stages <= 2,
                  "wait_at_barrier: at most two groups and two stages, each with its own barrier");
    return is_last ? 2 : rings[0].slot;
  }

 private:
  TILE_FN void wait_for_all_but(int pending) {
    if (pending == 0)
      self().template mma_wait<0>();
    else if (pending == 1)
      self().template mma_wait<1>();
    else
      self().template mma_wait<2>();
  }
  TILE_FN void release_finished(int product) { release_finished_ring<0>(product); }
  template <int r> TILE_FN void release_finished_ring(int product) {
    if (uses[r].last_product != 0 && uses[r].last_product <= product && uses[r].products_left == 0) {
      release_ring_slot<r>();
      uses[r].last_product = 0;
    }
    if constexpr (r + 1 < Kernel::rings) release_finished_ring<r + 1>(product);
  }
  template <int r> TILE_FN void release_read_tiles() {
    if (uses[r].is_read_by_threads) {
      release_ring_slot<r>();
      uses[r].is_read_by_threads = false;
    }
    if constexpr (r + 1 < Kernel::rings) release_read_tiles<r + 1>();
  }
  template <int r> TILE_FN void release_ring_slot() {
    self().release_slot(r, ring<r>().slot);
    if constexpr (!InLockstep<Kernel>) ring<r>().advance();
  }
};

// Runs a group of threads that multiplies, until the loading thread publishes an item that is not valid.
template <class Kernel, class On> TILE_FN void consume_steps(On& on) {
  constexpr auto config = Kernel::config;
  if (config.issues_in_turn && on.id == config.consumers - 1) on.pass_turn_to(0);
  for (int iteration = 0;; ++iteration) {
    on.acquire_item(iteration & 1, iteration >> 1 & 1);
    on.sync_group();
    on.release_item(iteration & 1);
    if (!on.item.is_valid) break;
    typename Kernel::State state;
    on.wait_for_resident(on.resident.slot, on.resident.phase);
    on.step_index = on.own_steps.begin;
    on.begin_step();
    on.template compute<true, false>(state);
    if constexpr (config.resident_slots > 1)
      if (iteration > 0) on.release_resident((on.resident.slot + config.resident_slots - 1) % config.resident_slots);
    TILE_ROLLED
    for (on.advance(); on.step_index < on.own_steps.end; on.advance()) {
      on.begin_step();
      on.template compute<false, false>(state);
    }
    on.begin_step();
    on.template compute<false, true>(state);
    on.end_step();
    on.store(state);
    if constexpr (config.resident_slots == 1) on.release_resident(0);
    on.resident.advance();
  }
  on.wait_for_stores();
}

}  // namespace ridge::tile
