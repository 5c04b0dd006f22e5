// Splits 0 … count into blocks and hands them to threads. Fills and checks only: the kernels have their own pool. Where
// the system gives fewer threads than asked for (a limit on processes, no memory for a stack), those that it gave, and
// at the least the caller, do all of the work.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace ridge {

// work(begin, end) for blocks of at most `block`; no order is promised.
template <class Work> void share(std::int64_t count, std::int64_t block, int threads, const Work& work) {
  std::atomic<std::int64_t> next{0};
  const auto take = [&] {
    for (;;) {
      const std::int64_t begin = next.fetch_add(block);
      if (begin >= count) return;
      work(begin, std::min(count, begin + block));
    }
  };
  const std::int64_t blocks = (count + block - 1) / block;
  std::vector<std::jthread> others;
  try {
    for (int i = 1; i < std::min<std::int64_t>(threads, blocks); ++i) others.emplace_back(take);
  } catch (const std::system_error&) {  // the library's way to say "no more threads"
  }
  take();
}

}  // namespace ridge
