#include "ridge/ops/chain/source.h"

#include <bit>
#include <cstdio>

namespace ridge::ops::generated {

std::string_view form(DType dtype) {
  if (dtype == DType::f32) return "Form::f32";
  return dtype == DType::bf16 ? "Form::bf16" : "Form::f16";
}

std::string number(float x) {
  char text[64];
  std::snprintf(text, sizeof text, "__uint_as_float(0x%08xu)", std::bit_cast<std::uint32_t>(x));
  return text;
}

std::string expression(const ChainStep& step, const StepText& with) {
  const std::string times = "<" + std::to_string(step.repeat) + ">(";
  if (step.repeat > 1 && step.op == ChainOp::cos) return "repeated_cos" + times + with.a + ")";
  std::string function(row(step.op).name);
  if (row(step.op).rough && with.rough) function += "_16";
  if (step.repeat > 1) return "repeated" + times + "[](float x) { return " + function + "(x); }, " + with.a + ")";
  std::string out = function + "(" + with.a;
  for (const std::string& more : {with.b, with.c})
    if (!more.empty()) out += ", " + more;
  return out + ")";
}

int together(const void* data, DType dtype, std::span<const std::int64_t> strides, int most) {
  const int size = bits(dtype) / 8;
  int width = most;
  const auto fits = [&] {
    if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(width * size) != 0) return false;
    for (const std::int64_t stride : strides)
      if (stride % width != 0) return false;
    return true;
  };
  while (width > 1 && (width * size > vector_bytes || !fits())) width /= 2;
  return width;
}

std::uint64_t divisor(std::int64_t d, bool wide) {
  if (wide) return static_cast<std::uint64_t>(d);
  unsigned log = 0;  // log2(d), rounded up.
  while ((std::int64_t{1} << log) < d) ++log;
  const auto by = static_cast<std::uint64_t>(d);
  const std::uint64_t power = std::uint64_t{1} << (31 + log), factor = (power + by - 1) / by;
  return factor | std::uint64_t{31 + log} << 32;
}

std::string axes_text(Words& words, std::span<const std::int64_t> extents, std::string place, bool wide) {
  std::string out;
  std::vector<std::size_t> walked;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (extents[axis] > 1) walked.push_back(axis);
  for (std::size_t i = walked.size(); i-- > 0;) {
    const std::string axis = std::to_string(walked[i]);
    if (i == 0) return out + "    const Index i" + axis + " = " + place + ";\n";
    const std::int64_t extent = extents[walked[i]];
    out += "    const Index r" + axis + " = divided(" + place + ", " + words.add(divisor(extent, wide)) + ");\n";
    out += "    const Index i" + axis + " = " + place + " - r" + axis + " * (Index)" +
           words.add(static_cast<std::uint64_t>(extent)) + ";\n";
    place = "r" + axis;
  }
  return out;
}

}  // namespace ridge::ops::generated
