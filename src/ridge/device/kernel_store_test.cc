// Tests the store of compiled kernels with corrupt files, full disks and concurrent or killed processes.
#include "ridge/device/kernel_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "ridge/base/file.h"
#include "ridge/base/testing/temporary_folder.h"

namespace ridge::device {
namespace {

namespace fs = std::filesystem;

class KernelStoreTest : public testing::Test {
 protected:
  KernelStore store() const { return KernelStore(folder_ + "/kernels"); }

  const std::string key = "options\nthe text of a kernel", content = std::string(5000, 'x') + '\0' + "end";
  const TemporaryFolder temporary_;
  std::string folder_ = temporary_.path();
};

// Writes directly, without base/file.h's atomic rename and sync, which take milliseconds.
void write_directly(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Runs `work` in a child process and returns its exit code.
template <class Work> int run_in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(KernelStoreTest, FindsSavedEntries) {
  EXPECT_FALSE(store().find(key));
  EXPECT_TRUE(store().save(key, content));
  EXPECT_EQ(store().find(key), content);
  EXPECT_FALSE(store().find(key + " "));
  EXPECT_TRUE(store().save(key, "other"));
  EXPECT_EQ(store().find(key), "other");
  EXPECT_TRUE(store().save("empty", ""));
  EXPECT_EQ(store().find("empty"), "");
}

TEST_F(KernelStoreTest, RejectsEntriesOfAnotherKey) {
  ASSERT_TRUE(store().save(key, content));
  fs::copy_file(store().entry_path(key), store().entry_path("another"));  // Simulates a hash collision.
  EXPECT_FALSE(store().find("another"));
  EXPECT_TRUE(store().save("another", "code"));
  EXPECT_EQ(store().find("another"), "code");
}

TEST_F(KernelStoreTest, IgnoresFilesWithAFlippedBit) {
  ASSERT_TRUE(store().save(key, content));
  const std::string good = read_file(store().entry_path(key)).value();
  for (std::size_t bit = 0; bit < good.size() * 8; bit += bit < 1000 ? 1 : 37) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    write_directly(store().entry_path(key), bad);
    ASSERT_FALSE(store().find(key)) << "bit " << bit;
  }
  EXPECT_TRUE(store().save(key, content));
  EXPECT_EQ(store().find(key), content);
}

TEST_F(KernelStoreTest, IgnoresTruncatedOrExtendedFiles) {
  ASSERT_TRUE(store().save(key, content));
  const std::string good = read_file(store().entry_path(key)).value();
  for (std::size_t size = 0; size < good.size(); size += size < 200 ? 1 : 97) {
    write_directly(store().entry_path(key), good.substr(0, size));
    ASSERT_FALSE(store().find(key)) << size << " bytes";
  }
  ASSERT_TRUE(write_file(store().entry_path(key), good + "x").ok());
  EXPECT_FALSE(store().find(key));
}

TEST_F(KernelStoreTest, IgnoresFilesOfAnotherVersion) {
  ASSERT_TRUE(store().save(key, content));
  std::string other = read_file(store().entry_path(key)).value();
  other.replace(other.find("/1"), 2, "/2");
  ASSERT_TRUE(write_file(store().entry_path(key), other).ok());
  EXPECT_FALSE(store().find(key));
}

TEST_F(KernelStoreTest, FindsNothingWithoutAFolder) {
  EXPECT_FALSE(KernelStore("").save(key, content));
  EXPECT_FALSE(KernelStore("").find(key));
  EXPECT_FALSE(KernelStore("/dev/null/kernels").save(key, content));
  ASSERT_TRUE(write_file(folder_ + "/file", "").ok());
  EXPECT_FALSE(KernelStore(folder_ + "/file").save(key, content));
}

TEST_F(KernelStoreTest, LeavesNoFileOnAFullDisk) {
  EXPECT_EQ(run_in_child([&] {
              ::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{1000, 1000};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              return store().save(key, content) || store().find(key) ? 1 : 0;
            }),
            0);
  EXPECT_FALSE(store().find(key));
  EXPECT_TRUE(fs::is_empty(folder_ + "/kernels"));
}

TEST_F(KernelStoreTest, WorksWithSixteenConcurrentProcesses) {
  std::vector<pid_t> children;
  for (int i = 0; i < 16; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    int wrong = 0;
    for (int turn = 0; turn < 50; ++turn) {
      const std::string mine = key + std::to_string(turn % 7);
      if (const auto found = store().find(mine)) wrong += *found != content + mine;
      store().save(mine, content + mine);
    }
    ::_exit(wrong == 0 ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (int i = 0; i < 7; ++i) EXPECT_EQ(store().find(key + std::to_string(i)), content + key + std::to_string(i));
}

// RIDGE_KILLS sets the number of kills; the default of 60 suits CI.
TEST_F(KernelStoreTest, SurvivesWritersKilledAtAnyMoment) {
  const char* value = std::getenv("RIDGE_KILLS");
  const int kills = value ? std::atoi(value) : 60;
  std::mt19937 random(1);
  const std::string large(1 << 20, 'y');
  for (int i = 0; i < kills; ++i) {
    const pid_t child = ::fork();
    if (child == 0)
      for (int turn = 0;; ++turn) store().save(key, large + std::to_string(turn % 10));
    ::usleep(static_cast<useconds_t>(random() % 6000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    if (const auto found = store().find(key)) {
      ASSERT_EQ(found->size(), large.size() + 1);
      ASSERT_EQ(found->substr(0, large.size()), large);
    }
  }
  EXPECT_TRUE(store().save(key, content));
  EXPECT_EQ(store().find(key), content);
}

TEST_F(KernelStoreTest, RemovesOldUnfinishedFiles) {
  ASSERT_TRUE(store().save(key, content));
  const std::string old = store().entry_path("a") + ".1.unfinished", young = store().entry_path("b") + ".2.unfinished";
  for (const std::string& path : {old, young}) ASSERT_TRUE(write_file(path, "half").ok());
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(store().save(key, content));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));
}

TEST_F(KernelStoreTest, EvictsLeastRecentlyUsedEntries) {
  const std::string store_folder = folder_ + "/kernels", hundred(100'000, 'x');
  const KernelStore small(store_folder, 350'000);  // Room for three entries.
  const auto hours_ago = [&](const char* name, int hours) {
    fs::last_write_time(small.entry_path(name), fs::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(small.save(name, hundred));
  ASSERT_TRUE(
      write_file(store_folder + "/README", std::string(400'000, 'x')).ok());  // Not an entry, so it is not counted.
  hours_ago("a", 3);
  hours_ago("b", 2);
  hours_ago("c", 1);
  EXPECT_TRUE(small.find("a"));  // Counts as a use.
  ASSERT_TRUE(small.save("d", hundred));
  EXPECT_FALSE(small.find("b"));
  for (const char* name : {"a", "c", "d"}) EXPECT_EQ(small.find(name), hundred) << name;
  EXPECT_TRUE(fs::exists(store_folder + "/README"));
  EXPECT_FALSE(small.save("e", std::string(350'000, 'x')));  // Exceeds the limit of the store.
  for (const char* name : {"a", "c", "d"}) EXPECT_TRUE(small.find(name)) << name;
}

TEST_F(KernelStoreTest, RewritingAnEntryCountsAsUse) {
  const KernelStore small(folder_ + "/kernels", 250'000);  // Room for two entries.
  for (const char* name : {"a", "b"}) ASSERT_TRUE(small.save(name, std::string(100'000, 'x')));
  for (const char* name : {"a", "b"})
    fs::last_write_time(small.entry_path(name),
                        fs::file_time_type::clock::now() - std::chrono::hours(*name == 'a' ? 2 : 1));
  ASSERT_TRUE(small.save("a", std::string(90'000, 'y')));
  ASSERT_TRUE(small.save("c", std::string(100'000, 'x')));
  EXPECT_FALSE(small.find("b"));
  EXPECT_EQ(small.find("a"), std::string(90'000, 'y'));
}

}  // namespace
}  // namespace ridge::device
