// The synchronisation of kernels that run in steps (steps.h). One thread loads an item's resident tiles and fills the
// rings; groups of 128 threads multiply. A ring slot is released when the product that read it has finished, resident
// tiles when the output stores have read them. With `config.turns` the groups issue the products of a step one after
// the other, so that one multiplies while another processes its results. The target supplies the operations that wait
// and arrive (`On`): instructions on Hopper (sm90/steps.h), recorded steps for the checker (trace/).
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/steps.h"

namespace ridge::tile {

template <class Tile>
concept InARing = requires {
  Tile::ring;
};

// True if the steps of a tile may be divided among items; two groups of threads have no registers left for that.
template <class Kernel> inline constexpr bool has_parts = Kernel::config.consumers == 1;

// Kernels in which every step loads all tiles of a Stage: their rings advance together. Their steps form rounds.
template <class Kernel>
concept InLockstep = requires {
  requires Kernel::lockstep;
};
template <class Kernel> inline constexpr int ring_count = InLockstep<Kernel> ? 1 : Kernel::rings;

// Kernels in which an item may have no steps; such items are skipped.
template <class Kernel>
concept IsRagged = requires {
  requires Kernel::config.ragged;
};

// Kernels that add to sums in memory in a fixed order: a group requests its turn early (`request_turn`), adds when the
// turn has come, and then signals the next group.
template <class Kernel>
concept AddsInOrder = requires {
  requires Kernel::config.ordered;
};

struct StepPlace {
  StepItem item;
  int number = 0, count = 0;  // index of the step, and number of steps of these rows
  Span own;                   // steps of this item
  int rounds = 0, in_round = 0, of_round = 0;
  int own_length = 0;  // result of Kernel::length, read once per item
  TILE_FN int length() const { return own_length; }
  TILE_FN int matrix() const { return item.matrix; }
  TILE_FN int row() const { return item.row; }
  TILE_FN int step() const { return number; }
  TILE_FN int steps() const { return count; }
  TILE_FN int round() const { return rounds; }
  TILE_FN int step_of_round() const { return in_round; }
  TILE_FN bool is_first() const { return number == own.begin; }
  TILE_FN bool is_last() const { return number == own.end; }

  template <class Kernel> TILE_FN void begin(const StepOrder& order, StepItem next, const typename Kernel::Globals& g) {
    item = next;
    if (!item.is_real) return;
    if constexpr (requires { Kernel::length(*this, g); }) own_length = Kernel::length(*this, g);
    const Steps steps = Kernel::steps(*this, g);
    count = steps.count;
    own = {0, count};
    if constexpr (has_parts<Kernel>) own = order.steps_of(item.part, count);
    if constexpr (InLockstep<Kernel>) {
      of_round = steps.round;
      rounds = in_round = 0;
    }
  }
  template <class Kernel> TILE_FN void next_step() {
    ++number;
    if constexpr (InLockstep<Kernel>)
      if (++in_round == of_round) {
        in_round = 0;
        ++rounds;
      }
  }
};

// Operations for a kernel's `hold` and `load`. `Self` supplies wait_empty, fill and arrive_full of a ring slot, and
// `fill_resident`.
template <class Kernel, class Self> struct StepLoads : StepPlace {
  Ring<Kernel::config.stages> rings[ring_count<Kernel>];
  Ring<Kernel::config.helds> held;

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
    if constexpr (InARing<Tile>) {
      constexpr int r = Tile::ring;
      auto& ring = rings[InLockstep<Kernel> ? 0 : r];
      self.wait_empty(r, ring.slot, ring.phase ^ 1);
      self.fill(r, ring.slot, tile, view, matrix, first_row, rows);
      self.arrive_full(r, ring.slot);
      if constexpr (!InLockstep<Kernel>) ring.advance();
    } else {
      self.fill_held(held.slot, tile, view, matrix, first_row, rows);
    }
  }
  TILE_FN void advance() {
    this->template next_step<Kernel>();
    if constexpr (InLockstep<Kernel>) rings[0].advance();
  }
};

// Runs the thread that loads. `next_item` takes the next item; an item with `is_real` == false ends the loop.
template <class Kernel, class On> TILE_FN void produce_steps(On& on) {
  for (int turn = 0;; ++turn) {
    on.begin_item();
    if constexpr (has_parts<Kernel> || IsRagged<Kernel>)
      while (on.item.is_real && on.own.begin == on.own.end) {
        on.next_item();
        on.begin_item();
      }
    on.wait_item_empty(turn & 1, (turn >> 1 & 1) ^ 1);
    on.put_item(turn & 1);
    if (!on.item.is_real) return;
    on.number = on.own.begin;
    // With one resident buffer, the previous item uses it until its end: the first step's tiles are loaded before it.
    if constexpr (Kernel::config.helds == 1) {
      on.load_step();
      on.advance();
    }
    on.wait_held_empty(on.held.slot, on.held.phase ^ 1);
    on.hold(on.held.slot);
    on.held.advance();
    TILE_ROLLED
    for (; on.number < on.own.end; on.advance()) on.load_step();
    on.next_item();
    if constexpr (!InLockstep<Kernel>) on.load_step();
  }
}

// Progress of a step on one ring's tile.
struct TileUse {
  int last = 0;       // number of the last product that began to read it, from 1; 0 before the first
  int rest = 0;       // products of the step that have not begun yet
  bool open = false;  // true while threads read it
};

