#include "ridge/device/generated_kernel.h"

namespace ridge::device {

std::string make_kernel_source(const GeneratedKernel& kernel, std::string_view header, bool wide_indices,
                               std::string_view body) {
  std::string out = "#include \"" + std::string(header) + "\"\nnamespace ridge::tile::cuda {\n";
  out += wide_indices ? "using Index = u64;\nusing Offset = i64;\n" : "using Index = u32;\nusing Offset = int;\n";
  out += "struct Arguments { u64 word[" + std::to_string(kernel.arguments.size()) + "]; };\n";
  out += "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(kernel.threads) +
         (kernel.min_blocks_per_sm > 0 ? ", " + std::to_string(kernel.min_blocks_per_sm) : "") + ") ";
  out += "ridge_kernel(const __grid_constant__ Arguments a) {\n";
  // The next kernel may start; this one waits until the earlier ones have ended.
  out += "asm volatile(\"griddepcontrol.launch_dependents;\\ngriddepcontrol.wait;\" ::: \"memory\");\n";
  out += body;
  return out + "}\n}  // namespace ridge::tile::cuda\n";
}

}  // namespace ridge::device
