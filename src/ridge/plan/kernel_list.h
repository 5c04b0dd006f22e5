// Lists the CUDA product kernels: name, tile, roles, registers and shared memory of each config.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

struct KernelListEntry {
  std::string name;  // "sm90_128x192x64_pingpong"; "_mk" if A is m-major
  int config = 0, m = 0, n = 0, k = 0, stages = 0, consumer_warpgroups = 0;  // m, n, k: tile
  std::string roles;                           // "pingpong", "cooperative", "single", "swapped"
  std::string layouts;                         // majorness of A and B: "kk", "kn", "mk" or "mn"
  std::optional<int> registers, shared_bytes;  // per thread, and per block; bf16 only (data/cubins_sm90.csv)
};

enum class CodeFormat { sass, ptx };

// The disassembly or PTX of a kernel.
struct KernelCode {
  KernelListEntry entry;
  std::string dtype, kind;  // "bf16"; "sass", "ptx"
  std::string text;
};

std::vector<KernelListEntry> list_kernels();

// Returns data/cubins_sm90.csv, embedded at build time. CI compares it with the output of nvcc.
std::string_view compiled_kernels_csv();

}  // namespace ridge
