// Functions of device measurements that need no device.
#include <gtest/gtest.h>

#include "ridge/measure/clocks.h"
#include "ridge/measure/probe.h"
#include "ridge/measure/run_cuda.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

TEST(MeasuredBound, IsOverheadIfTimeIsConstant) {
  const MeasuredBound r = classify_bound("F", {{1e-7, 3.0e-6}, {2e-7, 3.1e-6}, {4e-7, 3.3e-6}}, Limiter::memory);
  EXPECT_EQ(r.limiter, Limiter::overhead);
  EXPECT_NEAR(r.fixed_s, 2.9e-6, 1e-9);
  EXPECT_EQ(r.dim, "F");
  EXPECT_EQ(r.half_s, 3.0e-6);
  EXPECT_EQ(r.double_s, 3.3e-6);
}

TEST(MeasuredBound, IsTheRooflineLimiterIfTimeGrowsWithWork) {
  const MeasuredBound r = classify_bound("B", {{50e-6, 65e-6}, {100e-6, 125e-6}, {200e-6, 245e-6}}, Limiter::compute);
  EXPECT_EQ(r.limiter, Limiter::compute);
  EXPECT_NEAR(r.fixed_s, 5e-6, 1e-9);
}

TEST(RunOnDevice, ListsGroupsThatTakeOneBlockPerRowWithoutNvrtc) {
  const auto program = parse(
      "x: bf16[M, K]   w: bf16[K, N]\ny[M, N] = x * w\nz: bf16[M, N] = softmax(y over N)\n"
      "s: f32[M] = sum(y over N)\nc: f32[M] = cos(s)");
  const Bindings dims{{"M", 64}, {"N", 64}, {"K", 64}};
  const auto planned = make_plan(*program, dims, {.target = Target::cuda, .fuse = false, .generate_kernels = false});
  ASSERT_TRUE(planned.ok()) << planned.error().to_string();
  EXPECT_EQ(list_row_function_groups(*planned), std::vector<int>{1});  // only the softmax
}

TEST(MeasuredBound, FixedTimeIsBetweenZeroAndTheTotal) {
  EXPECT_EQ(classify_bound("B", {{1, 5}, {2, 4}, {4, 3}}, {}).fixed_s, 4);   // faster when larger
  EXPECT_EQ(classify_bound("B", {{1, 1}, {2, 4}, {4, 20}}, {}).fixed_s, 0);  // slower than in proportion
}

TEST(Nvml, DecodesThrottleReasons) {
  EXPECT_TRUE(decode_throttle_reasons(0x1).empty());  // idle
  EXPECT_EQ(decode_throttle_reasons(0x4), std::vector<std::string>{"power limit"});
  EXPECT_EQ(decode_throttle_reasons(0x64), (std::vector<std::string>{"power limit", "heat"}));
}

device::DeviceProperties properties_of(const std::string& name, int multiprocessors) {
  return {.name = name,
          .driver = 13000,
          .multiprocessors = multiprocessors,
          .memory_bytes = 96'000'000'000,
          .free_bytes = 0,
          .l2_bytes = 60'000'000,
          .clock_hz = 1.98e9,
          .memory_bytes_per_s = 4e12};
}

TEST(DeviceMachine, UsesTheCatalogForKnownModels) {
  const auto machine = guess_device_machine(properties_of("NVIDIA H200", 132));
  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->name, "cuda");
  EXPECT_EQ(machine->title, "NVIDIA H200");
  EXPECT_EQ(machine->find_peak(ComputeUnit::matrix, DType::bf16)->rate.value, 989.4e12);
  EXPECT_EQ(machine->find_peak(ComputeUnit::matrix, DType::bf16)->rate.origin, Origin::guessed);
  EXPECT_TRUE(device_numbers(*machine)->timed);
  EXPECT_EQ(guess_device_machine(properties_of("NVIDIA H100 PCIe", 114))->memory_bandwidth()->value, 2e12);
  EXPECT_EQ(guess_device_machine(properties_of("NVIDIA H100 80GB HBM3", 132))->memory_bandwidth()->value, 3.35e12);
}

TEST(DeviceMachine, UsesDriverValuesForUnknownModels) {
  for (const char* name :
       {"NVIDIA GH200 480GB", "NVIDIA H20", "NVIDIA H100 NVL", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}) {
    const auto machine = guess_device_machine(properties_of(name, 78));
    ASSERT_TRUE(machine.ok()) << name;
    EXPECT_EQ(machine->title, name);
    EXPECT_EQ(machine->memory_bandwidth()->value, 4e12) << name;
    const auto numbers = device_numbers(*machine);
    ASSERT_TRUE(numbers) << name << numbers.error().to_string();
    EXPECT_EQ(numbers->multiprocessors, 78);
    EXPECT_FALSE(numbers->timed) << name;
    EXPECT_LT(numbers->memory_bytes_per_s, 4e12);
  }
}

TEST(DeviceMachine, ProbedMachineFileReadsBackEqual) {
  std::vector<ProbeLine> lines;
  double value = 1e12;
  for (const char* name : {"launch, eager", "launch, graph", "copy", "read", "write", "L2 read", "host to device",
                           "device to host", "f32", "bf16 cold", "bf16 warm", "f16 cold", "f16 warm"}) {
    lines.push_back({name, "B/s", 132, {.median = value, .min = value, .max = value, .runs = 5}, ""});
    value += 1e12;
  }
  const Machine machine = make_device_machine(lines, "NVIDIA H200", 150'000'000'000, 60'000'000);
  EXPECT_EQ(machine.memory_bandwidth()->value, 5e12);  // writing was fastest
  EXPECT_EQ(machine.find_peak(ComputeUnit::matrix, DType::bf16)->rate.value, 1e13);
  EXPECT_EQ(machine.memory[2].name, "host");
  const auto again = parse_machine(print_machine(machine), "cuda.toml");
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(*again, machine);
}

}  // namespace
}  // namespace ridge
