// Convolutions as products of windows and by direct sums, on random shapes, against a literal loop. The data are small
// integers, so that sums are exact in any order.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <sstream>

#include "ridge/base/dtype_set.h"
#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/direct_convolution.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/testing/guarded.h"

namespace ridge::ops {
namespace {

using product_testing::GuardedBuffer;

struct Case {
  DType in = DType::f32, out = DType::f32;
  std::int64_t batch = 1, groups = 1, inputs = 1, outputs = 1;  // channels per group
  std::vector<WindowAxis> axes;
  int threads = 1;
  bool channels_last = false;

  std::int64_t in_size() const {
    return product([](const WindowAxis& a) { return a.in; });
  }
  std::int64_t out_size() const {
    return product([](const WindowAxis& a) { return a.out; });
  }
  std::int64_t kernel() const {
    return product([](const WindowAxis& a) { return a.kernel; });
  }
  template <class F> std::int64_t product(F f) const {
    std::int64_t n = 1;
    for (const WindowAxis& axis : axes) n *= f(axis);
    return n;
  }
  std::string text() const {
    std::ostringstream out_text;
    out_text << "batch " << batch << ", " << groups << " groups of " << inputs << " to " << outputs << " channels, "
             << dtype_name(in) << " to " << dtype_name(out) << ", " << threads << " threads"
             << (channels_last ? ", channels last" : "");
    for (const WindowAxis& a : axes)
      out_text << "; in " << a.in << ", kernel " << a.kernel << ", stride " << a.stride << ", dilation " << a.dilation
               << ", padding " << a.padding;
    return out_text.str();
  }
};

ConvLoops make_loops(const Case& c) {
  ConvLoops conv{.x = c.in,
                 .w = c.in,
                 .y = c.out,
                 .batch = c.batch,
                 .channels = c.groups * c.inputs,
                 .out_channels = c.groups * c.outputs,
                 .groups = c.groups,
                 .windows = {},
                 .stride = c.axes[0].stride,
                 .padding = c.axes[0].padding,
                 .dilation = c.axes[0].dilation,
                 .channels_last = c.channels_last};
  for (const WindowAxis& a : c.axes) conv.windows.push_back({a.in, a.out, a.kernel});
  return conv;
}

// Returns the position of element i of a channel in a tensor with `channels` channels of `size` elements.
std::int64_t position(const Case& c, std::int64_t image, std::int64_t channels, std::int64_t channel, std::int64_t size,
                      std::int64_t i) {
  return image * channels * size + (c.channels_last ? i * channels + channel : channel * size + i);
}

Case random_case(std::mt19937_64& random, bool direct) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  Case c{.in = dtypes[draw(0, 2)], .out = dtypes[draw(0, 2)], .batch = draw(1, 3), .axes = {}, .threads = draw(1, 3)};
  c.groups = draw(0, 2) == 0 || direct ? draw(1, 5) : 1;
  c.inputs = draw(1, direct ? 3 : 24);
  c.outputs = draw(1, direct ? 3 : 40);
  const int dimensions = draw(1, 3), stride = draw(1, 3), dilation = draw(1, 3), padding = draw(0, 4);
  for (int d = 0; d < dimensions; ++d) {
    WindowAxis a{
        .kernel = draw(0, 2) == 0 ? draw(1, 7) : 3, .stride = stride, .dilation = dilation, .padding = padding};
    if (direct && d > 0 && draw(0, 1) == 0) a.kernel = c.axes.back().kernel;
    const std::int64_t reach = (a.kernel - 1) * dilation + 1;
    a.in = std::max<std::int64_t>(reach - 2 * padding, 1) + draw(0, dimensions == 3 ? 6 : 40);
    a.out = (a.in + 2 * padding - reach) / stride + 1;
    c.axes.push_back(a);
  }
  if (direct && dimensions < 3 && draw(0, 1) == 0) {  // depthwise, in blocks of channels
    c.groups = draw(13, 50);
    c.inputs = c.outputs = 1;
    WindowAxis& columns = c.axes.back();
    columns.in += draw(0, 2) == 0 ? draw(0, 90) : 0;
    columns.out = (columns.in + 2 * padding - (columns.kernel - 1) * dilation - 1) / stride + 1;
    c.channels_last = draw(0, 1) == 0 && uses_channel_blocks(make_loops(c));
  }
  return c;
}

// Sum of one output: image n, output channel k (of all groups), output position o.
double literal_sum(const Case& c, const std::vector<double>& x, const std::vector<double>& w, std::int64_t n,
                   std::int64_t k, std::int64_t o) {
  double sum = 0;
  for (std::int64_t channel = 0; channel < c.inputs; ++channel)
    for (std::int64_t i = 0; i < c.kernel(); ++i) {
      std::int64_t at = 0, scale = 1, element = i, output = o;
      bool inside = true;
      for (std::size_t d = c.axes.size(); d-- > 0;) {
        const WindowAxis& a = c.axes[d];
        const std::int64_t position = output % a.out * a.stride + element % a.kernel * a.dilation - a.padding;
        inside = inside && position >= 0 && position < a.in;
        at += position * scale;
        scale *= a.in;
        element /= a.kernel;
        output /= a.out;
      }
      const std::int64_t group = k / c.outputs;
      if (inside)
        sum += x[position(c, n, c.groups * c.inputs, group * c.inputs + channel, c.in_size(), at)] *
               w[(k * c.inputs + channel) * c.kernel() + i];
    }
  return sum;
}

void store(DType dtype, void* data, std::int64_t i, double value) {
  StoredFloats::dispatch(dtype, [&]<class T>() { static_cast<T*>(data)[i] = round_to<T>(static_cast<float>(value)); });
}
double load(DType dtype, const void* data, std::int64_t i) {
  double value = 0;
  StoredFloats::dispatch(dtype, [&]<class T>() { value = to_double(static_cast<const T*>(data)[i]); });
  return value;
}
std::vector<double> draw_integers(std::mt19937_64& random, DType dtype, std::int64_t n, void* data) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < n; ++i) {
    out.push_back(std::uniform_int_distribution<int>(-2, 2)(random));
    store(dtype, data, i, out.back());
  }
  return out;
}

