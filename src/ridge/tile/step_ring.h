// The protocol of texts that take steps (steps.h): who waits for what, and when it is given back. One thread loads what
// an item holds and fills the rings; groups of 128 threads multiply. A slot of a ring is given back when the product
// that read it has been settled, what is held when the output has left it. With `turns` the groups issue their products
// of a step one after the other, so that one multiplies while another works on what it has multiplied. The words that
// wait and arrive are a target's (`On`): instructions on Hopper (sm90/steps.h), notes for the checker (trace/).
#pragma once

#include "ridge/tile/ring.h"
#include "ridge/tile/steps.h"

namespace ridge::tile {

template <class Tile>
concept InARing = requires {
  Tile::ring;
};

// Where a block has two groups their registers are full: tiles have no parts there.
template <class Kernel> inline constexpr bool has_parts = Kernel::config.consumers == 1;

// Texts each of whose steps loads all of a Stage: their rings go round as one. Their steps are counted in rounds.
template <class Kernel>
concept InLockstep = requires {
  requires Kernel::lockstep;
};
template <class Kernel> inline constexpr int ring_count = InLockstep<Kernel> ? 1 : Kernel::rings;

// Texts some of whose items may have no steps: nobody works on these.
template <class Kernel>
concept IsRagged = requires {
  requires Kernel::config.ragged;
};

// Texts whose adds to sums in memory are in order: a group asks for a turn early (`ask_turn`), adds when that has come,
// and tells.
template <class Kernel>
concept AddsInOrder = requires {
  requires Kernel::config.ordered;
};

struct StepPlace {
  StepItem item;
  int number = 0, count = 0;  // of the step, among all of these rows
  Span own;                   // those of the item
  int rounds = 0, in_round = 0, of_round = 0;
  int own_length = 0;  // what a text looks up once an item
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

// What `hold` and `load` may say. `Self`: wait_empty, fill, arrive_full of a ring's slot, fill_held.
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

// One thread. Blocks take items as `next_item` says; an item that is not real is the last.
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
    // Where what is held has the last item's room until that ends, the first step's tiles come before it.
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

// What a step has done with a ring's tile so far.
struct TileUse {
  int last = 0;       // the product that last began to read it, counted from 1; 0: none
  int rest = 0;       // products of the step that have not begun yet
  bool open = false;  // threads read it
};

// A group: what lasts from step to step, and its products. `Self`: wait_full and give_slot of a ring's slot, sync_turn,
// join_turn, sync_groups, mma_fence, mma_commit, mma_wait, lean.
template <class Kernel, class Self> struct StepGroup : StepPlace {
  static constexpr auto config = Kernel::config;
  Ring<config.stages> rings[ring_count<Kernel>];
  Ring<config.helds> held;
  int id;          // of the group
  int issued = 0;  // products of this step
  TileUse uses[Kernel::rings];
  bool has_turn = false;

  TILE_FN explicit StepGroup(int group) : id(group) {}
  TILE_FN Self& self() { return static_cast<Self&>(*this); }
  // Groups own 64 rows each, or columns of the same 64.
  static constexpr bool by_columns = config.m < 64 * config.consumers;
  TILE_FN int first_row() const { return row() + (by_columns ? 0 : id * 64); }

  TILE_FN void begin_step() {
    issued = 0;
    has_turn = false;
  }
  TILE_FN void end_step() {  // what the text has not settled
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
  // Threads read a tile.
  template <class Tile> TILE_FN void begin_reading(const Tile&) {
    constexpr int r = Tile::ring;
    if (!uses[r].open) self().wait_full(r, ring<r>().slot, ring<r>().phase);
    uses[r].open = true;
  }
  // All groups are here: what any of them wrote before they said `join` may be read, and what threads have read is
  // given back. Each step has another barrier than the one before, for a group may be at the next before all have left
  // this.
  template <bool is_last> TILE_FN void meet() {
    self().sync_groups(meeting<is_last>());
    give_read<0>();
  }
  template <bool is_last> TILE_FN int meeting() const {
    static_assert(config.consumers <= 2 && config.stages <= 2,
                  "meet: two groups, and barriers for two steps and the end");
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
