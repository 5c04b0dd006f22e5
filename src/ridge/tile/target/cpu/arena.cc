#include "ridge/tile/target/cpu/arena.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace ridge::tile::cpu {

constexpr std::size_t large = std::size_t{2} << 20;

Arena::~Arena() { std::free(data_); }

void* Arena::need(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  const std::size_t alignment = bytes >= large ? large : 4096;
  const std::size_t rounded = (bytes + bytes / 4 + alignment - 1) / alignment * alignment;
  std::free(data_);
  data_ = std::aligned_alloc(alignment, rounded);
  if (data_ == nullptr) throw std::bad_alloc();
  bytes_ = rounded;
#if defined(MADV_HUGEPAGE)
  if (rounded >= large) madvise(data_, rounded, MADV_HUGEPAGE);  // a hint: refused is as good
#endif
  return data_;
}

Arenas& arenas() {
  thread_local Arenas all;
  return all;
}

}  // namespace ridge::tile::cpu
