#include "ridge/ops/attention/cpu.h"

#include <algorithm>
#include <atomic>

#include "ridge/base/cores.h"
#include "ridge/ops/attention/run.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {

bool goes_in_pairs(DType dtype) {
  return dtype == DType::bf16 && tile::cpu::isa() == tile::cpu::Isa::avx512_bf16 && tile::cpu::multiplies_pairs();
}

void attention(const AttentionProblem& p, const AttentionData& data, int threads) {
  if (threads <= 0) threads = usable_cores();
  const bool pairs = goes_in_pairs(p.dtype);
  const auto run = pairs ? avx512_bf16::run_attention
                         : tile::cpu::body_for_isa(plain::run_attention, avx2::run_attention, avx512::run_attention);
  const auto memory =
      pairs ? avx512_bf16::attention_memory
            : tile::cpu::body_for_isa(plain::attention_memory, avx2::attention_memory, avx512::attention_memory);
  const std::int64_t matrices = p.outer * p.heads;
  const auto items = [&](std::int64_t rows) { return matrices * ((p.rows + rows - 1) / rows); };
  // Short items are used where tall ones would be mostly empty or would leave threads idle.
  const bool tall = p.rows > short_rows * 2 && (items(tall_rows) >= threads || items(short_rows) < 2 * threads);
  const std::int64_t count = items(tall ? tall_rows : short_rows);
  std::atomic<int> next{0};
  tile::cpu::run(static_cast<int>(std::min<std::int64_t>(threads, count)), [&](int) {
    run({p, data, tall, &next, tile::cpu::arenas().left.need(memory(tall))});
  });
}

}  // namespace ridge::ops
