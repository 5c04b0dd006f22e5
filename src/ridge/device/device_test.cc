// Errors on machines without a device, and problems that the device's kernels reject before launch.
#include "ridge/device/device.h"

#include <gtest/gtest.h>

#include "ridge/ops/chain/cuda.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/testing/placeholder_address.h"
#include "ridge/ops/rows/cuda.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::device {
namespace {

DriverReport hopper_report() {
  return {.has_cuda_build = true,
          .driver = 13000,
          .devices = 1,
          .error = {},
          .major = 9,
          .minor = 0,
          .has_tensor_maps = true};
}
std::string error_text(DriverReport report) {
  const Status status = check_device(report);
  if (status) return "runs";
  EXPECT_EQ(status.error().kind, ErrorKind::absent);
  return status.error().to_string();
}

TEST(Device, SupportsOnlyHopper) {
  EXPECT_EQ(error_text(hopper_report()), "runs");
  DriverReport ampere = hopper_report(), blackwell = hopper_report();
  ampere.major = 8;
  blackwell.major = 10;
  EXPECT_EQ(error_text(ampere),
            "expected a device of compute capability 9.0 (Hopper), found 8.0\n"
            "  hint: choose an H100 or H200 with CUDA_VISIBLE_DEVICES; --on cpu runs here\n");
  EXPECT_EQ(error_text(blackwell),
            "expected a device of compute capability 9.0 (Hopper), found 10.0\n"
            "  hint: choose an H100 or H200 with CUDA_VISIBLE_DEVICES; --on cpu runs here\n");
}

TEST(Device, ErrorsNameTheMissingPartAndAFix) {
  EXPECT_EQ(error_text({}),
            "this build has no CUDA kernels: RIDGE_CUDA was OFF or nvcc not found when ridge was built\n"
            "  hint: install nvcc 12.4 or later and build again with -DRIDGE_CUDA=ON; everything else works "
            "without it\n");
  EXPECT_EQ(error_text({.has_cuda_build = true}),
            "no CUDA driver was found\n"
            "  hint: install NVIDIA's driver; without a driver, --on cpu runs here and --on h200 explains\n");
  EXPECT_EQ(error_text({.has_cuda_build = true, .driver = 11040}),
            "expected a CUDA driver of version 12.0 or later, found 11.4\n"
            "  hint: update NVIDIA's driver to 525 or later\n");
  EXPECT_EQ(error_text(
                {.has_cuda_build = true, .driver = 13000, .devices = 0, .error = "no CUDA-capable device is detected"}),
            "no CUDA device was found: no CUDA-capable device is detected\n"
            "  hint: `nvidia-smi` lists devices; CUDA_VISIBLE_DEVICES hides them\n");
  DriverReport old = hopper_report();
  old.has_tensor_maps = false;
  EXPECT_EQ(error_text(old),
            "the CUDA driver lacks cuTensorMapEncodeTiled\n  hint: update NVIDIA's driver to 525 or later\n");
}

TEST(Device, FunctionsFailWithoutADevice) {
  if (!unavailable_reason()) GTEST_SKIP() << "there is a device";
  const std::string why = unavailable_reason().text();
  for (const Error& error : {DeviceBuffer::allocate(1).error(), Queue::create().error(), device_properties().error()}) {
    EXPECT_EQ(error.message, why);
    EXPECT_EQ(error.kind, ErrorKind::absent);
  }
}

ops::MatmulCall square_matmul_call(DType dtype) {
  ops::MatmulCall call;
  call.problem = {1, 64, 64, 64, {dtype, 64, 1, 0}, {dtype, 64, 1, 0}, {DType::f32, 64, 1, 0}};
  call.a = call.b = call.d = ops::placeholder_address();
  return call;
}

TEST(Device, MultipliesF32OnTensorCores) {
  EXPECT_FALSE(ops::cuda::unsupported_reason(square_matmul_call(DType::f32)));
  EXPECT_EQ(ops::cuda::choose_plan(square_matmul_call(DType::f32), 0, h200_numbers()).path,
            ops::cuda::MatmulPlan::Path::register_loads);
  EXPECT_EQ(ops::cuda::choose_plan(square_matmul_call(DType::bf16), 0, h200_numbers()).path,
            ops::cuda::MatmulPlan::Path::tiles);
  EXPECT_FALSE(ops::cuda::unsupported_reason(square_matmul_call(DType::int8)));
  EXPECT_EQ(ops::cuda::unsupported_reason(square_matmul_call(DType::e5m2)).text(),
            "expected two operands of the same dtype, f32, bf16, f16, e4m3, tf32, e4m3_128 or int8, and a result of "
            "f32, bf16 or f16, of int8 also int32; found e5m2 * e5m2 -> f32");
}

}  // namespace
}  // namespace ridge::device
