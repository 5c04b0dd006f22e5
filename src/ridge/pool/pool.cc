#include "ridge/pool/pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "ridge/base/cores.h"

namespace ridge::pool {
namespace {

constexpr int max_workers = 1023;
constexpr int pauses_before_sleep = 40000;
constexpr int index_bits = 20;
constexpr std::uint64_t max_tasks = (std::uint64_t{1} << index_bits) - 1;  // per call

thread_local bool inside_task = false;

std::atomic<bool>& pin_flag() {
  static std::atomic<bool> enabled = [] {
    const char* value = std::getenv("RIDGE_PIN");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return enabled;
}

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old`. A spinning thread sees the store immediately; a sleeping one costs the
// storing thread a system call, which notify makes only if a thread sleeps.
void wait_while_equal(const std::atomic<int>& value, int old, int pauses) {
  for (int i = 0; i < pauses; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    pause_cpu();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void pin_this_thread(int index) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) return;
  const int cpu = cpus[static_cast<std::size_t>(index) % cpus.size()];
  if (cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);  // if it fails, the worker stays unpinned
}

// Moves the calling thread off core `cpu`. If few cores share a cache, Linux may wake a thread on the core of the
// thread that woke it although another core is idle; worker and caller would then share that core, and spinning blocks
// both.
void move_off_core(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu) return;
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  cpu_set_t others = all;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0) return;
  if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
}

struct alignas(64) PoolWorker {    // one cache line each, so that a wake-up misses in one worker only
  std::atomic<int> wake_count{0};  // incremented to wake the worker
  std::jthread thread;
};

class Pool {
 public:
  ~Pool() {
    stopping_.store(true, std::memory_order_relaxed);
    for (PoolWorker& w : workers_) wake_worker(w);
    for (PoolWorker& w : workers_)
      if (w.thread.joinable()) w.thread.join();
  }

  void run(int threads, PoolTask task, void* context) {
    const std::lock_guard lock(call_mutex_);
    grow_to(threads - 1);
    task_ = task;
    context_ = context;
    callers_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
    const int started = std::min(threads - 1, size());
    // With more threads than cores, a spinning thread only takes time from threads that have tasks.
    pauses_.store(started < usable_cores() ? pauses_before_sleep : 0, std::memory_order_relaxed);
    remaining_.store(threads, std::memory_order_relaxed);
    next_task_.store((++call_number_ << 2 * index_bits) + (static_cast<std::uint64_t>(threads) << index_bits) + 1,
                     std::memory_order_release);  // the caller runs task 0
    for (int i = 0; i < started; ++i) wake_worker(workers_[i]);
    run_task_index(0);
    run_pending_tasks();
    for (int left = remaining_.load(std::memory_order_acquire); left != 0;
         left = remaining_.load(std::memory_order_acquire))
      wait_while_equal(remaining_, left, pauses_.load(std::memory_order_relaxed));
  }

  int size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static void wake_worker(PoolWorker& w) {
    w.wake_count.fetch_add(1, std::memory_order_release);
    w.wake_count.notify_one();
  }

  // Runs tasks that no thread has started until there are none left. A late thread may find tasks of a later call.
  void run_pending_tasks() {
    std::uint64_t next = next_task_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t index = next & max_tasks;
      if (index >= (next >> index_bits & max_tasks)) return;
      if (!next_task_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      run_task_index(static_cast<int>(index));  // the call cannot end before this, so task_ stays valid
      next = next_task_.load(std::memory_order_acquire);
    }
  }

  void run_task_index(int index) {
    inside_task = true;
    task_(context_, index);
    inside_task = false;
    if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) remaining_.notify_one();
  }

  void worker_loop(PoolWorker& self, int index) {
    if (pin_flag().load(std::memory_order_relaxed)) pin_this_thread(index);
    for (int last_call = 0;;) {
      wait_while_equal(self.wake_count, last_call, pauses_.load(std::memory_order_relaxed));
      last_call = self.wake_count.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      if (pauses_.load(std::memory_order_relaxed) > 0) move_off_core(callers_cpu_.load(std::memory_order_relaxed));
      run_pending_tasks();
    }
  }

  void grow_to(int target) {
    while (size() < std::min(target, max_workers)) {
      PoolWorker& new_worker = workers_.emplace_back();
      const int index = size() + 1;
      try {
        new_worker.thread = std::jthread([this, &new_worker, index] { worker_loop(new_worker, index); });
      } catch (const std::system_error&) {  // no more threads: the others run its tasks
        workers_.pop_back();
        return;
      }
      size_.store(index, std::memory_order_relaxed);
    }
  }

  std::mutex call_mutex_;
  std::deque<PoolWorker> workers_;  // a deque keeps addresses valid
  std::atomic<int> size_{0};
  // The current call: written before `next_task_` is, and read by threads that took a task.
  PoolTask task_ = nullptr;
  void* context_ = nullptr;
  std::atomic<int> callers_cpu_{-1};
  std::uint64_t call_number_ = 0;
  // One word holds the number of the call, its number of tasks and the index of the next task. So a thread that is late
  // from an earlier call cannot take a task of this call.
  alignas(64) std::atomic<std::uint64_t> next_task_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> pauses_{pauses_before_sleep};
  alignas(64) std::atomic<int> remaining_{0};
};

// After a fork the child has the memory of the workers but not their threads. It starts an empty pool and never
// destroys the old one, because joining threads that do not exist would block forever.
struct ProcessPool {
  Pool* pool = new Pool;
  Pool* parent_pool = nullptr;
  ProcessPool() { pthread_atfork(nullptr, nullptr, after_fork); }
  ~ProcessPool() { delete pool; }
  static void after_fork();
};

ProcessPool& process_pool() {
  static ProcessPool p;
  return p;
}

void ProcessPool::after_fork() {
  ProcessPool& p = process_pool();
  p.parent_pool = p.pool;
  p.pool = new Pool;
}

}  // namespace

void run_pool_task(int threads, PoolTask task, void* context) {
  if (threads <= 1) return task(context, 0);
  if (!inside_task && static_cast<std::uint64_t>(threads) <= max_tasks)
    return process_pool().pool->run(threads, task, context);
  for (int w = 0; w < threads; ++w) task(context, w);
}

void pin_workers(bool pin) { pin_flag().store(pin, std::memory_order_relaxed); }

int worker_count() { return process_pool().pool->size(); }

}  // namespace ridge::pool
