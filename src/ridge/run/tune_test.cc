// Chooses a plan by measurement, with times that the test supplies.
#include "ridge/run/tune.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "ridge/base/testing/temporary_folder.h"
#include "ridge/ops/product/describe.h"
#include "ridge/ops/product/testing/placeholder_address.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge {
namespace {

namespace cuda = ops::cuda;
namespace fs = std::filesystem;
using Plans = std::vector<cuda::MatmulPlan>;

constexpr std::size_t workspace = std::size_t{64} << 20;

class TuneTest : public testing::Test {
 protected:
  TuneTest() {
    call.problem = {.size = {4096, 4096, 4096},
                    .a = {DType::bf16, 4096, 1},
                    .b = {DType::bf16, 1, 4096},
                    .d = {DType::bf16, 4096, 1}};
    call.a = call.b = ops::placeholder_address();
    call.d = ops::placeholder_address();
    plans = cuda::list_candidates(call, workspace, h200_numbers(), 2);
  }
  cuda::TunedChoices stored_choices() const {
    return {device::KernelStore(folder_), {"NVIDIA H200", 13000, h200_numbers()}};
  }
  Result<ChosenPlan> choose(const TuneOptions& options) {
    return choose_matmul_plan(call, workspace, options, stored_choices(), [this](const Plans& all, int rounds) {
      measured_sets.emplace_back(all.size(), rounds);
      std::vector<double> seconds;
      for (const auto& plan : all)
        seconds.push_back(plan == plans[fastest] ? fastest_seconds : 2e-6 + 1e-3 * plan.predicted_s);
      return Result(seconds);
    });
  }

  cuda::MatmulCall call;
  Plans plans;
  std::size_t fastest = 5;
  double fastest_seconds = 1e-6;
  std::vector<std::pair<std::size_t, int>> measured_sets;  // plans measured together, rounds
  const TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
};

TEST_F(TuneTest, StoresTheFastestPlanAndReusesIt) {
  const auto first = choose({.use_stored = true, .candidates = 8});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->plan, plans[5]);
  EXPECT_EQ(measured_sets, (std::vector<std::pair<std::size_t, int>>{{8, 5}, {4, 9}}));
  ASSERT_TRUE(first->tuned);
  EXPECT_EQ(first->tuned->kernel, ops::config_name(plans[5].config));
  EXPECT_EQ(first->tuned->seconds, 1e-6);
  EXPECT_EQ(first->tuned->model_seconds, 2e-6 + 1e-3 * plans[0].predicted_s);
  EXPECT_TRUE(first->tuned->measured_now);
  EXPECT_FALSE(first->tuned->is_model);
  EXPECT_EQ(first->tuned->remark, "");
  measured_sets.clear();
  for (const int again : {8, 3, 0}) {  // 0 requests no measurement; the stored choice still has priority
    const auto later = choose({.use_stored = true, .candidates = again});
    EXPECT_EQ(later->plan, plans[5]);
    EXPECT_FALSE(later->tuned->measured_now);
    EXPECT_EQ(later->tuned->seconds, 1e-6);
  }
  EXPECT_TRUE(measured_sets.empty());
  EXPECT_EQ(choose({})->plan, plans[0]);
  EXPECT_FALSE(choose({})->tuned);
  EXPECT_TRUE(
      choose({.use_stored = true, .candidates = 9})->tuned->measured_now);  // more candidates than were measured
}

TEST_F(TuneTest, KeepsTheModelsChoiceIfItIsFastest) {
  fastest = 0;
  const auto chosen = choose({.use_stored = true, .candidates = 8});
  EXPECT_EQ(chosen->plan, plans[0]);
  EXPECT_TRUE(chosen->tuned->is_model);
  EXPECT_EQ(chosen->tuned->seconds, chosen->tuned->model_seconds);
  EXPECT_TRUE(choose({.use_stored = true})->tuned->is_model);
}

TEST_F(TuneTest, IgnoresGainsBelowTwoPercent) {
  const double model = 2e-6 + 1e-3 * plans[0].predicted_s;
  fastest_seconds = 0.985 * model;
  EXPECT_TRUE(choose({.use_stored = true, .candidates = 8})->tuned->is_model);
  fastest_seconds = 0.975 * model;
  EXPECT_EQ(choose({.use_stored = true, .candidates = 9})->plan, plans[5]);
}

TEST_F(TuneTest, RunsTheModelsChoiceWithoutAStoredOne) {
  const auto chosen = choose({.use_stored = true});
  EXPECT_EQ(chosen->plan, plans[0]);
  EXPECT_FALSE(chosen->tuned);
  EXPECT_TRUE(measured_sets.empty());
}

TEST_F(TuneTest, RemeasuresAndReportsAnInvalidEntry) {
  ASSERT_TRUE(choose({.use_stored = true, .candidates = 8}));
  std::ofstream(stored_choices().entry_path(call)) << "not an entry";
  const auto kept_model = choose({.use_stored = true});
  EXPECT_EQ(kept_model->plan, plans[0]);
  EXPECT_EQ(kept_model->tuned->candidates, 0);
  EXPECT_NE(kept_model->tuned->remark.find("is ignored: it is corrupt or not an entry of this store"),
            std::string::npos);
  const auto measured_again = choose({.use_stored = true, .candidates = 8});
  EXPECT_EQ(measured_again->plan, plans[5]);
  EXPECT_TRUE(measured_again->tuned->measured_now);
  EXPECT_EQ(measured_again->tuned->remark, kept_model->tuned->remark);
  EXPECT_EQ(choose({.use_stored = true})->tuned->remark, "");
}

TEST_F(TuneTest, ReportsThatAChoiceCannotBeStored) {
  fs::remove_all(folder_);
  std::ofstream(folder_) << "a file where the folder should be";
  const auto chosen = choose({.use_stored = true, .candidates = 2});
  EXPECT_EQ(chosen->tuned->remark,
            "the tuned choice was not stored: cannot write $XDG_CACHE_HOME/ridge/tuned (default ~/.cache/ridge/tuned)");
  EXPECT_EQ(measured_sets, (std::vector<std::pair<std::size_t, int>>{{2, 5}, {2, 9}}));
}

TEST_F(TuneTest, MeasuresNothingOfTheOnlyKernel) {
  call.problem.size.k = 0;
  const auto chosen = choose({.use_stored = true, .candidates = 8});
  EXPECT_EQ(chosen->plan.path, cuda::MatmulPlan::Path::plain);
  EXPECT_FALSE(chosen->tuned);
  EXPECT_TRUE(measured_sets.empty());
}

TEST_F(TuneTest, ReturnsMeasurementErrors) {
  const auto refused =
      choose_matmul_plan(call, workspace, {.use_stored = true, .candidates = 8}, stored_choices(),
                         [](const Plans&, int) -> Result<std::vector<double>> { return absent_error("no"); });
  EXPECT_EQ(refused.error().message, "no");
  EXPECT_FALSE(stored_choices().find(call, workspace).choice);
}

}  // namespace
}  // namespace ridge
