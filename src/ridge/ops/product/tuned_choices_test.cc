// Tests that the store of measured choices returns saved plans as the planner offers them today, and nothing else.
#include "ridge/ops/product/tuned_choices.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "ridge/base/file.h"
#include "ridge/base/testing/temporary_folder.h"
#include "ridge/base/version.h"
#include "ridge/ops/product/fitted.h"
#include "ridge/ops/product/testing/placeholder_address.h"
#include "ridge/plan/testing/hopper.h"

namespace ridge::ops::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t workspace = std::size_t{64} << 20;

class TunedChoicesTest : public testing::Test {
 protected:
  TunedChoicesTest() {
    call.problem = {
        .size = {96, 512, 2048}, .a = {DType::bf16, 2048, 1}, .b = {DType::bf16, 1, 2048}, .d = {DType::bf16, 512, 1}};
    call.a = call.b = placeholder_address();
    call.d = placeholder_address();
  }
  TunedChoices choices(int driver = 13000, const std::string& device = "NVIDIA H200") const {
    return TunedChoices(device::KernelStore(folder_), {device, driver, h200_numbers()});
  }
  // Returns a choice with another config than the model's.
  TunedChoice other_choice() const {
    const auto all = list_candidates(call, workspace, h200_numbers(), 3);
    for (const MatmulPlan& plan : all)
      if (plan.splits > 1 && plan.config != all[0].config) return {plan, 1.5e-5, 1.75e-5, 8};
    return {};
  }
  std::string entry_text() const { return device::KernelStore(folder_).find(entry_key()).value_or("none"); }
  void write_entry(const std::string& content) const {
    ASSERT_TRUE(device::KernelStore(folder_).save(entry_key(), content));
  }
  std::string entry_key() const { return "ridge.tuned/3 NVIDIA H200 multiprocessors 132 " + tuning_key(call); }
  std::string ignored_message(const std::string& why) const {
    return fmt::format("the tuned choice {} is ignored: {}", fs::path(choices().entry_path(call)).filename().string(),
                       why);
  }

  MatmulCall call;
  const TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
};

TEST_F(TunedChoicesTest, SavedPlanIsFound) {
  const TunedChoice choice = other_choice();
  ASSERT_GT(choice.plan.splits, 1);
  EXPECT_FALSE(choices().find(call, workspace).choice);
  EXPECT_EQ(choices().find(call, workspace).ignored_reason, "");
  ASSERT_TRUE(choices().save(call, choice));
  const auto found = choices().find(call, workspace);
  ASSERT_TRUE(found.choice) << found.ignored_reason;
  EXPECT_EQ(found.choice->plan, choice.plan);
  EXPECT_EQ(found.choice->seconds, 1.5e-5);
  EXPECT_EQ(found.choice->model_seconds, 1.75e-5);
  EXPECT_EQ(found.choice->candidate_count, 8);
  EXPECT_EQ(found.ignored_reason, "");
  EXPECT_EQ(entry_text(), fmt::format("ridge.tuned/3 ridge {} driver 13000 menu {} path 1 config {} swapped 0 splits "
                                      "{} split_mode {} copies 0 0 seconds "
                                      "1.5e-05 model 1.75e-05 of 8\n",
                                      version(), kernel_configs_fingerprint(), choice.plan.config, choice.plan.splits,
                                      static_cast<int>(choice.plan.split_mode)));
}

// The stored values identify each plan of the planner.
TEST_F(TunedChoicesTest, StoredValuesIdentifyEveryPlan) {
  call.problem.size.n = 24;
  call.problem.b = {DType::bf16, 24, 1};
  call.problem.d.row_stride = 24;  // A copy of B may pay off
  std::set<bool> copied;
  const auto all = list_candidates(call, workspace, h200_numbers(), 1000);
  for (std::size_t i = 0; i < all.size(); i += 11) {
    const MatmulPlan& plan = all[i];
    ASSERT_TRUE(choices().save(call, {plan, 1, 2, 8}));
    const auto found = choices().find(call, workspace);
    ASSERT_TRUE(found.choice) << found.ignored_reason;
    ASSERT_EQ(found.choice->plan, plan);
    copied.insert(plan.copy_b);
  }
  EXPECT_EQ(copied.size(), 2U);
}

TEST_F(TunedChoicesTest, EntryAppliesToOneCallAndDevice) {
  ASSERT_TRUE(choices().save(call, other_choice()));
  const auto none = [&](const auto& change) {
    MatmulCall changed = call;
    change(changed);
    const auto found = choices().find(changed, workspace);
    return !found.choice && found.ignored_reason.empty();
  };
  EXPECT_FALSE(none([](MatmulCall&) {}));
  EXPECT_TRUE(none([](MatmulCall& x) { x.problem.size.m = 97; }));
  EXPECT_TRUE(none([](MatmulCall& x) {
    x.problem.batch = 2;
    x.problem.d.batch_stride = 96 * 512;
  }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.problem.a.row_stride = 2056; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.problem.b = {DType::bf16, 512, 1}; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.problem.d.dtype = DType::f32; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.problem.a.dtype = x.problem.b.dtype = DType::f16; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.a = static_cast<const char*>(x.a) + 2; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.constant_b = true; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.epilogue.activation = EpilogueActivation::relu; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.epilogue.alpha = 0.5F; }));
  EXPECT_TRUE(none([](MatmulCall& x) { x.epilogue.bias = {x.a, DType::bf16, 0, 1}; }));
  EXPECT_FALSE(none([](MatmulCall& x) { x.a = static_cast<const char*>(x.a) + 32; }));
  EXPECT_FALSE(choices(13000, "NVIDIA H100").find(call, workspace).choice);
  EXPECT_EQ(choices(13000, "NVIDIA H100").find(call, workspace).ignored_reason, "");
}

