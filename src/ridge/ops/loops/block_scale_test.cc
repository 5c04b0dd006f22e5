// Block conversions against base/block_scale.h, bit by bit: all codes with all scales, and random blocks with ties,
// subnormals, infinities and NaNs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "ridge/base/block_scale.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/lines.h"
#include "ridge/ops/loops/testing/random_layout.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;

constexpr DType scaled_dtypes[] = {DType::mxfp8,   DType::mxfp4,    DType::nvfp4, DType::e4m3_128, DType::int4_32,
                                   DType::int4_64, DType::int4_128, DType::u4_32, DType::u4_64,    DType::u4_128};

class BlockScales : public pool::IsaTest {};

void expect_elements(DType scaled, DType result, const GuardedBuffer& x, std::int64_t elements) {
  const GuardedBuffer y(elements * dtype_bits(result) / 8);
  void* const data[] = {x.data(), y.data()};
  run_loops(DequantizeLoops{scaled, result, elements}, data, 3);
  for (std::int64_t i = 0; i < elements; ++i) {
    std::vector<float> expected(1);
    RandomLayouts::store(result, expected.data(), 0, static_cast<float>(load_scaled_element(scaled, x.data(), i)));
    const double value = RandomLayouts::load(result, expected.data(), 0),
                 found = RandomLayouts::load(result, y.data(), i);
    ASSERT_TRUE(found == value || (std::isnan(found) && std::isnan(value)))
        << dtype_name(scaled) << " element " << i << ": " << found << " instead of " << value;
  }
  ASSERT_TRUE(y.are_edges_intact());
}

// Scales of one byte take all 256 values, f16 scales all 65536; the codes of a block are consecutive.
TEST_P(BlockScales, dequantize_all_codes) {
  for (const DType scaled : scaled_dtypes) {
    const DTypeInfo& info = dtype_info(scaled);
    const std::int64_t block_bytes = scale_block_bits(scaled).bits / 8, blocks = 256 * 256;
    const GuardedBuffer x(blocks * block_bytes);
    RandomLayouts random(1);
    for (std::int64_t i = 0; i < blocks; ++i) {
      auto* const at = x.as<std::uint8_t>() + i * block_bytes;
      const auto scale = static_cast<float>(
          std::ldexp(static_cast<double>(1 + random.below(1 << 20)), static_cast<int>(random.below(60)) - 50));
      std::memcpy(at, &scale, info.scale_bits / 8);
      if (info.scale_bits == 8) *at = static_cast<std::uint8_t>(i / 256);
      if (has_integer_blocks(scaled)) {
        const auto scale_bits = static_cast<std::uint16_t>(i);
        std::memcpy(at, &scale_bits, sizeof scale_bits);
        if (has_zero_points(scaled)) at[2] = static_cast<std::uint8_t>(random.below(256));
      }
      for (std::int64_t k = info.scale_bits / 8; k < block_bytes; ++k) at[k] = static_cast<std::uint8_t>(i + k);
    }
    for (const DType result : {DType::bf16, DType::f32}) expect_elements(scaled, result, x, blocks * info.block);
  }
}

// Values that are ties between codes for some scale, and values next to ties.
float make_value(RandomLayouts& random, int exponent) {
  const auto tie = static_cast<float>(std::ldexp(static_cast<double>(2 * random.below(16) + 1), exponent - 4));
  switch (random.below(6)) {
    case 0: return tie;
    case 1: return std::nextafter(tie, 0.0f);
    case 2: return std::nextafter(-tie, -1e30f);
    case 3: return 0.0f * (random.flip() ? 1.0f : -1.0f);
    default:
      return static_cast<float>(std::ldexp(static_cast<double>(random.below(1 << 24)) - (1 << 23), exponent - 23));
  }
}

