// Tests products in chunks that overlap their collectives: the pairs found, the split of rows, and the predicted times.
#include "ridge/plan/ranks/chunk_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ridge/plan/plan.h"
#include "ridge/program/program.h"

namespace ridge::ranks {
namespace {

struct FoundPairs {
  std::vector<ChunkedPair> pairs;
  RankSchedule acts;
  MeshDevice device;
};

FoundPairs find_pairs(const std::string& text, Bindings sizes, std::int64_t number = 0,
                      const std::vector<int>& stored = {}) {
  const auto program = parse(text, {.dtype = DType::bf16}).value();
  if (text.find('F') == std::string::npos) sizes.erase("F");
  const Bindings all = program.bind_sizes(sizes).value();
  FoundPairs out{.pairs = {}, .acts = {}, .device = {mesh_of(program, all).value(), number}};
  out.acts = build_rank_schedule(program, all, out.device, stored).value();
  for (std::size_t i = 0; i < out.acts.steps.size(); ++i)
    if (const auto pair = find_chunked_pair(out.acts, i, out.device, stored)) out.pairs.push_back(*pair);
  return out;
}

const Bindings sizes{{"B", 1024}, {"D", 64}, {"F", 128}, {"X", 2}};
constexpr const char* gather_program = "x: bf16[B_X, D]  w: bf16[D, F_X]\ng[B, D] = x\ny: bf16[B, F_X] = g * w";

TEST(ChunkSchedule, finds_pairs_with_independent_rows) {
  const FoundPairs all_gather = find_pairs(gather_program, sizes);
  ASSERT_EQ(all_gather.pairs.size(), 1u);
  EXPECT_EQ(all_gather.pairs[0].kind, Collective::all_gather);
  EXPECT_EQ(all_gather.pairs[0].row_dim, "B");
  const FoundPairs scatter = find_pairs("x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B_X, F] = x * w", sizes);
  ASSERT_EQ(scatter.pairs.size(), 1u);
  EXPECT_EQ(scatter.pairs[0].kind, Collective::reduce_scatter);
  const FoundPairs reduce = find_pairs("x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w", sizes);
  ASSERT_EQ(reduce.pairs.size(), 1u);
  EXPECT_EQ(reduce.pairs[0].kind, Collective::all_reduce);
  // Statements before the product are part of the same pair.
  const FoundPairs layer = find_pairs(
      "x: bf16[B, D]  u: bf16[D, F_X]  v: bf16[F_X, D]\nh[B, F_X] = x * u\ng[B, F_X] = gelu(h)\ny: bf16[B, D] = g * v",
      sizes);
  EXPECT_EQ(layer.pairs.size(), 1u);
}

TEST(ChunkSchedule, finds_no_pairs_with_dependent_rows) {
  for (const char* const text : {
           "x: bf16[B, D_X]  w: bf16[D, F]\ng[B, D] = x\ny: bf16[B, F] = g * w",  // columns are gathered
           "x: bf16[B_X, D]  w: bf16[B, F]\ng[B, D] = x\ny: bf16[D, F] = g * w",  // rows are summed
           "x: bf16[B_X, D]\ng[B, D] = x\ny: bf16[B, D] = softmax(g over B)",     // rows depend on each other
           "x: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F_X] = x * w",           // columns are scattered
           "x: bf16[B_X, D]  w: bf16[D, F]\ng[B, D] = x\ny: bf16[B, F] = g * w\nz: bf16[D] = sum(g over B)",  // as well
       })
    EXPECT_EQ(find_pairs(text, sizes).pairs.size(), 0u) << text;
  EXPECT_EQ(find_pairs(gather_program, sizes, 0, {2}).pairs.size(), 0u) << "the gathered tensor is written to a file";
  Bindings alone = sizes;
  alone["X"] = 1;
  EXPECT_EQ(find_pairs(gather_program, alone).pairs.size(), 0u);
}

TEST(ChunkSchedule, row_shards_cover_every_row_once) {
  for (const std::int64_t x : {2, 3, 5})
    for (const std::int64_t b : {1, 4, 127, 1024, 1030}) {
      Bindings given = sizes;
      given["X"] = x;
      given["B"] = b;
      const FoundPairs all = find_pairs(gather_program, given, x - 1);
      if (all.pairs.empty()) continue;  // a rank without rows has no pair
      std::int64_t next = 0;
      for (const RowShard& piece : row_shards(all.acts, all.pairs[0], all.device)) {
        EXPECT_EQ(piece.rows.begin, next);
        next = piece.rows.end;
        for (const std::int64_t chunks : {1, 2, 3, 8}) {
          std::int64_t row = piece.rows.begin;
          const std::vector<AxisRange> cut = split_rows(piece.rows, chunks);
          EXPECT_LE(static_cast<std::int64_t>(cut.size()), chunks);
          for (const AxisRange& rows : cut) {
            EXPECT_EQ(rows.begin, row);
            EXPECT_TRUE(rows.end == piece.rows.end || rows.size() % 128 == 0);
            row = rows.end;
          }
          EXPECT_EQ(row, piece.rows.end);
        }
      }
      EXPECT_EQ(next, b);
    }
}

// Single kernel: every element belongs to one chunk, and chunks are numbered in processing order.
TEST(ChunkSchedule, row_order_numbers_chunks_in_processing_order) {
  const std::vector<RowShard> halves{{0, {0, 4096}}, {1, {4096, 8192}}};
  const ops::RowWalk second = plan_row_order(halves, 1, {.columns = 8192}, 8);
  EXPECT_EQ(second.rows, 2048);
  EXPECT_EQ(second.cols, 2048);
  EXPECT_EQ(second.chunks_per_shard, 8);
  EXPECT_EQ(second.first, 0) << "after the last rank follows the first";
  EXPECT_EQ(plan_row_order(halves, 0, {.columns = 8192}, 8).first, 4096);
  EXPECT_EQ(second.chunk_number(0, 0), 0);
  EXPECT_EQ(second.chunk_number(2047, 2048), 1);
  EXPECT_EQ(second.chunk_number(2048, 8191), 7);
  EXPECT_EQ(second.chunk_number(8191, 8191), 15);
  EXPECT_EQ(second.shard_position(4095).shard, 0);
  EXPECT_EQ(second.shard_position(4100).shard, 1);
  EXPECT_EQ(second.shard_position(4100).row, 4);
  EXPECT_EQ(second.chunk_width(3, 8192), 2048);
  EXPECT_EQ(second.chunk_width(3, 8000), 1856) << "the last column block has the remainder";
  // A gather starts with this rank's own rows, and a shard arrives in column blocks.
  const ops::RowWalk gathered = plan_row_order(halves, 1, {.is_gather = true, .columns = 8192}, 4);
  EXPECT_EQ(gathered.first, 4096);
  EXPECT_EQ(gathered.rows, 4096);
  EXPECT_EQ(gathered.cols, 2048);
  EXPECT_EQ(gathered.chunks_per_shard, 4);
  EXPECT_EQ(gathered.chunk_number(0, 2048), 5) << "after its own shard";
  EXPECT_EQ(plan_row_order(halves, 1, {.is_gather = true, .columns = 8192}, 8).chunks_per_shard, 4)
      << "at least 2048 columns";
  // Three ranks, with two rows of the result for each row of a shard.
  const std::vector<RowShard> thirds{{0, {0, 384}}, {1, {384, 768}}, {2, {768, 1152}}};
  const ops::RowWalk two = plan_row_order(thirds, 0, {.columns = 4000, .rows_per_shard_row = 2}, 3);
  EXPECT_EQ(two.shard_rows, 768);
  EXPECT_EQ(two.rows, 768);
  EXPECT_EQ(two.cols, 1408);
  EXPECT_EQ(two.chunks_across, 3);
  const ops::RowWalk most = plan_row_order(thirds, 0, {.columns = 4000, .rows_per_shard_row = 2}, 8);
  EXPECT_EQ(most.cols, 1024) << "at least 1024 columns when sums are scattered";
  EXPECT_EQ(most.chunks_across, 4);
  EXPECT_EQ(plan_row_order(thirds, 0, {.is_gather = true, .columns = 4000}, 3).cols, 2048)
      << "2048 when rows are gathered";
  EXPECT_EQ(plan_row_order({{0, {0, 4096}}, {1, {4096, 8064}}}, 0, {.columns = 64}, 1).rows, 0)
      << "shards of two lengths";
  EXPECT_EQ(plan_row_order({{0, {0, 100}}, {1, {100, 200}}}, 0, {.columns = 64}, 1).rows, 0) << "a tile in two shards";
}

// Computed by hand, with a message latency of 1.
TEST(ChunkSchedule, launch_per_chunk_time_matches_hand_computation) {
  // The rank's own shard takes 10. Meanwhile, at 1 + 4, the other shard arrives, which takes 10 more.
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::all_gather, 2, 1,
                                             {.main_product = 10, .edge_product = 10, .send = 4, .latency = 1}),
                   20);
  // Two chunks of 15 arrive at 16 and 31; each is multiplied in 5.
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::all_gather, 2, 2,
                                             {.main_product = 10, .edge_product = 5, .send = 15, .latency = 1}),
                   36);
  // Three ranks. The own shard ends at 10; the next one arrives at 9 and ends at 20; the last one's two chunks arrive
  // at 13 and 17 and end at 25 and 30.
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::all_gather, 3, 2,
                                             {.main_product = 10, .edge_product = 5, .send = 4, .latency = 1}),
                   30);
  // The other rank's shard takes 10, its transfer 4, the latency 1; the own shard with addition takes 12.
  const ChunkSeconds whole{.main_product = 12, .edge_product = 10, .send = 4, .latency = 1};
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::reduce_scatter, 2, 1, whole), 27);
  // The other rank's chunks end at 5 and 10 and arrive at 10 and 15; its own chunks end at 16 and 22.
  const ChunkSeconds half{.main_product = 6, .edge_product = 5, .send = 4, .latency = 1};
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::reduce_scatter, 2, 2, half), 22);
  // The last sum is sent at 22, takes 4, and has a latency of 1.
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::all_reduce, 2, 2, half), 27);
  // With three ranks each shard is sent twice. Products end at 10, 27 and 44; transfers at 15 and 32.
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::reduce_scatter, 3, 1, whole), 44);
  // Transfers are sequential and end at 6, 11 and 16; with a latency of 3 each, additions end at 10, 15 and 20.
  const ChunkSeconds thirds{.main_product = 1, .edge_product = 1, .send = 5, .latency = 3};
  EXPECT_DOUBLE_EQ(estimate_chunk_launches_s(Collective::reduce_scatter, 2, 3, thirds), 20);
}

