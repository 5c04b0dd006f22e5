// Compares blocks with values computed by hand from the formats' tables and with a search over all element codes.
#include "ridge/base/block_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/base/scaled_codes.h"

namespace ridge {
namespace {

std::vector<double> round_trip_block(DType dtype, std::vector<double> values) {
  const int block = dtype_info(dtype).block;
  values.resize(block);
  std::vector<std::uint8_t> memory(2 * scale_block_bits(dtype).bits / 8, 0xAA);
  store_scaled_block(dtype, memory.data(), 1, values.data());
  for (int i = 0; i < block; ++i) values[i] = load_scaled_element(dtype, memory.data(), block + i);
  return values;
}

TEST(BlockScale, ScaleOfMxfp4IsAPowerOfTwo) {
  // The largest value, 7, has exponent 2, so the scale is 1: 7 is clamped to 6, and ties round to even codes.
  const auto got = round_trip_block(DType::mxfp4, {7, -0.3, 0.25, 0.75, 1.25, 2.5, -3.5, 5});
  const std::vector<double> want{6, -0.5, 0, 1, 1, 2, -4, 4};
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]) << i;
  EXPECT_EQ(round_trip_block(DType::mxfp4, {7168, 1024})[1], 1024);  // scale 2^10
}

TEST(BlockScale, ScaleOfNvfp4IsE4m3) {
  const auto got = round_trip_block(DType::nvfp4, {12, 3, -1, 0.4});  // scale 2
  EXPECT_EQ(got[0], 12);
  EXPECT_EQ(got[1], 3);
  EXPECT_EQ(got[2], -1);
  EXPECT_EQ(got[3], 0);
  EXPECT_EQ(round_trip_block(DType::nvfp4, {0, 0})[0], 0);
}

TEST(BlockScale, E4m3BlocksRoundAndScale) {
  EXPECT_EQ(round_trip_block(DType::e4m3_128, {448, 17, 1, 0x1p-9, 0x1p-11})[1], 16);  // between 16 and 18, to even
  EXPECT_EQ(round_trip_block(DType::e4m3_128, {448, 0, 0, 0x1p-9})[3], 0x1p-9);        // subnormal
  EXPECT_EQ(round_trip_block(DType::e4m3_128, {896, 2})[1], 2);                        // scale 2
  EXPECT_EQ(round_trip_block(DType::mxfp8, {448, -19})[1], -20);                       // between 18 and 20, to even
}

TEST(BlockScale, NonFiniteValuesAffectOnlyTheirBlock) {
  for (const DType dtype : {DType::mxfp8, DType::mxfp4, DType::nvfp4, DType::e4m3_128})
    for (const double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
      for (const double value : round_trip_block(dtype, {1, bad, 2}))
        EXPECT_TRUE(std::isnan(value)) << dtype_name(dtype);
}

// Compares with the nearest of all representable values, over the full range of quotients.
TEST(BlockScale, RoundsToTheNearest) {
  for (const DType dtype : {DType::mxfp8, DType::mxfp4}) {
    const bool four = dtype_info(dtype).bits == 4;
    std::vector<double> values;
    for (int e = four ? 1 : -6; e <= (four ? 2 : 8); ++e)
      for (int m = 0; m < (four ? 2 : 8); ++m) values.push_back(std::ldexp(1 + m / (four ? 2.0 : 8.0), e));
    for (int m = 0; m < (four ? 4 : 8); ++m) values.push_back(four ? m / 2.0 : std::ldexp(m, -9));
    const double max_magnitude = four ? 6 : 448;
    for (int i = 0; i <= 4000; ++i) {
      const double x = max_magnitude * i / 4000;
      double best = 1e9;
      for (const double v : values)
        if (v <= max_magnitude) best = std::min(best, std::fabs(v - x));
      EXPECT_EQ(std::fabs(round_trip_block(dtype, {four ? 4.0 : 256.0, x})[1] - x), best)
          << dtype_name(dtype) << " " << x;
    }
  }
}

// Devices store a plane of elements and one of scales, hosts one block after the other.
TEST(BlockScale, PlanesHaveTheSameElementsAndScales) {
  constexpr std::int64_t blocks = 13, elements = blocks * BlockPlanes::block;
  std::vector<double> values(elements);
  for (std::int64_t i = 0; i < elements; ++i) values[i] = std::ldexp(static_cast<double>(i % 97 - 40), i / 128 % 5);
  std::vector<std::uint8_t> data(stored_bytes(DType::e4m3_128, elements)), planes(data.size()), joined(data.size());
  for (std::int64_t block = 0; block < blocks; ++block)
    store_scaled_block(DType::e4m3_128, data.data(), block, values.data() + block * BlockPlanes::block);
  split_blocks(data.data(), blocks, planes.data(), planes.data() + elements);
  for (std::int64_t i = 0; i < elements; ++i) {
    float scale = 0;
    std::memcpy(&scale, planes.data() + BlockPlanes::scale_offset(i, elements), sizeof scale);
    const double element = to_float(E4m3{planes[i]});
    ASSERT_EQ(scale * element, load_scaled_element(DType::e4m3_128, data.data(), i)) << i;
  }
  join_blocks(planes.data(), planes.data() + elements, blocks, joined.data());
  EXPECT_EQ(joined, data);
  EXPECT_TRUE(has_planes_on_devices(DType::e4m3_128));
  EXPECT_FALSE(has_planes_on_devices(DType::mxfp8));
}

// Devices divide without f64. Every fourth value is a tie between two codes times the scale, as exactly as f32 holds
// it.
TEST(ScaledCodes, QuotientsWithoutF64HaveTheSameCodes) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 2'000'000; ++i) {
    const float largest = std::ldexp(static_cast<float>((1 << 23) + below(1 << 23)), below(100) - 73);
    const float scale = e4m3_128_scale(largest), inverse = 1 / scale;
    float x = std::ldexp(static_cast<float>((1 << 23) + below(1 << 23)), std::ilogb(largest) - 23 - below(30));
    if (i % 4 == 0) x = std::ldexp(static_cast<float>(17 + 2 * below(8)) * scale, below(10) - 7);
    if (i % 4 == 1) x = std::ldexp(static_cast<float>(1 + below(31)) * scale, -10);
    if (i % 2 == 0) x = -x;
    const double exact = static_cast<double>(x) / static_cast<double>(scale);
    const std::uint32_t expected = encode<e4m3_codes>(round_to_odd(exact));
    ASSERT_EQ(encode<e4m3_codes>(divide_to_odd(x, scale, inverse)), expected) << x << " / " << scale;
    ASSERT_EQ(scale, static_cast<float>(static_cast<double>(largest) / 448)) << largest;
    // The two bounds of a device
    const std::uint32_t lower = encode<e4m3_codes>(x * (inverse * (1 - 0x1p-22F))),
                        upper = encode<e4m3_codes>(x * (inverse * (1 + 0x1p-22F)));
    if (lower == upper) ASSERT_EQ(lower, expected) << x << " / " << scale;
  }
}

TEST(ScaleBlockBits, CountScales) {
  EXPECT_EQ(stored_bytes(DType::mxfp4, 64), 34);
  EXPECT_EQ(stored_bytes(DType::mxfp8, 64), 66);
  EXPECT_EQ(stored_bytes(DType::nvfp4, 64), 36);
  EXPECT_EQ(stored_bytes(DType::e4m3_128, 256), 264);
  EXPECT_EQ(stored_bytes(DType::bf16, 3), 6);
}

}  // namespace
}  // namespace ridge
