// Scratch memory that a thread keeps between calls, because the first touch of 16 MiB costs more than a small product.
// It only grows and is freed when the thread ends.
#pragma once

#include <cstddef>

namespace ridge::pool {

// Returns at least `bytes` bytes in whole pages, or null if there is no memory; std::free releases them. From 2 MiB on
// they start on a 2 MiB boundary so that the system may use large pages: hardware prefetch stops at the end of a page.
void* allocate_pages(std::size_t bytes);

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  // Returns at least `bytes` bytes, 64-byte aligned, with undefined content. Pointers from earlier calls become
  // invalid.
  void* ensure_size(std::size_t bytes);

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct ThreadArenas {
  Arena left, right[2], computed, sums, packed_flags;
};
ThreadArenas& thread_arenas();  // Returns the arenas of the calling thread.

}  // namespace ridge::pool
