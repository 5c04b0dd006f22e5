// Compile-time configurations of the attention kernels on Hopper: query rows per item, keys per step and head size. A
// head of another size uses the next larger kernel; the copy engine reads the extra columns as zeros and does not write
// them.
#pragma once

#include <array>

namespace ridge::ops {

struct AttentionConfig {
  int m = 128, kv = 128, d = 128;  // Query rows per item, keys per step, head size
  int consumers = 2, stages = 2;   // Consumer warpgroups of 64 rows; stages of each ring (keys, values)
  bool issues_in_turn = true;      // Warpgroups issue the products of a step one after the other
  int resident_slots = 1;          // Number of items whose queries fit in shared memory, 1 or 2
  bool ragged = false;             // Sequences may differ in length; heads that share keys may share a tile
  bool operator==(const AttentionConfig&) const = default;
};

// The last four configurations are for few rows (decoding). Registers limit the keys per step: with 192 keys and head
// size 64, or 96 keys and 256, ptxas serializes the products. On an H100 160 and 176 keys for head size 128 and 64 keys
// for head size 256 are not faster, with or without a mask.
inline constexpr std::array attention_kernel_configs = {
    AttentionConfig{.m = 192, .kv = 128, .d = 64, .consumers = 3, .stages = 3, .resident_slots = 2},
    AttentionConfig{.m = 128, .kv = 128, .d = 128, .resident_slots = 2},
    AttentionConfig{.m = 128, .kv = 96, .d = 192},
    AttentionConfig{.m = 128, .kv = 80, .d = 256},
    AttentionConfig{.m = 64, .kv = 128, .d = 64, .consumers = 1, .stages = 5, .issues_in_turn = false},
    AttentionConfig{.m = 64, .kv = 128, .d = 128, .consumers = 1, .stages = 3, .issues_in_turn = false},
    AttentionConfig{.m = 64, .kv = 64, .d = 192, .consumers = 1, .stages = 4, .issues_in_turn = false},
    AttentionConfig{.m = 64, .kv = 64, .d = 256, .consumers = 1, .stages = 3, .issues_in_turn = false},
};

constexpr AttentionConfig make_ragged(AttentionConfig c) {
  c.ragged = true;
  return c;
}

// Backward pass: m keys per item, q query rows per step, head size d. Each warpgroup has its own 64 keys, or, if the
// sums need too many registers, all share 64 keys and split the columns.
struct AttentionBackwardConfig {
  int m = 128, q = 64, d = 128;
  bool ordered = false;  // Items add to dq in a fixed order of their keys, so that results are deterministic
  int consumers = 2, stages = 2;
  bool issues_in_turn = false;
  int resident_slots = 1;
  bool operator==(const AttentionBackwardConfig&) const = default;
};

// Each configuration is compiled with and without `ordered`. With q = 80 and d = 128 ptxas spills registers.
inline constexpr std::array attention_backward_kernel_configs = {
    AttentionBackwardConfig{.m = 128, .q = 128, .d = 64},
    AttentionBackwardConfig{.m = 128, .q = 64, .d = 128},
    AttentionBackwardConfig{.m = 64, .q = 64, .d = 256},
};

}  // namespace ridge::ops
