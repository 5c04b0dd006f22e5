// Recurrences of random shapes, strides, dtypes and steps against loops over single elements in f32, on every
// instruction set. The functions round once, so that results are equal bit by bit.
#include <gtest/gtest.h>

#include <cstring>

#include "ridge/ops/loops/cpu.h"
#include "ridge/ops/loops/testing/random_cases.h"
#include "ridge/pool/testing/isa_fixture.h"

namespace ridge::ops {
namespace {

using loops_testing::GuardedBuffer;
using loops_testing::RandomLayouts;
using NodeKind = RecurrenceNode::Kind;

float evaluate_reference_node(const RecurrenceLoops& l, std::size_t i, const std::vector<float>& values,
                              const std::vector<std::int64_t>& at, const std::vector<void*>& data, float previous) {
  const RecurrenceNode& n = l.nodes[i];
  if (n.kind == NodeKind::previous) return previous;
  if (n.kind == NodeKind::number) return static_cast<float>(n.number);
  if (n.kind == NodeKind::index) return static_cast<float>(at[n.axis]);
  if (n.kind == NodeKind::load) {
    std::int64_t offset = 0;
    for (std::size_t a = 0; a < at.size(); ++a) offset += at[a] * l.operands[n.operand].strides[a];
    return static_cast<float>(RandomLayouts::load(l.operands[n.operand].dtype, data[n.operand], offset));
  }
  double in[3] = {0, 0, 0};
  for (std::size_t k = 0; k < n.arguments.size(); ++k) in[k] = static_cast<double>(values[n.arguments[k]]);
  for (int time = 0; time < n.repeat; ++time)
    in[0] = static_cast<double>(static_cast<float>(function_info(n.function).reference(in[0], in[1], in[2])));
  return static_cast<float>(in[0]);
}

void run_reference(const RecurrenceLoops& l, const std::vector<void*>& data) {
  std::int64_t lines = 1;
  for (std::size_t a = 0; a + 1 < l.extents.size(); ++a) lines *= l.extents[a];
  std::vector<float> values(l.nodes.size());
  std::vector<std::int64_t> at(l.extents.size());
  for (std::int64_t line = 0; line < lines; ++line) {
    std::int64_t rest = line;
    for (std::size_t a = l.extents.size() - 1; a-- > 0; rest /= l.extents[a]) at[a] = rest % l.extents[a];
    float previous = 0;
    for (at.back() = 0; at.back() < l.extents.back(); ++at.back()) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = evaluate_reference_node(l, i, values, at, data, previous);
      previous = values.back();
      std::int64_t offset = 0;
      for (std::size_t a = 0; a < at.size(); ++a) offset += at[a] * l.operands.back().strides[a];
      RandomLayouts::store(l.operands.back().dtype, data.back(), offset, previous);
    }
  }
}

bool is_equal_element(DType dtype, const char* a, const char* b, std::int64_t i) {
  const double x = RandomLayouts::load(dtype, a, i), y = RandomLayouts::load(dtype, b, i);
  return x == y || (x != x && y != y);
}

class Recurrences : public pool::IsaTest {};

TEST_P(Recurrences, match_loops_over_single_elements) {
  for (unsigned seed = 0; seed < loops_testing::case_count(250); ++seed) {
    RandomLayouts random(seed);
    const auto [l, elements] = loops_testing::make_scan_case(random);
    std::vector<std::unique_ptr<GuardedBuffer>> buffers;
    std::vector<void*> data;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const DType dtype = l.operands[i].dtype;
      buffers.push_back(std::make_unique<GuardedBuffer>(elements[i] * dtype_bits(dtype) / 8, random.guard_side()));
      if (i + 1 < elements.size()) {
        random.fill_floats(dtype, *buffers.back(), random.flip());
        buffers.back()->make_read_only();
      }
      data.push_back(buffers.back()->data());
    }
    const GuardedBuffer& y = *buffers.back();
    const GuardedBuffer expected(y.size());
    expected.fill(0x7b);
    std::vector<void*> reference_data = data;
    reference_data.back() = expected.data();
    run_reference(l, reference_data);
    for (const int threads : {1, 3}) {
      y.fill(0x7b);
      run_loops(l, data, threads);
      for (std::int64_t i = 0; i < elements.back(); ++i)
        ASSERT_TRUE(is_equal_element(l.operands.back().dtype, y.data(), expected.data(), i))
            << "seed " << seed << ", element " << i << ", " << threads << " threads";
      ASSERT_TRUE(y.are_edges_intact()) << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Recurrences, ::testing::Values(pool::Isa::plain, pool::Isa::avx2, pool::Isa::avx512),
                         [](const auto& test) { return std::string(pool::isa_name(test.param)); });

}  // namespace
}  // namespace ridge::ops
