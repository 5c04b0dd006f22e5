// Test memory between inaccessible pages, so that an access out of bounds crashes. `are_edges_intact` checks the bytes
// between the data and these pages.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace ridge::ops::product_testing {

class GuardedBuffer {
 public:
  enum GuardSide { before, after };  // Position of the adjacent inaccessible page
  // `shift` is the distance in bytes between the data and the inaccessible page; 0 … 63 gives every alignment.
  explicit GuardedBuffer(std::size_t bytes, GuardSide side = after, std::size_t shift = 0) : bytes_(bytes) {
    const std::size_t page = sysconf(_SC_PAGESIZE);
    inside_ = (bytes + shift + page) / page * page;
    map_ =
        static_cast<unsigned char*>(mmap(nullptr, inside_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mapped_ = inside_ + 2 * page;
    first_ = map_ + page;
    if (map_ == MAP_FAILED || mprotect(first_, inside_, PROT_READ | PROT_WRITE) != 0) std::abort();
    data_ = side == after ? first_ + inside_ - shift - bytes : first_ + shift;
    std::memset(first_, edge_byte, inside_);
  }
  ~GuardedBuffer() { munmap(map_, mapped_); }
  GuardedBuffer(const GuardedBuffer&) = delete;
  GuardedBuffer& operator=(const GuardedBuffer&) = delete;

  char* data() const { return reinterpret_cast<char*>(data_); }
  template <class T> T* as() const { return reinterpret_cast<T*>(data_); }
  std::size_t size() const { return bytes_; }
  void fill(unsigned char byte) const { std::memset(data_, byte, bytes_); }
  void make_read_only() const { mprotect(first_, inside_, PROT_READ); }
  bool are_edges_intact() const {
    for (const unsigned char* p = first_; p < first_ + inside_; ++p)
      if ((p < data_ || p >= data_ + bytes_) && *p != edge_byte) return false;
    return true;
  }

 private:
  static constexpr unsigned char edge_byte = 0xff;  // NaN in every float format
  std::size_t bytes_, inside_ = 0, mapped_ = 0;
  unsigned char *map_ = nullptr, *first_ = nullptr, *data_ = nullptr;
};

}  // namespace ridge::ops::product_testing
