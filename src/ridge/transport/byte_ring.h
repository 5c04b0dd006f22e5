// Single-producer, single-consumer byte ring between two processes, in shared memory. The other process's counter is
// treated as untrusted input and checked before anything is copied: a corrupt ring gives an error, never an access out
// of bounds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace ridge::transport {

struct alignas(64) PaddedCounter {  // one cache line each: each counter has one writer
  std::atomic<std::uint64_t> bytes{0};
};

struct ByteRingHeader {
  PaddedCounter written, read;  // total bytes written and read so far
};

class ByteRing {
 public:
  ByteRing(ByteRingHeader* head, std::byte* data, std::uint64_t size) : head_(head), data_(data), size_(size) {}

  // Writes as many bytes as fit and returns their number, or nullopt if the ring is corrupt.
  std::optional<std::size_t> write(std::span<const std::byte> bytes) {
    const std::uint64_t written = head_->written.bytes.load(std::memory_order_relaxed);
    const std::uint64_t used_bytes = written - head_->read.bytes.load(std::memory_order_acquire);
    if (used_bytes > size_) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(bytes.size(), size_ - used_bytes);
    if (count == 0) return count;
    const std::size_t at = written % size_, first = std::min<std::size_t>(count, size_ - at);
    std::memcpy(data_ + at, bytes.data(), first);
    std::memcpy(data_, bytes.data() + first, count - first);
    head_->written.bytes.store(written + count, std::memory_order_release);
    return count;
  }

  // Reads as many bytes as are available, up to bytes.size(). Returns their number, or nullopt if the ring is corrupt.
  std::optional<std::size_t> read(std::span<std::byte> bytes) {
    const std::uint64_t read = head_->read.bytes.load(std::memory_order_relaxed);
    const std::uint64_t used_bytes = head_->written.bytes.load(std::memory_order_acquire) - read;
    if (used_bytes > size_) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(bytes.size(), used_bytes);
    if (count == 0) return count;
    const std::size_t at = read % size_, first = std::min<std::size_t>(count, size_ - at);
    std::memcpy(bytes.data(), data_ + at, first);
    std::memcpy(bytes.data() + first, data_, count - first);
    head_->read.bytes.store(read + count, std::memory_order_release);
    return count;
  }

 private:
  ByteRingHeader* head_;
  std::byte* data_;
  std::uint64_t size_;
};

}  // namespace ridge::transport