// A group of threads: its state and its products in flight. `Self` supplies wait_full and `release_slot` of a slot,
// sync_turn, `pass_turn_to`, sync_groups, mma_fence, mma_commit, mma_wait and `keep_order`.
template <class Kernel, class Self> struct StepGroup : StepPlace {
  static constexpr auto config = Kernel::config;
  Ring<config.stages> rings[ring_count<Kernel>];
  Ring<config.helds> held;
  int id;          // number of the group
  int issued = 0;  // products of this step issued so far
  TileUse uses[Kernel::rings];
  bool has_turn = false;

  TILE_FN explicit StepGroup(int group) : id(group) {}
  TILE_FN Self& self() { return static_cast<Self&>(*this); }
  // True if the groups own different columns of the same 64 rows; otherwise each owns 64 rows.
  static constexpr bool by_columns = config.m < 64 * config.consumers;
  TILE_FN int first_row() const { return row() + (by_columns ? 0 : id * 64); }

  TILE_FN void begin_step() {
    issued = 0;
    has_turn = false;
  }
  TILE_FN void end_step() {  // waits for the products that the kernel has not waited for
    self().template mma_wait<0>();
    settled(issued);
  }
  TILE_FN void advance() {
    this->template next_step<Kernel>();
    if constexpr (InLockstep<Kernel>) rings[0].advance();
  }
  template <int r> TILE_FN auto& ring() { return rings[InLockstep<Kernel> ? 0 : r]; }
  template <bool is_last, class Tile> TILE_FN void begin_product(const Tile&) {
    if constexpr (InARing<Tile>) {
      constexpr int r = Tile::ring;
      if (uses[r].last == 0) {
        self().wait_full(r, ring<r>().slot, ring<r>().phase);
        uses[r].rest = Tile::products;
      }
      uses[r].last = issued + 1;
      --uses[r].rest;
    }
    if constexpr (config.turns && !is_last)
      if (issued == 0) {
        self().sync_turn(id);
        has_turn = true;
      }
    self().mma_fence();
  }
  template <class Sum> TILE_FN void end_product(Sum& sum) {
    self().mma_commit();
    sum.live = true;
    sum.age = ++issued;
  }
  template <bool is_last, class Sum> TILE_FN void settle(const Sum& sum) {
    if constexpr (config.turns && !is_last) {
      if (has_turn) self().join_turn((id + 1) % config.consumers);
      has_turn = false;
    }
    self().lean();
    wait_for_all_but(issued - sum.age);
    settled(sum.age);
  }
  // Waits for a tile that threads read.
  template <class Tile> TILE_FN void begin_reading(const Tile&) {
    constexpr int r = Tile::ring;
    if (!uses[r].open) self().wait_full(r, ring<r>().slot, ring<r>().phase);
    uses[r].open = true;
  }
  // Waits for all groups: afterwards the data that they wrote before `arrive_at_barrier` can be read, and tiles that
  // threads have read are released. Consecutive steps use different barriers, because a group may reach the next one
  // before all have left this one.
  template <bool is_last> TILE_FN void meet() {
    self().sync_groups(meeting<is_last>());
    give_read<0>();
  }
  template <bool is_last> TILE_FN int meeting() const {
    static_assert(config.consumers <= 2 && config.stages <= 2,
                  "wait_at_barrier: at most two groups and two stages, each with its own barrier");
    return is_last ? 2 : rings[0].slot;
  }

 private:
  TILE_FN void wait_for_all_but(int left) {
    if (left == 0)
      self().template mma_wait<0>();
    else if (left == 1)
      self().template mma_wait<1>();
    else
      self().template mma_wait<2>();
  }
  TILE_FN void settled(int age) { settle_ring<0>(age); }
  template <int r> TILE_FN void settle_ring(int age) {
    if (uses[r].last != 0 && uses[r].last <= age && uses[r].rest == 0) {
      give<r>();
      uses[r].last = 0;
    }
    if constexpr (r + 1 < Kernel::rings) settle_ring<r + 1>(age);
  }
  template <int r> TILE_FN void give_read() {
    if (uses[r].open) {
      give<r>();
      uses[r].open = false;
    }
    if constexpr (r + 1 < Kernel::rings) give_read<r + 1>();
  }
  template <int r> TILE_FN void give() {
    self().give_slot(r, ring<r>().slot);
    if constexpr (!InLockstep<Kernel>) ring<r>().advance();
  }
};

template <class Kernel, class On> TILE_FN void consume_steps(On& on) {
  constexpr auto config = Kernel::config;
  if (config.turns && on.id == config.consumers - 1) on.join_turn(0);
  for (int turn = 0;; ++turn) {
    on.take_item(turn & 1, turn >> 1 & 1);
    on.sync_group();
    on.give_item(turn & 1);
    if (!on.item.is_real) break;
    typename Kernel::State state;
    on.wait_held(on.held.slot, on.held.phase);
    on.number = on.own.begin;
    on.begin_step();
    on.template compute<true, false>(state);
    if constexpr (config.helds > 1)
      if (turn > 0) on.give_held((on.held.slot + config.helds - 1) % config.helds);
    TILE_ROLLED
    for (on.advance(); on.number < on.own.end; on.advance()) {
      on.begin_step();
      on.template compute<false, false>(state);
    }
    on.begin_step();
    on.template compute<false, true>(state);
    on.end_step();
    on.store(state);
    if constexpr (config.helds == 1) on.give_held(0);
    on.held.advance();
  }
  on.await_stores();
}

}  // namespace ridge::tile
