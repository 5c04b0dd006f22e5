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

std::vector<DType> scaled_dtypes() {
  std::vector<DType> out;
  for (const DTypeInfo& info : dtypes)
    if (is_block_scaled(info.dtype)) out.push_back(info.dtype);
  return out;
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
  for (const DType dtype : scaled_dtypes())
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

// Returns the first `count` bytes of a block that has these values, and zeros after them.
std::vector<int> block_bytes(DType dtype, std::vector<double> values, int count) {
  values.resize(dtype_info(dtype).block);
  std::vector<std::uint8_t> memory(scale_block_bits(dtype).bits / 8, 0xAA);
  store_scaled_block(dtype, memory.data(), 0, values.data());
  return {memory.begin(), memory.begin() + count};
}

// The scale of int4 is the largest magnitude divided by 7, here 2. Codes are two's complement, the first in the lower
// half of a byte, and ties round to even. The code -8 occurs only where rounding made the scale smaller.
TEST(BlockScale, Int4HasAnF16ScaleAndCodesWithASign) {
  const std::vector<double> values{14, -14, 1, 3, 5, -5, -1, 2};
  for (const DType dtype : {DType::int4_32, DType::int4_64, DType::int4_128}) {
    EXPECT_EQ(block_bytes(dtype, values, 7), (std::vector<int>{0x00, 0x40, 0x97, 0x20, 0xE2, 0x10, 0x00}));
    const auto got = round_trip_block(dtype, values);
    EXPECT_EQ(std::vector<double>(got.begin(), got.begin() + 9), (std::vector<double>{14, -14, 0, 4, 4, -4, 0, 2, 0}));
  }
  EXPECT_EQ(round_trip_block(DType::int4_64, {1e9, -1e9})[0], 7 * 65504.0);   // the largest f16
  EXPECT_EQ(round_trip_block(DType::int4_64, {1e9, -1e9})[1], -8 * 65504.0);  // the quotient is below -8
  EXPECT_EQ(round_trip_block(DType::int4_64, {0x1p-23})[0], 0);               // a scale of 2^-26 is 0 in f16
}

// The scale of u4 is the difference of the largest and the smallest value divided by 15; codes begin at the smallest.
TEST(BlockScale, U4HasAZeroPoint) {
  const std::vector<double> values{-8, 22, 1, 3, 21};  // The scale is 2, and code 4 is 0
  for (const DType dtype : {DType::u4_32, DType::u4_64, DType::u4_128}) {
    EXPECT_EQ(block_bytes(dtype, values, 8), (std::vector<int>{0x00, 0x40, 4, 0, 0xF0, 0x64, 0x4E, 0x44}));
    const auto got = round_trip_block(dtype, values);
    EXPECT_EQ(std::vector<double>(got.begin(), got.begin() + 6), (std::vector<double>{-8, 22, 0, 4, 20, 0}));
  }
  // 0 is one of the values of a block: its code is 0 if all others are above, and 15 if all others are below.
  EXPECT_EQ(block_bytes(DType::u4_32, std::vector<double>(32, 30), 5), (std::vector<int>{0x00, 0x40, 0, 0, 0xFF}));
  EXPECT_EQ(block_bytes(DType::u4_32, std::vector<double>(32, -30), 5), (std::vector<int>{0x00, 0x40, 15, 0, 0}));
  EXPECT_EQ(block_bytes(DType::u4_32, {}, 5), (std::vector<int>{0, 0, 0, 0, 0}));
}

// Files have zero points from 1 to 16, and readers take up to 127.
TEST(BlockScale, ZeroPointsAboveThoseOfCodesAreRead) {
  std::vector<std::uint8_t> block(scale_block_bits(DType::u4_32).bits / 8);
  block[1] = 0x38;  // 0.5
  for (const int zero : {16, 127}) {
    block[2] = static_cast<std::uint8_t>(zero);
    block[4] = 0x2F;
    EXPECT_EQ(load_scaled_element(DType::u4_32, block.data(), 0), (15 - zero) * 0.5);
    EXPECT_EQ(load_scaled_element(DType::u4_32, block.data(), 1), (2 - zero) * 0.5);
  }
}

// Devices store a plane of elements and one of scales, hosts one block after the other.
template <DType dtype> void expect_equal_planes(std::int64_t blocks) {
  using Planes = BlockPlanes<dtype>;
  const std::int64_t elements = blocks * Planes::block, scale_plane = element_plane_bytes(dtype, elements);
  std::vector<double> values(elements);
  for (std::int64_t i = 0; i < elements; ++i)
    values[i] = std::ldexp(static_cast<double>(i % 97 - 40), static_cast<int>(i / Planes::block % 5));
  std::vector<std::uint8_t> data(stored_bytes(dtype, elements)), planes(data.size()), joined(data.size());
  for (std::int64_t block = 0; block < blocks; ++block)
    store_scaled_block(dtype, data.data(), block, values.data() + block * Planes::block);
  split_blocks(dtype, data.data(), blocks, planes.data(), planes.data() + scale_plane);
  const std::int64_t block_size = scale_block_bits(dtype).bits / 8;
  for (std::int64_t i = 0; i < elements; ++i) {
    const std::uint8_t* const block = data.data() + i / Planes::block * block_size;
    ASSERT_EQ(std::memcmp(planes.data() + Planes::scale_offset(i, elements), block, Planes::scale_bytes), 0) << i;
    const std::int64_t in_block = i % Planes::block;
    const std::uint8_t* const codes = block + Planes::scale_bytes;
    if (dtype_bits(dtype) == 8) {
      ASSERT_EQ(planes[i], codes[in_block]) << i;
    } else {
      const std::int64_t at = find_nibble_on_device(i, elements);
      ASSERT_EQ(planes[at / 2] >> at % 2 * 4 & 0xF, codes[in_block / 2] >> in_block % 2 * 4 & 0xF) << i;
    }
  }
  join_blocks(dtype, planes.data(), planes.data() + scale_plane, blocks, joined.data());
  EXPECT_EQ(joined, data);
}

TEST(BlockScale, PlanesHaveTheSameElementsAndScales) {
  for (const std::int64_t blocks : {1, 13}) {  // 13 blocks of nvfp4 end with half a unit
    expect_equal_planes<DType::mxfp8>(blocks);
    expect_equal_planes<DType::mxfp4>(blocks);
    expect_equal_planes<DType::nvfp4>(blocks);
    expect_equal_planes<DType::e4m3_128>(blocks);
    expect_equal_planes<DType::int4_32>(blocks);
    expect_equal_planes<DType::int4_64>(blocks);
    expect_equal_planes<DType::int4_128>(blocks);
    expect_equal_planes<DType::u4_32>(blocks);
    expect_equal_planes<DType::u4_64>(blocks);
    expect_equal_planes<DType::u4_128>(blocks);
  }
}

// Lane 1 has elements 2, 3, 10, 11, 18, 19, 26 and 27 in its 32 bits: the first of each pair in the lower 16.
TEST(BlockScale, DevicesOrderTheElementsOfAUnit) {
  std::vector<std::int64_t> lane(8, -1);
  for (std::int64_t i = 0; i < nibble_unit; ++i)
    if (const std::int64_t at = find_nibble_on_device(i, 64); at / 8 == 1) lane[at % 8] = i;
  EXPECT_EQ(lane, (std::vector<std::int64_t>{2, 10, 18, 26, 3, 11, 19, 27}));
  EXPECT_EQ(find_nibble_on_device(32 + 5, 64), 32 + find_nibble_on_device(5, 64));
  EXPECT_EQ(find_nibble_on_device(32 + 5, 48), 32 + 5);  // The last unit is not full
  std::vector<bool> taken(nibble_unit);
  for (std::int64_t i = 0; i < nibble_unit; ++i) taken[find_nibble_on_device(i, nibble_unit)] = true;
  EXPECT_EQ(taken, std::vector<bool>(nibble_unit, true));
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
  EXPECT_EQ(stored_bytes(DType::int4_32, 64), 36);
  EXPECT_EQ(stored_bytes(DType::int4_128, 256), 132);
  EXPECT_EQ(stored_bytes(DType::u4_64, 64), 36);
  EXPECT_EQ(stored_bytes(DType::bf16, 3), 6);
}

}  // namespace
}  // namespace ridge
