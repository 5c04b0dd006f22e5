// Generates CUDA kernels of chains, and helpers that row kernels share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/device/generated_kernel.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// Returns the kernel of a valid program (lower.h). Pointers are device memory; only their alignment matters.
device::GeneratedKernel generate(const ChainProgram& program, std::span<void* const> tensors, int multiprocessors);

// Helpers for writing kernel sources.
namespace generated {

constexpr int vector_bytes = 16;
constexpr std::int64_t streamed_bytes = std::int64_t{96} << 20;  // About two L2 caches; larger traffic bypasses them.

std::string_view form_name(DType dtype);  // "Form::bf16"
std::string float_literal(float x);       // Exact, also for infinities and NaN.
// Operand expressions. `approximate` allows the cheaper functions of device_math.h, accurate to 16-bit formats.
struct StepOperands {
  std::string a, b, c;
  bool approximate = false;
};
std::string step_expression(const ChainStep& step, const StepOperands& with);

// Returns the vector width: the largest power of two up to `max_width` that divides all addresses, in elements.
int vector_width(const void* data, DType dtype, std::span<const std::int64_t> strides, int max_width);

// Encodes a divisor for device::divided: a factor and a shift for d <= 2^31, or d itself with wide indices.
std::uint64_t encode_divisor(std::int64_t d, bool wide_indices);

// Collects the words of the kernel's argument; returns the expressions that read them.
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

// Returns code that splits the row-major `index` into i0, i1, ... of the axes longer than 1.
std::string axis_index_code(ArgumentWords& words, std::span<const std::int64_t> extents, std::string index,
                            bool wide_indices);

}  // namespace generated

}  // namespace ridge::ops
