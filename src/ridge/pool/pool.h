// One pool of threads for the whole process. A call costs about as long as a cache line takes to cross between cores:
// workers spin for some 40,000 pauses (under a millisecond) after their last work and then sleep, so that a pool which
// has nothing to do disturbs nobody. Three libraries' pools that all spun on two cores made each other's times a third
// of what they were.
//
//   run(4, [&](int worker) { const Slice s = slice(rows, 4, worker); … rows s.begin … s.end … });
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace ridge::tile::cpu {

using Task = void (*)(void* context, int worker);

// Calls task(context, w) once for each w in 0 … threads-1 and returns when all have returned; what they wrote is then
// visible. The caller is worker 0, and then whichever has not begun when it is done: a thread that the system has not
// woken yet holds nobody up. A call from inside a task runs on that thread alone, one w after another: a task must
// never wait for another worker's. Calls from several threads take turns. Tasks must not throw. threads <= 1:
// task(context, 0), without a lock.
void run_task(int threads, Task task, void* context);

template <class F> void run(int threads, F&& f) {
  using Function = std::remove_reference_t<F>;
  run_task(
      threads, [](void* context, int worker) { (*static_cast<Function*>(context))(worker); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

// Ties workers, from now on created, to one CPU each (RIDGE_PIN=1 does the same). Off by default: two processes that
// pin would sit on the same CPUs. Skipped where the affinity mask has one CPU or the system refuses.
void pin_workers(bool pin);

int pool_size();  // threads that exist, the caller's not counted

struct Slice {
  std::int64_t begin = 0, end = 0;
};
// Part `part` of 0 … count cut into `parts`, in whole grains but for the last; sizes differ by at most one grain.
constexpr Slice slice(std::int64_t count, int parts, int part, std::int64_t grain = 1) {
  const std::int64_t grains = count / grain + (count % grain != 0 ? 1 : 0);
  const std::int64_t each = grains / parts, more = grains % parts;
  const auto edge = [&](std::int64_t p) { return std::min(count, (p * each + std::min(p, more)) * grain); };
  return {edge(part), edge(part + 1)};
}

}  // namespace ridge::tile::cpu
