// Tests `ridge run --ranks`: results, traces, and cleanup after a rank is killed.
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "ridge/cli/testing/cli_fixture.h"

namespace ridge {
namespace {

const std::string split = "x: bf16[B, D_X]   w: bf16[D_X, F]\ny: bf16[B, F] = x * w";

// Returns the rank processes of a run: grandchildren of this process.
std::vector<int> grandchildren() {
  std::vector<std::pair<int, int>> all;  // (process, parent)
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const int process = std::atoi(entry.path().filename().c_str());
    const auto stat = process > 0 ? read_file(entry.path() / "stat") : Result<std::string>(std::string());
    const std::size_t name = stat ? stat->rfind(") ") : std::string::npos;
    if (name != std::string::npos && stat->size() > name + 4 && (*stat)[name + 2] != 'Z')
      all.emplace_back(process, std::atoi(stat->c_str() + name + 4));
  }
  std::vector<int> out;
  for (const auto& [process, parent] : all)
    for (const auto& [other, its_parent] : all)
      if (other == parent && its_parent == ::getpid()) out.push_back(process);
  return out;
}

TEST_F(CliTest, RanksPrintOneDocument) {
  const ProcessResult run = ridge({"run", split, "--mesh", "X=3", "B=8", "D=32", "F=16", "--runs", "2", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const auto json = nlohmann::json::parse(run.out);
  ASSERT_EQ(json["ranks"].size(), 3u);
  EXPECT_EQ(json["ranks"][2]["rank"], 2);
  EXPECT_EQ(json["network"]["carrier"], "shared memory");
  EXPECT_EQ(json["network"]["words"], 2 * 2 * 8 * 16);  // 2(n - 1) words for each word of y
  EXPECT_LE(json["network"]["words_bound"], json["network"]["words"]);
  EXPECT_EQ(json["mesh"]["X"], 3);
  EXPECT_EQ(json["total"]["checked"], 8 * 16);
}

// An unsharded program gets the best sharding, for any number of ranks.
TEST_F(CliTest, RanksRunUnshardedPrograms) {
  for (const char* const ranks : {"1", "2", "3", "4", "5", "7"}) {
    const ProcessResult run =
        ridge({"run", "x: f32[B, D]  w: f32[D, F]\nh[B, F] = x * w\ny: f32[B, F] = softmax(h over F)", "--ranks", ranks,
               "B=30", "D=21", "F=28", "--runs", "1"});
    EXPECT_EQ(run.code, 0) << ranks << run.err;
    EXPECT_NE(run.out.find("checked 1 680 of 1 680 results against fp64"), std::string::npos) << ranks << run.out;
  }
}

// Tests one product without replication: results on any grid, and at least as many words as the bound.
TEST_F(CliTest, RanksRunASpreadProduct) {
  for (const char* const ranks : {"1", "2", "4", "5", "7"}) {
    const ProcessResult run = ridge({"run", "bf16[M, K] * bf16[K, N] -> bf16[M, N]", "--ranks", ranks, "--spread",
                                     "M=61", "N=53", "K=97", "--runs", "1", "--json"});
    ASSERT_EQ(run.code, 0) << ranks << run.err;
    const auto json = nlohmann::json::parse(run.out);
    EXPECT_GE(json["network"]["words"].get<double>(), json["network"]["words_bound"].get<double>() * (1 - 1e-9));
    EXPECT_EQ(json["total"]["checked"].get<int>(), json["total"]["elements"].get<int>());
  }
}

TEST_F(CliTest, RanksAreDeterministic) {
  std::string first;
  for (int i = 0; i < 3; ++i) {
    const ProcessResult run =
        ridge({"run", split, "--mesh", "X=4", "B=33", "D=517", "F=65", "--runs", "1", "--out", "y=" + path("y.npy")});
    ASSERT_EQ(run.code, 0) << run.err;
    const std::string bits = *read_file(path("y.npy"));
    if (i == 0) first = bits;
    EXPECT_EQ(bits, first);
  }
}

TEST_F(CliTest, TracesHaveATrackForEachRank) {
  ASSERT_EQ(ridge({"run", split, "--mesh", "X=2", "B=8", "D=8", "F=8", "--runs", "1", "--trace", path("t.json")}).code,
            0);
  const std::string trace = *read_file(path("t.json"));
  EXPECT_TRUE(nlohmann::json::accept(trace));
  EXPECT_NE(trace.find("rank 0"), std::string::npos);
  EXPECT_NE(trace.find("rank 1"), std::string::npos);
}

TEST_F(CliTest, RanksReportErrors) {
  const std::vector<std::string> sized{"run", split, "B=8", "D=8", "F=8"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), sized.begin(), sized.end());
    return more;
  };
  expect_rejected(with({"--ranks", "2"}), 2,
                  "ridge: mesh axis X has no size, which determines the number of ranks\n  hint: --mesh X=2\n");
  expect_rejected(with({"--mesh", "X=2", "--ranks", "4"}), 2,
                  "ridge: the mesh has 2 devices (X = 2), but --ranks is 4\n  hint: remove --ranks\n");
  expect_rejected(with({"--mesh", "X=2,Y=2"}), 2,
                  "ridge: --mesh X=2,Y=2 has an axis Y that the program does not use\n  hint: remove it\n");
  expect_rejected(with({"--mesh", "X=2", "--on", "h100"}), 2,
                  "ridge: ranks run on this computer; expected --on cpu or --on cuda, found 'h100'\n"
                  "  hint: `ridge explain --on h100` predicts times on that machine\n");
  expect_rejected(with({"--mesh", "X=2", "--in-turn"}), 2,
                  "ridge: expected --in-turn with --on cuda: ranks on CPUs never overlap computing and sending\n");
  expect_rejected(with({"--mesh", "X=2", "--html", "a.html"}), 2,
                  "ridge: expected --html without --ranks and --mesh: the page shows runs of one process\n");
  expect_rejected({"run", "x: f32[N]\ny: f32[N] = cos(x)", "N=8", "--trace", "t.json"}, 2,
                  "ridge: expected --trace together with --ranks\n");
  expect_rejected({"run", "x: f32[N]\ny: f32[N] = cos(x)", "N=8", "--in-turn"}, 2,
                  "ridge: expected --in-turn together with --ranks\n");
  expect_rejected({"run", "x: f32[N]\ny: f32[N] = cos(x)", "N=8", "--ranks", "2", "--spread"}, 2,
                  "ridge: rank 0: expected an unsharded program of one product of two tensors\n  hint: 'bf16[M, K] * "
                  "bf16[K, N] -> bf16[M, N]' M=4096 N=4096 K=4096\n");
  expect_rejected({"run", split, "--mesh", "X=2", "B=8", "D=8"}, 3,
                  "ridge: dimension 'F' has no value; expected one to run the program\n  hint: -d F=64\n");
  expect_rejected(with({"--mesh", "X=2", "--in", "z=a.npy"}), 3,
                  "ridge: rank 0: unknown tensor 'z' in --in; expected an input, one of x, w\n");
}

TEST_F(CliTest, AKilledRankEndsTheRun) {
  const auto files = [] { return std::distance(fs::directory_iterator("/dev/shm"), fs::directory_iterator()); };
  const auto before = files();
  std::thread killer([] {
    for (int i = 0; i < 2000; ++i) {
      const std::vector<int> ranks = grandchildren();
      if (ranks.size() == 4) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ::kill(ranks[2], SIGKILL);
        return;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  const ProcessResult run =
      ridge({"run", split, "--mesh", "X=4", "B=64", "D=1024", "F=512", "--time", "60s", "--out", "y=" + path("y.npy")});
  killer.join();
  EXPECT_EQ(run.err,
            "ridge: rank 2: killed by signal 9 (Killed)\n  hint: the system may have run out of memory: give smaller "
            "dimensions\n");
  EXPECT_EQ(run.code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_FALSE(fs::exists(path("y.npy")));
  EXPECT_TRUE(grandchildren().empty());
  EXPECT_EQ(files(), before);
}

// Tests with ranks started by mpirun, if it is installed.

class MpiTest : public CliTest {
 protected:
  void SetUp() override {
    if (!fs::exists(mpirun)) GTEST_SKIP() << "skipped: " << mpirun << " is not installed (apt install openmpi-bin)";
  }

  // `words`: arguments of mpirun, quoted for a shell; RIDGE is replaced by the path of the binary.
  ProcessResult started(std::string words) const {
    for (std::size_t at = words.find("RIDGE"); at != std::string::npos; at = words.find("RIDGE"))
      words.replace(at, 5, std::string(RIDGE_BINARY) + " run");
    const std::string command = fmt::format(
        "env -i PATH=/usr/bin:/bin HOME={0} XDG_DATA_HOME={0} NO_COLOR=1 OMPI_ALLOW_RUN_AS_ROOT=1 "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 {1} --oversubscribe --quiet {2} > {3} 2> {4}",
        folder.string(), mpirun, words, path(".out"), path(".err"));
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), *read_file(path(".out")), *read_file(path(".err"))};
  }

  static constexpr const char* mpirun = "/usr/bin/mpirun";
  const std::string sized = "'" + split + "' --mesh X=4 B=33 D=517 F=65 --runs 2";
};

TEST_F(MpiTest, MatchesSharedMemoryBitwise) {
  const ProcessResult many = started("-n 4 RIDGE " + sized + " --json --out y=" + path("mpi.npy"));
  ASSERT_EQ(many.code, 0) << many.err;
  const auto json = nlohmann::json::parse(many.out);
  EXPECT_EQ(json["network"]["carrier"], "Open MPI");
  EXPECT_EQ(json["network"]["words"], 2 * 3 * 33 * 65);
  ASSERT_EQ(
      ridge({"run", split, "--mesh", "X=4", "B=33", "D=517", "F=65", "--runs", "2", "--out", "y=" + path("shared.npy")})
          .code,
      0);
  EXPECT_EQ(*read_file(path("mpi.npy")), *read_file(path("shared.npy")));
}

TEST_F(MpiTest, RunsAnUnshardedProgram) {
  for (const int n : {2, 3, 5}) {
    const ProcessResult many =
        started(fmt::format("-n {} RIDGE 'f32[M, K] * f32[K, N] -> f32[M, N]' M=30 K=21 N=28 --runs 1", n));
    EXPECT_EQ(many.code, 0) << many.err;
    EXPECT_NE(many.out.find("checked 840 of 840 results against fp64"), std::string::npos) << many.out;
  }
}

TEST_F(MpiTest, ReportsCommonErrorsOnce) {
  const ProcessResult other = started("-n 3 RIDGE " + sized);
  EXPECT_EQ(other.err, "ridge: mpirun started 3 ranks; expected 4\n  hint: mpirun -n 4 ridge run …\n");
  EXPECT_EQ(other.code, 2);
  const ProcessResult wrong = started("-n 4 RIDGE " + sized + " --in z=a.npy");
  EXPECT_EQ(wrong.err, "ridge: rank 0: unknown tensor 'z' in --in; expected an input, one of x, w\n");
  EXPECT_EQ(wrong.code, 3);
}

TEST_F(MpiTest, RejectsRanksWithAnotherProgram) {
  const std::string other = "'x: f32[B, D_X]   w: f32[D_X, F]\ny: f32[B, F] = x * w' --mesh X=2 B=33 D=517 F=65";
  const ProcessResult mixed = started("-n 1 RIDGE '" + split + "' --mesh X=2 B=33 D=517 F=65 : -n 1 RIDGE " + other);
  EXPECT_EQ(
      mixed.err,
      "ridge: rank 1: its program differs from that of rank 0\n  hint: start every rank with the same command, files "
      "and build\n");
  EXPECT_EQ(mixed.code, 3);
}

TEST_F(MpiTest, AKilledRankEndsTheRun) {
  const ProcessResult killed =
      started("-n 3 RIDGE '" + split + "' --mesh X=4 B=33 D=517 F=65 --time 60s : -n 1 timeout -s KILL 1 RIDGE '" +
              split + "' --mesh X=4 B=33 D=517 F=65 --time 60s");
  EXPECT_NE(killed.code, 0);
  EXPECT_EQ(killed.out, "");
}

}  // namespace
}  // namespace ridge
