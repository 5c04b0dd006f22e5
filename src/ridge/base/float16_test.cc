#include "ridge/base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ridge {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

struct Format {
  const char* name;
  int codes;  // codes of one sign
  float (*widen)(std::uint32_t);
  std::uint32_t (*round)(float);
};
const Format formats[] = {
    {"bf16", 0x8000, [](std::uint32_t c) { return to_float(Bf16{static_cast<std::uint16_t>(c)}); },
     [](float x) -> std::uint32_t { return to_bf16(x).bits; }},
    {"f16", 0x8000, [](std::uint32_t c) { return to_float(F16{static_cast<std::uint16_t>(c)}); },
     [](float x) -> std::uint32_t { return to_f16(x).bits; }},
    {"e4m3", 0x80, [](std::uint32_t c) { return to_float(E4m3{static_cast<std::uint8_t>(c)}); },
     [](float x) -> std::uint32_t { return to_e4m3(x).bits; }},
};

TEST(Float16, every_code_round_trips) {
  for (const Format& f : formats)
    for (int code = 0; code < 2 * f.codes; ++code) {
      const float x = f.widen(static_cast<std::uint32_t>(code));
      if (std::isnan(x))
        EXPECT_TRUE(std::isnan(f.widen(f.round(x)))) << f.name << " " << code;
      else
        EXPECT_EQ(f.round(x), static_cast<std::uint32_t>(code)) << f.name;
    }
}

TEST(Float16, ties_round_to_even_and_others_to_nearest) {
  for (const Format& f : formats)
    for (std::uint32_t code = 0; code + 1 < static_cast<std::uint32_t>(f.codes); ++code) {
      const float low = f.widen(code), high = f.widen(code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double exact = (static_cast<double>(low) + high) / 2;
      const float middle = static_cast<float>(exact);
      if (static_cast<double>(middle) != exact) continue;  // not representable in f32
      EXPECT_EQ(f.round(middle), code % 2 == 0 ? code : code + 1) << f.name << " " << code;
      EXPECT_EQ(f.round(std::nextafter(middle, -infinity)), code) << f.name;
      EXPECT_EQ(f.round(std::nextafter(middle, infinity)), code + 1) << f.name;
      EXPECT_EQ(f.round(-middle), f.round(middle) | static_cast<std::uint32_t>(f.codes)) << f.name;
    }
}

TEST(Float16, known_values) {
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_f16(1.0f).bits, 0x3c00);
  EXPECT_EQ(to_f16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(to_e4m3(1.0f).bits, 0x38);
  EXPECT_EQ(to_e4m3(448.0f).bits, 0x7e);
  EXPECT_EQ(to_float(F16{0x0001}), std::ldexp(1.0f, -24));
  EXPECT_EQ(to_float(E4m3{0x01}), std::ldexp(1.0f, -9));
  static_assert(to_f16(-2.0f).bits == 0xc000);
}

TEST(Float16, overflow_is_infinity_but_saturates_in_e4m3) {
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())), infinity);
  EXPECT_EQ(to_float(to_f16(65519.996f)), 65504.0f);
  EXPECT_EQ(to_float(to_f16(65520.0f)), infinity);
  EXPECT_EQ(to_float(to_f16(-infinity)), -infinity);
  EXPECT_EQ(to_float(to_e4m3(464.0f)), 448.0f);
  EXPECT_EQ(to_float(to_e4m3(1e30f)), 448.0f);
  EXPECT_EQ(to_float(to_e4m3(-infinity)), -448.0f);
}

TEST(Float16, nan_stays_nan_if_its_payload_is_in_dropped_bits) {
  const float odd = std::bit_cast<float>(0x7f800001u);
  for (const float x : {nan, -nan, odd}) {
    EXPECT_TRUE(std::isnan(to_float(to_bf16(x))));
    EXPECT_TRUE(std::isnan(to_float(to_f16(x))));
    EXPECT_TRUE(std::isnan(to_float(to_e4m3(x))));
  }
}

}  // namespace
}  // namespace ridge