TEST_F(TunedChoicesTest, OutdatedEntriesAreIgnoredWithReason) {
  ASSERT_TRUE(choices().save(call, other_choice()));
  const std::string good = entry_text();
  EXPECT_EQ(choices(12080).find(call, workspace).ignored_reason,
            ignored_message("it was measured with driver 13.0, this is 12.8"));
  const auto with = [&](const std::string& word, const std::string& other_word) {
    std::string text = good;
    text.replace(text.find(word), word.size(), other_word);
    write_entry(text);
    const auto found = choices().find(call, workspace);
    EXPECT_FALSE(found.choice);
    return found.ignored_reason;
  };
  const std::string menu = fmt::format("menu {}", kernel_configs_fingerprint());
  EXPECT_EQ(with(menu, "menu 12345"),
            ignored_message("it was measured with other kernel configurations than this build has"));
  EXPECT_EQ(with(fmt::format("ridge {}", version()), "ridge 0.0.9"),
            ignored_message(fmt::format("it was measured by ridge 0.0.9, this is {}", version())));
  EXPECT_EQ(with("of 8", "of 8 9"), ignored_message("its format is not that of this version"));
  EXPECT_EQ(with("seconds", "s"), ignored_message("its format is not that of this version"));
  EXPECT_EQ(with(" of 8\n", ""), ignored_message("its format is not that of this version"));
}

// Entries with a valid checksum may still name a config that does not exist or a plan that the workspace cannot hold.
TEST_F(TunedChoicesTest, EntriesWithoutMatchingPlanAreIgnored) {
  const TunedChoice choice = other_choice();
  ASSERT_TRUE(choices().save(call, choice));
  const std::string good = entry_text(), config = fmt::format("config {} ", choice.plan.config);
  for (const auto& [word, other_word] : {std::pair<std::string, std::string>{config, "config 100000 "},
                                         {config, "config -1 "},
                                         {fmt::format("splits {} ", choice.plan.splits), "splits 7777 "},
                                         {"split_mode ", "split_mode 9"},
                                         {"copies 0", "copies 1"}}) {
    std::string text = good;
    text.replace(text.find(word), word.size(), other_word);
    write_entry(text);
    const auto found = choices().find(call, workspace);
    EXPECT_FALSE(found.choice) << text;
    EXPECT_NE(found.ignored_reason.find("does not fit this call within 67108864 bytes of workspace"), std::string::npos)
        << text;
  }
  ASSERT_TRUE(choices().save(call, choice));
  ASSERT_GT(choice.plan.workspace_bytes, 0U);
  EXPECT_EQ(choices().find(call, 0).ignored_reason,
            ignored_message(
                fmt::format("its plan (config {}, {} splits of k) does not fit this call within 0 bytes of workspace",
                            choice.plan.config, choice.plan.splits)));
}

TEST_F(TunedChoicesTest, CorruptEntriesAreIgnored) {
  ASSERT_TRUE(choices().save(call, other_choice()));
  const std::string path = choices().entry_path(call), good = read_file(path).value();
  const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  const std::string damaged = ignored_message("it is corrupt or not an entry of this store");
  for (std::size_t size = 0; size < good.size(); size += 7) {
    write(good.substr(0, size));
    ASSERT_EQ(choices().find(call, workspace).ignored_reason, damaged) << size << " bytes";
  }
  for (std::size_t bit = 0; bit < good.size() * 8; bit += 5) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    write(bad);
    const auto found = choices().find(call, workspace);
    ASSERT_FALSE(found.choice) << "bit " << bit;
    ASSERT_EQ(found.ignored_reason, damaged) << "bit " << bit;
  }
  EXPECT_TRUE(choices().save(call, other_choice()));
  EXPECT_TRUE(choices().find(call, workspace).choice);
}

TEST_F(TunedChoicesTest, ConcurrentWritersKeepEntriesValid) {
  const auto all = list_candidates(call, workspace, h200_numbers(), 1);
  std::vector<pid_t> children;
  for (int writer = 0; writer < 2; ++writer) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    int wrong = 0;
    for (int turn = 0; turn < 50; ++turn) {
      wrong += !choices().save(call, {all[writer], 1, 2, writer});
      const auto found = choices().find(call, workspace);
      wrong += !found.choice || found.choice->plan != all[found.choice->candidate_count];
    }
    ::_exit(wrong == 0 ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(TunedChoicesTest, NothingIsSavedWithoutAFolder) {
  const TunedChoices nowhere(device::KernelStore(""), {"NVIDIA H200", 13000, h200_numbers()});
  EXPECT_FALSE(nowhere.save(call, other_choice()));
  EXPECT_FALSE(nowhere.find(call, workspace).choice);
  EXPECT_EQ(nowhere.find(call, workspace).ignored_reason, "");
}

}  // namespace
}  // namespace ridge::ops::cuda
