// Runs one fuzz target without libFuzzer, on every file below the given folders: seeds and inputs that once failed.
// Fails if the folders have no files.
#include <cstdint>
#include <cstdio>
#include <filesystem>

#include "ridge/base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  int inputs = 0;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      const auto content = ridge::read_file(entry.path().string());
      if (!content) continue;
      // The target also gets truncated copies, like a file on a full disk.
      for (std::size_t size = 0; size <= content->size(); size += 1 + content->size() / 16)
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content->data()), size);
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content->data()), content->size());
      ++inputs;
    }
  std::printf("%d inputs\n", inputs);
  return inputs == 0;
}
