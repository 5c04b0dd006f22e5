// One pool of threads for the whole process. A call takes about as long as a cache line needs to move between cores:
// workers spin for some 40,000 pauses (under a millisecond) after their last task and then sleep, so that an idle pool
// takes no CPU time. When the pools of three libraries spun on two cores, each ran at a third of its speed.
//
//   run_parallel(4, [&](int worker) { const WorkSlice s = split_evenly(rows, 4, worker); … rows s.begin … s.end … });
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace ridge::pool {

using PoolTask = void (*)(void* context, int worker);

// Calls task(context, w) once for each w in 0 … threads-1 and returns when all have returned; their writes are then
// visible. The caller runs w = 0 and then every w that no worker has started, so a thread that wakes late delays no
// one. A call from inside a task runs all w on that thread in sequence, so a task must never wait for another one.
// Calls from several threads are serialised. Tasks must not throw. With threads <= 1 it calls task(context, 0) without
// a lock.
void run_pool_task(int threads, PoolTask task, void* context);

template <class F> void run_parallel(int threads, F&& f) {
  using Callable = std::remove_reference_t<F>;
  run_pool_task(
      threads, [](void* context, int worker) { (*static_cast<Callable*>(context))(worker); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

// Pins each worker created from now on to one CPU, as RIDGE_PIN=1 does. Off by default, because two processes that pin
// would share the same CPUs. Has no effect if the affinity mask has one CPU or the system call fails.
void pin_workers(bool pin);

int worker_count();  // Number of threads in the pool, without the caller.

struct WorkSlice {
  std::int64_t begin = 0, end = 0;
};
// Returns part `part` of 0 … count-1 split into `parts` whose sizes are multiples of `granularity` (except the last)
// and differ by at most one `granularity`.
constexpr WorkSlice split_evenly(std::int64_t count, int parts, int part, std::int64_t granularity = 1) {
  const std::int64_t grains = count / granularity + (count % granularity != 0 ? 1 : 0);
  const std::int64_t each = grains / parts, more = grains % parts;
  const auto boundary = [&](std::int64_t p) { return std::min(count, (p * each + std::min(p, more)) * granularity); };
  return {boundary(part), boundary(part + 1)};
}

}  // namespace ridge::pool
