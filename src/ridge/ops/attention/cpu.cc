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

}  // namespace ridge::ops
