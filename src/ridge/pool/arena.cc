#include "ridge/pool/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace ridge::pool {

namespace {
constexpr std::size_t large_page_bytes = std::size_t{2} << 20;
std::size_t round_up_to_pages(std::size_t bytes) {
  const std::size_t page = bytes >= large_page_bytes ? large_page_bytes : 4096;
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}
}  // namespace

void* allocate_pages(std::size_t bytes) {
  const std::size_t rounded = round_up_to_pages(bytes);
  void* const data = std::aligned_alloc(rounded >= large_page_bytes ? large_page_bytes : 4096, rounded);
#if defined(MADV_HUGEPAGE)
  if (data != nullptr && rounded >= large_page_bytes) madvise(data, rounded, MADV_HUGEPAGE);  // only a hint
#endif
  return data;
}

Arena::~Arena() { std::free(data_); }

void* Arena::ensure_size(std::size_t bytes) {
  if (bytes <= bytes_) return data_;
  const std::size_t new_bytes = round_up_to_pages(bytes + bytes / 4);
  std::free(data_);
  bytes_ = 0;
  data_ = allocate_pages(new_bytes);
  if (data_ == nullptr) throw std::bad_alloc();
  bytes_ = new_bytes;
  return data_;
}

ThreadArenas& thread_arenas() {
  thread_local ThreadArenas all;
  return all;
}

}  // namespace ridge::pool
