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
  int helds = 1;                   // items whose queries have room
  bool ragged = false;             // sequences may differ in length, and a row may be one line of each head of a group
  bool operator==(const AttentionConfig&) const = default;
};

// The last four are for few rows (decoding). Each fits the registers of its threads: at 192 keys and a head of 64, or
// 96 and 256, ptxas would make products wait for each other. Longer steps of a head of 128 (160 and 176 keys) and
// shorter ones of 256 (64) are no faster on an H100, under a mask or without.
inline constexpr std::array attention_menu = {
    AttentionConfig{.m = 192, .kv = 128, .d = 64, .consumers = 3, .stages = 3, .helds = 2},
    AttentionConfig{.m = 128, .kv = 128, .d = 128, .helds = 2},
    AttentionConfig{.m = 128, .kv = 96, .d = 192},
    AttentionConfig{.m = 128, .kv = 80, .d = 256},
    AttentionConfig{.m = 64, .kv = 128, .d = 64, .consumers = 1, .stages = 5, .turns = false},
    AttentionConfig{.m = 64, .kv = 128, .d = 128, .consumers = 1, .stages = 3, .turns = false},
    AttentionConfig{.m = 64, .kv = 64, .d = 192, .consumers = 1, .stages = 4, .turns = false},
    AttentionConfig{.m = 64, .kv = 64, .d = 256, .consumers = 1, .stages = 3, .turns = false},
};

constexpr AttentionConfig ragged(AttentionConfig c) {
  c.ragged = true;
  return c;
}

// Of the backward pass: keys of an item, rows of queries of a step. Groups have 64 keys each; or the same 64 and a part
// of the columns each, where a head's sums are too many for the registers.
struct AttentionBackwardConfig {
  int m = 128, q = 64, d = 128;
  bool ordered = false;  // items add to dq in the order of their keys
  int consumers = 2, stages = 2;
  bool turns = false;
  int helds = 1;
  bool operator==(const AttentionBackwardConfig&) const = default;
};

// Each also in order. At 80 rows of 128 elements ptxas keeps too little in registers.
inline constexpr std::array attention_backward_menu = {
    AttentionBackwardConfig{.m = 128, .q = 128, .d = 64},
    AttentionBackwardConfig{.m = 128, .q = 64, .d = 128},
    AttentionBackwardConfig{.m = 64, .q = 64, .d = 256},
};

}  // namespace ridge::ops
