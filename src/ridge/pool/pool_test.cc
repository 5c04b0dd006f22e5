#include "ridge/pool/pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "ridge/base/cores.h"

namespace ridge::pool {
namespace {

TEST(Pool, every_task_runs_once) {
  for (const int threads : {1, 2, 3, 4, 9}) {
    std::vector<std::atomic<int>> calls(threads);
    run_parallel(threads, [&](int worker) { ++calls[worker]; });
    for (const auto& count : calls) EXPECT_EQ(count.load(), 1);
  }
}

// A worker that arrives late from a call with few tasks finds the next call, which has more.
TEST(Pool, every_task_runs_once_in_calls_whose_counts_vary) {
  for (int call = 0; call < 20000; ++call) {
    const int threads = 2 + call * 7 % 5;
    std::array<std::atomic<int>, 6> calls{};
    run_parallel(threads, [&](int worker) { ++calls[worker]; });
    for (std::size_t w = 0; w < calls.size(); ++w)
      ASSERT_EQ(calls[w].load(), static_cast<int>(w) < threads ? 1 : 0) << "call " << call << ", worker " << w;
  }
}

TEST(Pool, writes_of_workers_are_visible_after_the_call) {
  std::array<int, 4> plain{};  // no atomics, because the pool orders the accesses
  for (int i = 1; i <= 1000; ++i) {
    run_parallel(4, [&](int worker) { plain[worker] += worker + 1; });
    ASSERT_EQ(plain, (std::array{i, 2 * i, 3 * i, 4 * i}));
  }
}

TEST(Pool, workers_that_fell_asleep_wake_again) {
  std::atomic<int> calls = 0;
  for (int i = 0; i < 3; ++i) {
    run_parallel(3, [&](int) { ++calls; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(calls.load(), 9);
}

TEST(Pool, the_caller_waits_for_a_worker_that_takes_long) {
  bool done = false;
  run_parallel(2, [&](int worker) {
    if (worker == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST(Pool, the_caller_runs_tasks_that_no_worker_has_started) {
  run_parallel(2, [](int) {});
  const auto caller = std::this_thread::get_id();
  bool taken = false;
  for (int i = 0; i < 200 && !taken; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the worker sleeps and is slow to wake
    run_parallel(2, [&](int worker) {
      if (worker == 1) taken = std::this_thread::get_id() == caller;
    });
  }
  EXPECT_TRUE(taken);
}

// The caller pins itself to the core on which the worker last ran, where the system would wake the worker again.
TEST(Pool, a_worker_leaves_the_callers_core_and_keeps_its_affinity) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "this process may use only one CPU";
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  const auto caller = std::this_thread::get_id();
  int same_core = 0, other_core = 0;
  for (int i = 0; i < 40; ++i) {
    int at = -1;
    run_parallel(2, [&](int worker) {
      if (worker == 0) return std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::this_thread::get_id() == caller) return;
      at = sched_getcpu();
      EXPECT_EQ(allowed_cpus(), cpus);
    });
    if (at < 0) continue;
    (at == sched_getcpu() ? same_core : other_core)++;
    CPU_ZERO(&one);
    CPU_SET(at, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the worker sleeps
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_GT(other_core, 4 * same_core);
}

TEST(Pool, a_call_inside_a_task_runs_on_that_thread) {
  std::atomic<int> calls = 0;
  run_parallel(3, [&](int) {
    const auto task_thread = std::this_thread::get_id();
    run_parallel(4, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), task_thread);
      ++calls;
    });
  });
  EXPECT_EQ(calls.load(), 12);
}

TEST(Pool, calls_from_several_threads_all_complete) {
  std::atomic<int> calls = 0;
  {
    std::vector<std::jthread> users;
    for (int user = 0; user < 4; ++user)
      users.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          int mine = 0;
          std::array<int, 3> seen{};
          run_parallel(3, [&](int worker) { seen[worker] = 1; });
          for (const int s : seen) mine += s;
          calls += mine;
        }
      });
  }
  EXPECT_EQ(calls.load(), 4 * 100 * 3);
}

TEST(Pool, the_pool_grows_on_demand_and_keeps_its_workers) {
  run_parallel(5, [](int) {});
  EXPECT_GE(worker_count(), 4);
  const int before = worker_count();
  run_parallel(2, [](int) {});
  EXPECT_EQ(worker_count(), before);
}

TEST(Pool, more_tasks_than_threads_all_run) {
  std::atomic<int> calls = 0;
  const auto count = [&](int) { ++calls; };
  run_parallel(3, [&](int worker) {
    if (worker == 1) run_parallel(5000, count);
  });
  EXPECT_EQ(calls.load(), 5000);
}

TEST(Pool, pinned_workers_do_the_same_work) {
  pin_workers(true);
  std::atomic<int> calls = 0;
  run_parallel(worker_count() + 3, [&](int) { ++calls; });
  pin_workers(false);
  EXPECT_EQ(calls.load(), worker_count() + 1);
}

TEST(Pool, a_forked_child_starts_its_own_pool) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer does not support threads after a fork";
#endif
  run_parallel(3, [](int) {});
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::atomic<int> calls = 0;
    run_parallel(3, [&](int) { ++calls; });
    _exit(calls.load() == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Pool, slices_cover_the_range_once_in_multiples_of_the_granularity) {
  for (const std::int64_t count : {0, 1, 7, 64, 65, 1000})
    for (const int parts : {1, 2, 3, 8})
      for (const std::int64_t granularity : {1, 16, 64}) {
        std::int64_t next = 0;
        for (int part = 0; part < parts; ++part) {
          const WorkSlice s = split_evenly(count, parts, part, granularity);
          EXPECT_EQ(s.begin, next);
          EXPECT_LE(s.begin, s.end);
          EXPECT_TRUE(s.end % granularity == 0 || s.end == count);
          next = s.end;
        }
        EXPECT_EQ(next, count);
      }
}

}  // namespace
}  // namespace ridge::pool
