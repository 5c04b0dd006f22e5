// Runs a text that takes steps (tile/steps.h) on Hopper. One thread of the last warpgroup takes work items, loads what
// they hold and fills the rings; each of the other warpgroups owns 64 rows of the item. With `turns` the groups issue
// their products of a step one after the other, so that one multiplies while another works on what it has multiplied.
#pragma once

#include "ridge/tile/sm90/parts.h"
#include "ridge/tile/sm90/step_words.h"

namespace ridge::tile::sm90 {

template <class Kernel>
TILE_FN void produce_steps(StepShared<Kernel>& s, const typename Kernel::Globals& g, const StepProblem& p) {
  StepProducer<Kernel> at(s);
  wait_for_earlier_kernels();
  const int blocks = static_cast<int>(gridDim.x), items = p.order.items();
  int number = static_cast<int>(blockIdx.x);
  // Each block asks once in vain: who asks last sets the counter back for the next launch.
  const auto next = [&] {
    const int taken = atomicAdd(p.counters, 1);
    if (taken == items - 1) *p.counters = 0;
    return blocks + taken;
  };
  const auto begin = [&] { at.template begin<Kernel>(p, p.order.template item<has_parts<Kernel>>(number), g); };
  for (int turn = 0;; ++turn) {
    begin();
    if constexpr (has_parts<Kernel>)
      while (at.item.is_real && at.own.begin == at.own.end) number = next(), begin();
    wait(address(&s.item_empty[turn & 1]), (turn >> 1 & 1) ^ 1);
    s.item[turn & 1] = at.item;
    arrive(address(&s.item_full[turn & 1]));
    if (!at.item.is_real) return;
    at.number = at.own.begin;
    // Where the queries' room is the last item's until that ends, the first keys come before them.
    if constexpr (Kernel::config.helds == 1) Kernel::load(at, s.stages[0], g), ++at.number;
    wait(address(&s.held_empty[at.held.slot]), at.held.phase ^ 1);
    Kernel::hold(at, s.held[at.held.slot], g);
    arrive(address(&s.held_full[at.held.slot]));
    at.held.advance();
    TILE_ROLLED
    for (; at.number < at.own.end; ++at.number) Kernel::load(at, s.stages[0], g);
    number = next();
    Kernel::load(at, s.stages[0], g);
  }
}

template <class Kernel>
TILE_FN void consume_steps(StepShared<Kernel>& s, const typename Kernel::Globals& g, const StepProblem& p, int id) {
  constexpr auto config = Kernel::config;
  StepConsumer<Kernel> on(s, id);
  if (config.turns && id == config.consumers - 1) arrive_threads(8, 256);
  const auto give_back = [&](int slot) {  // of what is held, when the output has left it
    if (!on.leads()) return;
    store_wait<0>();
    arrive(address(&s.held_empty[slot]));
  };
  for (int turn = 0;; ++turn) {
    wait(address(&s.item_full[turn & 1]), turn >> 1 & 1);
    on.template begin<Kernel>(p, s.item[turn & 1], g);
    on.sync_group();
    if (on.leads()) arrive(address(&s.item_empty[turn & 1]));
    if (!on.item.is_real) break;
    typename Kernel::State state;
    wait(address(&s.held_full[on.held.slot]), on.held.phase);
    const typename Kernel::Held& held = s.held[on.held.slot];
    on.number = on.own.begin;
    on.begin_step();
    StepCompute<Kernel, true, false> first{on};
    Kernel::compute(first, state, held, s.stages[0], g);
    if constexpr (config.helds > 1)
      if (turn > 0) give_back((on.held.slot + config.helds - 1) % config.helds);
    TILE_ROLLED
    for (on.number = on.own.begin + 1; on.number < on.own.end; ++on.number) {
      on.begin_step();
      StepCompute<Kernel, false, false> middle{on};
      Kernel::compute(middle, state, held, s.stages[0], g);
    }
    on.begin_step();
    StepCompute<Kernel, false, true> last{on};
    Kernel::compute(last, state, held, s.stages[0], g);
    on.end_step();
    bool is_part = false;
    if constexpr (has_parts<Kernel>) is_part = p.order.real_parts(on.count) > 1;
    if (is_part) {
      if constexpr (has_parts<Kernel>) merge_parts(on, state, g, p);
    } else {
      StepStore<Kernel> out{on};
      Kernel::store(out, state, g);
    }
    if constexpr (config.helds == 1) give_back(0);
    on.held.advance();
  }
  if (on.leads()) store_wait<0>();  // a block's memory must outlive the stores' reading of it
}

// With 168 a thread at the launch, which a multiple of 8 rounds down to.
constexpr int step_loading_registers(int consumers) { return consumers == 3 ? 32 : 24; }
constexpr int step_computing_registers(int consumers) { return consumers == 3 ? 160 : 240; }

// One block an SM, persistent.
template <class Kernel> __global__ void __launch_bounds__(step_threads<Kernel>, 1)
    run_steps(const __grid_constant__ typename Kernel::Globals g, const __grid_constant__ StepProblem p) {
  constexpr auto config = Kernel::config;
  static_assert(step_shared_bytes<Kernel> <= most_shared_bytes,
                "the rings and what is held exceed a block's shared memory: use fewer stages");
  extern __shared__ std::uint8_t raw[];
  auto& s = *reinterpret_cast<StepShared<Kernel>*>(raw + (1024 - address(raw) % 1024) % 1024);
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (threadIdx.x == 0) {
    for (int r = 0; r < Kernel::rings; ++r)
      for (int i = 0; i < config.stages; ++i) {
        barrier_init(address(&s.full[r][i]), 1);
        barrier_init(address(&s.empty[r][i]), config.consumers);
      }
    for (int i = 0; i < 2; ++i) {
      barrier_init(address(&s.item_full[i]), 1);
      barrier_init(address(&s.item_empty[i]), config.consumers);
    }
    for (int i = 0; i < config.helds; ++i) {
      barrier_init(address(&s.held_full[i]), 1);
      barrier_init(address(&s.held_empty[i]), config.consumers);
    }
    barrier_init_done();
  }
  __syncthreads();
  let_next_kernel_start();
  if (warpgroup == config.consumers) {
    if constexpr (config.consumers > 1) registers_down<step_loading_registers(config.consumers)>();
    if (threadIdx.x % 128 == 0) produce_steps<Kernel>(s, g, p);
  } else {
    if constexpr (config.consumers > 1) registers_up<step_computing_registers(config.consumers)>();
    consume_steps<Kernel>(s, g, p, warpgroup);
  }
}

}  // namespace ridge::tile::sm90