TEST(ChunkSchedule, column_blocks_are_sent_in_order_of_use) {
  const auto order = [](double waves) {
    std::string out;
    for (const ColumnSend& each : order_column_sends(4, 2, waves))
      out += fmt::format("{}.{} ", each.rank_distance, each.column_block);
    return out;
  };
  EXPECT_EQ(order(1), "1.0 1.1 2.0 2.1 3.0 3.1 ");
  EXPECT_EQ(order(0.97), "1.0 1.1 2.0 2.1 3.0 3.1 ") << "a few tiles of the next shard start early";
  EXPECT_EQ(order(2.6), "1.0 1.1 2.0 2.1 3.0 3.1 ");
  EXPECT_EQ(order(0.5), "1.0 1.1 2.0 3.0 2.1 3.1 ") << "the last two process their column blocks together";
  EXPECT_EQ(order(0.1), "1.0 2.0 3.0 1.1 2.1 3.1 ");
}

TEST(ChunkSchedule, run_lengths_double_in_the_first_shard) {
  const auto lengths = [](const ChunkRunLengths& runs, std::size_t ranks, std::int64_t chunks) {
    std::string out;
    std::size_t step = 0;
    for (const ranks::ChunkRun& run : runs.list_runs(ranks, chunks)) {
      for (; step < run.shard_position; ++step) out += "| ";
      out += fmt::format("{} ", run.chunk_range.size());
    }
    return out;
  };
  EXPECT_EQ(lengths({}, 3, 2), "1 1 | 1 1 | 1 1 ");
  EXPECT_EQ(lengths({.max_first = 4, .max_middle = 8, .max_last = 2, .max_broadcast = 4}, 4, 8),
            "1 2 4 1 | 8 | 2 2 2 2 | 4 4 ");
  EXPECT_EQ(lengths({.max_first = 2, .max_middle = 8, .max_last = 8, .max_broadcast = 4}, 2, 7), "1 2 2 2 | 4 3 ")
      << "with two ranks the first shard is the last to be sent";
}

