// A ring of bytes between two processes, one that writes and one that reads, in memory that both see. The other side is
// read like a file: what it says of itself is checked before anything is copied, so that a spoilt ring is an error and
// never a read or write beyond it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace ridge::transport {

struct alignas(64) RingCount {  // a line each, for each is written by one side alone
  std::atomic<std::uint64_t> bytes{0};
};

struct RingHead {
  RingCount written, read;  // bytes since the beginning
};

class Ring {
 public:
  Ring(RingHead* head, std::byte* data, std::uint64_t size) : head_(head), data_(data), size_(size) {}

  // As many of these bytes as there is room for; none: the ring is spoilt.
  std::optional<std::size_t> write(std::span<const std::byte> bytes) {
    const std::uint64_t written = head_->written.bytes.load(std::memory_order_relaxed);
    const std::uint64_t full = written - head_->read.bytes.load(std::memory_order_acquire);
    if (full > size_) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(bytes.size(), size_ - full);
    if (count == 0) return count;
    const std::size_t at = written % size_, first = std::min<std::size_t>(count, size_ - at);
    std::memcpy(data_ + at, bytes.data(), first);
    std::memcpy(data_, bytes.data() + first, count - first);
    head_->written.bytes.store(written + count, std::memory_order_release);
    return count;
  }

  // As many as are there and wanted; none: the ring is spoilt.
  std::optional<std::size_t> read(std::span<std::byte> bytes) {
    const std::uint64_t read = head_->read.bytes.load(std::memory_order_relaxed);
    const std::uint64_t full = head_->written.bytes.load(std::memory_order_acquire) - read;
    if (full > size_) return std::nullopt;
    const std::size_t count = std::min<std::size_t>(bytes.size(), full);
    if (count == 0) return count;
    const std::size_t at = read % size_, first = std::min<std::size_t>(count, size_ - at);
    std::memcpy(bytes.data(), data_ + at, first);
    std::memcpy(bytes.data() + first, data_, count - first);
    head_->read.bytes.store(read + count, std::memory_order_release);
    return count;
  }

 private:
  RingHead* head_;
  std::byte* data_;
  std::uint64_t size_;
};

}  // namespace ridge::transport
