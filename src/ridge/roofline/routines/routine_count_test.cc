// Compares the counts of routines with a literal loop nest, which multiplies tap by tap and records the elements that
// it touches.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ridge/base/contains.h"
#include "ridge/program/testing/round_trip.h"
#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/random_routine.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Machine machine() { return testing::make_test_machine({{DType::bf16, 100}, {DType::e4m3, 200}}, 10, 3); }

struct LoopCounts {
  std::int64_t flops = 0, bits_read = 0, bits_written = 0;
  bool operator==(const LoopCounts&) const = default;
};

// Reference implementation. It uses only the positions of dimensions and shares no code with the counts.
class LoopNest {
 public:
  LoopNest(const Program& program, const Bindings& sizes)
      : program_(program), sizes_(sizes), e_(std::get<Expression>(program.statements[0].op)) {
    for (const Node& node : e_.nodes)
      if (node.kind == Node::Kind::tensor) in_.push_back(node.tensor);
  }

  LoopCounts run() {
    switch (e_.routine->kind) {
      case RoutineKind::conv: conv(); break;
      case RoutineKind::conv_transpose: conv_transpose(); break;
      case RoutineKind::gather: gather(); break;
      case RoutineKind::quantize: quantize(); break;
      case RoutineKind::rotary: rotary(); break;
      case RoutineKind::max_pool:
      case RoutineKind::avg_pool: pool(); break;
      default: each();
    }
    return counts_;
  }

 private:
  const Tensor& tensor(int t) const { return program_.tensors[t]; }
  std::int64_t size(const Axis& a) const { return a.is_named() ? sizes_.at(a.dim) : a.literal; }
  std::int64_t elements(int t) const {
    std::int64_t n = 1;
    for (const Axis& a : tensor(t).axes) n *= size(a);
    return n;
  }
  // Returns the size of the batch (0), the channels (1) or a window dimension.
  std::int64_t extent(int t, std::size_t d) const {
    const std::vector<Axis>& axes = tensor(t).axes;
    if (d >= axes.size()) return 1;
    if (e_.routine->channels_last && d > 0) d = d == 1 ? axes.size() - 1 : d - 1;
    return size(axes[d]);
  }

  void conv() {
    const Routine& r = *e_.routine;
    const int x = in_[0], w = in_[1], y = e_.result;
    std::set<std::array<std::int64_t, 5>> read;
    const std::int64_t each = extent(w, 1), groups = extent(x, 1) / each, made = extent(w, 0) / groups;
    std::array<std::int64_t, 3> padding{r.padding, tensor(x).axes.size() > 3 ? r.padding : 0,
                                        tensor(x).axes.size() > 4 ? r.padding : 0};
    for (std::int64_t n = 0; n < extent(x, 0); ++n)
      for (std::int64_t k = 0; k < extent(w, 0); ++k)
        for (std::int64_t c = 0; c < each; ++c)
          for (std::int64_t o = 0; o < extent(y, 2) * extent(y, 3) * extent(y, 4); ++o)
            for (std::int64_t i = 0; i < extent(w, 2) * extent(w, 3) * extent(w, 4); ++i) {
              const std::array<std::int64_t, 3> to{o / extent(y, 4) / extent(y, 3), o / extent(y, 4) % extent(y, 3),
                                                   o % extent(y, 4)},
                  tap{i / extent(w, 4) / extent(w, 3), i / extent(w, 4) % extent(w, 3), i % extent(w, 4)};
              std::array<std::int64_t, 5> from{n, k / made * each + c};
              bool inside = true;
              for (std::size_t d = 0; d < 3; ++d) {
                from[d + 2] = to[d] * r.stride + tap[d] * r.dilation - padding[d];
                inside = inside && from[d + 2] >= 0 && from[d + 2] < extent(x, d + 2);
              }
              if (!inside) continue;
              counts_.flops += 2;
              read.insert(from);
            }
    counts_.bits_read = static_cast<std::int64_t>(read.size()) * dtype_bits(tensor(x).dtype) +
                        elements(w) * dtype_bits(tensor(w).dtype);
    counts_.bits_written = elements(y) * dtype_bits(tensor(y).dtype);
  }

