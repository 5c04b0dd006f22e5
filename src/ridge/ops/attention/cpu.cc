#include "ridge/ops/attention/cpu.h"

#include <algorithm>
#include <atomic>

#include "ridge/base/cores.h"
#include "ridge/ops/attention/cpu_run.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {

bool multiplies_bf16_pairs(DType dtype) {
  return dtype == DType::bf16 && pool::active_isa() == pool::Isa::avx512_bf16 && pool::multiplies_bf16_pairs();
}

void attention(const AttentionProblem& p, const AttentionData& data, int threads) {
  if (threads <= 0) threads = usable_cores();
  const bool uses_pairs = multiplies_bf16_pairs(p.dtype);
  const auto run = uses_pairs ? avx512_bf16::run_attention
                              : pool::select_for_isa(plain::run_attention, avx2::run_attention, avx512::run_attention);
  const auto memory = uses_pairs ? avx512_bf16::attention_scratch_bytes
                                 : pool::select_for_isa(plain::attention_scratch_bytes, avx2::attention_scratch_bytes,
                                                        avx512::attention_scratch_bytes);
  const std::int64_t matrices = p.outer * p.heads;
  const auto count_items = [&](std::int64_t rows) { return matrices * ((p.rows + rows - 1) / rows); };
  // Items have few rows if tall items would be mostly empty or would leave threads idle.
  const bool uses_tall_items = p.rows > short_item_rows * 2 &&
                               (count_items(tall_item_rows) >= threads || count_items(short_item_rows) < 2 * threads);
  const std::int64_t count = count_items(uses_tall_items ? tall_item_rows : short_item_rows);
  std::atomic<int> next{0};
  pool::run_parallel(static_cast<int>(std::min<std::int64_t>(threads, count)), [&](int) {
    run({p, data, uses_tall_items, &next, pool::thread_arenas().left.ensure_size(memory(uses_tall_items))});
  });
}

namespace {

// Returns the bytes of `count` 4-byte numbers, rounded up to cache lines.
std::size_t word_array_bytes(std::int64_t count) { return (static_cast<std::size_t>(count) * 4 + 63) / 64 * 64; }

// Runs a pass over all tiles of query rows, divided evenly among the threads.
template <class Pass>
void run_over_tiles(const AttentionBackwardRun& run, std::int64_t tiles, int threads, const Pass& pass) {
  const int workers = static_cast<int>(std::min<std::int64_t>(threads, tiles));
  pool::run_parallel(workers, [&](int worker) {
    const pool::WorkSlice range = pool::split_evenly(tiles, workers, worker);
    pass(run, range.begin, range.end);
  });
}

}  // namespace

void attention_backward(const AttentionBackwardProblem& problem, const AttentionBackwardData& data, int threads) {
  if (threads <= 0) threads = usable_cores();
  const auto prepare = pool::select_for_isa(plain::prepare_attention_backward, avx2::prepare_attention_backward,
                                            avx512::prepare_attention_backward);
  const auto run =
      pool::select_for_isa(plain::run_attention_backward, avx2::run_attention_backward, avx512::run_attention_backward);
  const auto finish = pool::select_for_isa(plain::finish_attention_backward, avx2::finish_attention_backward,
                                           avx512::finish_attention_backward);
  const auto memory =
      pool::select_for_isa(plain::backward_scratch_bytes, avx2::backward_scratch_bytes, avx512::backward_scratch_bytes);
  const AttentionProblem& p = problem.forward;
  const std::int64_t tiles_per_head = (p.rows + cpu_backward_rows - 1) / cpu_backward_rows,
                     tiles = p.outer * p.heads * tiles_per_head;
  const std::size_t row_stats_bytes = word_array_bytes(tiles * 2 * cpu_backward_rows),
                    add_counts_bytes = word_array_bytes(tiles),
                    sums_bytes = word_array_bytes(tiles * cpu_backward_rows * p.width);
  // The workspace of all threads is in the calling thread's arena `sums`. Each thread's tiles are in its arena `left`.
  auto* const workspace =
      static_cast<std::byte*>(pool::thread_arenas().sums.ensure_size(row_stats_bytes + add_counts_bytes + sums_bytes));
  std::atomic<int> next{0};
  AttentionBackwardRun shared_run{problem,
                                  data,
                                  tiles_per_head,
                                  reinterpret_cast<float*>(workspace),
                                  reinterpret_cast<float*>(workspace + row_stats_bytes),
                                  reinterpret_cast<int*>(workspace + row_stats_bytes + sums_bytes),
                                  &next,
                                  nullptr};
  run_over_tiles(shared_run, tiles, threads, prepare);
  const std::int64_t items = p.outer * p.key_heads * ((p.keys + cpu_backward_keys - 1) / cpu_backward_keys);
  pool::run_parallel(static_cast<int>(std::min<std::int64_t>(threads, items)), [&](int) {
    AttentionBackwardRun own_run = shared_run;
    own_run.memory = pool::thread_arenas().left.ensure_size(memory());
    run(own_run);
  });
  run_over_tiles(shared_run, tiles, threads, finish);
}

}  // namespace ridge::ops
