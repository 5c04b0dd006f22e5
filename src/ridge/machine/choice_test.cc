// Tests peaks, memories and links of machines with a few numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "ridge/machine/machine.h"
#include "ridge/machine/memory_choice.h"
#include "ridge/machine/pod.h"

namespace ridge {
namespace {

SourcedValue make_number(double value) {
  SourcedValue s;
  s.value = value;
  return s;
}

Machine small_machine() {
  Machine machine;
  machine.name = "small";
  machine.peaks = {{ComputeUnit::vector, DType::bf16, make_number(3)},
                   {ComputeUnit::matrix, DType::bf16, make_number(5)},
                   {ComputeUnit::matrix, DType::int8, make_number(7)},
                   {ComputeUnit::vector, DType::f32, make_number(2)}};
  machine.memory.push_back({"hbm", make_number(11), {}});
  return machine;
}

TEST(Machine, ReturnsThePeakOfUnitAndDtype) {
  const Machine machine = small_machine();
  EXPECT_EQ(machine.find_peak(ComputeUnit::matrix, DType::bf16)->rate.value, 5);
  EXPECT_EQ(machine.find_peak(ComputeUnit::vector, DType::bf16)->rate.value, 3);
  EXPECT_EQ(machine.find_peak(ComputeUnit::vector, DType::int8), nullptr);
  EXPECT_EQ((*machine.contraction_peak(DType::bf16))->rate.value, 5);
  EXPECT_EQ(machine.contraction_peak(DType::f16).error().to_string(),
            "machine 'small' has no matrix peak for f16; expected one of bf16, int8, f32\n"
            "  hint: choose a dtype or a machine that has one, or add f16 under [matrix] in a machine file\n");
  EXPECT_EQ((*machine.contraction_peak(DType::f32))->unit, ComputeUnit::vector);
  Machine with_f32 = machine;
  with_f32.peaks.push_back({ComputeUnit::matrix, DType::f32, make_number(4)});
  with_f32.peaks.push_back({ComputeUnit::vector, DType::f64, make_number(1)});
  EXPECT_EQ((*with_f32.contraction_peak(DType::f32))->rate.value, 4);
  EXPECT_EQ((*with_f32.contraction_peak(DType::f64))->rate.value, 1);
  EXPECT_EQ(with_f32.pointwise_peak()->rate.value, 2);
  EXPECT_EQ(with_f32.pointwise_peak(DType::f64)->rate.value, 1);
  EXPECT_EQ(machine.pointwise_peak(DType::f64), nullptr);
  Machine none;
  none.name = "none";
  EXPECT_EQ(none.contraction_peak(DType::f16).error().message,
            "machine 'none' has no matrix peak for f16; expected one of (none is known)");
  none.peaks = {{ComputeUnit::vector, DType::f32, make_number(2)}};
  EXPECT_EQ(none.contraction_peak(DType::f16).error().message,
            "machine 'none' has no matrix peak for f16; expected one of f32");
}

TEST(Machine, ReportsMemoryWithoutBandwidth) {
  Machine machine = small_machine();
  EXPECT_EQ(machine.memory_bandwidth()->value, 11);
  machine.memory[0].bandwidth.reset();
  EXPECT_EQ(machine.memory_bandwidth().error().to_string(),
            "machine 'small' has no bandwidth for its memory 'hbm'\n  hint: add bandwidth under [memory.hbm]\n");
  machine.memory.clear();
  EXPECT_EQ(machine.memory_bandwidth().error().to_string(),
            "machine 'small' has no memory\n  hint: add bandwidth under [memory.dram]\n");
}

TEST(Machine, AcceptsOnlyValidRates) {
  const Machine machine = small_machine();
  for (const double rate : {1e-30, 1.0, 1e30}) {
    const auto linked = with_link(machine, ByteRate{rate});
    ASSERT_TRUE(linked.ok()) << rate;
    EXPECT_EQ(linked->links[0].bandwidth.value, rate);
    EXPECT_EQ(linked->links[0].bandwidth.source, "--link");
  }
  for (const double rate : {0.0, -1.0, 9e-31, 2e30, HUGE_VAL, std::nan("")})
    EXPECT_FALSE(with_link(machine, ByteRate{rate}).ok()) << rate;
  EXPECT_EQ(with_link(machine, ByteRate{2e30}).error().to_string(),
            "expected a rate in B/s, one way, or a link of small after --link, found '2e+30'\n  hint: --link 4.5e10\n");
  Machine linked = machine;
  for (const char* name : {"a", "b", "c"}) linked.links.push_back({.name = name, .bandwidth = make_number(1)});
  const Machine chosen = *with_link(linked, "b");
  EXPECT_EQ(chosen.links[0].name + chosen.links[1].name + chosen.links[2].name, "bac");
  EXPECT_EQ(with_link(linked, "d").error().hint, "it has a, b, c");
}

TEST(Machine, AcceptsAMemoryByNameLinkOrRate) {
  Machine machine = small_machine();
  machine.memory.push_back({.name = "cache", .bandwidth = make_number(90), .capacity = {}});
  machine.memory.push_back({.name = "tags", .bandwidth = {}, .capacity = make_number(3)});
  machine.links.push_back({.name = "pcie", .bandwidth = make_number(4)});
  EXPECT_EQ(with_memory(machine, "cache")->memory[0].bandwidth->value, 90);
  EXPECT_EQ(with_memory(machine, "cache")->memory.size(), 3u);
  const Machine with_pcie = *with_memory(machine, "pcie");
  EXPECT_EQ(with_pcie.memory[0].bandwidth->value, 4);
  EXPECT_FALSE(with_pcie.memory[0].capacity.has_value());
  EXPECT_EQ(with_memory(machine, ByteRate{7})->memory[0].bandwidth->value, 7);
  EXPECT_EQ(with_memory(machine, ByteRate{7})->memory[0].bandwidth->source, "--memory");
  EXPECT_TRUE(with_memory(machine, "tags").error().message.ends_with("after --memory, found 'tags'"));
  EXPECT_TRUE(with_memory(machine, ByteRate{-1}).error().message.ends_with("found '-1'"));
}

TEST(Machine, TotalsOfAPodAreSumsOverChips) {
  Machine machine = small_machine();
  machine.peaks = {{ComputeUnit::matrix, DType::bf16, make_number(8)}};
  EXPECT_TRUE(list_chip_groups(machine).empty());
  EXPECT_EQ(total_of_cores(machine, "lanes"), std::nullopt);
  machine.numbers = {{"cores", make_number(2)},
                     {"lanes", make_number(64)},
                     {"host_chips", make_number(8)},
                     {"pod_chips", make_number(20)}};
  const std::vector<ChipGroup> all = list_chip_groups(machine);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "host");
  EXPECT_EQ(all[0].hosts, 1);
  EXPECT_EQ(all[1].chips, 20);
  EXPECT_EQ(all[1].hosts, 3) << "the last one is not full";
  EXPECT_EQ(all[1].cores, 40);
  EXPECT_EQ(all[1].peak->rate.value, 160);
  EXPECT_EQ(all[1].memory->bandwidth->value, 20 * machine.memory[0].bandwidth->value);
  EXPECT_EQ(total_of_cores(machine, "lanes"), 128);
  machine.numbers["cores"].origin = Origin::guessed;
  EXPECT_EQ(list_chip_groups(machine)[1].cores, std::nullopt) << "a default is no number of the chip's";
}

TEST(Machine, LimitToThreadsKeepsSmallerValues) {
  Machine machine = small_machine();
  machine.peaks = {{ComputeUnit::vector, DType::f32, make_number(8)}};
  machine.peaks[0].one_core = make_number(2);
  machine.peaks[0].one_core->source = "probe";
  machine.memory[0].one_core_bandwidth = make_number(6);
  const Machine four = limit_to_threads(machine, 4), three = limit_to_threads(machine, 3);
  EXPECT_EQ(four.peaks[0].rate.value, 8);
  EXPECT_EQ(four.peaks[0].rate.source, "") << "as much as all cores: their own number";
  EXPECT_EQ(four.title, "");
  EXPECT_EQ(three.peaks[0].rate.value, 6);
  EXPECT_EQ(three.peaks[0].rate.source, "3 x one core: probe");
  EXPECT_EQ(three.memory[0].bandwidth->value, 11);
  EXPECT_EQ(three.title, ", 3 threads");
  machine.memory[0].one_core_bandwidth.reset();
  EXPECT_EQ(limit_to_threads(machine, 4).title,
            ", 4 threads; numbers without a single-core value are those of all cores");
  machine.numbers["cores"] = make_number(4);
  EXPECT_EQ(limit_to_threads(machine, 4).title, "");
}

}  // namespace
}  // namespace ridge
