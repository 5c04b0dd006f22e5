// Chooses the tile, the pieces of k and the order for a product on Hopper by counting cycles, never by measuring. A
// 128 x 128 tile of bf16 takes 512 cycles for 64 of k, on the tensor cores (2048 multiply-adds a cycle) and on the way
// from the L2 (64 bytes a cycle) alike; what decides at large sizes is how many waves of tiles there are times how wide
// they are, at small ones the bytes and what a launch costs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "ridge/kernels/epilogue.h"
#include "ridge/kernels/matmul_operands.h"

namespace ridge::kernels::cuda {
namespace {

using tile::Major, tile::Roles;

MatrixLayout settled(MatrixLayout x, std::int64_t rows, std::int64_t cols) {
  if (cols <= 1) x.col_stride = 1;
  if (rows <= 1 && x.col_stride != 1) x.row_stride = 1;
  return x;
}

MatrixLayout transposed(MatrixLayout x) {
  std::swap(x.row_stride, x.col_stride);
  return x;
}

TileOperand operand(const void* data, const MatrixLayout& given, std::int64_t extent, std::int64_t k) {
  const MatrixLayout x = settled(given, extent, k);
  TileOperand o{data, x.col_stride == 1 ? Major::k : Major::mn, extent, k, 0, x.batch_stride};
  o.line = o.major == Major::k ? x.row_stride : x.col_stride;
  if (o.lines() <= 1) o.line = copied_line(o);  // never used, but the copy engine looks at it
  return o;
}

std::optional<std::string> refuse_layout(const char* name, const MatrixLayout& given, std::int64_t rows,
                                         std::int64_t cols) {
  const MatrixLayout x = settled(given, rows, cols);
  if (given.row_stride < 0 || given.col_stride < 0 || given.batch_stride < 0)
    return fmt::format("{}: expected strides of at least 0, found {}, {} and {}", name, given.row_stride,
                       given.col_stride, given.batch_stride);
  if (x.row_stride != 1 && x.col_stride != 1)
    return fmt::format("{}: expected rows or columns that are contiguous, found strides {} and {}", name, x.row_stride,
                       x.col_stride);
  return std::nullopt;
}

bool is_short_float(DType x) { return x == DType::bf16 || x == DType::f16; }
bool is_stored(DType x) { return is_short_float(x) || x == DType::f32; }

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

struct Shape {  // as the tile sees it
  std::int64_t batch, m, n, k;
};

// An H200. Where the tensor cores are busy all the time its clock falls to the power limit, 1.3 GHz of 1.75.
constexpr double least_hz = 1.3e9, most_hz = 1.75e9, memory_bytes_per_s = 4.2e12, l2_bytes_per_cycle = 70,
                 copied_bytes_per_cycle = 1400;

// Lines that do not start at whole 32-byte sectors are loaded at half the speed.
struct Straddling {
  bool a = false, b = false;  // as the tile sees them
};

double load_cycles(const MatmulConfig& c, Straddling s = {}) {
  return (c.m * (s.a ? 2 : 1) + c.n * (s.b ? 2 : 1)) * c.k * 2.0 / l2_bytes_per_cycle;
}

double multiply_cycles(const MatmulConfig& c) {
  const double reads_a = 16, multiplies = c.n / 2.0;  // an instruction of 64 x n x 16 reads A at 128 bytes a cycle
  return 1.02 * c.m / 64.0 * (c.k / 16.0) * std::max(multiplies, reads_a + c.n / 4.0);
}

// Two things that overlap; where both take nearly as long, each waits for the other now and then.
double overlapped(double x, double y, double sharpness) {
  const double more = std::max(x, y), less = std::min(x, y);
  return more * std::pow(1 + std::pow(less / more, sharpness), 1 / sharpness);
}

double stage_cycles(const MatmulConfig& c, Straddling s) {
  const double held_up = c.roles == Roles::pingpong || c.consumers == 1 ? 1 : 1.01;
  return held_up * overlapped(multiply_cycles(c), load_cycles(c, s), 12);
}

struct Predicted {
  double cycles, seconds;
};

struct Moved {
  double bytes;  // at least, between memory and chip
  double copied;
  int copies;
  Straddling straddling;
};

Predicted predicted(const MatmulConfig& c, const Shape& s, int pieces, int sms, const Moved& moved) {
  const double tiles = static_cast<double>(s.batch * up(s.m, c.m) * up(s.n, c.n));
  const double stages = static_cast<double>(up(s.k, c.k)), rounds = std::ceil(tiles * pieces / sms);
  const double stored = static_cast<double>(up(c.n, 64) * (c.m / c.sharers() / 64)) * 300;
  double round =
      std::ceil(stages / pieces) * stage_cycles(c, moved.straddling) + (c.roles == Roles::pingpong ? 60 : stored);
  double fixed = 2800 + stored + load_cycles(c) * (c.k / 64);  // launch, first loads, last store
  if (pieces > 1) round += (1.0 + pieces) * c.m * c.n * 4 / 22, fixed += 1700;
  fixed += moved.copies * 3000.0 + moved.copied * 2 / copied_bytes_per_cycle;
  const double memory = moved.bytes / memory_bytes_per_s, all = fixed + rounds * round;
  const double busy = std::min(1.0, tiles * stages * multiply_cycles(c) / sms / all);
  const double hz = most_hz - (most_hz - least_hz) * busy;
  return {fixed + overlapped(rounds * round, memory * most_hz, 4),
          fixed / most_hz + overlapped(rounds * round / hz, memory, 4)};
}

}  // namespace

TileOperand turned(const TileOperand& x) {
  TileOperand y = x;
  y.major = Major::k, y.line = 0;
  return y;
}

std::int64_t copied_line(const TileOperand& x) { return up(std::max<std::int64_t>(x.contiguous(), 1), 64) * 64; }

std::size_t copied_bytes(const TileOperand& x, std::int64_t batch) {
  const std::int64_t matrices = x.batch_stride == 0 ? 1 : batch;
  return static_cast<std::size_t>(up(matrices * x.lines() * copied_line(x) * 2, 256) * 256);
}

bool copy_engine_reads(const TileOperand& x, std::int64_t batch) {
  const bool strides = x.line > 0 && x.line % 8 == 0 && x.line < (std::int64_t{1} << 38) &&
                       (batch == 1 || (x.batch_stride % 8 == 0 && x.batch_stride < (std::int64_t{1} << 38)));
  return strides && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

std::size_t partial_bytes(const MatmulConfig& c, std::int64_t tiles, int pieces) {
  return static_cast<std::size_t>(tiles * pieces * c.m * c.n) * 4;
}

TileProblem tile_problem(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const MatrixLayout d = settled(p.d, p.m, p.n);
  TileProblem t;
  t.batch = p.batch, t.m = p.m, t.n = p.n, t.k = p.k;
  t.a = operand(call.a, p.a, p.m, p.k);
  t.b = operand(call.b, transposed(p.b), p.n, p.k);
  t.d = call.d;
  t.d_line = d.row_stride, t.d_batch_stride = d.batch_stride;
  t.constant_b = call.constant_b;
  if (d.col_stride != 1) {
    t.exchanged = true;
    t.d_line = d.col_stride;
    std::swap(t.m, t.n), std::swap(t.a, t.b), std::swap(t.constant_a, t.constant_b);
  }
  if (t.m <= 1) t.d_line = up(std::max<std::int64_t>(t.n, 1), 8) * 8;
  return t;
}

std::optional<std::string> refuse(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  if (p.batch < 0 || p.m < 0 || p.n < 0 || p.k < 0)
    return fmt::format("expected sizes of at least 0, found batch {}, m {}, n {}, k {}", p.batch, p.m, p.n, p.k);
  if (!is_stored(p.a.dtype) || p.a.dtype != p.b.dtype || !is_stored(p.d.dtype))
    return fmt::format("expected bf16 * bf16, f16 * f16 or f32 * f32 -> bf16, f16 or f32, found {} * {} -> {}",
                       name(p.a.dtype), name(p.b.dtype), name(p.d.dtype));
  if (auto refusal = refuse_layout("a", p.a, p.m, p.k)) return refusal;
  if (auto refusal = refuse_layout("b", p.b, p.k, p.n)) return refusal;
  if (auto refusal = refuse_layout("d", p.d, p.m, p.n)) return refusal;
  const MatrixLayout d = settled(p.d, p.m, p.n);
  const bool rows = d.col_stride == 1;
  const std::int64_t line = rows ? p.n : p.m, lines = rows ? p.m : p.n, stride = rows ? d.row_stride : d.col_stride;
  if (lines > 1 && stride < line)
    return fmt::format("d: expected a stride of at least {}, found {}: its rows would overlap", line, stride);
  if (p.batch > 1 && d.batch_stride == 0) return "d: expected a batch stride, found 0: the products would overlap";
  const bool any = p.batch > 0 && p.m > 0 && p.n > 0;
  if (any && !call.d) return "d: expected device memory, found a null pointer";
  if (any && p.k > 0 && (!call.a || !call.b))
    return fmt::format("{}: expected device memory, found a null pointer", call.a ? "b" : "a");
  const MatmulEpilogue& e = call.epilogue;
  if (auto refusal = refuse_epilogue(e)) return refusal;
  const auto alignment = [](DType x) { return static_cast<std::uintptr_t>(bits(x) / 8); };
  for (const auto& [name, data, dtype] : {std::tuple{"a", call.a, p.a.dtype},
                                          {"b", call.b, p.b.dtype},
                                          {"d", static_cast<const void*>(call.d), p.d.dtype},
                                          {"scale", e.scale.data, e.scale.dtype},
                                          {"bias", e.bias.data, e.bias.dtype},
                                          {"gate", e.gate.data, e.gate.dtype},
                                          {"addend", e.addend.data, e.addend.dtype}})
    if (reinterpret_cast<std::uintptr_t>(data) % alignment(dtype) != 0)
      return fmt::format("{}: expected a pointer to whole {} elements, found one that is not a multiple of {} bytes",
                         name, ridge::name(dtype), alignment(dtype));
  return std::nullopt;
}

namespace {

// What has to be copied, and what is worth it: an operand of few columns that are contiguous along the output would be
// fetched in lines of a few bytes, so it is turned.
struct Copies {
  bool a = false, b = false;
};

bool is_narrow(const TileOperand& x) { return x.major == Major::mn && x.extent < 64; }
bool straddles(const TileOperand& x) { return x.line % 16 != 0; }

double minimum_bytes(const TileProblem& t, DType out) {
  const auto product = [](std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); };
  const double matrices_a = static_cast<double>(t.a.batch_stride ? t.batch : 1);
  const double matrices_b = static_cast<double>(t.b.batch_stride ? t.batch : 1);
  return static_cast<double>(t.batch) * product(t.m, t.n) * bits(out) / 8 +
         2 * (matrices_a * product(t.m, t.k) + matrices_b * product(t.n, t.k));
}

std::optional<MatmulPlan> planned_with(const MatmulCall& call, std::size_t workspace_bytes, int sms, int row,
                                       int pieces, Copies wish) {
  TileProblem t = tile_problem(call);
  const MatmulConfig& c = sm90_menu[static_cast<std::size_t>(row)];
  if (t.batch == 0 || t.m == 0 || t.n == 0 || t.k == 0 || !is_short_float(call.problem.a.dtype)) return std::nullopt;
  MatmulPlan plan{MatmulPlan::Path::tiles, row, t.exchanged};
  double copied = 0;
  const auto settle = [&](TileOperand& x, bool wished, bool& copy, bool& turn) {
    turn = is_narrow(x) && copied_bytes(turned(x), t.batch) + counter_bytes <= workspace_bytes;
    if (turn) x = turned(x);
    copy = turn || wished || !copy_engine_reads(x, t.batch);
    if (copy) plan.workspace_bytes += copied_bytes(x, t.batch), copied += static_cast<double>(copied_bytes(x, t.batch));
  };
  settle(t.a, wish.a, plan.copy_a, plan.turn_a), settle(t.b, wish.b, plan.copy_b, plan.turn_b);
  const TileOperand &a = c.swap ? t.b : t.a, &b = c.swap ? t.a : t.b;
  if (a.major != c.a || b.major != c.b) return std::nullopt;
  const Shape s{t.batch, a.extent, b.extent, t.k};
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1024;
  const std::int64_t stages = up(s.k, c.k);
  if (s.m > most || s.n > most || s.k > most || s.batch > most || stages * pieces > most) return std::nullopt;
  if (up(s.m, c.m) > most / up(s.n, c.n)) return std::nullopt;
  plan.tiles = up(s.m, c.m) * up(s.n, c.n);
  if (plan.tiles > most / s.batch / pieces) return std::nullopt;
  plan.tiles *= s.batch;
  if (pieces > 1) {
    const bool counted = plan.tiles * c.sharers() * 4 <= static_cast<std::int64_t>(counter_bytes);
    if (!c.splits() || stages < pieces || !counted) return std::nullopt;
    plan.workspace_bytes += partial_bytes(c, plan.tiles, pieces);
  }
  plan.pieces = pieces;
  plan.waves = up(plan.tiles * pieces, sms);
  if (plan.workspace_bytes > 0) plan.workspace_bytes += counter_bytes;
  if (plan.workspace_bytes > workspace_bytes) return std::nullopt;
  plan.early = (t.constant_a && !plan.copy_a) || (t.constant_b && !plan.copy_b);
  Straddling straddling{!plan.copy_a && straddles(t.a), !plan.copy_b && straddles(t.b)};
  if (c.swap) std::swap(straddling.a, straddling.b);
  const Moved moved{minimum_bytes(t, call.problem.d.dtype), copied, plan.copy_a + plan.copy_b, straddling};
  const Predicted prediction = predicted(c, s, pieces, sms, moved);
  plan.cycles = prediction.cycles, plan.predicted_s = prediction.seconds;
  return plan;
}

}  // namespace

std::optional<MatmulPlan> planned(const MatmulCall& call, std::size_t workspace_bytes, int sms, int row, int pieces) {
  const TileProblem t = tile_problem(call);
  std::optional<MatmulPlan> best;
  for (const Copies wish : {Copies{false, false}, {true, false}, {false, true}, {true, true}}) {
    if ((wish.a && !straddles(t.a)) || (wish.b && !straddles(t.b))) continue;
    const std::optional<MatmulPlan> plan = planned_with(call, workspace_bytes, sms, row, pieces, wish);
    if (plan && (!best || plan->cycles < best->cycles)) best = plan;
  }
  return best;
}

MatmulPlan choose(const MatmulCall& call, std::size_t workspace_bytes, int sms) {
  const MatmulProblem& p = call.problem;
  MatmulPlan best;
  best.exchanged = tile_problem(call).exchanged;
  if (p.batch == 0 || p.m == 0 || p.n == 0) {
    best.path = MatmulPlan::Path::nothing;
    return best;
  }
  for (int row = 0; row < static_cast<int>(sm90_menu.size()); ++row)
    for (const int pieces : {1, 2, 3, 4, 5, 6, 8, 10, 12, 16}) {
      if (pieces > 1 && p.batch * p.m * p.n > std::int64_t{2} * sms * 128 * 128) break;
      const std::optional<MatmulPlan> plan = planned(call, workspace_bytes, sms, row, pieces);
      if (plan && (best.path != MatmulPlan::Path::tiles || plan->cycles < best.cycles)) best = *plan;
    }
  return best;
}

}  // namespace ridge::kernels::cuda
