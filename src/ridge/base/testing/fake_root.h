// For tests of what reads /proc and /sys: a folder that stands for /, gone after the test.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace ridge {

class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "ridge-root-XXXXXX").string();
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  void file(const std::string& at, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path_ + at).parent_path());
    std::ofstream(path_ + at) << text << "\n";
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ridge
