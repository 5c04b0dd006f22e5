// Memory that a thread keeps between calls: the first touch of 16 MiB costs more than a small product. Grows only,
// whole pages, on 2 MiB boundaries where it is large (so that the system may use large pages), freed when the thread
// ends.
#pragma once

#include <cstddef>

namespace ridge::tile::cpu {

// At least so many bytes in whole pages, on a 2 MiB boundary where they are many, so that the system may use large
// pages: a core looks ahead only as far as the end of a page. Freed by std::free; null where there is no memory.
void* allocate_pages(std::size_t bytes);

class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena();
  // At least so many bytes, 64-byte aligned; what they hold is undefined. Earlier pointers die.
  void* need(std::size_t bytes);

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Arenas {
  Arena left, right[2], sums, packed_flags;
};
Arenas& arenas();  // the calling thread's

}  // namespace ridge::tile::cpu
