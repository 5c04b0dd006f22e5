// The planner chooses the plan with the shortest predicted time: for the groups of data/planner_groups.txt this test
// enumerates every way to share kernels, without the planner's search, and none may be predicted to be faster.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "ridge/base/file.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/plan/plan.h"
#include "ridge/plan/predict.h"

namespace ridge {
namespace {

// Returns the programs of a text, which empty lines separate.
std::vector<std::string> read_groups() {
  const std::string text = *read_file(std::string(RIDGE_SOURCE_DIR) + "/data/planner_groups.txt") + "\n";
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find("\n\n", at), text.size());
    if (end > at + 1) out.push_back(text.substr(at, end - at) + "\n");
    at = end + 2;
  }
  return out;
}

std::vector<int> products_of(const Program& program) {
  std::vector<int> out;
  for (std::size_t s = 0; s < program.statements.size(); ++s)
    if (std::holds_alternative<Contraction>(program.statements[s].op)) out.push_back(static_cast<int>(s));
  return out;
}

// Options for every subset of products without another product, for every subset without an epilogue, with and without
// pairs of the other products; and for one kernel per statement.
std::vector<FuseOptions> all_fuse_options(const Program& program) {
  std::vector<FuseOptions> out{{.target = Target::cuda, .fuse = false},
                               {.target = Target::cuda, .fuse_epilogues = false}};
  const std::vector<int> products = products_of(program);
  for (unsigned subset = 0; subset < 1u << products.size(); ++subset) {
    FuseOptions unpaired{.target = Target::cuda}, plain = unpaired, both = unpaired;
    for (std::size_t i = 0; i < products.size(); ++i) {
      both.unpaired_products[products[i]] = "separate";
      if ((subset >> i & 1) == 0) continue;
      unpaired.unpaired_products[products[i]] = "separate";
      plain.products_without_epilogue[products[i]] = both.products_without_epilogue[products[i]] = "separate";
    }
    out.insert(out.end(), {unpaired, plain, both});
  }
  return out;
}

double min_predicted_seconds(const Program& program, const Bindings& dims, const ops::DeviceNumbers& device) {
  double min_seconds = std::numeric_limits<double>::infinity();
  for (const FuseOptions& how : all_fuse_options(program))
    if (const auto one = make_plan(program, dims, how))
      min_seconds = std::min(min_seconds, predict_plan_seconds(*one, device).value_or(min_seconds));
  return min_seconds;
}

TEST(PlannerGroups, ChoosesTheFastestOfAllGroupings) {
  const std::vector<std::string> all = read_groups();
  ASSERT_EQ(all.size(), 60u);
  const Machine h200 = *find_machine("h200");
  const auto device = device_numbers(h200);
  int unfused_count = 0;
  for (const std::string& text : all) {
    const auto program = parse(text);
    ASSERT_TRUE(program) << text << program.error().to_string();
    const auto explanation = explain(*program, h200, {}, {}, Thresholds::skipped);
    ASSERT_TRUE(explanation) << text << explanation.error().to_string();
    const auto chosen = predict_program(*program, *explanation, {.count_bytes = false});
    ASSERT_TRUE(chosen) << text << chosen.error().to_string();
    const double min_seconds = min_predicted_seconds(*program, explanation->dims, *device);
    const double switches_s = static_cast<double>(chosen->kernels.size()) * chosen->switch_s;
    EXPECT_LE(chosen->predicted_s.expected - switches_s, min_seconds * (1 + 1e-9)) << text;
    unfused_count += chosen->kernels.size() > 1;
    if (chosen->kernels.size() != 1) continue;
    const GroupPrediction& op = chosen->kernels.front();
    for (const Candidate& other : op.candidates)  // other tiles and K splits
      EXPECT_LE(op.predicted_s.expected, other.predicted_s * (1 + 1e-9)) << text;
  }
  // Both outcomes must occur, so that a planner that always chooses the same fails.
  EXPECT_GT(unfused_count, 5);
  EXPECT_LT(unfused_count, 55);
}

}  // namespace
}  // namespace ridge
