// The synchronisation of a pipelined kernel. One producer fills the slots of a ring by asynchronous copies; consumers
// multiply the slots. A consumer issues the products of stage i before it waits for the products of stage i - 1 and
// releases their slot, so that the tensor cores never drain between stages. The target supplies the operations that
// wait and arrive (`On`): instructions on Hopper (sm90/run_product.h), recorded steps in the trace target, which checks
// them under a thousand schedules. So the checked code is the code that runs.
//
// A slot has two barriers. `full` expects one arrival of the producer and the bytes of its copies; `empty` expects one
// arrival of each thread group that multiplies the slot. A barrier has phases 0, 1, 0, …. A thread waits for the end of
// a given phase; a wait for phase 1 of an unused barrier returns immediately.
#pragma once

#include "ridge/base/block_scale.h"
#include "ridge/tile/grouped_scheduler.h"
#include "ridge/tile/roles.h"
#include "ridge/tile/sum_pieces.h"

#ifdef __CUDACC__  // Unrolling these loops would cost registers.
#define TILE_ROLLED _Pragma("unroll 1")
#else
#define TILE_ROLLED
#endif

namespace ridge::tile {

// The next slot of a ring to fill or to read, and the phase of its barriers.
template <int slots> struct RingPosition {
  int slot = 0;
  std::uint32_t phase = 0;
  TILE_FN void advance() {
    if (++slot == slots) {
      slot = 0;
      phase ^= 1;
    }
  }
  TILE_FN void skip_stages(int stages) {
    slot += stages;
    phase ^= static_cast<std::uint32_t>(slot / slots & 1);
    slot %= slots;
  }
};

// True if threads multiply the sums of each block of k by scales.
template <class Kernel> inline constexpr bool has_block_scales = [] {
  if constexpr (requires { Kernel::config.scales_blocks; }) return Kernel::config.scales_blocks;
  return false;
}();

// Buffers for the scales of a tile's rows and columns, each for four blocks of k. Like a slot, a buffer is full when
// the threads that load scales have filled it, and empty when all groups of the tile have read it.
TILE_FN constexpr bool begins_buffer(const WorkItem& item, int stage) {
  return stage == item.first_stage || stage % scale_quad == 0;
}
TILE_FN constexpr bool ends_buffer(const WorkItem& item, int stage) {
  return stage + 1 == item.end_stage || (stage + 1) % scale_quad == 0;
}

// Operands of a stage to load: all, only those that no earlier kernel writes (constants), or only the rest.
enum class LoadSubset { all_operands, constants, rest };

// Runs the loading thread. If `prefetch_constants`, the thread loads the constant operands of the first stages before
// earlier kernels have ended.
template <class Kernel, class On>
TILE_FN void run_producer(On& on, SchedulerOf<Kernel> scheduler, bool prefetch_constants) {
  constexpr auto config = Kernel::config;
  if constexpr (is_grouped<Kernel>) on.wait_for_earlier_kernels();  // an earlier kernel may write the groups' starts
  RingPosition<config.stages> ring;
  WorkItem item;
  bool more = scheduler.next(item);
  int prefetched_stages = 0;  // stages of the first item whose constant operands are prefetched
  if (prefetch_constants) {
    prefetched_stages = !more                                               ? 0
                        : item.end_stage - item.first_stage < config.stages ? item.end_stage - item.first_stage
                                                                            : config.stages;
    TILE_ROLLED
    for (int i = 0; i < prefetched_stages; ++i) on.template fill<LoadSubset::constants>(item, i, item.first_stage + i);
    on.wait_for_earlier_kernels();
    TILE_ROLLED
    for (int i = 0; i < prefetched_stages; ++i, ring.advance()) {
      on.template fill<LoadSubset::rest>(item, i, item.first_stage + i);
      on.arrive_full(i);
    }
  } else {
    on.wait_for_earlier_kernels();
  }
  for (; more; more = scheduler.next(item), prefetched_stages = 0) {
    TILE_ROLLED
    for (int stage = item.first_stage + prefetched_stages; stage < item.end_stage; ++stage, ring.advance()) {
      on.wait_empty(ring.slot, ring.phase ^ 1);
      on.template fill<LoadSubset::all_operands>(item, ring.slot, stage);
      on.arrive_full(ring.slot);
    }
  }
}

// Runs the threads that load scales. They request the next scales before they wait for a buffer.
template <class Kernel, class On> TILE_FN void run_scale_loader(On& on, SchedulerOf<Kernel> scheduler) {
  on.wait_for_earlier_kernels();
  RingPosition<scale_buffers> scales;
  for (WorkItem item; scheduler.next(item);) {
    TILE_ROLLED
    for (int stage = item.first_stage; stage < item.end_stage; ++stage) {
      if (!begins_buffer(item, stage)) continue;
      on.load_scales(item, stage / scale_quad);
      on.wait_scales_read(scales.slot, scales.phase ^ 1);
      on.store_scales(item, scales.slot);
      scales.advance();
    }
  }
}

// Combines the splits of k in the block that arrives last: every split writes its partial sums to memory, and the last
// adds them in the order of the splits, so that results are reproducible. Returns true if this group stores the tile.
template <class On, class State> TILE_FN bool combine_in_last_block(On& on, State& acc, const WorkItem& item) {
  on.write_partial(acc, item);
  on.sync_group();
  if (on.leads()) on.count_arrival(item);  // sync_group orders the group's writes before this release
  on.sync_group();
  if (!on.arrived_last()) return false;
  on.add_partials(acc, item);
  return true;
}

// Increments of the fields of a tile's counter: arrived splits, departed splits, and one bit for each split that does
// not store its slice.
inline constexpr std::uint32_t one_arrival = 1, one_departure = 1 << 8, one_skipped_slice = 1 << 16, count_mask = 255;

// Waits for the other splits of a tile (first thread of a group). The wait has a timeout, because a busy device may not
// start the other splits before this split ends. After a timeout the last split to arrive stores this split's slice.
template <class On> TILE_FN void wait_for_splits(On& on, const WorkItem& item) {
  const std::uint32_t splits = item.splits, mine = 1u << item.split, before = on.add_acquire_release(item, one_arrival);
  std::uint32_t granted = mine;
  if ((before & count_mask) + 1 == splits)
    granted |= before / one_skipped_slice;
  else if (!on.have_all_arrived(item) &&
           (on.add_acquire_release(item, mine * one_skipped_slice) & count_mask) != splits)
    granted = 0;
  on.grant_slices(granted);
  if ((on.add_relaxed(item, one_departure) / one_departure & count_mask) + 1 == splits) on.clear_counter(item);
}

// Combines splits that run concurrently: each split waits until all have arrived and then stores a slice of the tile.
// Returns false if this group has no slice to store.
template <class On, class State> TILE_FN bool combine_in_all_blocks(On& on, const State& acc, const WorkItem& item) {
  on.write_partial(acc, item);
  on.sync_group();
  if (on.leads()) on.wait_for_splits(item);
  on.sync_group();
  return on.has_slice(item);
}

// Combines the partial sums of the splits of k. Returns false if this group stores no part of the tile.
template <class Kernel, class On, class State> TILE_FN bool combine_splits(On& on, State& acc, const WorkItem& item) {
  if constexpr (Kernel::config.can_split_in_cluster()) {
    if (on.splits_in_cluster()) {  // each block of a cluster has one split and then stores a slice of the tile
      on.sync_consumers();         // the sums overwrite the ring, so all consumers must have finished their products
      on.publish_sums(acc);
      on.sync_cluster();
      return on.has_slice(item);
    }
  }
  if constexpr (Kernel::config.can_split())
    if (item.splits > 1)
      return on.is_cooperative() ? combine_in_all_blocks(on, acc, item) : combine_in_last_block(on, acc, item);
  return true;
}

// Multiplies 128 elements of k of a stage, whose sums threads add in f32, in pieces (sum_pieces.h). All products are
// complete at the end, because ptxas cannot follow sums across iterations; another group of the tile, whose turn begins
// when this one has requested its products, then keeps the tensor cores busy.
template <SumPieces pieces, int piece = 0, class At> TILE_FN void multiply_in_pieces(At& at) {
  constexpr bool is_last = piece + 1 == pieces.count();
  at.wait_turn();
  at.mma_fence();  // threads have read the registers that the piece overwrites
  at.template multiply_piece<piece>();
  at.mma_commit();
  at.pass_turn();
  if constexpr (pieces.buffers() > 1 && piece > 0) {
    at.template mma_wait<1>();
    at.template add_piece<piece - 1>();
  }
  if constexpr (pieces.buffers() == 1 || is_last) {
    at.template mma_wait<0>();
    at.template add_piece<piece>();
  }
  if constexpr (!is_last) multiply_in_pieces<pieces, piece + 1>(at);
}

// Runs consumer `id` of the block, a group of threads that multiplies. In ping-pong, two consumers process alternate
// items and take turns in using the tensor cores.
template <class Kernel, class On> TILE_FN void run_consumer(On& on, SchedulerOf<Kernel> scheduler, int id) {
  constexpr auto config = Kernel::config;
  if constexpr (is_grouped<Kernel>) on.wait_for_earlier_kernels();
  constexpr bool pingpong = config.roles == Roles::pingpong;
  static_assert(config.stages >= 2, "a ring needs at least two slots: one is filled while another is multiplied");
  static_assert(!pingpong || config.consumers == 2, "ping-pong needs exactly two consumers");
  RingPosition<config.stages> ring;
  [[maybe_unused]] RingPosition<scale_buffers> scales;
  WorkItem item;
  if ((pingpong || config.takes_turns()) && id == config.consumers - 1) on.pass_turn(0);  // consumer 0 begins
  for (int turn = 0; scheduler.next(item); ++turn) {
    if (pingpong && turn % 2 != id) {
      ring.skip_stages(item.end_stage - item.first_stage);
      continue;
    }
    typename Kernel::State acc;
    [[maybe_unused]] int previous = ring.slot;
    if constexpr (pingpong) on.wait_turn(id);
    TILE_ROLLED
    for (int stage = item.first_stage; stage < item.end_stage; ++stage) {
      if constexpr (has_block_scales<Kernel>)
        if (begins_buffer(item, stage)) on.wait_scales(scales.slot, scales.phase);
      on.wait_full(ring.slot, ring.phase);
      if constexpr (config.adds_pieces) {
        on.compute(acc, item, ring.slot, stage);  // Waits for its products
        on.release_slot(ring.slot);
        if constexpr (has_block_scales<Kernel>) {
          if (ends_buffer(item, stage)) {
            on.release_scales(scales.slot);
            scales.advance();
          }
        }
      } else {
        on.mma_fence();
        on.compute(acc, item, ring.slot, stage);
        on.mma_commit();
        if (stage > item.first_stage) {
          on.template mma_wait<1>();
          on.release_slot(previous);
        }
        previous = ring.slot;
      }
      ring.advance();
    }
    if constexpr (pingpong) on.pass_turn(id ^ 1);
    if constexpr (!config.adds_pieces) {
      on.template mma_wait<0>();
      on.release_slot(previous);
    }
    if (combine_splits<Kernel>(on, acc, item)) on.store(acc, item);
  }
  if (on.leads())
    on.template wait_for_store_reads<0>();  // a block must not end before its bulk stores have read shared memory
}

// Stores one box of the output through the next of `buffers` buffers: waits until an earlier bulk store has read the
// buffer, calls `write` to fill the buffer, and calls `send` to start the bulk store.
template <int buffers, class On, class Write, class Send>
TILE_FN void store_through_buffer(On& on, Write&& write, Send&& send) {
  if (on.leads()) on.template wait_for_store_reads<buffers - 1>();
  on.sync_group();
  write();
  on.fence_shared_proxy();
  on.sync_group();
  if (on.leads()) {
    send();
    on.commit_stores();
  }
  on.next_buffer();
}

// Waits until the bulk stores of earlier tiles have read the output buffers. Only grouped kernels need this: they write
// some tiles by bulk stores and other tiles by threads, through the same buffers.
template <class Kernel, class On> TILE_FN void wait_for_buffers(On& on) {
  if constexpr (is_grouped<Kernel>) {
    if (on.leads()) on.template wait_for_store_reads<0>();
    on.sync_group();
  }
}

}  // namespace ridge::tile
