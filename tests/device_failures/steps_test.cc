// Makes each call to a device fail in turn, and expects that the error is returned and that no work is queued after it
// (recorded_device.h). One process, one device.
#include <gtest/gtest.h>

#include <array>

#include "recorded_device.h"
#include "ridge/bench/bench.h"
#include "ridge/compute.h"
#include "ridge/machine/machine.h"
#include "ridge/measure/run.h"
#include "ridge/run/device_machine.h"
#include "ridge/run/device_steps.h"

namespace ridge {
namespace {

using testing::fail_each_call;

Plan plan_for_device(const std::string& text) {
  const auto program = parse(text);
  const auto explanation = explain(*program, find_machine("h200").value(), {});
  RunOptions options;
  options.cuda = true;
  return plan_run(*program, *explanation, options).value().plan;
}

// index(T) is a buffer that is written when the steps are made: a copy, then a wait for it.
constexpr const char* masked_text =
    "dims B = 4, T = 8\ns: f32[B, T]   p: f32[B, T] = softmax(where(index(T) <= index(B), s, -1e30) over T)";

TEST(DeviceFailures, stop_making_steps) {
  const Plan plan = plan_for_device(masked_text);
  EXPECT_EQ(fail_each_call(14,
                           [&]() -> Status {
                             RIDGE_TRY(steps, DeviceSteps::make(plan, {}));
                             RIDGE_TRY_STATUS(steps.fill_normal());
                             return steps.queue_all_steps();
                           }),
            "");
}

TEST(DeviceFailures, stop_a_plan_of_several_steps) {
  const Plan plan = plan_for_device(
      "dims M = 64, K = 64, N = 64, L = 64\nx: bf16[M, K]   w: bf16[K, N]   v: bf16[N, L]\n"
      "h: bf16[M, N] = x * w\ny: bf16[M, L] = h * v");
  ASSERT_EQ(plan.steps.size(), 2U);
  const auto steps = DeviceSteps::make(plan, {});
  ASSERT_TRUE(steps);
  testing::start_recording(std::nullopt);
  ASSERT_TRUE(steps->queue_all_steps());
  EXPECT_EQ(testing::call_record().calls, (std::vector<std::string>{"a product", "a product"}));
  EXPECT_EQ(fail_each_call(2, [&] { return steps->queue_all_steps(); }), "");
}

// Without sizes of at least 2, no kernel is timed at half and double size: a failure there is no error of the run.
TEST(DeviceFailures, stop_a_run) {
  const auto program = parse("x: f32[N]   y: f32[N] = exp(x)");
  const auto explanation = explain(*program, find_machine("h200").value(), {{"N", 1}});
  RunOptions options;
  options.cuda = true;
  options.passes = 2;
  const auto planned = plan_run(*program, *explanation, options);
  ASSERT_TRUE(planned);
  EXPECT_EQ(fail_each_call(900,
                           [&]() -> Status {
                             RIDGE_TRY_STATUS(run_program(*program, *planned, options));
                             return Done{};
                           }),
            "");
}

// The values of index(T) stay on the device once they are there.
TEST(DeviceFailures, stop_a_computation_on_arrays) {
  const std::array<std::int64_t, 2> shape{4, 8};
  alignas(256) std::array<float, 32> in{}, out{};
  const ArrayView inputs[] = {{in.data(), DType::f32, shape}}, outputs[] = {{out.data(), DType::f32, shape}};
  std::vector<std::byte> memory;
  const auto prepare_and_queue = [&]() -> Status {
    RIDGE_TRY(computation, prepare({.program = masked_text, .device = 0}, {{"s", DType::f32, {4, 8}}}));
    memory.resize(computation.scratch_bytes() + 256);
    void* scratch = memory.data();
    std::size_t space = memory.size();
    std::align(256, computation.scratch_bytes(), scratch, space);
    return computation.queue(nullptr, inputs, outputs, scratch);
  };
  EXPECT_EQ(fail_each_call(5, prepare_and_queue), "");
}

TEST(DeviceFailures, stop_a_benchmark_of_repeats) {
  BenchOptions options;
  options.cuda = true;
  options.elements = 1 << 14;
  options.rounds = 1;
  options.max_repeats = 2;
  EXPECT_EQ(fail_each_call(20,
                           [&]() -> Status {
                             RIDGE_TRY_STATUS(compare_repeats(options));
                             return Done{};
                           }),
            "");
}

}  // namespace
}  // namespace ridge
