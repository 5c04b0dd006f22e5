// Small random statements with a routine: convolutions and transposed ones of one to three window dimensions with any
// valid stride, padding, dilation and number of groups, pools, gathers, scatters, running sums, orders and block
// quantization. The seed determines the program and its sizes, because a convolution's output sizes follow from its
// parameters.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "ridge/roofline/testing/random_program.h"
#include "ridge/symbol/dimensions.h"

namespace ridge::testing {

struct RandomRoutine {
  std::string text;
  Bindings sizes;
};

class RandomRoutineMaker {
 public:
  explicit RandomRoutineMaker(unsigned seed) : random_(seed) {}

  RandomRoutine make() {
    switch (random_.below(12)) {
      case 0: return gather();
      case 1: return scatter();
      case 2: return cumsum();
      case 3: return quantize();
      case 4: return order();
      case 7: return rotary();
      case 5:
      case 6: return pool();
      case 8:
      case 9: return conv_transpose();
      default: return conv();
    }
  }

  RandomRoutine conv() {
    RandomRoutine out;
    const int along = 1 + random_.below(3), stride = 1 + random_.below(3), padding = random_.below(4),
              dilation = 1 + random_.below(2), groups = 1 + random_.below(3), each = 1 + random_.below(2);
    const bool named = random_.below(2) == 0, has_named_channels = groups > 1 && random_.below(2) == 0,
               last = random_.below(2) == 0, literal = random_.below(3) == 0;
    out.sizes = {{"N", 1 + random_.below(2)}, {"C", groups * each}, {"K", groups * (1 + random_.below(2))}};
    std::string channels = groups == 1 ? "C" : std::to_string(each);
    if (has_named_channels) channels = "G";
    std::string x, w, y;
    if (has_named_channels) out.sizes["G"] = each;
    for (int i = 0; i < along; ++i) {
      int kernel = 1 + random_.below(4), in = 1 + random_.below(7);
      while (in + 2 * padding < dilation * (kernel - 1) + 1) ++in;
      const int positions = (in + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
      x += literal ? fmt::format(", {}", in) : fmt::format(", H{}", i);
      y += literal ? fmt::format(", {}", positions) : fmt::format(", P{}", i);
      w += named ? fmt::format(", R{}", i) : fmt::format(", {}", kernel);
      if (!literal) out.sizes[fmt::format("H{}", i)] = in;
      if (!literal) out.sizes[fmt::format("P{}", i)] = positions;
      if (named) out.sizes[fmt::format("R{}", i)] = kernel;
    }
    x = last ? fmt::format("N{}, C", x) : fmt::format("N, C{}", x);
    w = last ? fmt::format("K{}, {}", w, channels) : fmt::format("K, {}{}", channels, w);
    y = last ? fmt::format("N{}, K", y) : fmt::format("N, K{}", y);
    out.text = fmt::format(
        "x: {}[{}]  w: {}[{}]\ny: {}[{}] = conv(x, w, stride = {}, padding = {}, dilation = {}, "
        "groups = {})",
        dtype(), x, dtype(), w, dtype(), y, stride, padding, dilation, groups);
    return out;
  }

  // The result has any size that the windows allow; kernels grow until it has an element.
  RandomRoutine conv_transpose() {
    RandomRoutine out;
    const int along = 1 + random_.below(3), size = along == 3 ? 2 : 3, stride = 1 + random_.below(size),
              padding = random_.below(4), dilation = 1 + random_.below(size), groups = 1 + random_.below(3),
              each = 1 + random_.below(2);
    const bool named = random_.below(2) == 0, last = random_.below(2) == 0, literal = random_.below(3) == 0,
               has_named_channels = groups > 1 && random_.below(2) == 0;
    out.sizes = {{"N", 1 + random_.below(2)}, {"C", groups * (1 + random_.below(2))}, {"K", groups * each}};
    std::string channels = groups == 1 ? "K" : std::to_string(each);
    if (has_named_channels) channels = "G";
    if (has_named_channels) out.sizes["G"] = each;
    std::string x, w, y;
    for (int i = 0; i < along; ++i) {
      const int in = 1 + random_.below(along == 3 ? 2 : 6), more = random_.below(std::max(stride, dilation));
      int kernel = 1 + random_.below(size + 1);
      const auto positions = [&] { return (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + more; };
      while (positions() < 1) ++kernel;
      x += literal ? fmt::format(", {}", in) : fmt::format(", H{}", i);
      y += literal ? fmt::format(", {}", positions()) : fmt::format(", P{}", i);
      w += named ? fmt::format(", R{}", i) : fmt::format(", {}", kernel);
      if (!literal) out.sizes[fmt::format("H{}", i)] = in;
      if (!literal) out.sizes[fmt::format("P{}", i)] = positions();
      if (named) out.sizes[fmt::format("R{}", i)] = kernel;
    }
    x = last ? fmt::format("N{}, C", x) : fmt::format("N, C{}", x);
    w = last ? fmt::format("C{}, {}", w, channels) : fmt::format("C, {}{}", channels, w);
    y = last ? fmt::format("N{}, K", y) : fmt::format("N, K{}", y);
    out.text = fmt::format(
        "x: {}[{}]  w: {}[{}]\ny: {}[{}] = conv_transpose(x, w, stride = {}, padding = {}, dilation = {}, "
        "groups = {})",
        dtype(), x, dtype(), w, dtype(), y, stride, padding, dilation, groups);
    return out;
  }

  // A pool has one to three window dimensions anywhere among those of x, which may be numbers.
  RandomRoutine pool() {
    RandomRoutine out;
    const int window = 1 + random_.below(4), stride = 1 + random_.below(3), padding = random_.below(3),
              dilation = 1 + random_.below(2), along = 1 + random_.below(3);
    const bool literal = random_.below(3) == 0, last = random_.below(2) == 0;
    std::string x = "N", y = "N", over;
    out.sizes = {{"N", 1 + random_.below(2)}, {"C", 1 + random_.below(6)}};
    const std::string channels = ", C";
    if (!last) {
      x += channels;
      y += channels;
    }
    for (int i = 0; i < along; ++i) {
      int in = 1 + random_.below(5);
      while (in + 2 * padding < dilation * (window - 1) + 1) ++in;
      if (literal) in = 2 + dilation * (window - 1);  // equal along all dimensions: over names all or none of them
      const int positions = (in + 2 * padding - dilation * (window - 1) - 1) / stride + 1;
      x += literal ? fmt::format(", {}", in) : fmt::format(", H{}", i);
      y += literal ? fmt::format(", {}", positions) : fmt::format(", P{}", i);
      over += (i == 0 ? "" : ", ") + (literal ? std::to_string(in) : fmt::format("H{}", i));
      if (!literal) out.sizes[fmt::format("H{}", i)] = in;
      if (!literal) out.sizes[fmt::format("P{}", i)] = positions;
    }
    if (last) {
      x += channels;
      y += channels;
    }
    out.text =
        fmt::format("x: {}[{}]\ny: {}[{}] = {}_pool(x over {}, window = {}, stride = {}, padding = {}, dilation = {})",
                    dtype(), x, dtype(), y, random_.below(2) ? "max" : "avg", over, window, stride, padding, dilation);
    return out;
  }

 private:
  std::string dtype() { return random_.below(2) == 0 ? "bf16" : "f32"; }
  RandomRoutine with_sizes(std::string text, const std::string& dims) {
    RandomRoutine out{std::move(text), {}};
    for (const char dim : dims) out.sizes[std::string(1, dim)] = 1 + random_.below(5);
    return out;
  }

  RandomRoutine gather() {
    const std::string more = random_.below(2) == 0 ? ", B" : "";
    const std::string d = dtype();
    return with_sizes(fmt::format("t: {0}[V{1}, D]  i: int32[B, N]\ny: {0}[B, D, N] = gather(t, i over V)", d, more),
                      "VBDN");
  }
  RandomRoutine scatter() {
    const bool batch = random_.below(2) == 0;
    return with_sizes(fmt::format("x: {0}[N, B, D]  i: int32[N{1}]\ny: {0}[D, V, B] = scatter(x, i over V)", dtype(),
                                  batch ? ", B" : ""),
                      "VBDN");
  }
  RandomRoutine cumsum() {
    const std::string d = dtype();
    return with_sizes(
        fmt::format("x: {}[B, T, D]\ny: {}[D, B, T] = cumsum(x over {})", d, d, random_.below(2) ? "T" : "B"), "BTD");
  }

  RandomRoutine rotary() {
    constexpr const char* positions[] = {"int32[B]", "f32[T, B]", "int32[1]"};
    const std::string t = positions[random_.below(3)];
    RandomRoutine out =
        with_sizes(fmt::format("q: {}[B, T, D]\nt: {}\ny: {}[{}] = rotary(q, t over D, base = {}, interleaved = {})",
                               dtype(), t, dtype(), random_.below(2) ? "B, T, D" : "T, D, B",
                               random_.below(2) ? 10000 : 500, random_.below(2)),
                   "BTD");
    out.sizes["D"] *= 2;
    return out;
  }

  RandomRoutine order() {
    const bool sorts = random_.below(3) > 0;
    const std::string d = dtype(), over = random_.below(2) ? "T" : "B", descending = random_.below(2) ? "1" : "0";
    if (!sorts)
      return with_sizes(fmt::format("x: {}[B, T, D]\ni[D, {}] = argmax(x over {})", d, over == "T" ? "B" : "T", over),
                        "BTD");
    const std::string result = random_.below(2) ? fmt::format("y: {}[D, B, T] = sort", d) : "i[B, D, T] = argsort";
    return with_sizes(fmt::format("x: {}[B, T, D]\n{}(x over {}, descending = {})", d, result, over, descending),
                      "BTD");
  }

  RandomRoutine quantize() {
    constexpr const char* formats[] = {"e4m3, block = 128", "mxfp8",   "mxfp4",          "nvfp4",
                                       "int4, block = 32",  "int4_64", "u4, block = 128"};
    constexpr int blocks[] = {128, 32, 32, 16, 32, 64, 128};
    const int format = random_.below(static_cast<int>(std::size(blocks)));
    RandomRoutine out = with_sizes(fmt::format("x: {}[B, T, D]\nq[{}, D] = quantize(x, {})", dtype(),
                                               random_.below(2) ? "B, T" : "T, B", formats[format]),
                                   "BTD");
    for (const char* outer : {"B", "T"}) out.sizes[outer] = 1 + random_.below(2);
    out.sizes["D"] *= blocks[format];
    return out;
  }

  RandomProgram random_;
};

}  // namespace ridge::testing
