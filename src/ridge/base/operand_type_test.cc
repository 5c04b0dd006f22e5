#include "ridge/base/operand_type.h"

#include <gtest/gtest.h>

namespace ridge {
namespace {

TEST(OperandType, CountsElementsInTheBytesOfTheHardware) {
  EXPECT_EQ(OperandType<Bf16>::k, 16);
  EXPECT_EQ(OperandType<E4m3>::k, 32);
  EXPECT_EQ(OperandType<float>::k, 8) << "tf32";
  EXPECT_EQ(operand_bytes(DType::f32), 4);
  EXPECT_EQ(swizzled_elements(DType::f16), 64);
  EXPECT_EQ(swizzled_elements(DType::e4m3), 128);
  EXPECT_EQ(result_dtype(DType::f16), DType::f16);
  EXPECT_EQ(result_dtype(DType::e4m3), DType::bf16);
  EXPECT_EQ(result_dtype(DType::int8), DType::bf16);
}

TEST(OperandType, SumsIntegersInInt32) {
  EXPECT_EQ(OperandType<std::int8_t>::k, 32);
  EXPECT_TRUE((std::is_same_v<OperandType<std::int8_t>::Sum, std::int32_t>));
  EXPECT_TRUE((std::is_same_v<OperandType<ScaledE4m3>::Sum, float>));
  EXPECT_TRUE(has_integer_sums(DType::int8));
  EXPECT_FALSE(has_integer_sums(DType::e4m3));
}

}  // namespace
}  // namespace ridge