  // Multiplies each element of the input with each weight, unless the product falls outside of the result.
  void conv_transpose() {
    const Routine& r = *e_.routine;
    const int x = in_[0], w = in_[1], y = e_.result;
    std::set<std::array<std::int64_t, 5>> read;
    const std::int64_t each = extent(w, 1);
    std::array<std::int64_t, 3> padding{r.padding, tensor(x).axes.size() > 3 ? r.padding : 0,
                                        tensor(x).axes.size() > 4 ? r.padding : 0};
    for (std::int64_t n = 0; n < extent(x, 0); ++n)
      for (std::int64_t c = 0; c < extent(x, 1); ++c)
        for (std::int64_t o = 0; o < extent(x, 2) * extent(x, 3) * extent(x, 4); ++o)
          for (std::int64_t i = 0; i < extent(w, 2) * extent(w, 3) * extent(w, 4); ++i) {
            const std::array<std::int64_t, 3> from{o / extent(x, 4) / extent(x, 3), o / extent(x, 4) % extent(x, 3),
                                                   o % extent(x, 4)},
                tap{i / extent(w, 4) / extent(w, 3), i / extent(w, 4) % extent(w, 3), i % extent(w, 4)};
            bool inside = true;
            for (std::size_t d = 0; d < 3; ++d) {
              const std::int64_t to = from[d] * r.stride + tap[d] * r.dilation - padding[d];
              inside = inside && to >= 0 && to < extent(y, d + 2);
            }
            if (!inside) continue;
            counts_.flops += 2 * each;
            read.insert({n, c, from[0], from[1], from[2]});
          }
    counts_.bits_read = static_cast<std::int64_t>(read.size()) * dtype_bits(tensor(x).dtype) +
                        elements(w) * dtype_bits(tensor(w).dtype);
    counts_.bits_written = elements(y) * dtype_bits(tensor(y).dtype);
  }

  // Visits the elements of each window; a position is a list of indices, one per dimension.
  void pool() {
    const Routine& r = *e_.routine;
    const int x = in_[0], y = e_.result;
    const std::size_t rank = tensor(x).axes.size();
    std::vector<std::size_t> pooled;
    for (std::size_t d = 0; d < rank; ++d)
      if (contains(r.over, tensor(x).axes[d])) pooled.push_back(d);
    std::int64_t points = 1;
    for (std::size_t i = 0; i < pooled.size(); ++i) points *= r.window;
    std::set<std::vector<std::int64_t>> read;
    for (std::int64_t element = 0; element < elements(y); ++element) {
      std::vector<std::int64_t> to(rank);
      std::int64_t rest = element;
      for (std::size_t d = rank; d-- > 0; rest /= size(tensor(y).axes[d])) to[d] = rest % size(tensor(y).axes[d]);
      for (std::int64_t point = 0; point < points; ++point) {
        std::vector<std::int64_t> from = to;
        bool inside = true;
        std::int64_t tap = point;
        for (const std::size_t d : pooled) {
          from[d] = to[d] * r.stride + tap % r.window * r.dilation - r.padding;
          tap /= r.window;
          inside = inside && from[d] >= 0 && from[d] < size(tensor(x).axes[d]);
        }
        if (!inside) continue;
        ++counts_.flops;
        read.insert(from);
      }
    }
    counts_.bits_read = static_cast<std::int64_t>(read.size()) * dtype_bits(tensor(x).dtype);
    counts_.bits_written = elements(y) * dtype_bits(tensor(y).dtype);
  }

  // Reads a row for each index, as if all indices were different, but no row twice.
  void gather() {
    const int t = in_[0], i = in_[1], y = e_.result;
    std::int64_t row = 1, indices = elements(i);  // Elements of a row; indices per row's batch
    for (const Axis& a : tensor(t).axes) {
      const bool is_row = !(a == e_.routine->over[0]);
      if (is_row) row *= size(a);
      if (is_row && contains(tensor(i).axes, a)) indices /= size(a);
    }
    counts_.bits_read = std::min(indices, size(e_.routine->over[0])) * row * dtype_bits(tensor(t).dtype) +
                        elements(i) * dtype_bits(tensor(i).dtype);
    counts_.bits_written = elements(y) * dtype_bits(tensor(y).dtype);
  }

