// Splits the range 0 … count into blocks that threads process. It serves fills and checks only; kernels have their own
// thread pool. If the system grants fewer threads than requested (process limit, no memory for a stack), those that
// started, and at least the caller, do all of the work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace ridge {

// Calls work(begin, end) for blocks of at most `block` elements, in no guaranteed order.
template <class Work> void parallel_for(std::int64_t count, std::int64_t block, int threads, const Work& work) {
  std::atomic<std::int64_t> next_begin{0};
  const auto run_blocks = [&] {
    for (;;) {
      const std::int64_t begin = next_begin.fetch_add(block);
      if (begin >= count) return;
      work(begin, std::min(count, begin + block));
    }
  };
  const std::int64_t blocks = (count + block - 1) / block;
  std::vector<std::jthread> others;
  try {
    for (int i = 1; i < std::min<std::int64_t>(threads, blocks); ++i) others.emplace_back(run_blocks);
  } catch (const std::system_error&) {  // thrown when the system has no more threads
  }
  run_blocks();
}

}  // namespace ridge
