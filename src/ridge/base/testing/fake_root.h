// Temporary folder that replaces / in tests of code that reads /proc and /sys.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "ridge/base/testing/temporary_folder.h"

namespace ridge {

class FakeRoot {
 public:
  void write_file(const std::string& at, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path() + at).parent_path());
    std::ofstream(path() + at) << text << "\n";
  }
  const std::string& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace ridge
