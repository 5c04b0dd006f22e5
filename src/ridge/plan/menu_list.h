// The CUDA product's menu as a list to look at: each config's name, tile and roles, and what nvcc made of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridge {

struct MenuEntry {
  std::string name;                                             // "sm90_128x192x64_pingpong"; "_mk": A lies along m
  int config = 0, m = 0, n = 0, k = 0, stages = 0, groups = 0;  // groups of 128 threads that multiply
  std::string roles;                                            // "pingpong", "cooperative", "single", "swapped"
  std::string layouts;                                          // "kk": A and B lie along k; "kn", "mk", "mn"
  std::optional<int> registers, shared_bytes;                   // a thread at launch; a block; bf16, by the golden file
};

enum class Listing { sass, ptx };

// A config's kernel as text.
struct KernelCode {
  MenuEntry entry;
  std::string dtype, kind;  // "bf16"; "sass", "ptx"
  std::string text;
};

std::vector<MenuEntry> menu_list();

// The text of data/cubins_sm90.csv at build time, which CI holds against what nvcc compiles.
std::string_view compiled_menu();

}  // namespace ridge
