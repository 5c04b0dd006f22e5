#include "ridge/measure/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ridge/base/function.h"

namespace ridge {
namespace {

class Probe : public testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "ridge_probe_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder);
    setenv("XDG_DATA_HOME", folder.c_str(), 1);
    quick.seconds = 0.002;
    quick.buffer_bytes = 4 << 20;
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    unsetenv("XDG_DATA_HOME");
  }
  std::string folder;
  ProbeOptions quick;  // not accurate; accuracy is not asserted
};

TEST_F(Probe, WritesAMachineFileThatFindMachineReads) {
  const Result<ProbeReport> report = probe_cpu(quick);
  ASSERT_TRUE(report.ok()) << report.error().to_string();
  EXPECT_EQ(report->path, folder + "/ridge/machines/cpu.toml");
  EXPECT_EQ(*find_machine("cpu"), report->machine);
  for (const Peak& peak : report->machine.peaks) {
    EXPECT_EQ(peak.rate.origin, Origin::measured);
    EXPECT_TRUE(peak.one_core.has_value());
  }
  EXPECT_NE(report->machine.pointwise_peak(), nullptr);
  EXPECT_TRUE(report->machine.contraction_peak(DType::bf16).ok());
  const Peak& f16 = **report->machine.contraction_peak(DType::f16);
  EXPECT_EQ(f16.rate.value, report->machine.pointwise_peak()->rate.value);
  EXPECT_TRUE(f16.rate.source.ends_with("; f16 is widened to f32")) << f16.rate.source;
  EXPECT_EQ(report->machine.memory[0].bandwidth->origin, Origin::measured);
  for (const FunctionInfo& info : function_table) {
    const auto cost = report->machine.numbers.find("cost_" + std::string(info.name));
    ASSERT_EQ(cost != report->machine.numbers.end(), info.has_cost) << info.name;
    if (!info.has_cost) continue;
    EXPECT_GE(cost->second.value, 1) << info.name;
    EXPECT_EQ(cost->second.origin, Origin::measured) << info.name;
  }
  const SystemProperties facts = read_system_properties();
  for (const CacheProperties& cache : facts.caches) {
    const std::string name = "l" + std::to_string(cache.level);
    const auto& levels = report->machine.memory;
    const auto level = std::find_if(levels.begin(), levels.end(), [&](const auto& each) { return each.name == name; });
    if (level == levels.end()) continue;  // indistinguishable from the smaller cache
    EXPECT_EQ(level->bandwidth->origin, Origin::measured);
    EXPECT_TRUE(level->one_core_bandwidth && level->capacity) << name;
  }
  if (!facts.caches.empty()) {
    EXPECT_EQ(report->machine.memory.at(1).name, "l1");
  }
}

TEST_F(Probe, BandwidthIsTheMaximumOfReadAndCopy) {
  quick.write = false;
  const ProbeReport report = *probe_cpu(quick);
  EXPECT_EQ(report.path, "");
  EXPECT_FALSE(std::filesystem::exists(folder));
  double best = 0;
  const int cores = static_cast<int>(report.machine.numbers.at("cores").value);
  for (const ProbeLine& line : report.lines) {
    EXPECT_EQ(line.rate.runs, 3);
    EXPECT_LE(line.rate.min, line.rate.median);
    EXPECT_LE(line.rate.median, line.rate.max);
    EXPECT_GT(line.rate.min, 0);
    if ((line.name == "read" || line.name == "copy") && line.cores == cores) best = std::max(best, line.rate.max);
  }
  EXPECT_NEAR(report.machine.memory_bandwidth()->value, best, 1e-3 * best);  // four digits are kept
}

TEST_F(Probe, ReportsProgressAndStopsOnRequest) {
  int calls = 0, last = 0, of = 0;
  quick.progress = [&](const ProbeProgress& progress) {
    EXPECT_EQ(progress.done, calls);
    ++calls;
    last = progress.done;
    of = progress.total;
    return calls < 3;
  };
  const Result<ProbeReport> report = probe_cpu(quick);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().to_string(), "the probe was stopped; nothing was written\n");
  EXPECT_EQ(last, 2);
  EXPECT_GE(of, 9);
  EXPECT_FALSE(std::filesystem::exists(folder + "/ridge/machines/cpu.toml"));
}

TEST_F(Probe, ReportsAnUnusableFolderBeforeMeasuring) {
  std::ofstream(folder) << "a file where a folder should be";
  quick.progress = [](const ProbeProgress&) {
    ADD_FAILURE() << "measured before the folder was known to be writable";
    return true;
  };
  EXPECT_EQ(probe_cpu(quick).error().to_string(), "cannot write to the folder '" + folder +
                                                      "/ridge/machines': Not a directory\n"
                                                      "  hint: set XDG_DATA_HOME to a folder that can be written\n");
}

TEST_F(Probe, LeavesNoPartialFileIfWritingFails) {
  std::filesystem::create_directories(folder + "/ridge/machines/cpu.toml");
  EXPECT_EQ(probe_cpu(quick).error().to_string(),
            "cannot write '" + folder + "/ridge/machines/cpu.toml': Is a directory\n");
  int left = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder + "/ridge/machines")) ++left;
  EXPECT_EQ(left, 1);
}

TEST(ProbeBuffer, ExceedsCachesAndIsAtMostHalfOfAvailableMemory) {
  constexpr double mib = 1 << 20;
  SystemProperties facts;
  facts.last_level_bytes = 32 * mib;
  facts.memory_bytes = 8192 * mib;
  EXPECT_EQ(choose_probe_buffer_bytes({}, facts, std::nullopt), 256u << 20);
  EXPECT_EQ(choose_probe_buffer_bytes({}, facts, std::int64_t{100} << 20), 50u << 20);
  EXPECT_EQ(choose_probe_buffer_bytes({}, facts, 0), 2u << 20);
  EXPECT_EQ(choose_probe_buffer_bytes({.buffer_bytes = 1 << 30}, facts, std::int64_t{100} << 20), 50u << 20);
  EXPECT_EQ(choose_probe_buffer_bytes({.buffer_bytes = 5 << 20}, facts, std::nullopt), 4u << 20);
}

}  // namespace
}  // namespace ridge
