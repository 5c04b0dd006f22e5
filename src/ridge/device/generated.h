// A kernel made for one problem: its text and how it is launched. What the compiler should know (steps, formats, vector
// widths, which axes are walked) is in the text; sizes, strides and places are arguments, so that one compilation
// serves many sizes. Plain C++: made, read and compiled where there is no device.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

// What generated texts include, by the names by which they do.
struct DeviceHeader {
  std::string_view name, text;
};
const std::vector<DeviceHeader>& device_headers();

namespace ops {

struct Generated {
  std::string text;                      // defines the kernel `ridge_kernel`; includes device_headers() by name
  std::vector<std::uint64_t> arguments;  // one struct of so many words
  std::int64_t blocks = 0;               // 0: nothing to do
  int threads = 256, cluster = 1;
  int shared_bytes = 0;   // of a block, beside what the text declares itself
  int beside = 0;         // blocks that a multiprocessor must have registers for; 0: as it comes
  bool resident = false;  // its blocks go on until nothing is left: no more of them than run at once are launched
};

namespace generated {

// The whole text around the body of a kernel in the words of a header.
std::string kernel_text(const Generated& kernel, std::string_view header, bool wide, std::string_view body);
inline constexpr std::string_view plain_words = "ridge/tile/cuda/words.h";

}  // namespace generated
}  // namespace ops
}  // namespace ridge
