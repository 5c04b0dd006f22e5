#include "ridge/measure/ranks/chunk_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/text.h"
#include "ridge/distributed/collective.h"
#include "ridge/measure/device_machine.h"
#include "ridge/ops/fused/cuda.h"
#include "ridge/ops/fused/model.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"
#include "ridge/ops/product/model.h"
#include "ridge/plan/soonest.h"

namespace ridge::ranks {
namespace {

constexpr double few = 0.99;  // with a launch per chunk, more chunks must gain at least 1 %
// Consecutive launches take longer than the sum of their predictions. A single kernel is therefore chosen up to 7 %
// above their prediction, if a shard fills at least 0.9 waves; with less, its waiting tiles occupy multiprocessors.
constexpr double as_one = 1.07, a_wave = 0.9;

// Fraction of a chunk's product time that is added to its remote stores, because both compete. Measured 0.5 on four
// H200 for M x N x K = 8192 x 8192 x 4096, 8192 x 8192 x 8192 and 4096 x 8192 x 8192 (2026-11-27).
constexpr double while_storing = 0.5;

class Times {
 public:
  explicit Times(const ChunkQuestion& question, const ops::DeviceNumbers& device)
      : q_(question),
        device_(device),
        pieces_(row_pieces(question.part.acts(), question.pair, question.part.device())),
        row_bytes_(row_bytes(question.part, question.pair)) {}

  Result<ChunkTimes> best() const {
    ChunkTimes out;
    const auto planned = plan_part(std::get<Compute>(q_.part.acts().acts[q_.pair.compute]).program, q_.options);
    if (!planned) return planned.error();
    const auto alone = forecast_s(*planned, device_);
    if (!alone) return out;
    out.computing = *alone;
    out.in_turn = *alone + moving();
    Way launches, kernel;
    for (std::int64_t chunks = std::max<std::int64_t>(1, q_.how.count); chunks <= most_chunks; chunks *= 2) {
      const auto seconds = in_chunks(chunks);
      if (!seconds) return seconds.error();
      if (!*seconds) break;
      launches.take(**seconds, chunks);
      if (const auto one = one_kernel(q_, *planned, chunks)) by_one_kernel(kernel, *one, *planned, *alone);
      if (q_.how.count > 0) break;
    }
    if (launches.chunks == 0) return out;
    const double slack = kernel.waves < a_wave ? 1 : as_one;
    out.one_kernel = kernel.chunks > 0 && (!q_.pair.gathers() || kernel.seconds < slack * launches.seconds);
    const Way& best = out.one_kernel ? kernel : launches;
    out.in_chunks = best.seconds;
    out.chunks = best.chunks;
    out.stores = best.stores;
    out.runs = best.runs;
    if (q_.how.when == Chunks::When::where_faster && std::min(best.seconds, launches.seconds) >= out.in_turn)
      out.chunks = 0;
    return out;
  }

 private:
  using Seconds = Result<std::optional<double>>;  // nullopt: a step has no prediction
  struct Way {
    double seconds = 0, waves = 1;
    std::int64_t chunks = 0;
    bool stores = false;
    Runs runs = {};
    void take(double other, std::int64_t in_chunks) {
      if (chunks == 0 || other < few * seconds) *this = {other, 1, in_chunks};
    }
  };

  Seconds computing(const Program& program) const {
    const auto planned = plan_part(program, q_.options);
    return planned ? Seconds(forecast_s(*planned, device_)) : planned.error();
  }

  Seconds in_chunks(std::int64_t chunks) const {
    std::int64_t longest = 0;
    for (const RowPiece& piece : pieces_) longest = std::max(longest, piece.rows.size());
    const std::vector<Piece> cut = cut_rows({0, longest}, chunks);
    const auto ranks = static_cast<std::int64_t>(pieces_.size()), count = static_cast<std::int64_t>(cut.size());
    const std::int64_t chunk = cut.front().size();
    const bool gathers = q_.pair.gathers();
    const Acts& acts = q_.part.acts();
    const auto other = computing(chunk_program(acts, q_.pair, chunk));
    const auto own = gathers ? computing(chunk_program(acts, q_.pair, longest)) : other;
    if (!other || !own) return (other ? own : other).error();
    if (!*other || !*own) return std::optional<double>();
    const auto bytes = static_cast<double>(chunk * row_bytes_);
    const double adding = gathers ? 0 : bytes / device_.memory_bytes_per_s;
    const ChunkSeconds seconds{
        .own = **own + adding, .other = **other, .sending = sending(bytes), .wait = q_.links.wait_s};
    return std::optional(beside(chunked_s(q_.pair.kind, ranks, count, seconds)));
  }

  // Steps before a scattered product end before its first chunk is sent; steps after a gathered product start when all
  // rows have arrived. Neither is overlapped.
  void by_one_kernel(Way& best, const OneKernel& one, const Plan& planned, double alone) const {
    Plan product = planned;
    product.steps = {q_.pair.gathers() ? planned.steps.front() : planned.steps.back()};
    const auto ranks = static_cast<std::int64_t>(pieces_.size()), count = std::int64_t{one.walk.of_piece};
    const double bytes = static_cast<double>(pieces_.front().rows.size() * row_bytes_) / static_cast<double>(count);
    const double rest = alone - forecast_s(product, device_).value_or(alone);
    for (const bool stores : {false, true}) {
      if (stores && q_.pair.kind != Collective::reduce_scatter) continue;
      const double each = one.seconds / static_cast<double>(ranks * count), carrying = bytes / q_.links.bytes_per_s;
      const KernelSeconds times{.each = each,
                                .storing = stores ? carrying + while_storing * each : 0,
                                .carrying = carrying,
                                .copy = q_.pair.gathers() ? q_.links.copy_s : q_.links.awaited_copy_s,
                                .wait = q_.links.wait_s,
                                .waves = one.waves};
      for (const Runs& runs : runs_of(stores, ranks, count)) {
        const double seconds = rest + beside(one_kernel_s(q_.pair.kind, ranks, count, runs, times));
        if (best.chunks == 0 || seconds < best.seconds) best = {seconds, one.waves, count, stores, runs};
      }
    }
  }

  // Returns all combinations of run lengths that are powers of two up to a full shard, for copies by the copy engine.
  std::vector<Runs> runs_of(bool stores, std::int64_t ranks, std::int64_t chunks) const {
    const bool sends = !q_.pair.gathers() && !stores, gives = q_.pair.kind == Collective::all_reduce;
    std::vector<Runs> all{Runs{}};
    const auto vary = [&](std::int64_t Runs::*length) {
      const std::vector<Runs> shorter = all;
      for (std::int64_t most = 2; most < 2 * chunks; most *= 2)
        for (Runs runs : shorter) {
          runs.*length = most;
          all.push_back(runs);
        }
    };
    if (sends) vary(&Runs::first);
    if (sends && ranks > 3) vary(&Runs::middle);
    if (sends && ranks > 2) vary(&Runs::last);
    if (gives) vary(&Runs::given);
    return all;
  }

  double on_the_way(double bytes) const {
    return bytes / (q_.pair.gathers() ? q_.links.read_bytes_per_s : q_.links.bytes_per_s);
  }
  double sending(double bytes) const { return on_the_way(bytes) + (q_.pair.gathers() ? 0 : q_.links.copy_s); }
  // Adds one barrier per pass: before a rank writes to others (scatter), or until they have read (gather).
  double beside(double seconds) const { return seconds + q_.links.bell_s; }

  // Returns the measured time, else NCCL's, else an estimate from the link bandwidth.
  double moving() const {
    if (q_.moving_s) return *q_.moving_s;
    const auto library = library_time(q_.machine, q_.part, q_.pair.shift);
    if (library) return *library;
    const auto n = static_cast<double>(pieces_.size()), passes = q_.pair.kind == Collective::all_reduce ? 2.0 : 1.0;
    const double bytes = static_cast<double>(pieces_.back().rows.end * row_bytes_);
    return on_the_way(passes * (n - 1) / n * bytes);
  }

