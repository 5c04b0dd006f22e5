// Compares the packing for AMX tiles (which needs AVX512_BF16 but no AMX) with packing in plain C++. Sources end before
// an inaccessible page, and only the panel may be written.
#include "ridge/tile/cpu/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "ridge/ops/product/testing/guarded.h"
#include "ridge/pool/isa.h"

namespace ridge::tile::cpu {
namespace {

using ops::product_testing::GuardedBuffer;
using Pack = void (*)(const PackArgs&);
struct TestTag {};

// Converts a panel from [steps][width] to the layout of left panels, [blocks of 16 units][width][16 units].
std::vector<Unit> reorder_to_blocks(const std::vector<Unit>& steps, Index width) {
  std::vector<Unit> out(steps.size());
  for (Index s = 0; s < static_cast<Index>(steps.size()) / width; ++s)
    for (Index i = 0; i < width; ++i) out[(s / 16 * width + i) * 16 + s % 16] = steps[s * width + i];
  return out;
}

struct Panel {
  int lanes, width;
  Index k;
  bool along, left;
};

template <class T> T exact_value(Index x) {
  if constexpr (__is_same(T, Bf16))
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// Returns the first difference of packed panels, or "". T is the element type in memory, W in the panel.
template <class T, class W> std::string find_difference(Pack found, const Panel& p) {
  const Index lines = p.along ? p.lanes : p.k, each = p.along ? p.k : p.lanes, stride = each + 3;
  const Index elements = (lines - 1) * stride + each;
  const GuardedBuffer source(static_cast<std::size_t>(elements) * sizeof(T));
  for (Index i = 0; i < elements; ++i) source.as<T>()[i] = exact_value<T>(i * 37 % 256 - 128);
  constexpr Index deep = 16 * per_unit<W>;
  const Index padded_units = (p.k + deep - 1) / deep * 16;
  std::vector<Unit> expected(padded_units * p.width);
  (p.along ? pack_along_k<TestTag, T, W>
           : pack_across_k<TestTag, T, W>)({source.data(), stride, p.lanes, p.width, p.k, expected.data()});
  if (p.left) expected = reorder_to_blocks(expected, p.width);
  const GuardedBuffer out(expected.size() * sizeof(Unit), GuardedBuffer::after);
  source.make_read_only();
  found({source.data(), stride, p.lanes, p.width, p.k, out.as<Unit>()});
  const auto [is, should] = std::mismatch(out.as<Unit>(), out.as<Unit>() + expected.size(), expected.begin());
  const std::string name = std::to_string(p.lanes) + " lanes of " + std::to_string(p.width) + ", k " +
                           std::to_string(p.k) + (p.along ? ", along" : ", across");
  if (should != expected.end())
    return name + ": unit " + std::to_string(should - expected.begin()) + " is " + std::to_string(*is) + ", expected " +
           std::to_string(*should);
  return out.are_edges_intact() ? "" : name + ": units before the panel were overwritten";
}

template <class T, class W> void expect_same_panels(const Packers& packers, bool left) {
  for (const int width : {1, 2, 13, 15, 16, 17, 29, 31, 32, 48, 64}) {
    if (left && width > 32) continue;  // a block has at most 32 rows
    for (const int lanes : {width, width - 1, width - 14})
      for (const Index k : {1, 2, 3, 4, 5, 31, 32, 33, 62, 63, 64, 65, 66, 67, 127, 129, 200})
        for (const bool along : {true, false}) {
          if (lanes < 1) continue;
          ASSERT_EQ((find_difference<T, W>(along ? packers.along_k : packers.across_k, {lanes, width, k, along, left})),
                    "");
        }
  }
}

class TilePackers : public testing::Test {
 protected:
  void SetUp() override {
    if (detected_isa() < Isa::avx512_bf16)
      GTEST_SKIP() << "not checked: packing for AMX tiles needs AVX512_BF16, and this CPU has at most "
                   << isa_name(detected_isa());
    ASSERT_NE(amx_engine(DType::bf16, DType::bf16), nullptr) << "this build has no code for the CPU that it runs on";
  }
};

TEST_F(TilePackers, left_panels_equal_plain_packing) {
  expect_same_panels<Bf16, Bf16>(amx_engine(DType::bf16, DType::bf16)->left_packers, true);
  expect_same_panels<std::int8_t, Bf16>(amx_engine(DType::int8, DType::bf16)->left_packers, true);
  expect_same_panels<std::int8_t, std::int8_t>(amx_engine(DType::int8, DType::int8)->left_packers, true);
}

TEST_F(TilePackers, right_panels_equal_plain_packing) {
  expect_same_panels<Bf16, Bf16>(amx_engine(DType::bf16, DType::bf16)->right_packers, false);
  expect_same_panels<std::int8_t, Bf16>(amx_engine(DType::bf16, DType::int8)->right_packers, false);
  expect_same_panels<std::int8_t, std::int8_t>(amx_engine(DType::int8, DType::int8)->right_packers, false);
}

}  // namespace
}  // namespace ridge::tile::cpu