  // Reads element by element, and a scale whenever a new block begins.
  void quantize() {
    const int x = in_[0], y = e_.result;
    const auto [block, element_bits, scale_bits] = format(tensor(y).dtype);
    const std::int64_t row = size(tensor(y).axes.back());
    for (std::int64_t i = 0; i < elements(x); ++i) {
      counts_.flops += 3;
      counts_.bits_read += dtype_bits(tensor(x).dtype);
      counts_.bits_written += element_bits + (i % row % block == 0 ? scale_bits : 0);
    }
  }
  static std::array<std::int64_t, 3> format(DType dtype) {
    if (dtype == DType::mxfp8) return {32, 8, 8};
    if (dtype == DType::mxfp4) return {32, 4, 8};
    if (dtype == DType::nvfp4) return {16, 4, 8};
    if (dtype == DType::e4m3_128) return {128, 8, 32};
    const std::string name(dtype_name(dtype));  // int4_64 has blocks of 64
    return {std::stoll(name.substr(name.find('_') + 1)), 4, name[0] == 'u' ? 32 : 16};
  }

  // Rotates each pair with four products and two sums, after its cosine and its sine.
  void rotary() {
    const std::int64_t pairs = size(e_.routine->over[0]) / 2;
    counts_.flops = elements(in_[0]) / 2 * 6 + elements(in_[1]) * pairs * 2;
    for (const int t : in_) counts_.bits_read += elements(t) * dtype_bits(tensor(t).dtype);
    counts_.bits_written = elements(e_.result) * dtype_bits(tensor(e_.result).dtype);
  }

  void each() {
    counts_.flops = elements(in_[0]);
    for (const int t : in_) counts_.bits_read += elements(t) * dtype_bits(tensor(t).dtype);
    counts_.bits_written = elements(e_.result) * dtype_bits(tensor(e_.result).dtype);
  }

  const Program& program_;
  const Bindings& sizes_;
  const Expression& e_;
  std::vector<int> in_;
  LoopCounts counts_;
};

TEST(Count, agrees_with_a_loop_nest_over_routines) {
  for (unsigned seed = 0; seed < testing::program_count(400); ++seed) {
    const testing::RandomRoutine made = testing::RandomRoutineMaker(seed).make();
    const auto program = parse(made.text);
    ASSERT_TRUE(program.ok()) << program.error().to_string();
    EXPECT_EQ(testing::round_trip_error(made.text), "") << made.text;
    const auto e = explain(*program, machine(), made.sizes);
    ASSERT_TRUE(e.ok()) << made.text << "\n" << e.error().to_string();
    const LoopCounts tally = LoopNest(*program, made.sizes).run();
    const Work& work = e->ops[0].work;
    const Bindings& dims = e->dims;
    EXPECT_EQ(work.flops.evaluate(dims).value(), tally.flops) << made.text;
    EXPECT_EQ(work.bytes_in.evaluate(dims).value(), (tally.bits_read + 7) / 8) << made.text;
    EXPECT_EQ(work.bytes_out.evaluate(dims).value(), (tally.bits_written + 7) / 8) << made.text;
    EXPECT_TRUE(e->ops[0].time_lower_s);
  }
}

Explanation explained(const std::string& text, const Bindings& dims = {}) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().to_string());
  auto e = explain(*program, machine(), dims);
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().to_string());
  return *std::move(e);
}

std::string formulas(const std::string& text) {
  const Explanation e = explained(text);
  const Work& work = e.ops.back().work;
  return fmt::format("{}{}: {} FLOP, {} + {} B", work.contraction ? "contraction " : "", dtype_name(work.math),
                     work.flops.to_string(e.dim_names), work.bytes_in.to_string(e.dim_names),
                     work.bytes_out.to_string(e.dim_names));
}

TEST(Count, of_routines) {
  EXPECT_EQ(formulas("x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1)"),
            "contraction bf16: 2*N*C*K*taps*taps2 FLOP, 2*N*C*H*W + 18*C*K + 2*N*H*W*K B");
  EXPECT_EQ(formulas("x: bf16[N, C, H]  w: bf16[K, C, 1]\ny[N, K, P] = conv(x, w, stride = 2)"),
            "contraction bf16: 2*N*C*K*P FLOP, 2*N*C*P + 2*C*K + 2*N*K*P B");
  EXPECT_EQ(
      formulas(
          "x: bf16[N, C, H, W]  w: bf16[C, K, 4, 4]\ny[N, K, P, Q] = conv_transpose(x, w, stride = 2, padding = 1)"),
      "contraction bf16: 2*N*C*K*taps*taps2 FLOP, 2*N*C*H*W + 32*C*K + 2*N*K*P*Q B");
  EXPECT_EQ(formulas("x: bf16[N, C, H, W]  w: bf16[C, K, 2, 2]\ny[N, K, P, Q] = conv_transpose(x, w, stride = 2)"),
            "contraction bf16: 8*N*C*H*W*K FLOP, 2*N*C*H*W + 8*C*K + 2*N*K*P*Q B");
  EXPECT_EQ(formulas("t: bf16[V, D]  i: int32[N]\ny[N, D] = gather(t, i over V)"),
            "f32: 0 FLOP, 2*D*rows + 4*N + 2*D*N B");
  EXPECT_EQ(formulas("x: bf16[N, D]  i: int32[N]\ny: f32[V, D] = scatter(x, i over V)"),
            "f32: N*D FLOP, 2*N*D + 4*N + 4*D*V B");
  EXPECT_EQ(formulas("x: bf16[N, T]\ny[N, T] = cumsum(x over T)"), "f32: N*T FLOP, 2*N*T + 2*N*T B");
}

// An mxfp4 has 4.25 bits per element; its product with bf16 runs in bf16, the product of two in fp4.
TEST(Count, of_formats_with_block_scales) {
  EXPECT_EQ(formulas("x: bf16[N, D]\nq[N, D] = quantize(x, e4m3, block = 128)"),
            "f32: 3*N*D FLOP, 2*N*D + 33*N*D/32 B");
  EXPECT_EQ(formulas("x: f32[N, D]\nq[N, D] = quantize(x, nvfp4)"), "f32: 3*N*D FLOP, 4*N*D + 9*N*D/16 B");
  EXPECT_EQ(formulas("x: bf16[N, D]\nq[N, D] = quantize(x, u4, block = 32)"), "f32: 3*N*D FLOP, 2*N*D + 5*N*D/8 B");
  EXPECT_EQ(formulas("x: bf16[N, D]  w: int4_128[F, D]\ny[N, F] = x * w"),
            "contraction bf16: 2*N*D*F FLOP, 2*N*D + 33*D*F/64 + 2*N*F B");
  EXPECT_EQ(formulas("x: bf16[N, D]  w: mxfp4[F, D]\ny[N, F] = x * w"),
            "contraction bf16: 2*N*D*F FLOP, 2*N*D + 17*D*F/32 + 2*N*F B");
  EXPECT_EQ(formulas("x: mxfp8[N, D]  w: mxfp4[F, D]\ny[N, F] = x * w"),
            "contraction e4m3: 2*N*D*F FLOP, 33*N*D/32 + 17*D*F/32 + 2*N*F B");
  EXPECT_EQ(formulas("x: bf16[N, D]  w: u8[F, D]\ny[N, F] = x * w"),
            "contraction bf16: 2*N*D*F FLOP, 2*N*D + D*F + 2*N*F B");
}

// Each of two chips holds 48 elements of a row, which are no multiple of blocks of 32.
TEST(Split, rejects_shards_that_are_no_multiple_of_blocks) {
  const Program program = parse("x: bf16[N, D]  w: mxfp4[F, D]\ny: bf16[N, F] = x * w").value();
  Machine linked = machine();
  linked.links.push_back({.name = "link", .bandwidth = testing::make_number(1)});
  const Bindings sizes{{"N", 2}, {"D", 96}, {"F", 4}};
  EXPECT_TRUE(explain(program, linked, sizes, DimensionSplit{"F", 2}).ok());
  EXPECT_EQ(explain(program, linked, sizes, DimensionSplit{"D", 2}).error().message,
            "'w' is mxfp4, whose blocks of 32 do not divide the 96 elements along D on each of 2 devices");
}

// The formula at every size equals a count along one dimension: at the edges of H, two of three rows of taps remain.
TEST(Count, omits_products_with_padding) {
  const std::string text = "x: bf16[N, C, H, W]  w: bf16[K, C, 3, 3]\ny[N, K, H, W] = conv(x, w, padding = 1)";
  const Explanation e = explained(text, {{"N", 2}, {"C", 5}, {"K", 7}, {"H", 10}, {"W", 1}});
  EXPECT_EQ(*e.ops[0].flops, 2 * 2 * 5 * 7 * (3 * 10 - 2) * 1);
  EXPECT_EQ(e.ops[0].work.flops_without_masks.to_string(e.dim_names), "18*N*C*H*W*K");
}

TEST(Fused, reads_only_indexed_rows_and_elements_inside_windows) {
  const Explanation two = explained(
      "t: bf16[V, D]  i: int32[N]  j: int32[N]\na[N, D] = gather(t, i over V)\n"
      "b[N, D] = gather(t, j over V)\ny: bf16[N, D] = a + b");
  ASSERT_TRUE(two.fused);
  EXPECT_EQ(two.fused->work.bytes_in.to_string(two.dim_names), "2*D*rows2 + 8*N");
  const Explanation same = explained(
      "t: bf16[V, D]  i: int32[N]\na[N, D] = gather(t, i over V)\n"
      "b[N, D] = gather(t, i over V)\ny: bf16[N, D] = a + b");
  EXPECT_EQ(same.fused->work.bytes_in.to_string(same.dim_names), "2*D*rows + 4*N");
  const Explanation whole = explained(
      "x: bf16[N, C, H]  w: bf16[K, C, 1]\na[N, K, P] = conv(x, w, stride = 2)\n"
      "s[N, C] = sum(x over H)\ny: bf16[N, K, P] = a * sum(s over C)");
  EXPECT_EQ(whole.fused->work.bytes_in.to_string(whole.dim_names), "2*N*C*H + 2*C*K");
}

std::string refusal(const std::string& text, const Bindings& dims) {
  const auto program = parse(text);
  EXPECT_TRUE(program.ok()) << text;
  const auto e = explain(*program, machine(), dims);
  return e ? std::string("accepted") : e.error().to_string();
}

TEST(Bind, rejects_sizes_that_a_routine_does_not_produce) {
  const std::string conv = "x: bf16[N, C, H]  w: bf16[K, C, 3]\ny[N, K, P] = conv(x, w, stride = 2, padding = 1)";
  EXPECT_EQ(refusal(conv, {{"H", 8}, {"P", 4}}), "accepted");
  EXPECT_EQ(refusal(conv, {{"H", 8}, {"P", 5}}),
            R"(program:2:9: the result has P = 5 positions, the window takes (8 + 2*1 - 1*(3 - 1) - 1)/2 + 1 = 4
  y[N, K, P] = conv(x, w, stride = 2, padding = 1)
          ^
  hint: dims P = 4, or another stride or padding
)");
  EXPECT_EQ(refusal("x: bf16[N, C, H]  w: bf16[K, C, 3]\ny[N, K, P] = conv(x, w)", {{"H", 2}, {"P", 1}}),
            R"(program:2:9: a window of 3 with dilation 1 does not fit into 2 with padding 0
  y[N, K, P] = conv(x, w)
          ^
  hint: use a larger padding or a smaller window
)");
  EXPECT_EQ(refusal("x: bf16[N, C, H]  w: bf16[K, D, 3]\ny[N, K, H] = conv(x, w, padding = 1, groups = 4)",
                    {{"C", 8}, {"D", 3}}),
            R"(program:2:1: 4 groups of 3 channels are not the 8 that 'x' has
  y[N, K, H] = conv(x, w, padding = 1, groups = 4)
  ^
  hint: groups times the channels of the weights are the channels of the input
)");
  EXPECT_EQ(refusal("x: bf16[N, C, H]  w: bf16[K, 2, 3]\ny[N, K, H] = conv(x, w, padding = 1, groups = 4)",
                    {{"C", 8}, {"K", 6}}),
            R"(program:2:1: 6 channels of the result cannot be divided into 4 groups
  y[N, K, H] = conv(x, w, padding = 1, groups = 4)
  ^
  hint: every group has the same number of channels
)");
}

TEST(Bind, rejects_sizes_that_a_transposed_convolution_does_not_produce) {
  const auto transposed = [](const std::string& options, const Bindings& dims) {
    return refusal("x: bf16[N, C, H]  w: bf16[C, K, R]\ny[N, M, P] = conv_transpose(x, w, groups = 2" + options + ")",
                   dims);
  };
  const std::string doubled = ", stride = 2, padding = 1";
  EXPECT_EQ(transposed(doubled, {{"H", 8}, {"R", 4}, {"P", 16}}), "accepted");
  EXPECT_EQ(transposed(doubled, {{"H", 8}, {"R", 4}, {"P", 17}}), "accepted");
  EXPECT_EQ(transposed(", dilation = 3", {{"H", 8}, {"R", 1}, {"P", 10}}), "accepted");
  EXPECT_EQ(transposed(doubled, {{"H", 8}, {"R", 4}, {"P", 15}}),
            R"(program:2:9: the result has P = 15 elements, the window makes (8 - 1)*2 - 2*1 + 1*(4 - 1) + 1 = 16 to 17
  y[N, M, P] = conv_transpose(x, w, groups = 2, stride = 2, padding = 1)
          ^
  hint: dims P = 16, or another stride or padding
)");
  EXPECT_EQ(transposed(doubled, {{"H", 8}, {"R", 4}, {"P", 18}}),
            R"(program:2:9: the result has P = 18 elements, the window makes (8 - 1)*2 - 2*1 + 1*(4 - 1) + 1 = 16 to 17
  y[N, M, P] = conv_transpose(x, w, groups = 2, stride = 2, padding = 1)
          ^
  hint: dims P = 16, or another stride or padding
)");
  EXPECT_EQ(transposed("", {{"H", 8}, {"R", 3}, {"P", 8}}),
            R"(program:2:9: the result has P = 8 elements, the window makes (8 - 1)*1 - 2*0 + 1*(3 - 1) + 1 = 10
  y[N, M, P] = conv_transpose(x, w, groups = 2)
          ^
  hint: dims P = 10, or another stride or padding
)");
  EXPECT_EQ(transposed(", padding = 1", {{"H", 1}, {"R", 1}, {"P", 1}}),
            R"(program:2:9: the padding leaves no element of the result: (1 - 1)*1 - 2*1 + 1*(1 - 1) + 1 = -1
  y[N, M, P] = conv_transpose(x, w, groups = 2, padding = 1)
          ^
  hint: use a smaller padding or a larger window
)");
  EXPECT_EQ(transposed(", padding = 2, stride = 3", {{"H", 2}, {"R", 1}, {"P", 3}}),
            R"(program:2:9: the result has P = 3 elements, the window makes (2 - 1)*3 - 2*2 + 1*(1 - 1) + 1 = 0 to 2
  y[N, M, P] = conv_transpose(x, w, groups = 2, padding = 2, stride = 3)
          ^
  hint: dims P = 1, or another stride or padding
)");
  EXPECT_EQ(transposed("", {{"C", 7}}), R"(program:2:1: 7 channels of the input cannot be divided into 2 groups
  y[N, M, P] = conv_transpose(x, w, groups = 2)
  ^
  hint: every group has the same number of channels
)");
  EXPECT_EQ(transposed("", {{"M", 8}, {"K", 3}}), R"(program:2:1: 2 groups of 3 channels are not the 8 that 'y' has
  y[N, M, P] = conv_transpose(x, w, groups = 2)
  ^
  hint: groups times the channels of the weights are the channels of the result
)");
  EXPECT_EQ(refusal("x: bf16[N, C, 9]  w: bf16[C, K, 3]\ny[N, K, 12] = conv_transpose(x, w)", {}),
            R"(program:2:9: the result has 12 elements, the window makes (9 - 1)*1 - 2*0 + 1*(3 - 1) + 1 = 11
  y[N, K, 12] = conv_transpose(x, w)
          ^^
  hint: write 11 there, or another stride or padding
)");
  EXPECT_EQ(transposed("", {{"H", 8}, {"R", 70000}, {"P", 70007}}),
            R"(program:2:9: expected a window of at most 65536, found 70000
  y[N, M, P] = conv_transpose(x, w, groups = 2)
          ^
  hint: use a smaller one
)");
}

}  // namespace
}  // namespace ridge
