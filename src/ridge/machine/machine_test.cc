#include "ridge/machine/machine.h"
#include "ridge/machine/defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "ridge/base/cores.h"
#include "ridge/machine/defaults.h"
#include "ridge/machine/system.h"

namespace ridge {
namespace {

// Temporary folder per test, and environment variables that point to it.
class FindMachine : public testing::Test {
 protected:
  void SetUp() override {
    folder = testing::TempDir() + "ridge_machine_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    setenv("XDG_DATA_HOME", folder.c_str(), 1);
  }
  void TearDown() override {
    std::filesystem::remove_all(folder);
    unsetenv("XDG_DATA_HOME");
  }
  void write_machine_file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  std::string folder;
};

// Returns 0 if the machine or the peak is unknown.
double matrix_peak(const std::string& name, DType dtype) {
  const Result<Machine> machine = find_machine(name);
  const Peak* const peak = machine ? machine->find_peak(ComputeUnit::matrix, dtype) : nullptr;
  return peak ? peak->rate.value : 0;
}

double matrix_ridge(const std::string& name, DType dtype) {
  const Result<Machine> machine = find_machine(name);
  if (!machine) return 0;
  const Result<const Peak*> peak = machine->contraction_peak(dtype);
  return peak ? (*peak)->rate.value / machine->memory_bandwidth()->value : 0;
}

TEST_F(FindMachine, FindsEveryCatalogMachine) {
  EXPECT_EQ(catalog_names().size(), 41u);
  EXPECT_THAT(catalog_names(), testing::IsSupersetOf({"tpu_v1", "tpu_v5e", "tpu_v5p", "a100_80", "h100", "h200", "b200",
                                                      "mi300x", "sn40l", "zen5", "tpu_7x", "gb200", "wse3"}));
  for (const std::string& name : catalog_names()) {
    const Result<Machine> machine = find_machine(name);
    ASSERT_TRUE(machine.ok()) << machine.error().to_string();
    EXPECT_EQ(machine->name, name);
    EXPECT_NE(machine->title, name);
    EXPECT_TRUE(machine->memory_bandwidth().ok()) << name;
  }
}

TEST_F(FindMachine, HasLinksWithSustainedRates) {
  const Machine v5e = *find_machine("tpu_v5e");
  ASSERT_FALSE(v5e.links.empty());
  EXPECT_EQ(v5e.links[0].name, "ici");
  EXPECT_EQ(v5e.links[0].bandwidth.value, 50e9);
  EXPECT_EQ(v5e.links[0].sustained->value, 45e9);
  EXPECT_EQ(v5e.links[0].count->value, 4);
  EXPECT_EQ(find_machine("h200")->find_peak(ComputeUnit::matrix, DType::bf16)->sustained->value, 788e12);
  EXPECT_EQ(find_machine("h200")->memory[0].sustained->value, 4.3e12);
}

TEST_F(FindMachine, AddsLabelledDefaults) {
  const Machine before = *find_machine("h200"), after = with_defaults(before);
  EXPECT_EQ(after.numbers.at("line_bytes"), before.numbers.at("line_bytes"));
  const Machine bare = with_defaults(Machine{});
  for (const char* key : {"cores", "line_bytes", "launch_s", "tile_m", "tile_n", "tile_k"}) {
    EXPECT_EQ(bare.numbers.at(key).origin, Origin::guessed);
    EXPECT_EQ(bare.numbers.at(key).source, "ridge's default");
  }
  EXPECT_TRUE(bare.peaks.empty() && bare.memory.empty());
}

TEST_F(FindMachine, AcceptsALinkByNameOrRate) {
  const Machine h200 = *find_machine("h200");
  EXPECT_EQ(with_link(h200, "pcie")->links[0].bandwidth.value, 64e9);
  EXPECT_EQ(with_link(h200, "pcie")->links.size(), h200.links.size());
  EXPECT_EQ(with_link(h200, ByteRate{4.5e10})->links[0].bandwidth.value, 4.5e10);
  EXPECT_EQ(with_link(h200, "ici").error().to_string(),
            "expected a rate in B/s, one way, or a link of h200 after --link, found 'ici'\n"
            "  hint: it has nvlink, scaleout, pcie\n");
}

TEST_F(FindMachine, ReproducesPublishedRidgePoints) {
  EXPECT_NEAR(matrix_ridge("tpu_v5e", DType::bf16), 240.54, 0.005);
  EXPECT_NEAR(matrix_ridge("tpu_v5e", DType::int8), 481.07, 0.005);
  EXPECT_NEAR(matrix_ridge("tpu_v5p", DType::bf16), 166.00, 0.005);
  EXPECT_NEAR(matrix_ridge("a100_80", DType::bf16), 153.02, 0.005);
  EXPECT_NEAR(matrix_ridge("h100", DType::bf16), 295.34, 0.005);
  EXPECT_NEAR(matrix_ridge("h200", DType::bf16), 206.13, 0.005);
  EXPECT_NEAR(matrix_ridge("b200", DType::bf16), 281.25, 0.005);
  EXPECT_NEAR(matrix_ridge("mi300x", DType::bf16), 246.68, 0.005);
  EXPECT_NEAR(matrix_ridge("sn40l", DType::bf16), 398.75, 0.005);
  // OPs; the paper's 1350 counts multiply-adds.
  EXPECT_NEAR(matrix_ridge("tpu_v1", DType::int8), 2 * 1349.3, 0.1);
}

TEST_F(FindMachine, HasPublishedVectorPeaks) {
  EXPECT_EQ(find_machine("tpu_v5e")->pointwise_peak()->rate.value, 6.144e12);
  EXPECT_EQ(find_machine("tpu_v6e")->pointwise_peak(), nullptr);
  EXPECT_EQ(find_machine("l40s")->pointwise_peak()->rate.value, 91.6e12);
  EXPECT_EQ(find_machine("rtx4090")->find_peak(ComputeUnit::matrix, DType::bf16)->rate.value, 165.2e12);
  EXPECT_EQ(find_machine("h100")->pointwise_peak()->rate.value, 66.9e12);
  EXPECT_EQ(find_machine("h100")->pointwise_peak(DType::f64)->rate.value, 33.5e12);
  EXPECT_EQ(find_machine("rtx4090")->pointwise_peak(DType::f64), nullptr);
}

// Peaks with sums in f32, of every card that multiplies 16-bit formats.
TEST_F(FindMachine, HasPeaksOfSixteenBits) {
  const std::map<std::string, double> f16{{"l4", 121.16e12},     {"t4", 65.1e12},        {"v100", 125.3e12},
                                          {"mi100", 184.6e12},   {"mi210", 181.04e12},   {"l40s", 362.05e12},
                                          {"gb200", 2.5e15},     {"mi325x", 1.3074e15},  {"rtx4090", 165.2e12},
                                          {"mi250x", 191.49e12}, {"h100_pcie", 756.5e12}};
  for (const auto& [name, rate] : f16) EXPECT_EQ(matrix_peak(name, DType::f16), rate) << name;
  const std::map<std::string, double> bf16{{"l4", 121.16e12}, {"mi100", 92.3e12}, {"mi210", 181.04e12}};
  for (const auto& [name, rate] : bf16) EXPECT_EQ(matrix_peak(name, DType::bf16), rate) << name;
  EXPECT_EQ(matrix_peak("rtx4090", DType::e4m3), 330.3e12);
  EXPECT_EQ(matrix_peak("mi210", DType::f32), 45.3e12);
  EXPECT_EQ(matrix_peak("mi250x", DType::f32), 47.87e12);
}

// Bytes that the devices report, not the gigabytes that they are sold with.
TEST_F(FindMachine, HasTheCapacityThatDevicesReport) {
  const std::map<std::string, double> mebibytes{{"h100", 81559},  {"a100_80", 81920}, {"a100_40", 40960},
                                                {"t4", 15360},    {"l4", 23034},      {"l40s", 46068},
                                                {"h200", 143771}, {"b200", 183359},   {"rtx4090", 24564}};
  for (const auto& [name, size] : mebibytes)
    EXPECT_EQ(find_machine(name)->memory.front().capacity->value, size * (1 << 20)) << name;
  EXPECT_EQ(find_machine("mi250x")->memory.front().capacity->value, 67092480.0 * 1024);
}

TEST_F(FindMachine, HasTheTopologyOfLinks) {
  EXPECT_EQ(find_machine("h100")->links[0].topology, Topology::switched);
  EXPECT_EQ(find_machine("tpu_v5e")->links[0].topology, Topology::ring);
  EXPECT_EQ(find_machine("mi300x")->links[0].topology, Topology::direct);
  EXPECT_EQ(with_link(*find_machine("h100"), ByteRate{4.5e10})->links[0].topology, std::nullopt);
}

TEST_F(FindMachine, UsesSustainedRatesIfKnown) {
  const Machine v5e = with_sustained_rates(*find_machine("tpu_v5e"));
  EXPECT_EQ(v5e.links[0].bandwidth.value, 45e9);
  EXPECT_EQ(v5e.memory[0].bandwidth->value, 819e9);
  EXPECT_TRUE(v5e.title.ends_with(", sustained rates"));
}

// On Hopper six bf16 products make one of f32 (docs/decisions/0053-multiply-f32-by-three-bf16-parts.md).
TEST_F(FindMachine, MultipliesF32OnTheFasterUnit) {
  EXPECT_EQ((*find_machine("a100_40")->contraction_peak(DType::f32))->unit, ComputeUnit::vector);
  for (const char* const name : {"h100", "h100_pcie", "h200"}) {
    const Machine hopper = *find_machine(name);
    const Peak& f32 = **hopper.contraction_peak(DType::f32);
    EXPECT_EQ(f32.unit, ComputeUnit::matrix);
    EXPECT_NEAR(f32.rate.value, (*hopper.contraction_peak(DType::bf16))->rate.value / 6, 0.05e12) << name;
  }
  EXPECT_EQ((*find_machine("h100")->contraction_peak(DType::tf32))->rate.value, 494.7e12);
}

TEST_F(FindMachine, MissingDtypeErrorListsTheKnownOnes) {
  EXPECT_EQ(find_machine("tpu_v1")->contraction_peak(DType::bf16).error().to_string(),
            "machine 'tpu_v1' has no matrix peak for bf16; expected one of int8\n"
            "  hint: choose a dtype or a machine that has one, or add bf16 under [matrix] in a machine file\n");
  EXPECT_EQ(find_machine("tpu_v6e")->contraction_peak(DType::f32).error().to_string(),
            "machine 'tpu_v6e' has no vector peak for f32; expected one of bf16, e4m3, e5m2, int8\n"
            "  hint: choose a dtype or a machine that has one, or add f32 under [vector] in a machine file\n");
  EXPECT_EQ(Machine{}.memory_bandwidth().error().to_string(),
            "machine '' has no memory\n  hint: add bandwidth under [memory.dram]\n");
}

TEST_F(FindMachine, SuggestsSimilarNamesForAnUnknownOne) {
  const Error error = find_machine("h10").error();
  EXPECT_EQ(error.kind, ErrorKind::absent);
  EXPECT_EQ(error.to_string(),
            "unknown machine 'h10'; expected a name of the catalog, a .toml file, cpu or cuda\n"
            "  hint: did you mean h100, h100_pcie? `ridge machines` lists the catalog\n");
  EXPECT_EQ(find_machine("tpu_v5").error().hint, "did you mean tpu_v5e, tpu_v5p? `ridge machines` lists the catalog");
  EXPECT_EQ(find_machine("abacus").error().hint, "`ridge machines` lists the catalog");
  EXPECT_EQ(find_machine("").error().message,
            "unknown machine ''; expected a name of the catalog, a .toml file, cpu or cuda");
}

TEST_F(FindMachine, ReadsAFileByItsPath) {
  const std::string path = folder + "/gpu.toml";
  write_machine_file(path, print_machine(*find_machine("h100")));
  EXPECT_EQ(*find_machine(path), *find_machine("h100"));
}

TEST_F(FindMachine, ReportsAnUnreadableFile) {
  const Error missing = find_machine(folder + "/none.toml").error();
  EXPECT_EQ(missing.kind, ErrorKind::input);
  EXPECT_EQ(missing.to_string(), "cannot read '" + folder +
                                     "/none.toml': No such file or directory\n"
                                     "  hint: `ridge machines` lists the names that need no file\n");
  EXPECT_EQ(find_machine(folder + "/").error().message, "cannot read '" + folder + "/': Is a directory");
  EXPECT_EQ(find_machine("/dev/zero").error().message, "cannot read '/dev/zero': it holds more than 1048576 bytes");
}

TEST_F(FindMachine, EstimatesThisCpuUntilItIsProbed) {
  const Machine guess = *find_machine("cpu");
  EXPECT_EQ(guess.name, "cpu");
  EXPECT_EQ(guess.pointwise_peak()->rate.origin, Origin::guessed);
  EXPECT_EQ(guess.pointwise_peak()->rate.note, "not measured: run `ridge probe`");
  EXPECT_TRUE(guess.contraction_peak(DType::bf16).ok());
  EXPECT_GT(guess.memory_bandwidth()->value, 1e9);
  EXPECT_EQ(guess.numbers.at("cores").value, usable_cores());
  EXPECT_EQ(*parse_machine(print_machine(guess), "guess"), guess);
}

TEST_F(FindMachine, ReadsTheProbeFile) {
  const std::string path = *measured_machine_path();
  EXPECT_EQ(path, folder + "/ridge/machines/cpu.toml");
  Machine machine = *find_machine("zen5");
  machine.name = "cpu";
  write_machine_file(path, print_machine(machine));
  EXPECT_EQ(*find_machine("cpu"), machine);
}

TEST_F(FindMachine, ReportsACorruptMeasurementInsteadOfGuessing) {
  write_machine_file(*measured_machine_path(), "name = \"cpu");
  EXPECT_EQ(find_machine("cpu").error().to_string(),
            folder +
                "/ridge/machines/cpu.toml:1:12: expected the rest of a value, found the end of the file\n"
                "  name = \"cpu\n"
                "             ^\n"
                "  hint: the file is cut short: complete it, or write it again; `ridge probe` writes it again\n");
}

TEST_F(FindMachine, UsesTheXdgDataFolder) {
  const char* home = std::getenv("HOME");
  const std::string kept = home != nullptr ? home : "";
  setenv("XDG_DATA_HOME", "relative", 1);
  setenv("HOME", "/home/ada", 1);
  EXPECT_EQ(*measured_machine_path(), "/home/ada/.local/share/ridge/machines/cpu.toml");
  unsetenv("XDG_DATA_HOME");
  EXPECT_EQ(*measured_machine_path(), "/home/ada/.local/share/ridge/machines/cpu.toml");
  unsetenv("HOME");
  EXPECT_EQ(measured_machine_path().error().to_string(),
            "no folder for measured machines: neither XDG_DATA_HOME nor HOME names an absolute path\n"
            "  hint: set HOME, or XDG_DATA_HOME to a folder that can be written\n");
  EXPECT_TRUE(find_machine("cpu").ok());
  if (home != nullptr) setenv("HOME", kept.c_str(), 1);
}

SourcedValue make_value(double value, std::string source) {
  return {.value = value, .source = std::move(source), .read_on = ""};
}

Machine make_four_core_machine() {
  Machine machine;
  machine.title = "CPU, 4 cores";
  machine.peaks.push_back({ComputeUnit::vector, DType::f32, make_value(300, "all"), make_value(100, "one")});
  machine.memory.push_back({.name = "dram",
                            .bandwidth = make_value(40, "all"),
                            .capacity = {},
                            .one_core_bandwidth = make_value(25, "one")});
  machine.numbers["cores"] = make_value(4, "");
  return machine;
}

TEST(LimitToThreads, UsesTheSmallerOfAllCoresAndOneCoreTimesThreads) {
  const Machine one = limit_to_threads(make_four_core_machine(), 1),
                two = limit_to_threads(make_four_core_machine(), 2),
                four = limit_to_threads(make_four_core_machine(), 4);
  EXPECT_EQ(one.title, "CPU, 4 cores, one core");
  EXPECT_EQ(one.peaks[0].rate, *one.peaks[0].one_core);
  EXPECT_EQ(one.memory_bandwidth()->value, 25);
  EXPECT_EQ(two.title, "CPU, 4 cores, 2 threads");
  EXPECT_EQ(two.peaks[0].rate.value, 200);
  EXPECT_EQ(two.peaks[0].rate.source, "2 x one core: one");
  EXPECT_EQ(two.memory_bandwidth()->value, 40);
  EXPECT_EQ(two.memory[0].bandwidth->source, "all");
  EXPECT_EQ(four, make_four_core_machine());
}

TEST(LimitToThreads, TitleReportsMissingSingleCoreNumbers) {
  Machine machine = make_four_core_machine();
  machine.peaks[0].one_core.reset();
  const Machine one = limit_to_threads(machine, 1);
  EXPECT_EQ(one.title, "CPU, 4 cores, one core; numbers without a single-core value are those of all cores");
  EXPECT_EQ(one.peaks[0].rate.value, 300);
  EXPECT_EQ(limit_to_threads(machine, 4).title, "CPU, 4 cores");
}

TEST(System, ParsesCpuinfo) {
  const SystemProperties properties = parse_cpuinfo(
      "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2596.138\n"
      "flags\t\t: fpu avx2 fma avx512f avx512_bf16\nbugs\t\t:\n\nprocessor\t: 1\ncpu MHz\t\t: 3100.5\n");
  EXPECT_EQ(properties.model, "AMD EPYC");
  EXPECT_EQ(properties.family, 25);
  EXPECT_DOUBLE_EQ(properties.clock_hz, 3100.5e6);
  EXPECT_EQ(properties.flags, " fpu avx2 fma avx512f avx512_bf16 ");
  EXPECT_EQ(parse_cpuinfo("").clock_hz, 0);
  EXPECT_EQ(parse_cpuinfo("cpu MHz : nan\ncpu family : nan\n:::\n").family, 0);
}

TEST(System, FlopPerCycleDependsOnTheInstructionSet) {
  const auto width = [](std::string vendor, int family, Isa isa, std::string flags) {
    SystemProperties properties;
    properties.vendor = std::move(vendor);
    properties.family = family;
    properties.isa = isa;
    properties.flags = std::move(flags);
    return vector_throughput(properties).flop_per_cycle;
  };
  EXPECT_EQ(width("AuthenticAMD", 25, Isa::avx512_bf16, ""), 32);
  EXPECT_EQ(width("AuthenticAMD", 26, Isa::avx512, ""), 64);
  EXPECT_EQ(width("GenuineIntel", 6, Isa::avx512, ""), 64);
  EXPECT_EQ(width("GenuineIntel", 6, Isa::avx2, ""), 32);
  EXPECT_EQ(width("GenuineIntel", 6, Isa::plain, " avx avx512f "),
            16);  // wide registers that the OS does not save do not count
  EXPECT_EQ(width("", 0, Isa::plain, " fp asimd "), 16);
  EXPECT_EQ(width("", 0, Isa::plain, ""), 8);
}

TEST(System, EstimatesPeaksFromCoresClockAndVectorWidth) {
  SystemProperties properties;
  properties.cores = 4;
  properties.clock_hz = 2e9;
  properties.isa = Isa::avx2;
  properties.model = "CPU";
  const Machine machine = estimate_cpu_machine(properties, "2026-11-20");
  EXPECT_EQ(machine.title, "CPU, 4 cores");
  EXPECT_EQ(machine.pointwise_peak()->rate.value, 4 * 2e9 * 32);
  EXPECT_EQ(machine.pointwise_peak()->one_core->value, 2e9 * 32);
  EXPECT_EQ(machine.pointwise_peak()->rate.source,
            "4 cores x 2.00 GHz x 32 FLOP a cycle (two 256-bit multiply-adds a cycle)");
  EXPECT_EQ((*machine.contraction_peak(DType::bf16))->rate.value, 4 * 2e9 * 32);
  EXPECT_EQ((*machine.contraction_peak(DType::bf16))->rate.source, "the f32 guess: bf16 is widened to f32");
  EXPECT_EQ((*machine.contraction_peak(DType::f16))->rate.value, 4 * 2e9 * 32);
  EXPECT_EQ((*machine.contraction_peak(DType::f16))->rate.source, "the f32 guess: f16 is widened to f32");
  EXPECT_EQ(machine.memory_bandwidth()->value, 35e9);
  properties.isa = Isa::avx512_bf16;
  // 64 FLOP per cycle and a bf16 instruction.
  EXPECT_EQ((*estimate_cpu_machine(properties, "2026-11-20").contraction_peak(DType::bf16))->rate.value,
            2 * 4 * 2e9 * 64);
  EXPECT_EQ((*estimate_cpu_machine(properties, "2026-11-20").contraction_peak(DType::f16))->rate.value, 4 * 2e9 * 64);
  EXPECT_EQ((*machine.contraction_peak(DType::int8))->rate.value, 4 * 2e9 * 32);
  EXPECT_EQ((*estimate_cpu_machine(properties, "2026-11-20").contraction_peak(DType::int8))->rate.value,
            4 * 4 * 2e9 * 64);
  properties.vendor = "GenuineIntel";  // vdpbf16ps issues every second cycle
  EXPECT_EQ((*estimate_cpu_machine(properties, "2026-11-20").contraction_peak(DType::bf16))->rate.value, 4 * 2e9 * 64);
  EXPECT_EQ((*estimate_cpu_machine(properties, "2026-11-20").contraction_peak(DType::bf16))->rate.source,
            "the f32 guess: bf16 is widened to f32");
  properties.isa = Isa::amx;  // a tile product: 16 x 16 x 32 of bf16 in 16 cycles, twice as many of int8
  const Machine tiles = estimate_cpu_machine(properties, "2026-11-20");
  EXPECT_EQ((*tiles.contraction_peak(DType::bf16))->rate.value, 4 * 2e9 * 1024);
  EXPECT_EQ((*tiles.contraction_peak(DType::bf16))->rate.source, "16 times the f32 guess (AMX: 1024 FLOP a cycle)");
  EXPECT_EQ((*tiles.contraction_peak(DType::int8))->rate.value, 4 * 2e9 * 2048);
  EXPECT_EQ((*tiles.contraction_peak(DType::int8))->rate.source, "32 times the f32 guess (AMX)");
}

TEST(System, CountsCoresInASysfsList) {
  EXPECT_EQ(cores_in_list("0-7,64-71\n"), 16);
  EXPECT_EQ(cores_in_list("3\n"), 1);
  EXPECT_EQ(cores_in_list("\n"), 0);
  EXPECT_EQ(cores_in_list("7-0,x,1e9"), 1);
}

}  // namespace
}  // namespace ridge
