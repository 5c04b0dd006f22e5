#include "ridge/pool/peak.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <vector>

#include "ridge/pool/isa.h"

namespace ridge::pool {
namespace {

struct alignas(64) Block {
  std::byte bytes[4096];
};

void expect_copies(const PeakLoops& loops) {
  std::vector<Block> from(2), to(2);
  for (std::size_t i = 0; i < sizeof(Block); ++i) from[0].bytes[i] = static_cast<std::byte>(i * 7);
  std::memset(to.data(), 0x5a, 2 * sizeof(Block));
  loops.copy(to[0].bytes, from[0].bytes, 512);
  EXPECT_EQ(std::memcmp(to[0].bytes, from[0].bytes, 512), 0) << isa_name(loops.isa);
  EXPECT_EQ(to[0].bytes[512], std::byte{0x5a}) << isa_name(loops.isa);
  loops.xor_arrays(to[0].bytes, from[0].bytes, from[0].bytes, 256);
  EXPECT_EQ(to[0].bytes[255], std::byte{0}) << isa_name(loops.isa);
  EXPECT_EQ(to[0].bytes[256], from[0].bytes[256]) << isa_name(loops.isa);
  loops.copy_cached(to[1].bytes, from[0].bytes, 768);
  EXPECT_EQ(std::memcmp(to[1].bytes, from[0].bytes, 768), 0) << isa_name(loops.isa);
  EXPECT_EQ(to[1].bytes[768], std::byte{0x5a}) << isa_name(loops.isa);
  loops.xor_arrays_cached(to[1].bytes, from[0].bytes, from[0].bytes + 256, 256);
  EXPECT_EQ(to[1].bytes[255], from[0].bytes[255] ^ from[0].bytes[511]) << isa_name(loops.isa);
  EXPECT_EQ(to[1].bytes[256], from[0].bytes[256]) << isa_name(loops.isa);
  loops.read(from[0].bytes, sizeof(Block));
  loops.f32(1000);
  if (loops.bf16 != nullptr) loops.bf16(1000);
  EXPECT_EQ(loops.bf16 == nullptr, loops.bf16_flop_per_round == 0);
}

TEST(PeakLoops, WriteTheRightBytesAndNoOthers) {
  for (const Isa isa : available_isas()) {
    ASSERT_TRUE(set_active_isa(isa));
    EXPECT_EQ(peak_loops().isa, isa);
    expect_copies(peak_loops());
  }
}

TEST(RunConcurrently, CallsEachWorkerOnce) {
  std::atomic<int> sum{0};
  run_concurrently(5, [&](int worker) { sum += 1 << (4 * worker); });
  EXPECT_EQ(sum, 0x11111);
}

}  // namespace
}  // namespace ridge::pool
