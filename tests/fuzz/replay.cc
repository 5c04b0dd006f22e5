// Runs one fuzz target over every file below the folders given, without libFuzzer: the seeds, and whatever a fuzzer
// once found, in every build. A folder without files fails.
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
      // Also cut short, as a full disk leaves a file.
      for (std::size_t size = 0; size <= content->size(); size += 1 + content->size() / 16)
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content->data()), size);
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(content->data()), content->size());
      ++inputs;
    }
  std::printf("%d inputs\n", inputs);
  return inputs == 0;
}
