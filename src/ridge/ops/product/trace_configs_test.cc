// Checks the synchronization of Hopper configs (all if RIDGE_WHOLE_MENU is 1, otherwise the sample) under 1000 shuffled
// schedules: two tiles that end at different ring slots and, if k can be split, split-K, cooperative split-K whose
// splits time out in any order, stream-K and cluster split-K.
#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/product/matmul.h"
#include "ridge/tile/trace/check.h"
#include "ridge/tile/trace/record.h"

namespace ridge::ops {
namespace {

template <std::size_t index, class T> struct ConfigKernel
    : Matmul<kernel_config(index, operand_dtype<T>), typename OperandType<T>::Element, typename OperandType<T>::Element,
             Bf16, typename OperandType<T>::Sum> {};

// Kernels of other operands than bf16 differ only in how they multiply a stage, but have more operations: clusters of
// eight blocks then have one tile and fewer stages.
template <class T> constexpr bool is_short(const MatmulConfig& c) {
  return !std::is_same_v<T, Bf16> && c.cluster() == 8;
}
template <class T> inline constexpr int schedule_count = std::is_same_v<T, Bf16> ? 1000 : 100;

// Checks two groups with an empty group between them. Some tiles end with their group, others contain its end.
// Returns the blocks of k of a product that fills each slot of the ring, and one of them and each buffer of scales
// twice.
constexpr int traced_blocks(const MatmulConfig& c) {
  const int blocks = c.stages + 1, scaled_blocks = tile::scale_buffers * scale_quad + 1;
  return c.scales_blocks ? std::max(blocks, scaled_blocks) : blocks;
}

template <std::size_t index, class T> void expect_groups_no_sync_errors() {
  constexpr MatmulConfig c = kernel_config(index, operand_dtype<T>);
  const int along = c.swap ? c.n : c.m;
  const tile::trace::RecordOptions groups{
      .kernel = "config " + std::to_string(index) + " grouped",
      .sizes = {.m = c.swap ? c.m : 3 * c.m, .n = c.swap ? 3 * c.n : c.n, .k = c.k * traced_blocks(c), .batch = 3},
      .starts = {0, along + 5, along + 5, 3 * along}};
  EXPECT_EQ(check_schedules(tile::trace::record_program<ConfigKernel<index, T>>(groups), schedule_count<T>).first_error,
            "");
}

template <std::size_t index, class T> void expect_no_sync_errors() {
  constexpr MatmulConfig c = kernel_config(index, operand_dtype<T>);
  if constexpr (c.grouped) return expect_groups_no_sync_errors<index, T>();
  const std::string name = "config " + std::to_string(index);
  const tile::trace::RecordOptions whole{
      .kernel = name,
      .sizes = {.m = (is_short<T>(c) ? 1 : 2) * c.m * c.cluster_m, .n = c.n * c.cluster_n, .k = c.k * traced_blocks(c)},
      .blocks = c.cluster(),
      .prefetch_constants = index % 2 == 1};
  EXPECT_EQ(check_schedules(tile::trace::record_program<ConfigKernel<index, T>>(whole), schedule_count<T>).first_error,
            "");
  if (!c.can_split()) return;
  const tile::trace::RecordOptions splits{
      .kernel = name + " split",
      .sizes = {.m = c.m * c.cluster_m, .n = c.n * c.cluster_n, .k = c.k * (is_short<T>(c) ? 3 : 4), .splits = 2},
      .blocks = 2 * c.cluster()};
  EXPECT_EQ(check_schedules(tile::trace::record_program<ConfigKernel<index, T>>(splits), schedule_count<T>).first_error,
            "");
  if (c.can_split() && c.epilogue_steps() > 1) {
    tile::trace::RecordOptions cooperative = splits;
    cooperative.kernel = name + " cooperative_split_k";
    cooperative.sizes.split_mode = tile::SplitMode::cooperative_split_k;
    if (c.cluster() < 8) {
      cooperative.sizes.splits = 3;
      cooperative.blocks = 3 * c.cluster();
    }
    const int schedules = c.adds_pieces ? 2000 : 1000;  // Pieces are more steps, of which fewer orders time out
    const tile::trace::CheckResult v =
        check_schedules(tile::trace::record_program<ConfigKernel<index, T>>(cooperative), schedules);
    EXPECT_EQ(v.first_error, "");
    // Sets of splits that timed out: the empty set, and all sets without the split that arrives last
    EXPECT_GE(v.gave_up.size(), c.cluster() < 8 ? 7U : 3U) << name;
  }
  if (c.cluster() > 1) return;
  const tile::trace::RecordOptions stream_k{
      .kernel = name + " in runs",
      .sizes = {.m = 2 * c.m, .n = c.n, .k = c.k * 3, .split_mode = tile::SplitMode::stream_k},
      .blocks = 3};
  EXPECT_EQ(
      check_schedules(tile::trace::record_program<ConfigKernel<index, T>>(stream_k), std::min(300, schedule_count<T>))
          .first_error,
      "");
  if (!c.can_split_in_cluster()) return;
  const tile::trace::RecordOptions shared{
      .kernel = name + " shared",
      .sizes = {.m = c.m, .n = c.n, .k = c.k * 4, .splits = 2, .split_mode = tile::SplitMode::cluster_split_k},
      .blocks = 2};
  EXPECT_EQ(
      check_schedules(tile::trace::record_program<ConfigKernel<index, T>>(shared), std::min(300, schedule_count<T>))
          .first_error,
      "");
}

template <std::size_t index, class T> void check_if_compiled() {
  constexpr DType dtype = operand_dtype<T>;
  if constexpr ((RIDGE_WHOLE_MENU || is_in_sample(index)) && kernel_config(index, dtype).can_multiply(dtype))
    expect_no_sync_errors<index, T>();
}
template <class T, std::size_t... indices> void check_all_configs(std::index_sequence<indices...>) {
  (check_if_compiled<indices, T>(), ...);
}

TEST(TraceConfigs, ConfigsHaveNoSynchronizationErrors) {
  ASSERT_GT(sm90_kernel_configs.size(), 40U);
  check_all_configs<Bf16>(std::make_index_sequence<sm90_kernel_configs.size()>());
}

// The sums of a stage are added in f32, in pieces.
TEST(TraceConfigs, ConfigsOfEightBitsHaveNoSynchronizationErrors) {
  check_all_configs<E4m3>(std::make_index_sequence<sm90_kernel_configs.size()>());
}

// Sums of int8 are exact in int32, so that kernels differ from those of bf16 only in the elements of a stage.
TEST(TraceConfigs, ConfigsOfIntegersHaveNoSynchronizationErrors) {
  check_all_configs<std::int8_t>(std::make_index_sequence<sm90_kernel_configs.size()>());
}

// Threads that load scales fill two buffers, which the groups of a tile read and release.
TEST(TraceConfigs, ConfigsThatScaleBlocksHaveNoSynchronizationErrors) {
  check_all_configs<ScaledE4m3>(std::make_index_sequence<sm90_kernel_configs.size()>());
}

}  // namespace
}  // namespace ridge::ops
