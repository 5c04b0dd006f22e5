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

namespace ridge::tile::cpu {
namespace {

constexpr int most_workers = 1023;
constexpr int pauses_before_sleep = 40000;
constexpr int index_bits = 20;
constexpr std::uint64_t most_tasks = (std::uint64_t{1} << index_bits) - 1;  // per call

thread_local bool inside_task = false;

std::atomic<bool>& pinning() {
  static std::atomic<bool> wanted = [] {
    const char* value = std::getenv("RIDGE_PIN");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return wanted;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until `value` differs from `old`. A spinning thread sees the store immediately; a sleeping one costs the
// storing thread a system call, which notify makes only if a thread sleeps.
void wait_while(const std::atomic<int>& value, int old, int pauses) {
  for (int i = 0; i < pauses; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

void pin_to(int index) {
  const std::vector<int> cpus = affinity();
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
void leave(int cpu) {
  if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getcpu() != cpu) return;
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  cpu_set_t others = all;
  CPU_CLR(cpu, &others);
  if (CPU_COUNT(&others) == 0) return;
  if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
}

struct alignas(64) Worker {  // one cache line each, so that a wake-up misses in one worker only
  std::atomic<int> call{0};  // incremented to wake the worker
  std::jthread thread;
};

class Pool {
 public:
  ~Pool() {
    stopping_.store(true, std::memory_order_relaxed);
    for (Worker& w : workers_) start(w);
    for (Worker& w : workers_)
      if (w.thread.joinable()) w.thread.join();
  }

  void run(int threads, Task task, void* context) {
    const std::lock_guard turn(users_);
    grow(threads - 1);
    task_ = task;
    context_ = context;
    callers_cpu_.store(sched_getcpu(), std::memory_order_relaxed);
    const int started = std::min(threads - 1, size());
    // With more threads than cores, a spinning thread only takes time from threads that have tasks.
    pauses_.store(started < usable_cores() ? pauses_before_sleep : 0, std::memory_order_relaxed);
    left_.store(threads, std::memory_order_relaxed);
    tickets_.store((++calls_ << 2 * index_bits) + (static_cast<std::uint64_t>(threads) << index_bits) + 1,
                   std::memory_order_release);  // the caller runs task 0
    for (int i = 0; i < started; ++i) start(workers_[static_cast<std::size_t>(i)]);
    work(0);
    take_tickets();
    for (int left = left_.load(std::memory_order_acquire); left != 0; left = left_.load(std::memory_order_acquire))
      wait_while(left_, left, pauses_.load(std::memory_order_relaxed));
  }

  int size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static void start(Worker& w) {
    w.call.fetch_add(1, std::memory_order_release);
    w.call.notify_one();
  }

  // Runs tasks that no thread has started until there are none left. A late thread may find tasks of a later call.
  void take_tickets() {
    std::uint64_t next = tickets_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t index = next & most_tasks;
      if (index >= (next >> index_bits & most_tasks)) return;
      if (!tickets_.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      work(static_cast<int>(index));  // the call cannot end before this, so task_ stays valid
      next = tickets_.load(std::memory_order_acquire);
    }
  }

  void work(int index) {
    inside_task = true;
    task_(context_, index);
    inside_task = false;
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
  }

  void serve(Worker& me, int index) {
    if (pinning().load(std::memory_order_relaxed)) pin_to(index);
    for (int seen = 0;;) {
      wait_while(me.call, seen, pauses_.load(std::memory_order_relaxed));
      seen = me.call.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_relaxed)) return;
      if (pauses_.load(std::memory_order_relaxed) > 0) leave(callers_cpu_.load(std::memory_order_relaxed));
      take_tickets();
    }
  }

  void grow(int wanted) {
    while (size() < std::min(wanted, most_workers)) {
      Worker& added = workers_.emplace_back();
      const int index = size() + 1;
      try {
        added.thread = std::jthread([this, &added, index] { serve(added, index); });
      } catch (const std::system_error&) {  // no more threads: the others run its tasks
        workers_.pop_back();
        return;
      }
      size_.store(index, std::memory_order_relaxed);
    }
  }

  std::mutex users_;
  std::deque<Worker> workers_;  // a deque keeps addresses valid
  std::atomic<int> size_{0};
  // The current call: written before `next_task_` is, and read by threads that took a task.
  Task task_ = nullptr;
  void* context_ = nullptr;
  std::atomic<int> callers_cpu_{-1};
  std::uint64_t calls_ = 0;
  // Number of the call, its number of tasks and the index of the next task, in one word, so that a thread that comes
  // late from an earlier call cannot take a task of this one by that call's count.
  alignas(64) std::atomic<std::uint64_t> tickets_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<int> pauses_{pauses_before_sleep};
  alignas(64) std::atomic<int> left_{0};
};

// After a fork the child has the memory of the workers but not their threads. It starts an empty pool and never
// destroys the old one, because joining threads that do not exist would block forever.
struct Process {
  Pool* pool = new Pool;
  Pool* parents = nullptr;
  Process() { pthread_atfork(nullptr, nullptr, after_fork); }
  ~Process() { delete pool; }
  static void after_fork();
};

Process& process() {
  static Process p;
  return p;
}

void Process::after_fork() {
  Process& p = process();
  p.parents = p.pool;
  p.pool = new Pool;
}

}  // namespace

void run_task(int threads, Task task, void* context) {
  if (threads <= 1) return task(context, 0);
  if (!inside_task && static_cast<std::uint64_t>(threads) <= most_tasks)
    return process().pool->run(threads, task, context);
  for (int w = 0; w < threads; ++w) task(context, w);
}

void pin_workers(bool pin) { pinning().store(pin, std::memory_order_relaxed); }

int pool_size() { return process().pool->size(); }

}  // namespace ridge::tile::cpu
