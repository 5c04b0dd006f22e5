#include <algorithm>
#include <atomic>

#include "ridge/base/cores.h"
#include "ridge/ops/attention/backward_run.h"
#include "ridge/ops/attention/cpu.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"
#include "ridge/pool/pool.h"

namespace ridge::ops {
namespace {

namespace cpu = tile::cpu;

std::size_t in_lines(std::int64_t count) { return (static_cast<std::size_t>(count) * 4 + 63) / 64 * 64; }

}  // namespace

void attention_backward(const AttentionBackwardProblem& problem, const AttentionBackwardData& data, int threads) {
  if (threads <= 0) threads = usable_cores();
  const auto prepare = cpu::body_for_isa(plain::prepare_attention_backward, avx2::prepare_attention_backward,
                                         avx512::prepare_attention_backward);
  const auto run =
      cpu::body_for_isa(plain::run_attention_backward, avx2::run_attention_backward, avx512::run_attention_backward);
  const auto finish = cpu::body_for_isa(plain::finish_attention_backward, avx2::finish_attention_backward,
                                        avx512::finish_attention_backward);
  const auto memory = cpu::body_for_isa(plain::attention_backward_memory, avx2::attention_backward_memory,
                                        avx512::attention_backward_memory);
  const AttentionProblem& p = problem.forward;
  const std::int64_t each = (p.rows + cpu_backward_rows - 1) / cpu_backward_rows, tiles = p.outer * p.heads * each;
  const std::size_t numbers = in_lines(tiles * 2 * cpu_backward_rows), turns = in_lines(tiles),
                    sums = in_lines(tiles * cpu_backward_rows * p.width);
  // The workspace of all threads is in this arena of the caller; its own work uses another arena.
  auto* const room = static_cast<std::byte*>(cpu::arenas().sums.need(numbers + turns + sums));
  std::atomic<int> next{0};
  AttentionBackwardRun of_all{problem,
                              data,
                              each,
                              reinterpret_cast<float*>(room),
                              reinterpret_cast<float*>(room + numbers),
                              reinterpret_cast<int*>(room + numbers + sums),
                              &next,
                              nullptr};
  const auto on_tiles = [&](auto pass) {
    const int workers = static_cast<int>(std::min<std::int64_t>(threads, tiles));
    cpu::run(workers, [&](int worker) {
      const cpu::Slice own = cpu::slice(tiles, workers, worker);
      pass(of_all, own.begin, own.end);
    });
  };
  on_tiles(prepare);
  const std::int64_t items = p.outer * p.key_heads * ((p.keys + cpu_backward_keys - 1) / cpu_backward_keys);
  cpu::run(static_cast<int>(std::min<std::int64_t>(threads, items)), [&](int) {
    AttentionBackwardRun own = of_all;
    own.memory = cpu::arenas().left.need(memory());
    run(own);
  });
  on_tiles(finish);
}

}  // namespace ridge::ops
