// Generates CUDA kernels of chains. Also declares helpers that the generator of row kernels uses.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/device/generated_kernel.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// Returns the kernel of a valid program (lower.h). `tensors` are device pointers; only their alignment affects the
// source.
device::GeneratedKernel generate_chain_kernel(const ChainProgram& program, std::span<void* const> tensors,
                                              int multiprocessors);

// Helpers for writing kernel sources.
namespace generated {

constexpr int vector_bytes = 16;
constexpr std::int64_t min_streaming_bytes = std::int64_t{96} << 20;  // Two L2 caches; larger traffic bypasses the L2.

std::string_view number_format_name(DType dtype);  // Returns for example "NumberFormat::bf16".
std::string float_literal(float x);                // The literal is exact, also for infinities and NaN.
// Source expressions of a step's operands. `approximate` allows the cheaper functions of device_math.h, whose error is
// small enough for 16-bit results.
struct StepOperands {
  std::string a, b, c;
  bool approximate = false;
};
std::string step_expression(const ChainStep& step, const StepOperands& with);

// Returns the largest power of two up to `max_width` that divides the address and all strides, in elements.
int vector_width(const void* data, DType dtype, std::span<const std::int64_t> strides, int max_width);

// Encodes a divisor for divide_by in generated kernels: a factor and a shift for d <= 2^31, or d itself with wide
// indices.
std::uint64_t encode_divisor(std::int64_t d, bool wide_indices);

// Appends words to the kernel's argument and returns the source expressions that read them.
class ArgumentWords {
 public:
  explicit ArgumentWords(std::vector<std::uint64_t>& to) : to_(to) {}
  std::string add_argument(std::uint64_t word) {
    to_.push_back(word);
    return "a.word[" + std::to_string(to_.size() - 1) + "]";
  }
  std::string add_argument(const void* data) {
    return "(char*)" + add_argument(reinterpret_cast<std::uintptr_t>(data));
  }
  std::string add_signed_argument(std::int64_t value) {
    return "(Offset)" + add_argument(static_cast<std::uint64_t>(value));
  }

 private:
  std::vector<std::uint64_t>& to_;
};

// Returns source code that computes the indices i0, i1, ... of the axes longer than 1 from the row-major `index`.
std::string axis_index_code(ArgumentWords& words, std::span<const std::int64_t> extents, std::string index,
                            bool wide_indices);

}  // namespace generated

}  // namespace ridge::ops