  const ChunkQuestion& q_;
  const ops::DeviceNumbers& device_;
  std::vector<RowPiece> pieces_;
  std::int64_t row_bytes_;
};

// Returns the product for a single kernel, without data, or nullopt if the step is not a product or if other steps read
// the gathered operand.
std::optional<ops::MatmulCall> shared_product(const ChunkQuestion& question, const Plan& planned) {
  const auto call_of = [](const Step& step) -> std::optional<ops::MatmulCall> {
    if (const auto* plain = std::get_if<ops::MatmulProblem>(&step.kernel)) return ops::MatmulCall{*plain};
    const auto* const fused = std::get_if<ops::FusedMatmul>(&step.kernel);
    if (fused == nullptr) return std::nullopt;
    const ops::cuda::FusedCall call = ops::cuda::fused_call(*fused);
    const auto* const one = std::get_if<ops::MatmulCall>(&call);
    return one != nullptr ? std::optional(*one) : std::nullopt;
  };
  if (!question.pair.gathers()) {
    const auto* const product = std::get_if<ops::MatmulProblem>(&planned.steps.back().kernel);
    return product != nullptr ? std::optional(ops::MatmulCall{*product}) : std::nullopt;
  }
  const int gathered = tensor_between(question.part.acts(), question.pair);
  int readers = 0;
  for (const Step& step : planned.steps)
    readers += static_cast<int>(std::count(step.buffers.begin(), step.buffers.end(), gathered));
  const Step& first = planned.steps.front();
  return readers == 1 && first.buffers.front() == gathered ? call_of(first) : std::nullopt;
}

}  // namespace

Result<ChunkTimes> chunk_times(const ChunkQuestion& question) {
  const auto device = device_numbers_here();
  return device ? Times(question, *device).best() : device.error();
}

std::optional<double> library_time(const Machine& machine, const Part& part, std::size_t act) {
  const auto& shift = std::get<Shift>(part.acts().acts[act]);
  const Slot& slot = part.acts().slots[static_cast<std::size_t>(shift.from)];
  const auto transfer = transfer_of(shift.move, slot.extents, part.device().mesh, Rational(bits(slot.dtype), 8));
  return transfer ? ridge::library_time(machine, *transfer) : std::nullopt;
}

std::optional<OneKernel> one_kernel(const ChunkQuestion& question, const Plan& planned, std::int64_t chunks) {
  const auto device = device_numbers_here();
  const auto product = shared_product(question, planned);
  if (!product || !device) return std::nullopt;
  const std::vector<RowPiece> pieces = row_pieces(question.part.acts(), question.pair, question.part.device());
  const std::int64_t rows = pieces.back().rows.end;
  if (product->problem.m % rows != 0) return std::nullopt;
  std::size_t place = 0;
  while (pieces[place].rank != question.rank) ++place;
  ops::MatmulCall call = *product;  // assumes operands that are aligned to 256 bytes
  const bool gathers = question.pair.gathers();
  const ops::MatrixLayout& a = call.problem.a;
  if (gathers && (a.row_stride != call.problem.k || a.col_stride != 1)) return std::nullopt;
  const WalkShape shape{gathers, gathers ? call.problem.k : call.problem.n, call.problem.m / rows};
  const ops::RowWalk out = walk(pieces, place, shape, chunks);
  if (out.rows == 0) return std::nullopt;
  // With one chunk per shard the first tiles of a shard would wait for all of the previous shard.
  if (!gathers && out.of_piece == 1 && walk(pieces, place, shape, 2).of_piece > 1) return std::nullopt;
  (gathers ? static_cast<ops::RowWalk&>(call.gathered) : call.scattered) = out;
  const auto plan = ops::cuda::choose_in_chunks(call, ops::plan_workspace_bytes, *device);
  const auto usual = ops::forecast(call.problem, *device);  // prediction without chunks
  if (!plan || !usual) return std::nullopt;
  const ops::MatmulConfig& c = ops::sm90_menu[static_cast<std::size_t>(plan->config)];
  const std::int64_t wide = c.n * c.cluster_n, high = c.m * c.cluster_m;
  const std::int64_t tiles = (call.problem.n + wide - 1) / wide * (out.piece / high) * c.cluster();
  return OneKernel{out, usual->spread.middle * plan->predicted_s, static_cast<double>(tiles) / plan->blocks};
}

std::int64_t row_bytes(const Part& part, const ChunkedPair& pair) {
  const auto& shift = std::get<Shift>(part.acts().acts[pair.shift]);
  const int slot = pair.gathers() ? shift.to : shift.from;
  const Block block = part.block(slot);
  const DType dtype = part.acts().slots[static_cast<std::size_t>(slot)].dtype;
  return block.front().size() == 0 ? 0 : words_in(block) / block.front().size() * bits(dtype) / 8;
}

std::string text(const Acts& acts, const ChunkedPair& pair, const ChunkTimes& times) {
  const auto& shift = std::get<Shift>(acts.acts[pair.shift]);
  const auto& compute = std::get<Compute>(acts.acts[pair.compute]);
  const Statement& last = compute.program.statements.back();
  std::string result = compute.program.tensors[static_cast<std::size_t>(last.result())].name;
  result = result.substr(0, result.find('#'));
  const std::string both = fmt::format("{} and {} over {}", result, name(pair.kind), shift.move.over);
  const std::string turn = engineering(times.in_turn, "s");
  if (times.chunks == 0) return fmt::format("{}: {} predicted in turn", both, turn);
  std::string of = (pair.gathers() ? "the last shard along " : "each shard along ") + pair.dim;
  if (times.one_kernel) of = pair.gathers() ? "each shard, one kernel" : of + ", one kernel";
  return fmt::format("{}: {} predicted in {} chunk{} of {}, {} in turn", both, engineering(times.in_chunks, "s"),
                     times.chunks, times.chunks == 1 ? "" : "s", of, turn);
}

}  // namespace ridge::ranks
