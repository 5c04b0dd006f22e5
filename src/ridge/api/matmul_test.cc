// Tests validation of matrix products without a device.
#include "ridge/matmul.h"

#include <gtest/gtest.h>

#include "ridge/device/device.h"

namespace ridge {
namespace {

// Address that is never read.
alignas(256) char somewhere[256];

MatmulCall call_of(DType dtype) {
  MatmulCall call;
  call.problem = {1, 64, 64, 64, {dtype, 64, 1}, {dtype, 64, 1}, {DType::f32, 64, 1}};
  call.a = call.b = call.d = somewhere;
  return call;
}

TEST(Matmul, ValidatesBeforeOpeningADevice) {
  MatmulCall call = call_of(DType::bf16);
  call.problem.m = -1;
  const auto plan = plan_matmul(call, 0);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().to_string(), "expected sizes of at least 0, found batch 1, m -1, n 64, k 64\n");
  EXPECT_EQ(plan.error().kind, ErrorKind::input);
}

TEST(Matmul, ReportsAMissingDevice) {
  const auto missing = device::unavailable_reason();
  if (!missing) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(plan_matmul(call_of(DType::bf16), 0).error().message, missing.text());
  EXPECT_EQ(matmul(nullptr, call_of(DType::bf16), {}).error().kind, ErrorKind::absent);
}

}  // namespace
}  // namespace ridge
