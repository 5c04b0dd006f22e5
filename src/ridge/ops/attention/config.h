// What attention kernels on Hopper are compiled as: rows of queries of an item, keys of a step, and the size of a head.
// A head of another size takes the next larger kernel, whose further columns the copy engine reads as zeros and does
// not write.
#pragma once

#include <array>

namespace ridge::ops {

struct AttentionConfig {
  int m = 128, kv = 128, d = 128;  // rows of an item, keys of a step, head size
  int consumers = 2, stages = 2;   // groups of 64 rows; tiles of keys, and of values, that may be on their way
  bool turns = true;               // groups issue the products of a step in turn
  bool staging_in_held = false;    // results leave by way of where the queries were
  bool operator==(const AttentionConfig&) const = default;
};

// Under a mask shorter steps compute less beyond its edge; the last four are for few rows (decoding). Each fits the
// registers of its threads: at 192 keys and a head of 64, or 96 and 256, ptxas would make products wait for each other.
inline constexpr std::array attention_menu = {
    AttentionConfig{.m = 192, .kv = 128, .d = 64, .consumers = 3, .stages = 3},
    AttentionConfig{.m = 128, .kv = 160, .d = 128},
    AttentionConfig{.m = 128, .kv = 128, .d = 128},
    AttentionConfig{.m = 128, .kv = 96, .d = 192, .staging_in_held = true},
    AttentionConfig{.m = 128, .kv = 80, .d = 256, .staging_in_held = true},
    AttentionConfig{.m = 128, .kv = 64, .d = 256, .staging_in_held = true},
    AttentionConfig{.m = 64, .kv = 128, .d = 64, .consumers = 1, .stages = 5, .turns = false},
    AttentionConfig{.m = 64, .kv = 128, .d = 128, .consumers = 1, .stages = 3, .turns = false, .staging_in_held = true},
    AttentionConfig{.m = 64, .kv = 64, .d = 192, .consumers = 1, .stages = 4, .turns = false, .staging_in_held = true},
    AttentionConfig{.m = 64, .kv = 64, .d = 256, .consumers = 1, .stages = 3, .turns = false, .staging_in_held = true},
};

}  // namespace ridge::ops
