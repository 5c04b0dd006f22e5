#include "ridge/api/training.h"

#include <gtest/gtest.h>

#include "ridge/compute.h"
#include "ridge/device/device.h"

namespace ridge {
namespace {

TEST(GegluOnDevice, ValidatesBeforeOpeningADevice) {
  const auto refusal = [](const GegluOnDevice::Sizes& sizes) { return GegluOnDevice::make(0, sizes).error().message; };
  EXPECT_EQ(refusal({4, 8, 8, DType::f32}), "expected bf16 or f16, found f32");
  EXPECT_EQ(refusal({-1, 8, 8}), "expected sizes of at least 0, found n -1, f 8, d 8");
}

TEST(AttentionOnDevice, ValidatesBeforeOpeningADevice) {
  const auto refusal = [](const AttentionOnDevice::Sizes& sizes) {
    return AttentionOnDevice::make(0, sizes).error().message;
  };
  EXPECT_EQ(refusal({0, 4, 4, 64}), "expected sizes of at least 1, found 0 heads, 4 rows, 4 keys, width 64");
  EXPECT_EQ(refusal({1, 4, 4, 64, DType::f32}), "expected bf16 or f16, found f32");
  EXPECT_EQ(refusal({1, 4, 4, 12}), "expected heads of 8 … 256 elements, a multiple of 8, found 12");
}

TEST(LayersOnDevice, ReportAMissingDevice) {
  const auto missing = device::unavailable_reason();
  if (!missing) GTEST_SKIP() << "there is a device";
  EXPECT_EQ(GegluOnDevice::make(0, {4, 8, 8}).error().message, missing.text());
  EXPECT_EQ(AttentionOnDevice::make(0, {1, 4, 4, 64}).error().message, missing.text());
}

TEST(LayersOnDevice, CheckAddresses) {
  alignas(256) static char memory[512] = {};
  const auto said = [](std::initializer_list<api::NamedAddress> arrays, const void* scratch, std::int64_t bytes) {
    const Status done = api::check_addresses(arrays, scratch, bytes);
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(said({{"x", memory}, {"b", nullptr, false}}, nullptr, 0), "");
  EXPECT_EQ(said({{"x", memory + 8}}, nullptr, 0), "expected 'x' to start at a multiple of 16 bytes in device memory");
  EXPECT_EQ(said({{"x", memory}, {"w", nullptr}}, nullptr, 0),
            "expected 'w' to start at a multiple of 16 bytes in device memory");
  EXPECT_EQ(said({{"x", memory}}, nullptr, 64), "expected 64 B of scratch at a multiple of 256");
  EXPECT_EQ(said({{"x", memory}}, memory + 16, 64), "expected 64 B of scratch at a multiple of 256");
  EXPECT_EQ(said({{"x", memory}}, memory + 256, 64), "");
}

TEST(LayersOnDevice, PlansAreCached) {
  struct Parts {
    int device = 0, sizes = 0;
  };
  api::PlanCache<Parts> plans;
  int made = 0;
  const auto make = [&](int device, int sizes) -> Result<std::shared_ptr<const Parts>> {
    ++made;
    if (sizes < 0) return input_error("expected sizes");
    return std::make_shared<const Parts>(Parts{device, sizes});
  };
  const auto first = plans.find_or_plan(0, 7, make);
  EXPECT_EQ(*plans.find_or_plan(0, 7, make), *first);
  EXPECT_NE(*plans.find_or_plan(1, 7, make), *first);
  EXPECT_EQ(made, 2);
  EXPECT_EQ(plans.find_or_plan(0, -1, make).error().message, "expected sizes");
}

}  // namespace
}  // namespace ridge
