#include "ridge/base/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "ridge/base/testing/temporary_folder.h"

namespace ridge {
namespace {

namespace fs = std::filesystem;

class FileTest : public testing::Test {
 protected:
  long count_entries() const { return std::distance(fs::directory_iterator(folder), fs::directory_iterator()); }
  const TemporaryFolder temporary;
  fs::path folder = temporary.path();
};

TEST_F(FileTest, ReadsWhatWasWritten) {
  const std::string path = folder / "a.txt", content("one\0two\n", 8);
  ASSERT_TRUE(write_file(path, content).ok());
  EXPECT_EQ(*read_file(path), content);
  EXPECT_EQ(count_entries(), 1);
}

TEST_F(FileTest, ReplacesTheTargetOfALink) {
  ASSERT_TRUE(write_file(folder / "a.txt", "old").ok());
  fs::create_symlink(folder / "a.txt", folder / "link");
  ASSERT_TRUE(write_file(folder / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(*read_file(folder / "a.txt"), "new");
}

TEST_F(FileTest, ReportsAFullDeviceAndKeepsTheDevice) {
  EXPECT_EQ(write_file("/dev/full", "x").error().to_string(), "cannot write '/dev/full': No space left on device\n");
  struct stat about {};
  ASSERT_EQ(::stat("/dev/full", &about), 0);
  EXPECT_TRUE(S_ISCHR(about.st_mode));
}

TEST_F(FileTest, ReportsTheReasonAndLeavesNoFile) {
  EXPECT_EQ(write_file(folder, "x").error().message, "cannot write '" + folder.string() + "': Is a directory");
  const std::string lost = folder / "none" / "a";
  EXPECT_EQ(write_file(lost, "x").error().message, "cannot write '" + lost + "': No such file or directory");
  EXPECT_EQ(read_file(folder).error().message, "cannot read '" + folder.string() + "': Is a directory");
  ASSERT_TRUE(write_file(folder / "big", "12345").ok());
  EXPECT_EQ(read_file(folder / "big", 4).error().message,
            "cannot read '" + (folder / "big").string() + "': it holds more than 4 bytes");
  EXPECT_EQ(count_entries(), 1);
}

}  // namespace
}  // namespace ridge
