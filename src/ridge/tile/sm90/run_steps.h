// Runs a kernel in steps (tile/steps.h) on Hopper. One thread of the last warpgroup takes work items, loads their
// resident tiles and fills the rings; each of the other warpgroups owns 64 rows of the item. The order of the waits is
// in tile/step_ring.h.
#pragma once

#include "ridge/tile/sm90/merge_parts.h"
#include "ridge/tile/sm90/step_operations.h"

namespace ridge::tile::sm90 {

template <class Kernel> template <bool first, bool last>
TILE_FN void StepConsumer<Kernel>::compute(typename Kernel::State& state) {
  last_row_sum = 0;
  StepCompute<Kernel, first, last> at{*this};
  Kernel::compute(at, state, *current_resident, s.stages[0], g);
}
template <class Kernel> TILE_FN void StepConsumer<Kernel>::store(typename Kernel::State& state) {
  if constexpr (can_divide_steps<Kernel>)
    if (p.order.nonempty_parts(this->step_count) > 1) return merge_parts(*this, state, g, p);
  StepStore<Kernel> out{*this};
  Kernel::store(out, state, g);
}

// Return the registers of each thread of the loading and of a multiplying warpgroup. A launch of 384 threads starts
// with 168 for each.
constexpr int step_producer_registers(int consumers) { return consumers == 3 ? 32 : 24; }
constexpr int step_consumer_registers(int consumers) { return consumers == 3 ? 160 : 240; }

// Runs the thread that polls memory for a group's turns, so that no thread that multiplies waits for memory.
template <int groups> TILE_FN void serve_turns(TurnQueues<groups>& turns, int group) {
  for (std::uint32_t phase = 0;; phase ^= 1) {
    wait_mbarrier(shared_address(&turns.requested[group]), phase);
    const TurnRequest turn = turns.requests[group];
    if (turn.add_count == nullptr) return;
    auto* const counted = reinterpret_cast<std::uint32_t*>(turn.add_count);
    while (static_cast<int>(read_acquire(counted)) != turn.adds_before) {}
    arrive_mbarrier(shared_address(&turns.granted[group]));
    wait_mbarrier(shared_address(&turns.finished[group]), phase);
    add_release(counted, 1);
  }
}

// Runs a kernel in steps with one persistent block on each SM.
template <class Kernel> __global__ void __launch_bounds__(step_threads<Kernel>, 1)
    run_steps(const __grid_constant__ typename Kernel::Globals g, const __grid_constant__ StepKernelArgs p) {
  constexpr auto config = Kernel::config;
  static_assert(step_shared_bytes<Kernel> <= max_shared_bytes,
                "the rings and the resident tiles exceed a block's shared memory: use fewer stages");
  extern __shared__ __align__(1024) std::uint8_t raw[];
  if (shared_address(raw) % 1024 != 0) __trap();
  auto& s = *reinterpret_cast<StepSharedMemory<Kernel>*>(raw);
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int r = 0; r < Kernel::rings; ++r)
      for (int i = 0; i < config.stages; ++i) {
        init_mbarrier(shared_address(&s.full[r][i]), 1);
        init_mbarrier(shared_address(&s.empty[r][i]), config.consumers);
      }
    for (int i = 0; i < 2; ++i) {
      init_mbarrier(shared_address(&s.item_full[i]), 1);
      init_mbarrier(shared_address(&s.item_empty[i]), config.consumers);
    }
    for (int i = 0; i < config.resident_slots; ++i) {
      init_mbarrier(shared_address(&s.resident_full[i]), 1);
      init_mbarrier(shared_address(&s.resident_empty[i]), config.consumers);
    }
    if constexpr (AddsInOrder<Kernel>)
      for (int i = 0; i < config.consumers; ++i) {
        init_mbarrier(shared_address(&s.turns.requested[i]), 1);
        init_mbarrier(shared_address(&s.turns.granted[i]), 1);
        init_mbarrier(shared_address(&s.turns.finished[i]), 128);
      }
    publish_mbarrier_init();
  }
  __syncthreads();
  let_next_kernel_start();
  if (warpgroup == config.consumers) {
    if constexpr (config.consumers > 1) decrease_registers<step_producer_registers(config.consumers)>();
    if (threadIdx.x % 128 == 0) {
      StepProducer<Kernel> on(s, g, p);
      wait_for_earlier_kernels();
      produce_steps<Kernel>(on);
    }
    if constexpr (AddsInOrder<Kernel>)
      if (const int group = static_cast<int>(threadIdx.x % 128) / 32 - 1;
          threadIdx.x % 32 == 0 && group >= 0 && group < config.consumers)
        serve_turns(s.turns, group);
  } else {
    if constexpr (config.consumers > 1) increase_registers<step_consumer_registers(config.consumers)>();
    StepConsumer<Kernel> on(s, g, p, warpgroup);
    consume_steps<Kernel>(on);
    if constexpr (AddsInOrder<Kernel>) on.request_turn(nullptr, 0);
  }
}

}  // namespace ridge::tile::sm90