void run_as_product(const Case& c, const void* x, const void* w, void* y) {
  ConvolutionWindows windows{.axes = {}, .groups = c.groups};
  std::copy(c.axes.begin(), c.axes.end(), windows.axes.end() - static_cast<std::ptrdiff_t>(c.axes.size()));
  const std::int64_t k = c.inputs * c.kernel(), n = c.out_size();
  const MatmulProblem p{.batch = c.batch * c.groups,
                        .size = {c.outputs, n, k},
                        .a = {c.in, k, 1, c.groups > 1 ? c.outputs * k : 0},
                        .b = {c.in, c.in_size(), 1, c.inputs * c.in_size()},
                        .d = {c.out, n, 1, c.outputs * n},
                        .grouped = false,
                        .windows = windows};
  ASSERT_FALSE(unsupported_reason(p)) << unsupported_reason(p).text();
  matmul(p, w, x, y, c.threads);
}

void run_direct(const Case& c, void* x, void* w, void* y) {
  run_loops(make_loops(c), std::vector<void*>{x, w, y}, c.threads);
}

void check_case(const Case& c, std::mt19937_64& random, bool direct) {
  const auto bytes = [](DType dtype, std::int64_t n) { return static_cast<std::size_t>(n * dtype_bits(dtype) / 8); };
  const std::int64_t channels = c.groups * c.inputs, out_channels = c.groups * c.outputs;
  const GuardedBuffer x(bytes(c.in, c.batch * channels * c.in_size())),
      w(bytes(c.in, out_channels * c.inputs * c.kernel())), y(bytes(c.out, c.batch * out_channels * c.out_size()));
  const std::vector<double> xs = draw_integers(random, c.in, c.batch * channels * c.in_size(), x.data());
  const std::vector<double> ws = draw_integers(random, c.in, out_channels * c.inputs * c.kernel(), w.data());
  y.fill(0xff);
  direct ? run_direct(c, x.data(), w.data(), y.data()) : run_as_product(c, x.data(), w.data(), y.data());
  EXPECT_TRUE(y.are_edges_intact()) << c.text();
  for (std::int64_t n = 0; n < c.batch; ++n)
    for (std::int64_t k = 0; k < out_channels; ++k)
      for (std::int64_t o = 0; o < c.out_size(); ++o) {
        float rounded = 0;
        store(c.out, &rounded, 0, literal_sum(c, xs, ws, n, k, o));
        const std::int64_t at = position(c, n, out_channels, k, c.out_size(), o);
        ASSERT_EQ(load(c.out, y.data(), at), load(c.out, &rounded, 0))
            << c.text() << ": image " << n << ", channel " << k << ", output " << o;
      }
}

