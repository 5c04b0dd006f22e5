// The text of a chain's kernel for a CUDA device, and what kernels of rows share with it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/device/generated.h"
#include "ridge/ops/chain/problem.h"

namespace ridge::ops {

// The program must have no fault (code.h). Pointers are device memory, of which only the alignment is looked at.
Generated generate(const ChainProgram& program, std::span<void* const> tensors, int multiprocessors);

// What kernels of every kind are written with.
namespace generated {

constexpr int vector_bytes = 16;
constexpr std::int64_t streamed_bytes = std::int64_t{96} << 20;  // what moves more than two L2 caches is not kept there

std::string_view form(DType dtype);  // "Form::bf16"
std::string number(float x);         // exact, also infinities and NaN
// `rough`: only 16 bits of the value are wanted, for which device_math.h has cheaper functions.
struct StepText {
  std::string a, b, c;
  bool rough = false;
};
std::string expression(const ChainStep& step, const StepText& with);

// The largest power of two of elements, up to `most`, at multiples of which all of these places lie.
int together(const void* data, DType dtype, std::span<const std::int64_t> strides, int most);

// What device::divided takes: d <= 2^31 as a factor and a shift, or, where indices are wide, d.
std::uint64_t divisor(std::int64_t d, bool wide);

// Words of the kernel's argument, by the name under which the text reads them.
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

// Lines that take `place`, counted with the last axis fastest, apart into i0, i1, … along the axes longer than 1.
std::string axes_text(Words& words, std::span<const std::int64_t> extents, std::string place, bool wide);

}  // namespace generated

}  // namespace ridge::ops
