// Generates CUDA kernels of chains, and helpers that row kernels share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/device/generated.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// Returns the kernel of a valid program (lower.h). Pointers are device memory; only their alignment matters.
Generated generate(const ChainProgram& program, std::span<void* const> tensors, int multiprocessors);

// Helpers for writing kernel sources.
namespace generated {

constexpr int vector_bytes = 16;
constexpr std::int64_t streamed_bytes = std::int64_t{96} << 20;  // About two L2 caches; larger traffic bypasses them.

std::string_view form(DType dtype);  // "Form::bf16"
std::string number(float x);         // Exact, also for infinities and NaN.
// Operand expressions. `approximate` allows the cheaper functions of device_math.h, accurate to 16-bit formats.
struct StepText {
  std::string a, b, c;
  bool rough = false;
};
std::string expression(const ChainStep& step, const StepText& with);

// Returns the vector width: the largest power of two up to `max_width` that divides all addresses, in elements.
int together(const void* data, DType dtype, std::span<const std::int64_t> strides, int most);

// Encodes a divisor for device::divided: a factor and a shift for d <= 2^31, or d itself with wide indices.
std::uint64_t divisor(std::int64_t d, bool wide);

// Collects the words of the kernel's argument; returns the expressions that read them.
class Words {
 public:
  explicit Words(std::vector<std::uint64_t>& to) : to_(to) {}
  std::string add(std::uint64_t word) {
    to_.push_back(word);
    return "a.word[" + std::to_string(to_.size() - 1) + "]";
  }
  std::string add(const void* data) { return "(char*)" + add(reinterpret_cast<std::uintptr_t>(data)); }
  std::string add_signed(std::int64_t value) { return "(Offset)" + add(static_cast<std::uint64_t>(value)); }

 private:
  std::vector<std::uint64_t>& to_;
};

// Returns code that splits the row-major `index` into i0, i1, ... of the axes longer than 1.
std::string axes_text(Words& words, std::span<const std::int64_t> extents, std::string place, bool wide);

}  // namespace generated

}  // namespace ridge::ops