int case_count() {
  const char* const given = std::getenv("RIDGE_CONVOLUTIONS");
  return given != nullptr ? std::atoi(given) : 150;
}

TEST(Convolution, ProductsOfRandomWindowsAreExact) {
  std::mt19937_64 random(62);
  for (int i = 0; i < case_count() && !HasFailure(); ++i) check_case(random_case(random, false), random, false);
}

// Stages of k begin inside of the kernel of a channel, and blocks of columns inside of a row. The columns of the last
// case are of several outputs along the first axis.
TEST(Convolution, LongSumsOfManyColumnsAreExact) {
  std::mt19937_64 random(64);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t stride : {1, 2, 4}) {
      const WindowAxis axis{.in = 24 * stride, .out = 24, .kernel = 5, .stride = stride, .padding = 2};
      check_case({.in = dtype, .out = DType::f32, .inputs = 64, .outputs = 3, .axes = {axis, axis}, .threads = 2},
                 random, false);
    }
  const WindowAxis axis{.in = 10, .out = 10, .kernel = 3, .padding = 1};
  for (const DType dtype : {DType::f32, DType::bf16})
    check_case({.in = dtype, .out = DType::f32, .inputs = 46, .outputs = 2, .axes = {axis, axis, axis}}, random, false);
}

TEST(Convolution, RandomDirectSumsAreExact) {
  std::mt19937_64 random(63);
  for (int i = 0; i < case_count() && !HasFailure(); ++i) check_case(random_case(random, true), random, true);
}

TEST(Convolution, PaddingTimesAnInfiniteWeightIsNaN) {
  for (const std::int64_t channels : {std::int64_t{4}, std::int64_t{16}}) {
    std::vector<float> x(channels * 9, 1), w(channels * 9, 1), y(channels * 9);
    for (std::int64_t c = 0; c < channels; ++c) w[c * 9] = INFINITY;
    const ConvLoops conv{.batch = 1,
                         .channels = channels,
                         .out_channels = channels,
                         .groups = channels,
                         .windows = {{3, 3, 3}, {3, 3, 3}},
                         .padding = 1};
    run_loops(conv, std::vector<void*>{x.data(), w.data(), y.data()}, 1);
    for (std::int64_t o = 0; o < channels * 9; ++o) {  // the first weight reads the padding at the upper and left edges
      const bool reads_padding = o % 9 < 3 || o % 3 == 0;
      EXPECT_TRUE(reads_padding ? std::isnan(y[o]) : std::isinf(y[o])) << channels << " channels, output " << o;
    }
  }
}

TEST(Convolution, RowsOfABlockAreDividedAmongThreads) {
  const ConvLoops conv{.channels = 16, .out_channels = 16, .groups = 16, .windows = {{99, 99, 3}, {9, 9, 3}}};
  EXPECT_EQ(count_convolution_parts(conv, 1), 1);
  EXPECT_EQ(count_convolution_parts(conv, 2), 8);
  ConvLoops long_rows = conv;
  long_rows.windows = {{1 << 20, 1 << 20, 3}};
  EXPECT_EQ(count_convolution_parts(long_rows, 2), 16) << "rows that the L2 does not hold are computed by channels";
}

TEST(Convolution, WindowsOfOtherSizesThanTheProductAreRefused) {
  MatmulProblem p{.batch = 1,
                  .size = {4, 9, 18},
                  .a = {DType::f32, 18, 1},
                  .b = {DType::f32, 25, 1},
                  .d = {DType::f32, 9, 1},
                  .grouped = false,
                  .windows = ConvolutionWindows{}};
  p.windows->axes[1] = p.windows->axes[2] = {.in = 5, .out = 3, .kernel = 3};
  EXPECT_FALSE(unsupported_reason(p));
  p.size.n = 10;
  EXPECT_EQ(unsupported_reason(p).text(),
            "windows: expected n of 9 outputs and k in multiples of 9 kernel elements, found 10 and 18");
}

}  // namespace
}  // namespace ridge::ops