TEST_P(BlockScales, quantize_as_single_blocks_do) {
  for (unsigned seed = 0; seed < loops_testing::case_count(300); ++seed) {
    RandomLayouts random(seed);
    const DType scaled = scaled_dtypes[seed % std::size(scaled_dtypes)];
    const std::int64_t block = dtype_info(scaled).block, extent = block * (1 + random.below(3 * 1024 / block)),
                       rows = 1 + random.below(4), batch = 1 + random.below(3);
    const auto x_layout = random.strides({batch, rows, extent}, true);
    const std::int64_t results = batch * rows * extent;
    const bool swaps = random.flip();
    const QuantizeLoops l{random.float_dtype(),
                          scaled,
                          {{batch, x_layout.strides[0], 0, swaps ? extent : rows * extent},
                           {rows, x_layout.strides[1], 0, swaps ? batch * extent : extent}},
                          {extent, x_layout.strides[2], 0, 1}};
    const GuardedBuffer x(x_layout.elements * dtype_bits(l.values) / 8, random.guard_side()),
        y(stored_bytes(scaled, results), random.guard_side()), expected(y.size());
    const auto exponent = static_cast<int>(random.below(270)) - 145;
    for (std::int64_t i = 0; i < x_layout.elements; ++i)
      RandomLayouts::store(l.values, x.data(), i, make_value(random, exponent));
    if (random.below(4) == 0)
      RandomLayouts::store(l.values, x.data(), random.below(x_layout.elements),
                           random.flip() ? std::numeric_limits<float>::infinity() : NAN);
    LoopCursor cursor(l.axes, 0);
    for (std::int64_t line = 0; line < batch * rows; ++line, cursor.advance())
      for (std::int64_t first = 0; first < extent; first += block) {
        std::vector<double> values(block);
        for (std::int64_t k = 0; k < block; ++k)
          values[k] = RandomLayouts::load(l.values, x.data(), cursor.offsets().values + (first + k) * l.axis.values);
        store_scaled_block(scaled, expected.data(), (cursor.offsets().result + first) / block, values.data());
      }
    x.make_read_only();
    y.fill(0x7b);
    void* const data[] = {x.data(), y.data()};
    run_loops(l, data, 1 + static_cast<int>(seed % 3));
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y.as<std::uint8_t>()[i], expected.as<std::uint8_t>()[i])
          << "seed " << seed << ", " << dtype_name(scaled) << ", byte " << i;
    ASSERT_TRUE(y.are_edges_intact());
  }
}

// Values are ties between two codes times the scale, rounded to f32: in f32, half of the quotients would be ties.
TEST_P(BlockScales, quotients_next_to_ties_have_the_nearer_code) {
  constexpr std::int64_t block = 128, blocks = 500;
  RandomLayouts random(1);
  const GuardedBuffer x(blocks * block * 4), y(stored_bytes(DType::e4m3_128, blocks * block)), expected(y.size());
  for (std::int64_t b = 0; b < blocks; ++b) {
    const auto largest = static_cast<float>((1 << 23) + random.below(1 << 23));
    const double scale = static_cast<double>(static_cast<float>(static_cast<double>(largest) / 448));
    for (std::int64_t k = 0; k < block; ++k) {
      const double tie =
          std::ldexp(static_cast<double>(17 + 2 * random.below(8)), static_cast<int>(random.below(10)) - 7);
      x.as<float>()[b * block + k] = static_cast<float>(random.flip() ? tie * scale : -tie * scale);
    }
    x.as<float>()[b * block] = largest;
    std::vector<double> values(x.as<float>() + b * block, x.as<float>() + (b + 1) * block);
    store_scaled_block(DType::e4m3_128, expected.data(), b, values.data());
  }
  void* const data[] = {x.data(), y.data()};
  run_loops(QuantizeLoops{DType::f32, DType::e4m3_128, {{blocks, block, 0, block}}, {block, 1, 0, 1}}, data, 1);
  EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size()), 0);
}

// Values are ties between two codes times an f16 scale, which are exact in f32, and the f32 next to them.
TEST_P(BlockScales, integers_next_to_ties_have_the_nearer_code) {
  constexpr std::int64_t block = 64, blocks = 1000;
  for (const DType scaled : {DType::int4_64, DType::u4_64}) {
    RandomLayouts random(2);
    const GuardedBuffer x(blocks * block * 4), y(stored_bytes(scaled, blocks * block)), expected(y.size());
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto scale = static_cast<float>(
          std::ldexp(static_cast<double>(1024 + random.below(1024)), static_cast<int>(random.below(20)) - 24));
      const auto zero = static_cast<float>(has_zero_points(scaled) ? random.below(16) : 7);
      float* const values = x.as<float>() + b * block;
      for (std::int64_t k = 0; k < block; ++k) {
        const float tie = (static_cast<float>(random.below(14)) + 0.5F - zero) * scale;
        const float limits[] = {tie, 1e30F, -1e30F};
        values[k] = std::nextafter(tie, limits[random.below(3)]);
      }
      values[0] = -zero * scale;
      values[1] = (has_zero_points(scaled) ? 15 - zero : 7) * scale;
      const std::vector<double> wide(values, values + block);
      store_scaled_block(scaled, expected.data(), b, wide.data());
    }
    void* const data[] = {x.data(), y.data()};
    run_loops(QuantizeLoops{DType::f32, scaled, {{blocks, block, 0, block}}, {block, 1, 0, 1}}, data, 1);
    EXPECT_EQ(std::memcmp(y.data(), expected.data(), y.size()), 0) << dtype_name(scaled);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, BlockScales, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops
