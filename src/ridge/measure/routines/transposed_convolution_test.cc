// Compares plans of random transposed convolutions on this CPU with a literal loop that adds each product to the
// element of the result that it falls on. The data are small integers, so that sums are exact in any order.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "ridge/ops/loops/testing/random_layout.h"
#include "ridge/plan/plan.h"
#include "ridge/pool/testing/isa_fixture.h"
#include "ridge/program/routine.h"
#include "ridge/roofline/testing/random_routine.h"
#include "ridge/run/run_step.h"

namespace ridge {
namespace {

using ops::loops_testing::GuardedBuffer;
using ops::loops_testing::RandomLayouts;
using Position = std::array<std::int64_t, 5>;  // batch, channel, window dimensions; missing ones are 0

// A dense tensor with its channels second or last.
struct Image {
  DType dtype;
  void* data;
  Position extents{1, 1, 1, 1, 1};
  std::size_t rank;
  bool channels_last;

  Image(const Tensor& tensor, const Bindings& sizes, bool has_channels_last, void* the_data)
      : dtype(tensor.dtype), data(the_data), rank(tensor.axes.size()), channels_last(has_channels_last) {
    for (std::size_t d = 0; d < rank; ++d) extents[d] = *tensor.axes[memory_axis(d)].size(sizes);
  }
  std::size_t memory_axis(std::size_t d) const {
    if (!channels_last || d == 0) return d;
    return d == 1 ? rank - 1 : d - 1;
  }
  std::int64_t offset(const Position& at) const {
    Position ordered{}, sizes{};
    for (std::size_t d = 0; d < rank; ++d) {
      ordered[memory_axis(d)] = at[d];
      sizes[memory_axis(d)] = extents[d];
    }
    std::int64_t out = 0;
    for (std::size_t d = 0; d < rank; ++d) out = out * sizes[d] + ordered[d];
    return out;
  }
  std::int64_t count_elements() const { return extents[0] * extents[1] * extents[2] * extents[3] * extents[4]; }
  Position position(std::int64_t element) const {
    Position out{};
    for (std::size_t d = out.size(); d-- > 0; element /= extents[d]) out[d] = element % extents[d];
    return out;
  }
  double load(const Position& at) const { return RandomLayouts::load(dtype, data, offset(at)); }
};

// Returns the sums in the order of y's memory.
std::vector<double> add_products(const Routine& r, const Image& x, const Image& w, const Image& y) {
  std::vector<double> out(y.count_elements());
  const std::int64_t inputs = x.extents[1] / (y.extents[1] / w.extents[1]);  // channels of x in a group
  for (std::int64_t i = 0; i < x.count_elements(); ++i)
    for (std::int64_t j = 0; j < w.count_elements(); ++j) {
      const Position from = x.position(i), tap = w.position(j);
      if (tap[0] != from[1]) continue;
      Position to{from[0], from[1] / inputs * w.extents[1] + tap[1]};
      bool is_inside = true;
      for (std::size_t d = 2; d < x.rank; ++d) {
        to[d] = from[d] * r.stride + tap[d] * r.dilation - r.padding;
        is_inside = is_inside && to[d] >= 0 && to[d] < y.extents[d];
      }
      if (is_inside) out[y.offset(to)] += x.load(from) * w.load(tap);
    }
  return out;
}

class TransposedConvolutions : public pool::IsaTest {};

TEST_P(TransposedConvolutions, are_exact_for_integers) {
  for (unsigned seed = 0; seed < testing::program_count(2000); ++seed) {
    const testing::RandomRoutine made = testing::RandomRoutineMaker(seed).conv_transpose();
    const Program program = parse(made.text).value();
    const Plan plan = make_plan(program, program.bind_sizes(made.sizes).value()).value();
    const auto& e = std::get<Expression>(program.statements[0].op);
    RandomLayouts random(seed);
    std::vector<std::unique_ptr<GuardedBuffer>> buffers;
    std::vector<void*> addresses;
    for (const PlanBuffer& buffer : plan.buffers) {
      buffers.push_back(
          std::make_unique<GuardedBuffer>(static_cast<std::size_t>(buffer.size_bytes()), random.guard_side()));
      buffers.back()->fill(0xff);
      addresses.push_back(buffers.back()->data());
    }
    const std::vector<int> in = expression_operands(e);
    for (const int t : in) random.fill_floats(program.tensors[t].dtype, *buffers[t], true);
    for (const PlanStep& step : plan.steps) {
      std::vector<void*> data;
      for (const int buffer : step.buffers) data.push_back(addresses[buffer]);
      run_step(step, data, 1 + static_cast<int>(seed % 3));
    }
    const auto image = [&](int t) {
      return Image(program.tensors[t], made.sizes, e.routine->channels_last, addresses[t]);
    };
    const Image y = image(e.result);
    const std::vector<double> sums = add_products(*e.routine, image(in[0]), image(in[1]), y);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      float rounded = 0;
      RandomLayouts::store(y.dtype, &rounded, 0, static_cast<float>(sums[i]));
      ASSERT_EQ(RandomLayouts::load(y.dtype, y.data, static_cast<std::int64_t>(i)),
                RandomLayouts::load(y.dtype, &rounded, 0))
          << made.text << ": element " << i;
    }
    for (const auto& buffer : buffers) ASSERT_TRUE(buffer->are_edges_intact()) << made.text;
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, TransposedConvolutions,
                         ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge
