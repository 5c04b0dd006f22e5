#include "ridge/pool/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ridge::tile::cpu {

namespace {
constexpr std::size_t large = std::size_t{2} << 20;
std::size_t whole_pages(std::size_t bytes) {
  const std::size_t page = bytes >= large ? large : 4096;
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}
}  // namespace

void* allocate_pages(std::size_t bytes) {
  const std::size_t rounded = whole_pages(bytes);
  void* const data = std::aligned_alloc(rounded >= large ? large : 4096, rounded);
#if defined(MADV_HUGEPAGE)
  if (data != nullptr && rounded >= large) madvise(data, rounded, MADV_HUGEPAGE);  // only a hint
#endif
  return data;
}

Arena::~Arena() { std::free(data_); }

void* Arena::need(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  const std::size_t more = whole_pages(bytes + bytes / 4);
  std::free(data_);
  bytes_ = 0;
  data_ = allocate_pages(more);
  if (data_ == nullptr) throw std::bad_alloc();
  bytes_ = more;
  return data_;
}

Arenas& arenas() {
  thread_local Arenas all;
  return all;
}

}  // namespace ridge::tile::cpu
