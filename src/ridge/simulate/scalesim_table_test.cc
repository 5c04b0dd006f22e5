// Compares with every row of two tables of the unmodified SCALE-Sim v3; the tables are next to the repository.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "ridge/simulate/scratchpad.h"
#include "ridge/simulate/systolic.h"
#include "ridge/simulate/systolic_run.h"

namespace ridge {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  std::string cell;
  std::istringstream in(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  while (std::getline(in, cell, ',')) out.push_back(cell);
  return out;
}

// Returns no rows if the table is absent.
std::vector<Row> table(const std::string& name) {
  const char* shared = std::getenv("RIDGE_SHARED");
  const std::filesystem::path root =
      shared != nullptr ? shared : std::filesystem::path(RIDGE_SOURCE_DIR) / ".." / "shared";
  std::ifstream file(root / "measured" / "public" / name);
  std::vector<Row> rows;
  std::string line;
  if (!std::getline(file, line)) return rows;
  const std::vector<std::string> header = cells(line);
  while (std::getline(file, line)) {
    const std::vector<std::string> values = cells(line);
    Row row;
    for (std::size_t i = 0; i < std::min(header.size(), values.size()); ++i) row[header[i]] = values[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

std::int64_t number(const Row& row, const std::string& key) { return std::stoll(row.at(key)); }
double real(const Row& row, const std::string& key) { return std::stod(row.at(key)); }

SystolicArray array_of(const Row& row) {
  return {number(row, "array_rows"), number(row, "array_cols"), parse_dataflow(row.at("dataflow")).value()};
}
ProductSize product_of(const Row& row) { return {number(row, "M"), number(row, "N"), number(row, "K")}; }

// Returns the convolution of a row with user-set bandwidth; the table has only its product.
std::optional<Convolution> convolution_of(const Row& row) {
  if (row.at("topology") != "conv_nets/alexnet.csv") return std::nullopt;
  const std::map<std::string, Convolution> layers{{"Conv1", {224, 224, 11, 11, 3, 96, 4, 4}},
                                                  {"Conv2", {27, 27, 5, 5, 96, 256, 1}},
                                                  {"Conv3", {13, 13, 3, 3, 256, 384, 1}},
                                                  {"Conv4", {13, 13, 3, 3, 384, 384, 1}}};
  return layers.at(row.at("layer"));
}

#define TABLE_OR_SKIP(rows, name)            \
  const std::vector<Row> rows = table(name); \
  if (rows.empty()) GTEST_SKIP() << "SKIPPED: " << name << " is not next to the repository; set RIDGE_SHARED"

TEST(ScaleSimTables, EveryLayerAgreesInCyclesUtilizationAndWords) {
  TABLE_OR_SKIP(rows, "scalesim_layers.csv");
  EXPECT_GE(rows.size(), 416U);
  for (const Row& row : rows) {
    SCOPED_TRACE(row.at("config") + " " + row.at("dataflow") + " " + row.at("topology") + " " + row.at("layer"));
    const SystolicReport report = simulate_systolic(array_of(row), product_of(row)).value();
    const FoldSimulation clock = simulate_folds(array_of(row), product_of(row)).value();
    EXPECT_EQ(report.cycles + number(row, "stall_cycles"), number(row, "total_cycles"));
    EXPECT_EQ(report.cycles + 1, number(row, "analytic_compute_cycles"));
    EXPECT_EQ(clock.cycles, report.cycles);
    EXPECT_EQ(report.folds, number(row, "folds"));
    EXPECT_EQ(report.sram_words.a, number(row, "sram_ifmap_reads"));
    EXPECT_EQ(report.sram_words.b, number(row, "sram_filter_reads"));
    EXPECT_EQ(report.sram_words.c, number(row, "sram_ofmap_writes"));
    EXPECT_EQ(clock.sram_words, report.sram_words);
    EXPECT_NEAR(100 * report.mapping_efficiency, real(row, "mapping_eff_pct"), 1e-5);
    EXPECT_NEAR(100 * report.scalesim_compute_utilization, real(row, "compute_util_pct"), 1e-5);
    const double with_stalls = static_cast<double>(report.cycles) / real(row, "total_cycles");
    EXPECT_NEAR(100 * *report.utilization * with_stalls, real(row, "overall_util_pct"), 1e-5);
  }
}

TEST(ScaleSimTables, EveryLookUpTableEntryAgrees) {
  TABLE_OR_SKIP(rows, "scalesim_llmcompass_luts.csv");
  EXPECT_GE(rows.size(), 6947U);
  for (const Row& row : rows) {
    const SystolicReport report = simulate_systolic(array_of(row), product_of(row)).value();
    ASSERT_EQ(report.cycles, number(row, "total_cycles")) << report.to_text();
    ASSERT_EQ(simulate_folds(array_of(row), product_of(row)).value().cycles, report.cycles);
    ASSERT_NEAR(100 * *report.utilization, real(row, "overall_util_pct"), 6e-4);
  }
}

TEST(ScaleSimTables, StallsOfEveryRowWithUserSetBandwidthAgree) {
  TABLE_OR_SKIP(rows, "scalesim_layers.csv");
  int checked = 0, stalled = 0;
  for (const Row& row : rows) {
    if (row.at("bw_mode") != "USER") continue;
    SCOPED_TRACE(row.at("config") + " " + row.at("dataflow") + " " + row.at("topology") + " " + row.at("layer"));
    const Scratchpads pads{.a = {1024 * number(row, "ifmap_sram_kb"), number(row, "cfg_ifmap_bank_bw")},
                           .b = {1024 * number(row, "filter_sram_kb"), number(row, "cfg_filter_bank_bw")},
                           .c = {1024 * number(row, "ofmap_sram_kb"), number(row, "cfg_bandwidth")}};
    const StallReport report = simulate_stalls(array_of(row), product_of(row), pads, convolution_of(row)).value();
    EXPECT_EQ(report.stall_cycles, number(row, "stall_cycles"));
    EXPECT_EQ(report.cycles, number(row, "total_cycles"));
    EXPECT_EQ(report.cycles_with_prefetch, number(row, "total_cycles_incl_prefetch"));
    EXPECT_EQ(report.memory_reads_a, number(row, "dram_ifmap_reads"));
    EXPECT_EQ(report.memory_reads_b, number(row, "dram_filter_reads"));
    EXPECT_EQ(report.memory_writes_c, number(row, "dram_ofmap_writes"));
    ++checked;
    stalled += report.stall_cycles > 0;
  }
  EXPECT_GE(checked, 118);
  EXPECT_GE(stalled, 13);
}

}  // namespace
}  // namespace ridge
