// Chooses tile, splits of k and copies for a product on Hopper: the supported plan with the shortest time in the model
// (closed_form.h). Nothing is measured.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/groups.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/operands.h"
#include "ridge/ops/product/time/correction.h"

namespace ridge::ops::cuda {
namespace {

using tile::SplitMode, tile::Major, tile::Roles;

TileOperand operand(const void* data, const MatrixLayout& given, std::int64_t extent, std::int64_t k) {
  const MatrixLayout x = settled(given, extent, k);
  TileOperand o{data, x.col_stride == 1 ? Major::k : Major::mn, extent, k, 0, x.batch_stride};
  o.line = o.major == Major::k ? x.row_stride : x.col_stride;
  if (o.lines() <= 1) o.line = copied_line(o);  // Unused, but the copy engine validates it
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

}  // namespace

TileOperand turned(const TileOperand& x) {
  TileOperand y = x;
  y.major = Major::k;
  y.line = 0;
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

std::int64_t partial_tiles(const MatmulPlan& plan) {
  if (plan.split_mode == SplitMode::stream_k) return plan.tiles + plan.blocks;
  return plan.split_mode != SplitMode::cluster_split_k && plan.splits > 1 ? plan.tiles * plan.splits : 0;
}

std::size_t partial_bytes(const MatmulConfig& c, std::int64_t partial_tiles) {
  return static_cast<std::size_t>(partial_tiles * c.m * c.n) * 4;
}

TileProblem tile_problem(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const MatrixLayout d = settled(p.d, p.m, p.n);
  TileProblem t;
  t.batch = p.batch;
  t.m = p.m;
  t.n = p.n;
  t.k = p.k;
  t.a = operand(call.a, p.a, p.m, p.k);
  t.b = operand(call.b, transposed(p.b), p.n, p.k);
  t.d = call.d;
  t.d_line = d.row_stride;
  t.d_batch_stride = d.batch_stride;
  t.constant_b = call.constant_b;
  t.grouped = p.grouped;
  if (p.grouped) t.starts = call.starts;
  if (d.col_stride != 1) {
    t.exchanged = true;
    t.d_line = d.col_stride;
    std::swap(t.m, t.n);
    std::swap(t.a, t.b);
    std::swap(t.constant_a, t.constant_b);
  }
  if (t.m <= 1) t.d_line = up(std::max<std::int64_t>(t.n, 1), 8) * 8;
  return t;
}

bool has_vector_epilogue(const MatmulCall& call) {
  const TileProblem t = tile_problem(call);
  const DType in = call.problem.a.dtype;
  const auto whole = [&](const void* data, std::int64_t line, std::int64_t matrix) {
    const std::int64_t step = t.batch > 1 ? matrix : 0;
    const double span = static_cast<double>(t.batch) * static_cast<double>(step) +
                        static_cast<double>(t.m) * static_cast<double>(line) + static_cast<double>(t.n);
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && line % 8 == 0 && step % 8 == 0 && span < 0x1p32;
  };
  if (!is_short_float(in) || call.problem.d.dtype != in || t.n % 8 != 0 || !whole(t.d, t.d_line, t.d_batch_stride))
    return false;
  const MatmulEpilogue e = t.exchanged ? exchanged(call.epilogue) : call.epilogue;
  for (const EpilogueOperand* x : {&e.scale, &e.bias, &e.gate, &e.addend})
    if (x->data && (x->dtype != in || x->col_stride != 1 || !whole(x->data, x->row_stride, x->batch_stride)))
      return false;
  return true;
}

std::optional<std::string> refuse(const MatmulProblem& p) {
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
  if (auto refusal = refuse_groups(p)) return refusal;
  if (p.grouped) return std::nullopt;
  if (p.batch > 1 && d.batch_stride == 0) return "d: expected a batch stride, found 0: the products would overlap";
  return std::nullopt;
}

std::optional<std::string> refuse(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  if (auto refusal = refuse(p)) return refusal;
  const bool any = p.batch > 0 && p.m > 0 && p.n > 0;
  if (any && !call.d) return "d: expected device memory, found a null pointer";
  if (any && p.k > 0 && (!call.a || !call.b))
    return fmt::format("{}: expected device memory, found a null pointer", call.a ? "b" : "a");
  if (any && p.grouped && !call.starts)
    return "starts: expected device memory with the starts of groups, found a null pointer";
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

// Narrow operands, contiguous along a short output axis, are loaded in lines of a few bytes. Lines that start at odd
// multiples of 16 bytes take two sectors for one.
bool is_narrow(const TileOperand& x) { return x.major == Major::mn && x.extent < 64; }
bool straddles(const TileOperand& x) { return x.line % 16 != 0; }
int granule(const TileOperand& x) { return static_cast<int>(std::gcd<std::int64_t>(x.line * 2, 128)); }

double product(std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); }
double result_bytes(const TileProblem& t, DType out) {
  return static_cast<double>(t.results()) * product(t.m, t.n) * bits(out) / 8;
}
// Returns how many groups can have rows; matrices of empty groups are not read.
std::int64_t products(const TileProblem& t) { return t.grouped ? std::min(t.batch, t.m) : t.batch; }
double minimum_bytes(const TileProblem& t, DType out) {
  const double matrices_a = static_cast<double>(t.a.batch_stride ? t.batch : 1);
  const double matrices_b = static_cast<double>(t.b.batch_stride ? products(t) : 1);
  return result_bytes(t, out) + 2 * (matrices_a * product(t.m, t.k) + matrices_b * product(t.n, t.k));
}

// Returns the tiles of uneven groups over the tiles of groups of the mean length. Uneven groups have eight lengths,
// each half of the previous one.
double tiles_of_uneven(std::int64_t mean, int tile) {
  double parts = 0, tiles = 0;
  for (int j = 0; j < 8; ++j) parts += std::exp2(-j);
  for (int j = 0; j < 8; ++j)
    tiles += std::ceil(std::round(8 * static_cast<double>(mean) * std::exp2(-j) / parts) / tile);
  return tiles / (8 * std::ceil(static_cast<double>(mean) / tile));
}
// The lengths of groups are unknown when planning: returns the mean of the times for uniform and for uneven groups.
double grouped_seconds(const MatmulConfig& c, const TileWork& alike, const DeviceNumbers& device,
                       const ProductModel& model) {
  TileWork uneven = alike;
  const double more = c.swap ? tiles_of_uneven(alike.n, c.n) : tiles_of_uneven(alike.m, c.m);
  uneven.batch = std::max<std::int64_t>(1, std::llround(static_cast<double>(alike.batch) * more));
  return (predicted_seconds(c, alike, {}, device, model) + predicted_seconds(c, uneven, {}, device, model)) / 2;
}

// Returns the maximum number of tiles over all lengths of groups.
std::int64_t most_grouped_tiles(const MatmulConfig& c, const TileProblem& t) {
  const int along = c.swap ? c.n : c.m, across = c.swap ? c.m : c.n;
  return up(t.n, across) * (t.m / along + products(t));
}

}  // namespace

std::optional<PlannedWork> planned_work(const MatmulCall& call, std::size_t workspace_bytes,
                                        const DeviceNumbers& device, const PlanChoice& choice,
                                        const ProductModel& model) {
  const auto& [config, split, wish] = choice;
  const int sms = device.multiprocessors;
  TileProblem t = tile_problem(call);
  const MatmulConfig& c = sm90_menu[static_cast<std::size_t>(config)];
  const int splits = split.splits;
  if (t.batch == 0 || t.m == 0 || t.n == 0 || t.k == 0 || !is_short_float(call.problem.a.dtype)) return std::nullopt;
  if (c.grouped != t.grouped || (c.grouped && split.split_mode != SplitMode::split_k)) return std::nullopt;
  MatmulPlan plan{MatmulPlan::Path::tiles, config, t.exchanged};
  double copied = 0;
  const auto settle = [&](TileOperand& x, bool wished, bool& copy, bool& turn) {
    copy = wished || !copy_engine_reads(x, t.batch);
    turn = copy && is_narrow(x) && copied_bytes(turned(x), t.batch) + counter_bytes <= workspace_bytes;
    if (turn) x = turned(x);
    if (copy) {
      plan.workspace_bytes += copied_bytes(x, t.batch);
      copied += static_cast<double>(copied_bytes(x, t.batch));
    }
  };
  settle(t.a, wish.a, plan.copy_a, plan.transpose_a);
  settle(t.b, wish.b, plan.copy_b, plan.transpose_b);
  const TileOperand &a = c.swap ? t.b : t.a, &b = c.swap ? t.a : t.b;
  if (a.major != c.a || b.major != c.b) return std::nullopt;
  TileWork w{products(t), a.extent, b.extent, t.k};
  // The lengths of groups are unknown: assumes uniform groups.
  if (t.grouped) (c.swap ? w.n : w.m) = up(t.m, w.batch);
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1024;
  const std::int64_t stages = up(w.k, c.k);
  if (t.m > most || w.m > most || w.n > most || w.k > most || w.batch > most || stages * splits > most)
    return std::nullopt;
  const std::int64_t tiles_m = up(w.m, c.m * c.cluster_m), tiles_n = up(w.n, c.n * c.cluster_n);  // In clusters
  if (tiles_m > most / tiles_n / c.cluster()) return std::nullopt;
  plan.tiles = tiles_m * tiles_n * c.cluster();
  if (plan.tiles > most / w.batch / splits) return std::nullopt;
  plan.tiles *= w.batch;
  // For short groups, tiles that read the same weights are adjacent, so that these are read from memory once.
  if (t.grouped && c.swap) plan.raster_rows = 1;
  plan.splits = splits;
  plan.split_mode = split.split_mode;
  if (splits > 1 && (!c.can_split() || stages < splits)) return std::nullopt;
  if (split.split_mode == SplitMode::cluster_split_k && !c.shares()) return std::nullopt;
  if (split.split_mode == SplitMode::cooperative_split_k && (c.turns() < 2 || splits > tile::most_cooperative_splits))
    return std::nullopt;
  if (split.split_mode == SplitMode::stream_k) {
    // Restricted to the cases that gain: weights that are read once, long runs of stages and few partial sums.
    if (!c.swap || c.n > 32 || c.a != Major::k || c.cluster() > 1 || stages < 16 || plan.tiles > most / stages ||
        plan.tiles % sms == 0 || plan.tiles * stages < 4 * sms)
      return std::nullopt;
  }
  const std::int64_t at_once = c.cluster() * clusters_at_once(c.cluster(), sms);
  if (split.split_mode == SplitMode::cooperative_split_k && plan.tiles * splits > at_once) return std::nullopt;
  const std::int64_t most_tiles = t.grouped ? most_grouped_tiles(c, t) : plan.tiles;
  if (most_tiles > most / stages) return std::nullopt;
  plan.blocks = static_cast<int>(std::min(most_tiles * splits, at_once));
  if (split.split_mode == SplitMode::stream_k) plan.blocks = sms;
  if (split.split_mode == SplitMode::cluster_split_k) plan.blocks = static_cast<int>(plan.tiles * splits);
  if (const std::int64_t partial = partial_tiles(plan); partial > 0) {
    if (plan.tiles * c.sharers() * 4 > static_cast<std::int64_t>(counter_bytes)) return std::nullopt;
    plan.workspace_bytes += partial_bytes(c, partial);
  }
  plan.waves = split.split_mode == SplitMode::stream_k ? 1 : up(plan.tiles * splits, at_once);
  if (plan.workspace_bytes > 0) plan.workspace_bytes += counter_bytes;
  if (plan.workspace_bytes > workspace_bytes) return std::nullopt;
  w.minimum_bytes = minimum_bytes(t, call.problem.d.dtype);
  w.result_bytes = result_bytes(t, call.problem.d.dtype);
  const bool saves_bytes = split.split_mode == SplitMode::cluster_split_k || split.split_mode == SplitMode::stream_k;
  if (saves_bytes && is_busy(w, device)) return std::nullopt;  // Compute-bound
  // The kernel prefetches its constant operand, which is B unless D is transposed. A copy of A starts after all earlier
  // kernels, so B may be loaded during the copy even if an earlier kernel wrote it.
  plan.prefetch_constants = !t.grouped && !plan.copy_b && (plan.copy_a || (t.constant_b && !is_busy(w, device)));
  w.granule_a = plan.copy_a ? 128 : granule(t.a);
  w.granule_b = plan.copy_b ? 128 : granule(t.b);
  w.narrow_a = is_narrow(a);
  w.narrow_b = is_narrow(b);
  if (c.swap) std::swap(w.granule_a, w.granule_b);
  w.element_stores = t.d_line % 4 != 0;
  w.copies = plan.copy_a + plan.copy_b;
  w.copied_bytes = copied;
  w.prefetch_constants = plan.prefetch_constants;
  plan.predicted_s = t.grouped ? grouped_seconds(c, w, device, model) : predicted_seconds(c, w, split, device, model);
  return PlannedWork{plan, w};
}

namespace {
MatmulPlan corrected(const PlannedWork& x, const DeviceNumbers& device) {
  const MatmulConfig& c = sm90_menu[static_cast<std::size_t>(x.plan.config)];
  const SplitK split{x.plan.splits, x.plan.split_mode};
  MatmulPlan plan = x.plan;
  if (c.grouped) return plan;  // The corrections were fitted without grouped configs
  plan.predicted_s *= correction(features_of(c, x.work, split, device, plan.predicted_s));
  return plan;
}
}  // namespace

std::optional<MatmulPlan> planned(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                  const PlanChoice& choice) {
  const auto x = planned_work(call, workspace_bytes, device, choice);
  return x ? std::optional(corrected(*x, device)) : std::nullopt;
}

std::vector<SplitK> split_options(const MatmulCall& call, const DeviceNumbers& device) {
  const MatmulProblem& p = call.problem;
  const double wave = 128.0 * 128 * device.multiprocessors;
  const double outputs = static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n);
  std::vector<SplitK> all{{1, SplitMode::split_k}, {1, SplitMode::stream_k}};
  if (outputs <= 2 * wave)
    for (const int splits : {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16})
      for (const SplitMode split_mode : {SplitMode::split_k, SplitMode::cooperative_split_k})
        all.push_back({splits, split_mode});
  if (outputs <= wave)
    for (int splits = 2; splits <= tile::most_cluster_splits; ++splits)
      all.push_back({splits, SplitMode::cluster_split_k});
  return all;
}

std::vector<Copies> copies(const MatmulCall& call) {
  const TileProblem t = tile_problem(call);
  const auto doubtful = [](const TileOperand& x) { return straddles(x) || is_narrow(x); };
  std::vector<Copies> all{{false, false}};
  if (doubtful(t.a)) all.push_back({true, false});
  if (doubtful(t.b)) all.push_back({false, true});
  if (all.size() == 3) all.push_back({true, true});
  return all;
}

namespace {

std::optional<MatmulPlan> planned_gemv(const MatmulCall& call, const DeviceNumbers& device) {
  const auto work = gemv_work(call);
  if (!work) return std::nullopt;
  MatmulPlan plan{MatmulPlan::Path::gemv, -1, tile_problem(call).exchanged};
  plan.predicted_s = gemv_seconds(*work, device);
  return plan;
}

// Returns every plan of tiles with the time of the closed form; plans of one config are adjacent.
std::vector<PlannedWork> planned_works(const MatmulCall& call, std::size_t workspace_bytes,
                                       const DeviceNumbers& device) {
  const std::vector<SplitK> all = split_options(call, device);
  const std::vector<Copies> wishes = copies(call);
  std::vector<PlannedWork> found;
  for (int config = 0; config < static_cast<int>(sm90_menu.size()); ++config)
    for (const SplitK split : all)
      for (const Copies wish : wishes)
        if (const auto x = planned_work(call, workspace_bytes, device, {config, split, wish})) found.push_back(*x);
  return found;
}

}  // namespace

std::optional<GemvWork> gemv_work(const MatmulCall& call) {
  const TileProblem t = tile_problem(call);
  if (!is_short_float(call.problem.a.dtype) || t.grouped || t.batch == 0 || t.m == 0 || t.n == 0 || t.k == 0 ||
      t.m > most_gemv_rows || t.n > most_dot_columns || t.a.major != Major::k || t.b.major != Major::k ||
      (copy_engine_reads(t.a, t.batch) && copy_engine_reads(t.b, t.batch)))
    return std::nullopt;
  return GemvWork{t.batch, t.m, t.n, t.k, std::min(granule(t.a), granule(t.b))};
}

std::vector<MatmulPlan> candidates(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                   std::size_t each) {
  const auto sooner = [](const MatmulPlan& x, const MatmulPlan& y) { return x.predicted_s < y.predicted_s; };
  const std::vector<PlannedWork> found = planned_works(call, workspace_bytes, device);
  double soonest = std::numeric_limits<double>::infinity();
  for (const PlannedWork& x : found) soonest = std::min(soonest, x.plan.predicted_s);
  // Plans that are too slow for corrections to change the order keep the time of the closed form.
  const double latest = soonest * most_correction / least_correction;
  std::vector<MatmulPlan> out;
  if (const auto plan = planned_gemv(call, device)) out.push_back(*plan);
  for (auto x = found.begin(); x != found.end();) {
    const auto next =
        std::find_if(x, found.end(), [&](const PlannedWork& y) { return y.plan.config != x->plan.config; });
    const std::size_t before = out.size();
    for (; x != next; ++x) out.push_back(x->plan.predicted_s > latest ? x->plan : corrected(*x, device));
    const auto first = out.begin() + static_cast<std::ptrdiff_t>(before);
    std::stable_sort(first, out.end(), sooner);
    out.resize(std::min(out.size(), before + each));
  }
  std::stable_sort(out.begin(), out.end(), sooner);
  return out;
}

MatmulPlan choose(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device) {
  const MatmulProblem& p = call.problem;
  MatmulPlan none;
  none.exchanged = tile_problem(call).exchanged;
  if (p.batch == 0 || p.m == 0 || p.n == 0) {
    none.path = MatmulPlan::Path::nothing;
    return none;
  }
  std::vector<PlannedWork> found = planned_works(call, workspace_bytes, device);
  std::stable_sort(found.begin(), found.end(),
                   [](const PlannedWork& x, const PlannedWork& y) { return x.plan.predicted_s < y.plan.predicted_s; });
  std::optional<MatmulPlan> best = planned_gemv(call, device);
  for (const PlannedWork& x : found) {
    if (best && x.plan.predicted_s * least_correction > best->predicted_s) break;  // Too slow for any correction
    const MatmulPlan plan = corrected(x, device);
    if (!best || std::pair(plan.predicted_s, plan.config) < std::pair(best->predicted_s, best->config)) best = plan;
  }
  return best ? *best : none;
}

namespace {

// Adapts a plan to shared rows, or returns nullopt. Each band of tile rows must lie in the rows of one chunk: otherwise
// a tile could wait for a chunk that waits for it.
std::optional<MatmulPlan> in_chunks(MatmulPlan plan, const MatmulCall& call) {
  if (plan.path != MatmulPlan::Path::tiles || plan.splits > 1 || plan.split_mode != SplitMode::split_k)
    return std::nullopt;
  const MatmulConfig& c = sm90_menu[static_cast<std::size_t>(plan.config)];
  const RowWalk& walk = call.walk();
  const int high = c.m * c.cluster_m;
  const bool gathers = call.gathered.rows > 0;
  if (walk.rows % high != 0 || (!gathers && walk.rows > most_group_rows)) return std::nullopt;
  if (gathers ? !c.gathers_rows() || plan.copy_a || walk.cols % c.k != 0 : !c.scatters_rows() || walk.cols < c.n)
    return std::nullopt;
  // Gathered rows keep the plan's bands, limited to a chunk of rows; scattered rows are walked chunk by chunk.
  const int tall = walk.rows / high;
  if (!gathers || plan.raster_rows > tall) plan.raster_rows = tall;
  while (tall % plan.raster_rows != 0) --plan.raster_rows;
  plan.first_row = walk.first / high;
  return plan;
}

}  // namespace

bool stores_in_bulk(const MatmulCall& call) {
  const TileProblem t = tile_problem(call);
  const TileOperand d{t.d, Major::k, t.m, t.n, t.d_line, t.d_batch_stride};
  return (adds_rounded(call) || is_plain(call.epilogue)) && call.problem.d.dtype == call.problem.a.dtype &&
         t.n % 8 == 0 && copy_engine_reads(d, t.batch);
}

std::optional<MatmulPlan> choose_in_chunks(const MatmulCall& call, std::size_t workspace_bytes,
                                           const DeviceNumbers& device) {
  const RowWalk& walk = call.walk();
  const double most = 2147483647.0;  // Elements of a rank's chunk are counted in 32 bits
  if (call.problem.batch != 1 || call.problem.m != walk.all || tile_problem(call).exchanged) return std::nullopt;
  const bool scatters = call.scattered.rows > 0;
  if (scatters &&
      (!stores_in_bulk(call) || static_cast<double>(walk.piece) * static_cast<double>(call.problem.n) > most ||
       walk.all / walk.piece > ScatteredRows::most_pieces))
    return std::nullopt;
  for (const MatmulPlan& plan : candidates(call, workspace_bytes, device, 4))
    if (const auto chosen = in_chunks(plan, call)) return chosen;
  return std::nullopt;
}

}  // namespace ridge::ops::cuda
