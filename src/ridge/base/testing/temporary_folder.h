// A folder of a test's own, empty at first and gone with all that lies in it after the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>

namespace ridge {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ridge_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made at " + name);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {  // what a test forbids to write must go, too
    std::error_code trouble;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, trouble);
    std::filesystem::remove_all(path_, trouble);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ridge
