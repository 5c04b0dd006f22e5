// Element-by-element reference implementation of chains, and random layouts. Each operation rounds once, so evaluating
// in f32 is exact.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "ridge/base/float16.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops::testing {

inline float read_element(const void* data, DType dtype, std::int64_t i) {
  const char* at = static_cast<const char*>(data) + i * (dtype_bits(dtype) / 8);
  const auto as = [&](auto value) {
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  if (dtype == DType::f32) return as(float{});
  return dtype == DType::bf16 ? to_float(as(Bf16{})) : to_float(as(F16{}));
}
inline void write_element(void* data, DType dtype, std::int64_t i, float x) {
  char* at = static_cast<char*>(data) + i * (dtype_bits(dtype) / 8);
  const Bf16 brain = to_bf16(x);
  const F16 half = to_f16(x);
  if (dtype == DType::f32) std::memcpy(at, &x, 4);
  if (dtype == DType::bf16) std::memcpy(at, &brain, 2);
  if (dtype == DType::f16) std::memcpy(at, &half, 2);
}

inline float apply_operation(ChainOp op, float a, float b, float c) {
  const bool nan = std::isnan(a) || std::isnan(b);
  switch (op) {
    case ChainOp::add: return a + b;
    case ChainOp::subtract: return a - b;
    case ChainOp::multiply: return a * b;
    case ChainOp::divide: return a / b;
    case ChainOp::negate: return -a;
    case ChainOp::abs: return std::abs(a);
    case ChainOp::relu: return a > 0 || std::isnan(a) ? a : 0;
    case ChainOp::sqrt: return std::sqrt(a);
    case ChainOp::max: return nan ? a + b : std::max(a, b);
    case ChainOp::min: return nan ? a + b : std::min(a, b);
    case ChainOp::less: return a < b ? 1 : 0;
    case ChainOp::less_equal: return a <= b ? 1 : 0;
    case ChainOp::equal: return a == b ? 1 : 0;
    case ChainOp::where: return a != 0 ? b : c;
    default: ADD_FAILURE() << "no reference"; return 0;
  }
}

inline void run_reference(const ChainProgram& p, std::span<void* const> tensors) {
  std::int64_t elements = 1;
  for (const std::int64_t e : p.extents) elements *= e;
  for (std::int64_t index = 0; index < elements; ++index) {
    std::vector<float> registers(p.registers);
    for (const ChainStep& s : p.steps) {
      const auto reg = [&](int i) -> float& { return registers[i]; };
      const auto offset_of_element = [&] {
        std::int64_t rest = index, at = 0;
        for (std::size_t axis = p.extents.size(); axis-- > 0; rest /= p.extents[axis])
          at += rest % p.extents[axis] * p.tensors[s.slot].strides[axis];
        return at;
      };
      const std::size_t slot = s.slot;
      if (s.op == ChainOp::load)
        reg(s.result) = read_element(tensors[slot], p.tensors[slot].dtype, offset_of_element());
      else if (s.op == ChainOp::store)
        write_element(tensors[slot], p.tensors[slot].dtype, offset_of_element(), reg(s.a));
      else if (s.op == ChainOp::constant)
        reg(s.result) = s.constant;
      else {
        float x = reg(s.a);
        for (int i = 0; i < s.repeat; ++i) x = apply_operation(s.op, x, reg(s.b), reg(s.c));
        reg(s.result) = x;
      }
    }
  }
}

inline bool is_same_value(float a, float b) { return std::isnan(a) ? std::isnan(b) : a == b; }

struct TensorLayout {
  ChainTensor tensor;
  std::int64_t first = 0, span = 1;  // Offset of element 0 from the lowest element; number of elements in memory.
};

// Returns a random layout: axes may be permuted, broadcast (inputs only), reversed or padded.
inline TensorLayout random_layout(std::mt19937& random, const std::vector<std::int64_t>& extents, DType dtype,
                                  bool output) {
  std::vector<std::size_t> order(extents.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (random() % 2 == 0) std::shuffle(order.begin(), order.end(), random);
  TensorLayout l{{dtype, std::vector<std::int64_t>(extents.size(), 0)}};
  std::int64_t next = random() % 4 == 0 ? 2 : 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    const std::size_t axis = order[k];
    if (!output && random() % 4 == 0) continue;
    const std::int64_t extent_span = next * std::max<std::int64_t>(extents[axis] - 1, 0);
    const bool reversed = random() % 6 == 0;
    l.tensor.strides[axis] = reversed ? -next : next;
    if (reversed) l.first += extent_span;
    l.span += extent_span;
    next = next * std::max<std::int64_t>(extents[axis], 1) + (random() % 4 == 0 ? 3 : 0);
  }
  return l;
}

}  // namespace ridge::ops::testing