TEST(ChunkSchedule, chunks_of_a_run_share_a_flag) {
  ops::ScatteredRows rows;
  rows.chunks_per_shard = 4;
  assign_flags(rows, ChunkRunLengths{.max_first = 2, .max_last = 4, .max_broadcast = 2}.list_runs(3, 4));
  std::string words;
  for (int chunk = 0; chunk < 12; ++chunk) words += fmt::format("{} ", rows.flag_index(chunk));
  EXPECT_EQ(words, "0 1 1 2 3 3 3 3 4 4 5 5 ");
  assign_flags(rows, ChunkRunLengths{}.list_runs(3, 4));
  for (int chunk = 0; chunk < 12; ++chunk) EXPECT_EQ(rows.flag_index(chunk), chunk);
}

// Computed by hand, for a single kernel.
TEST(ChunkSchedule, single_kernel_time_matches_hand_computation) {
  const auto gathered = [](const KernelSeconds& seconds) {
    return estimate_single_kernel_s(Collective::all_gather, 2, 2, {}, seconds);
  };
  // The rank's own two chunks end at 20. The other rank's two arrive at 5 and 9; with transfers of 15, they arrive at
  // 16 and 31 and end at 26 and 41.
  EXPECT_DOUBLE_EQ(gathered({.chunk_product = 10, .transfer = 3, .copy_overhead = 1, .latency = 1}), 40);
  EXPECT_DOUBLE_EQ(gathered({.chunk_product = 10, .transfer = 15, .latency = 1}), 41);
  // Both shards are in one wave, so the own shard waits for the other's column blocks, which arrive at 13 and 25. Each
  // column block of both shards takes 20.
  EXPECT_DOUBLE_EQ(gathered({.chunk_product = 10, .transfer = 12, .latency = 1, .waves_per_shard = 0.5}), 53);
  // Two waves per shard; only the first one waits. The own shard ends at 20; the first wave of the other shard takes 5
  // from 31 on and 5 from 61 on; the second wave takes 10 more.
  EXPECT_DOUBLE_EQ(gathered({.chunk_product = 10, .transfer = 30, .latency = 1, .waves_per_shard = 2}), 76);

  // Three ranks: two shards of two chunks, one wave each, are sent at the speed of the links; the own shard is not
  // sent.
  const auto scattered = [](const KernelSeconds& seconds, const ChunkRunLengths& runs = {}) {
    return estimate_single_kernel_s(Collective::reduce_scatter, 3, 2, runs, seconds);
  };
  EXPECT_DOUBLE_EQ(scattered({.chunk_product = 10, .remote_store = 4}), 60);
  EXPECT_DOUBLE_EQ(scattered({.chunk_product = 10, .remote_store = 12}), 60)
      << "24 and 48, while the last is multiplied";
  EXPECT_DOUBLE_EQ(scattered({.chunk_product = 10, .remote_store = 30}), 120);
  EXPECT_DOUBLE_EQ(scattered({.chunk_product = 10, .remote_store = 30, .latency = 5}), 130)
      << "65 and 125 before the next one starts";
  // Sequential copies send the sums instead. The first shard is stored at 20 and its first copy ends at 34, before the
  // next shard is multiplied at 40. The other copies end at 48, 62 and 76; the last sum is stored at 77.
  KernelSeconds sent{.chunk_product = 10, .transfer = 13, .copy_overhead = 1, .latency = 1};
  EXPECT_DOUBLE_EQ(scattered(sent), 77);
  // One copy sends both chunks of the second shard, from 48 until 48 + 1 + 26.
  EXPECT_DOUBLE_EQ(scattered(sent, {.max_last = 2}), 76);
  // One wave per chunk, stored at 10, 20, 30, 40: copies end at 24, 38, 52, 66; the last two are stored at 53 and 67.
  sent.waves_per_shard = 2;
  EXPECT_DOUBLE_EQ(scattered(sent), 67);
  // All tiles run concurrently and end at 60. Each shard waits for the previous one: copies end at 74, 88, 102 and 116.
  sent.waves_per_shard = 0.3;
  EXPECT_DOUBLE_EQ(scattered(sent), 117);

  // All-reduce: the final sums, complete at 77, are sent to two other ranks, 14 per chunk, until 105 and 133; with one
  // copy per rank, until 131.
  const auto added = [](const KernelSeconds& seconds, const ChunkRunLengths& runs) {
    return estimate_single_kernel_s(Collective::all_reduce, 3, 2, runs, seconds);
  };
  sent.waves_per_shard = 1;
  EXPECT_DOUBLE_EQ(added(sent, {}), 134);
  EXPECT_DOUBLE_EQ(added(sent, {.max_broadcast = 2}), 132);
}

}  // namespace
}  // namespace ridge::ranks
