#include "ridge/transport/byte_ring.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

namespace ridge::transport {
namespace {

constexpr std::size_t length = 64;

struct RingMemory {
  ByteRingHeader head;
  std::array<std::byte, length + 128> data{};  // 64 bytes of canary on either side
  ByteRing ring() { return {&head, data.data() + 64, length}; }
};

TEST(ByteRing, reads_bytes_in_the_order_written) {
  RingMemory memory;
  std::mt19937 random(1);
  std::uint8_t next = 0, expected = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::array<std::byte, 100> bytes;
    std::uint8_t value = next;
    for (std::byte& b : bytes) b = std::byte{value++};
    const auto written = memory.ring().write({bytes.data(), random() % bytes.size()});
    ASSERT_TRUE(written);
    next = static_cast<std::uint8_t>(next + *written);
    std::array<std::byte, 100> out;
    const auto read = memory.ring().read({out.data(), random() % out.size()});
    ASSERT_TRUE(read);
    for (std::size_t k = 0; k < *read; ++k) ASSERT_EQ(out[k], std::byte{expected++});
  }
}

TEST(ByteRing, holds_no_more_than_its_length) {
  RingMemory memory;
  std::array<std::byte, 100> bytes{};
  EXPECT_EQ(memory.ring().write(bytes), length);
  EXPECT_EQ(memory.ring().write(bytes), 0u);
  EXPECT_EQ(memory.ring().read({bytes.data(), 10}), 10u);
  EXPECT_EQ(memory.ring().write(bytes), 10u);
}

// Ten million random headers, as another process may have corrupted them: no byte outside the ring may change.
TEST(ByteRing, corrupt_headers_cause_no_access_out_of_bounds) {
  RingMemory memory;
  std::mt19937_64 random(7);
  std::array<std::byte, 80> bytes;
  bytes.fill(std::byte{0xAB});
  std::int64_t rejected = 0;
  for (int i = 0; i < 10'000'000; ++i) {
    const std::uint64_t a = random();
    memory.head.written.bytes.store(a, std::memory_order_relaxed);
    memory.head.read.bytes.store(a % 4 == 0 ? random() : a - random() % 100, std::memory_order_relaxed);
    const std::size_t requested = a % bytes.size();
    const auto count =
        a % 2 == 0 ? memory.ring().read({bytes.data(), requested}) : memory.ring().write({bytes.data(), requested});
    rejected += count ? 0 : 1;
    ASSERT_LE(count.value_or(0), std::min(requested, length));
  }
  EXPECT_GT(rejected, 1'000'000);
  for (std::size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(memory.data[i], std::byte{0});
    EXPECT_EQ(memory.data[64 + length + i], std::byte{0});
  }
}

}  // namespace
}  // namespace ridge::transport
