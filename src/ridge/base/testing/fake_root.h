// For tests of what reads /proc and /sys: a folder that stands for /, gone after the test.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "ridge/base/testing/temporary_folder.h"

namespace ridge {

class FakeRoot {
 public:
  void file(const std::string& at, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path() + at).parent_path());
    std::ofstream(path() + at) << text << "\n";
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace ridge
