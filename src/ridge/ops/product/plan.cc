// Chooses tile, splits of k and copies for a product on Hopper: the supported plan with the shortest time in the model
// (closed_form.h). Nothing is measured.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "ridge/base/block_scale.h"
#include "ridge/base/ceil_div.h"
#include "ridge/ops/product/closed_form.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/groups.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/operands.h"
#include "ridge/ops/product/register_loads/register_loads.h"
#include "ridge/ops/product/time/correction.h"
#include "ridge/ops/product/weight_only/weight_only.h"

namespace ridge::ops::cuda {
namespace {

using tile::SplitMode, tile::Major, tile::Roles;

TileOperand make_operand(const void* data, const MatrixLayout& given, std::int64_t extent, std::int64_t k) {
  const MatrixLayout x = canonical_layout(given, extent, k);
  TileOperand o{data, x.dtype, x.col_stride == 1 ? Major::k : Major::mn, extent, k, 0, x.batch_stride};
  o.line_stride = o.major == Major::k ? x.row_stride : x.col_stride;
  if (o.line_count() <= 1) o.line_stride = copy_line_stride(o);  // Unused, but the copy engine validates it
  return o;
}

Reason validate_layout(const char* name, const MatrixLayout& given, std::int64_t rows, std::int64_t cols) {
  const MatrixLayout x = canonical_layout(given, rows, cols);
  if (given.row_stride < 0 || given.col_stride < 0 || given.batch_stride < 0)
    return fmt::format("{}: expected strides of at least 0, found {}, {} and {}", name, given.row_stride,
                       given.col_stride, given.batch_stride);
  if (x.row_stride != 1 && x.col_stride != 1)
    return fmt::format("{}: expected rows or columns that are contiguous, found strides {} and {}", name, x.row_stride,
                       x.col_stride);
  return {};
}

// True if the copy engine can address a distance of so many bytes between lines or matrices.
bool is_engine_stride(std::int64_t bytes) { return bytes % 16 == 0 && bytes < (std::int64_t{1} << 39); }

}  // namespace

TileOperand with_contiguous_k(const TileOperand& x) {
  TileOperand y = x;
  y.major = Major::k;
  y.line_stride = 0;
  return y;
}

std::int64_t copy_line_stride(const TileOperand& x) {
  const int step = swizzled_elements(x.dtype);
  return ceil_div(std::max<std::int64_t>(x.contiguous_extent(), 1), step) * step;
}

std::size_t copy_size_bytes(const TileOperand& x, std::int64_t batch) {
  const std::int64_t matrices = x.batch_stride == 0 ? 1 : batch;
  return static_cast<std::size_t>(ceil_div(x.bytes(matrices * x.line_count() * copy_line_stride(x)), 256) * 256);
}

bool can_copy_engine_read(const TileOperand& x, std::int64_t batch) {
  const bool strides = x.line_stride > 0 && is_engine_stride(x.bytes(x.line_stride)) &&
                       (batch == 1 || is_engine_stride(x.bytes(x.batch_stride)));
  return strides && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

int line_alignment(const TileOperand& x) {
  return static_cast<int>(std::gcd<std::int64_t>(x.bytes(x.line_stride), swizzle_bytes));
}

std::int64_t count_partial_tiles(const MatmulPlan& plan) {
  if (plan.split_mode == SplitMode::stream_k) return plan.tiles + plan.blocks;
  return plan.split_mode != SplitMode::cluster_split_k && plan.splits > 1 ? plan.tiles * plan.splits : 0;
}

std::size_t partial_sum_bytes(const MatmulConfig& c, std::int64_t partial_tiles) {
  return static_cast<std::size_t>(partial_tiles * c.m * c.n) * 4;
}

// Sets the operands of a convolution. Each tap takes whole boxes of the copy engine in k.
static void set_windows(TileProblem& t, const MatmulProblem& p) {
  const PixelWindows& w = *p.pixel_windows;
  const int box = swizzled_elements(p.a.dtype);
  t.windows = w;
  t.size.k = w.count_taps() * ceil_div(w.channels, box) * box;
  t.a = {t.a.data, p.a.dtype, Major::k, p.size.m, t.size.k, w.axis_strides[2], p.batch > 1 ? w.channels : 0};
  t.a.stored_elements = w.count_read_pixels() * w.channels;
  t.b.k = t.size.k;
  t.b.line_stride = p.b.col_stride;
  t.b.stored_elements = p.size.n * p.size.k;
}

TileProblem make_tile_problem(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  const MatrixLayout d = canonical_layout(p.d, p.size.m, p.size.n);
  TileProblem t;
  t.batch = p.batch;
  t.size = p.size;
  t.a = make_operand(call.a, p.a, p.size.m, p.size.k);
  t.b = make_operand(call.b, transpose_layout(p.b), p.size.n, p.size.k);
  t.d = call.d;
  t.d_line_stride = d.row_stride;
  t.d_batch_stride = d.batch_stride;
  t.constant_b = call.constant_b;
  if (p.pixel_windows) set_windows(t, p);
  t.grouped = p.grouped;
  if (p.grouped) t.starts = call.starts;
  if (d.col_stride != 1) {
    t.d_transposed = true;
    t.d_line_stride = d.col_stride;
    std::swap(t.size.m, t.size.n);
    std::swap(t.a, t.b);
    std::swap(t.constant_a, t.constant_b);
  }
  const int unit = 16 / operand_bytes(p.d.dtype);  // The copy engine writes 16 bytes at a time
  if (t.size.m <= 1) t.d_line_stride = ceil_div(std::max<std::int64_t>(t.size.n, 1), unit) * unit;
  return t;
}

TileProblem with_f32_for_tf32(TileProblem t) {
  for (TileOperand* x : {&t.a, &t.b})
    if (x->dtype == DType::tf32) x->dtype = DType::f32;
  return t;
}

bool has_vector_epilogue(const MatmulCall& call) {
  const TileProblem t = make_tile_problem(call);
  const DType in = call.problem.a.dtype, stored = result_dtype(in);
  if (call.problem.b.dtype != in) return false;
  const int unit = 16 / operand_bytes(stored);
  const auto has_short_offsets = [&](std::int64_t line, std::int64_t step) {
    const double span = static_cast<double>(t.batch) * static_cast<double>(step) +
                        static_cast<double>(t.size.m) * static_cast<double>(line) + static_cast<double>(t.size.n);
    return span < 0x1p32;
  };
  const auto is_aligned = [&](const void* data, DType dtype, std::int64_t line, std::int64_t matrix) {
    const std::int64_t step = t.batch > 1 ? matrix : 0, elements = 16 / operand_bytes(dtype);
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && line % elements == 0 && step % elements == 0 &&
           has_short_offsets(line, step);
  };
  if (!OperandDTypes::contains(in) || call.problem.d.dtype != stored || t.size.n % unit != 0 ||
      !is_aligned(t.d, stored, t.d_line_stride, t.d_batch_stride))
    return false;
  const auto is_fast = [&](const EpilogueOperand& x) {
    if (x.dtype != stored && x.dtype != DType::f32) return false;
    if (x.dtype == DType::f32 && x.col_stride == 0)
      return has_short_offsets(x.row_stride, t.batch > 1 ? x.batch_stride : 0);
    return x.col_stride == 1 && is_aligned(x.data, x.dtype, x.row_stride, x.batch_stride);
  };
  const MatmulEpilogue e = t.d_transposed ? transpose_epilogue(call.epilogue) : call.epilogue;
  for (const EpilogueOperand* x : {&e.scale, &e.bias, &e.gate, &e.addend})
    if (x->data && !is_fast(*x)) return false;
  return true;
}

Reason unsupported_reason(const MatmulProblem& p) {
  if (p.batch < 0 || p.size.m < 0 || p.size.n < 0 || p.size.k < 0)
    return fmt::format("expected sizes of at least 0, found batch {}, m {}, n {}, k {}", p.batch, p.size.m, p.size.n,
                       p.size.k);
  if (has_narrow_weights(p)) {
    if (auto reason = validate_narrow_weights(p)) return reason;
  }
  const bool are_equal =
      (StoredFloats::contains(p.a.dtype) || OperandDTypes::contains(p.a.dtype)) && p.a.dtype == p.b.dtype;
  const bool stores_sums = p.d.dtype == DType::int32 && are_equal && has_integer_sums(p.a.dtype);
  if ((!are_equal && !has_narrow_weights(p)) || (!StoredFloats::contains(p.d.dtype) && !stores_sums))
    return fmt::format(
        "expected two operands of the same dtype, f32, {}, and a result of {}, of int8 also int32; found {} * {} -> {}",
        OperandDTypes::names(), StoredFloats::names(), dtype_name(p.a.dtype), dtype_name(p.b.dtype),
        dtype_name(p.d.dtype));
  if (p.windows) return "windows: expected those of A, with channels last, found those of B";
  if (p.pixel_windows)
    if (auto reason = validate_pixel_windows(p)) return reason;
  if (auto reason = validate_layout("a", p.a, p.size.m, p.size.k)) return reason;
  if (auto reason = validate_layout("b", p.b, p.size.k, p.size.n)) return reason;
  if (auto reason = validate_layout("d", p.d, p.size.m, p.size.n)) return reason;
  if (p.a.dtype == DType::e4m3_128)
    if (auto reason = validate_scaled_pair(p)) return reason;
  const MatrixLayout d = canonical_layout(p.d, p.size.m, p.size.n);
  const bool rows = d.col_stride == 1;
  const std::int64_t line = rows ? p.size.n : p.size.m, lines = rows ? p.size.m : p.size.n,
                     stride = rows ? d.row_stride : d.col_stride;
  if (lines > 1 && stride < line)
    return fmt::format("d: expected a stride of at least {}, found {}: its rows would overlap", line, stride);
  if (auto reason = validate_groups(p)) return reason;
  if (p.grouped) return {};
  if (p.batch > 1 && d.batch_stride == 0) return "d: expected a batch stride, found 0: the products would overlap";
  return {};
}

Reason unsupported_reason(const MatmulCall& call) {
  const MatmulProblem& p = call.problem;
  if (auto reason = unsupported_reason(p)) return reason;
  const bool any = p.batch > 0 && p.size.m > 0 && p.size.n > 0;
  if (any && !call.d) return "d: expected device memory, found a null pointer";
  if (any && p.size.k > 0 && (!call.a || !call.b))
    return fmt::format("{}: expected device memory, found a null pointer", call.a ? "b" : "a");
  if (any && p.grouped && !call.starts)
    return "starts: expected device memory with the starts of groups, found a null pointer";
  const MatmulEpilogue& e = call.epilogue;
  if (auto reason = validate_epilogue(e)) return reason;
  if (p.d.dtype == DType::int32 && !is_store_only(e))
    return "d: expected f32, bf16 or f16 after an epilogue, found int32";
  for (const auto& [name, data] : {std::pair{"a", call.a}, std::pair{"b", call.b}})
    if (p.pixel_windows && reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
      return fmt::format("{}: expected the address of a convolution's operand to be a multiple of 16 bytes, found {}",
                         name, data);
  if (p.pixel_windows && call.row_walk().rows > 0) return "windows: expected rows of one rank";
  for (const auto& [name, data] : {std::pair{"a", call.a}, std::pair{"b", call.b}})
    if (p.a.dtype == DType::e4m3_128 && reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
      return fmt::format("{}: expected the address of a block-scaled operand to be a multiple of 16 bytes, found {}",
                         name, data);
  const auto alignment = [](DType x) { return static_cast<std::uintptr_t>(operand_bytes(x)); };
  for (const auto& [name, data, dtype] : {std::tuple{"a", call.a, p.a.dtype},
                                          {"b", call.b, p.b.dtype},
                                          {"d", static_cast<const void*>(call.d), p.d.dtype},
                                          {"scale", e.scale.data, e.scale.dtype},
                                          {"bias", e.bias.data, e.bias.dtype},
                                          {"gate", e.gate.data, e.gate.dtype},
                                          {"addend", e.addend.data, e.addend.dtype}})
    if (reinterpret_cast<std::uintptr_t>(data) % alignment(dtype) != 0)
      return fmt::format("{}: expected a pointer to whole {} elements, found one that is not a multiple of {} bytes",
                         name, ridge::dtype_name(dtype), alignment(dtype));
  return {};
}

bool is_narrow(const TileOperand& x) { return x.major == Major::mn && x.bytes(x.extent) < swizzle_bytes; }

namespace {

// Lines that start at odd multiples of 16 bytes need two sectors of 32 bytes in place of one.
bool crosses_sectors(const TileOperand& x) { return x.bytes(x.line_stride) % 32 != 0; }

double multiply_as_double(std::int64_t x, std::int64_t y) { return static_cast<double>(x) * static_cast<double>(y); }
double result_bytes(const TileProblem& t, DType out) {
  return static_cast<double>(t.result_matrices()) * multiply_as_double(t.size.m, t.size.n) * dtype_bits(out) / 8;
}
// Returns how many groups can have rows; matrices of empty groups are not read.
std::int64_t max_nonempty_groups(const TileProblem& t) { return t.grouped ? std::min(t.batch, t.size.m) : t.batch; }
double count_elements(const TileOperand& x) {
  return x.stored_elements ? static_cast<double>(*x.stored_elements) : multiply_as_double(x.extent, x.k);
}
double minimum_bytes(const TileProblem& t, DType out) {
  const double matrices_a = static_cast<double>(t.a.batch_stride ? t.batch : 1);
  const double matrices_b = static_cast<double>(t.b.batch_stride ? max_nonempty_groups(t) : 1);
  return result_bytes(t, out) +
         bytes_per_element(t.a.dtype) * (matrices_a * count_elements(t.a) + matrices_b * count_elements(t.b));
}

// Returns the number of tiles of uneven groups over that of equal groups of the mean length. The uneven groups have
// eight lengths, each half of the previous one.
double uneven_tile_ratio(std::int64_t mean, int tile) {
  double parts = 0, tiles = 0;
  for (int j = 0; j < 8; ++j) parts += std::exp2(-j);
  for (int j = 0; j < 8; ++j)
    tiles += std::ceil(std::round(8 * static_cast<double>(mean) * std::exp2(-j) / parts) / tile);
  return tiles / (8 * std::ceil(static_cast<double>(mean) / tile));
}
// The lengths of groups are unknown when planning: returns the mean of the times for uniform and for uneven groups.
double predict_grouped_seconds(const MatmulConfig& c, const TileWork& uniform, const DeviceNumbers& device,
                               const ProductModel& model) {
  TileWork uneven = uniform;
  const double more = c.swap ? uneven_tile_ratio(uniform.size.n, c.n) : uneven_tile_ratio(uniform.size.m, c.m);
  uneven.batch = std::max<std::int64_t>(1, std::llround(static_cast<double>(uniform.batch) * more));
  return (predict_seconds(c, uniform, {}, device, model) + predict_seconds(c, uneven, {}, device, model)) / 2;
}

// Returns the maximum number of tiles over all lengths of groups.
std::int64_t max_grouped_tiles(const MatmulConfig& c, const TileProblem& t) {
  const int along = c.swap ? c.n : c.m, across = c.swap ? c.m : c.n;
  return ceil_div(t.size.n, across) * (t.size.m / along + max_nonempty_groups(t));
}

// Plans copies of operands that the copy engine cannot read or whose k must be contiguous, and those that are wanted.
// Copies of narrow operands are transposed if the workspace suffices.
void decide_copies(TileProblem& t, const MatmulConfig& c, const OperandCopies& wanted, std::size_t workspace_bytes,
                   MatmulPlan& plan) {
  const auto decide = [&](TileOperand& x, Major needed, bool is_wanted, bool& copy, bool& transpose) {
    const bool needs_transpose = x.major != needed && needed == Major::k && operand_bytes(x.dtype) != 2;
    copy = is_wanted || needs_transpose || !can_copy_engine_read(x, t.batch);
    transpose = copy && (needs_transpose || is_narrow(x)) &&
                copy_size_bytes(with_contiguous_k(x), t.batch) + device::counter_bytes <= workspace_bytes;
    if (transpose) x = with_contiguous_k(x);
    if (copy) plan.workspace_bytes += copy_size_bytes(x, t.batch);
  };
  decide(t.a, c.swap ? c.b : c.a, wanted.a, plan.copy_a, plan.transpose_a);
  decide(t.b, c.swap ? c.a : c.b, wanted.b, plan.copy_b, plan.transpose_b);
}

// Returns the time of a convolution over that of the same product of matrices. A box of few pixels takes longer to load
// than to multiply; blocks that share a tile of pixels by multicast load a part each. 1568 pixels of 9 x 512 channels
// take 24.6 us with boxes of 32 pixels and 17.9 us with 80. The two numbers give the fastest choices on average over
// the 14 shapes of tests/gpu/convolution_plans.cc (H200, 2026-11-29): 3 % above the fastest plans, 7 % without them.
double window_load_factor(const MatmulConfig& c) {
  constexpr double full_box = 160, slope = 0.6;
  const double pixels = c.swap ? c.n / c.cluster_m : c.m / c.cluster_n;
  return 1 + slope * std::max(0.0, 1 - pixels / full_box);
}

// Returns the work without copies and bytes. The lengths of groups are unknown: assumes uniform groups.
TileWork make_tile_work(const MatmulConfig& c, const TileProblem& t) {
  TileWork w{max_nonempty_groups(t), {t.a.extent, t.b.extent, t.size.k}, t.a.dtype};
  if (c.swap) std::swap(w.size.m, w.size.n);
  if (t.grouped) (c.swap ? w.size.n : w.size.m) = ceil_div(t.size.m, w.batch);
  return w;
}

// Returns the number of tiles, or 0 if the kernel cannot count them, their stages or their rows.
std::int64_t count_plan_tiles(const MatmulConfig& c, const TileWork& w, std::int64_t rows, int splits) {
  if (rows > max_kernel_count || w.size.m > max_kernel_count || w.size.n > max_kernel_count ||
      w.size.k > max_kernel_count || w.batch > max_kernel_count || ceil_div(w.size.k, c.k) * splits > max_kernel_count)
    return 0;
  const std::int64_t clusters_m = ceil_div(w.size.m, c.m * c.cluster_m),
                     clusters_n = ceil_div(w.size.n, c.n * c.cluster_n);
  if (clusters_m > max_kernel_count / clusters_n / c.cluster()) return 0;
  const std::int64_t tiles = clusters_m * clusters_n * c.cluster();
  return tiles > max_kernel_count / w.batch / splits ? 0 : tiles * w.batch;
}

std::int64_t max_concurrent_blocks(const MatmulConfig& c, int multiprocessors) {
  return c.cluster() * count_concurrent_clusters(c.cluster(), multiprocessors);
}

// True if the config supports these splits of tiles with `stages` stages each.
bool can_split(const MatmulConfig& c, const SplitK& split, std::int64_t tiles, std::int64_t stages,
               int multiprocessors) {
  if (split.splits > 1 && (!c.can_split() || stages < split.splits)) return false;
  switch (split.split_mode) {
    case SplitMode::cluster_split_k: return c.can_split_in_cluster();
    case SplitMode::cooperative_split_k:
      return c.epilogue_steps() >= 2 && split.splits <= tile::max_cooperative_splits &&
             tiles * split.splits <= max_concurrent_blocks(c, multiprocessors);
    case SplitMode::stream_k:
      // Stream-K is restricted to cases where it is faster: weights read once, long runs of stages, few partial sums.
      return c.swap && c.n <= 32 && c.a == Major::k && c.cluster() == 1 && stages >= 16 &&
             tiles <= max_kernel_count / stages && tiles % multiprocessors != 0 &&
             tiles * stages >= 4 * multiprocessors;
    default: return true;
  }
}

// Sets the blocks, waves and workspace of a plan whose tiles, splits and copies are set. Returns false if the kernel
// cannot count the stages or the workspace has too few counters.
bool assign_blocks(const MatmulConfig& c, const TileProblem& t, std::int64_t stages, int multiprocessors,
                   MatmulPlan& plan) {
  const std::int64_t concurrent_blocks = max_concurrent_blocks(c, multiprocessors);
  const std::int64_t max_tiles = t.grouped ? max_grouped_tiles(c, t) : plan.tiles;
  if (max_tiles > max_kernel_count / stages) return false;
  const bool streamed = plan.split_mode == SplitMode::stream_k;
  plan.blocks = static_cast<int>(std::min(max_tiles * plan.splits, concurrent_blocks));
  if (streamed) plan.blocks = multiprocessors;
  if (plan.split_mode == SplitMode::cluster_split_k) plan.blocks = static_cast<int>(plan.tiles * plan.splits);
  plan.waves = streamed ? 1 : ceil_div(plan.tiles * plan.splits, concurrent_blocks);
  if (const std::int64_t partial = count_partial_tiles(plan); partial > 0) {
    if (plan.tiles * c.warpgroups_per_tile() * 4 > static_cast<std::int64_t>(device::counter_bytes)) return false;
    plan.workspace_bytes += partial_sum_bytes(c, partial);
  }
  if (plan.workspace_bytes > 0) plan.workspace_bytes += device::counter_bytes;
  return true;
}

// Sets what the model reads of the operands and their copies.
void describe_operands(const MatmulConfig& c, const TileProblem& t, const MatmulPlan& plan, TileWork& w) {
  w.alignment_a = plan.copy_a ? swizzle_bytes : line_alignment(t.a);
  w.alignment_b = plan.copy_b ? swizzle_bytes : line_alignment(t.b);
  if (c.swap) std::swap(w.alignment_a, w.alignment_b);
  w.narrow_a = is_narrow(c.swap ? t.b : t.a);
  w.narrow_b = is_narrow(c.swap ? t.a : t.b);
  w.element_stores = t.d_line_stride % 4 != 0;
  w.copies = plan.copy_a + plan.copy_b;
  w.prefetch_constants = plan.prefetch_constants;
}

}  // namespace

std::optional<UncorrectedPlan> make_uncorrected_plan(const MatmulCall& call, std::size_t workspace_bytes,
                                                     const DeviceNumbers& device, const PlanChoice& choice,
                                                     const ProductModel& model) {
  const auto& [config, split, copy_choice] = choice;
  TileProblem t = make_tile_problem(call);
  const MatmulConfig c = kernel_config(config, t.a.dtype);
  if (t.batch == 0 || t.size.m == 0 || t.size.n == 0 || t.size.k == 0 || !OperandDTypes::contains(t.a.dtype) ||
      !c.can_multiply(t.a.dtype))
    return std::nullopt;
  if (t.windows && !c.can_load_windows()) return std::nullopt;
  if (c.grouped != t.grouped || (c.grouped && split.split_mode != SplitMode::split_k)) return std::nullopt;
  MatmulPlan plan{MatmulPlan::Path::tiles, config, t.d_transposed};
  decide_copies(t, c, copy_choice, workspace_bytes, plan);
  if (is_block_scaled(t.a.dtype) && (plan.copy_a || plan.copy_b)) return std::nullopt;
  if ((c.swap ? t.b : t.a).major != c.a || (c.swap ? t.a : t.b).major != c.b) return std::nullopt;
  TileWork w = make_tile_work(c, t);
  w.copied_bytes = static_cast<double>(plan.workspace_bytes);
  const std::int64_t stages = ceil_div(w.size.k, c.k);
  plan.splits = split.splits;
  plan.split_mode = split.split_mode;
  plan.tiles = count_plan_tiles(c, w, t.size.m, plan.splits);
  if (plan.tiles == 0 || !can_split(c, split, plan.tiles, stages, device.multiprocessors)) return std::nullopt;
  // For short groups, tiles that read the same weights are adjacent, so that weights are read from memory once.
  if (t.grouped && c.swap) plan.raster_rows = 1;
  if (!assign_blocks(c, t, stages, device.multiprocessors, plan) || plan.workspace_bytes > workspace_bytes)
    return std::nullopt;
  w.minimum_bytes = minimum_bytes(t, call.problem.d.dtype);
  w.result_bytes = result_bytes(t, call.problem.d.dtype);
  const bool saves_bytes = split.split_mode == SplitMode::cluster_split_k || split.split_mode == SplitMode::stream_k;
  if (saves_bytes && is_compute_bound(w, device)) return std::nullopt;
  // The kernel prefetches its constant operand, which is B unless D is transposed. A copy of A starts after all earlier
  // kernels, so B may be loaded during the copy even if an earlier kernel wrote it.
  plan.prefetch_constants =
      !t.grouped && !t.windows && !plan.copy_b && (plan.copy_a || (t.constant_b && !is_compute_bound(w, device)));
  describe_operands(c, t, plan, w);
  plan.predicted_s =
      t.grouped ? predict_grouped_seconds(c, w, device, model) : predict_seconds(c, w, split, device, model);
  if (t.windows) plan.predicted_s *= window_load_factor(c);
  return UncorrectedPlan{plan, w};
}

namespace {
MatmulPlan apply_correction(const UncorrectedPlan& x, const DeviceNumbers& device) {
  const MatmulConfig c = kernel_config(x.plan.config, x.work.dtype);
  const SplitK split{x.plan.splits, x.plan.split_mode};
  MatmulPlan plan = x.plan;
  // The corrections were fitted without grouped configs, to operands of 16 bits
  if (c.grouped || x.work.operand_bytes() != 2) return plan;
  plan.predicted_s *= predict_correction(make_plan_features(c, x.work, split, device, plan.predicted_s));
  return plan;
}
}  // namespace

std::optional<MatmulPlan> make_plan(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device,
                                    const PlanChoice& choice) {
  const auto x = make_uncorrected_plan(call, workspace_bytes, device, choice);
  return x ? std::optional(apply_correction(*x, device)) : std::nullopt;
}

std::vector<SplitK> list_split_options(const MatmulCall& call, const DeviceNumbers& device) {
  const MatmulProblem& p = call.problem;
  const double wave = 128.0 * 128 * device.multiprocessors;
  const double outputs = static_cast<double>(p.batch) * static_cast<double>(p.size.m) * static_cast<double>(p.size.n);
  std::vector<SplitK> all{{1, SplitMode::split_k}, {1, SplitMode::stream_k}};
  if (outputs <= 2 * wave)
    for (const int splits : {2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16})
      for (const SplitMode split_mode : {SplitMode::split_k, SplitMode::cooperative_split_k})
        all.push_back({splits, split_mode});
  if (outputs <= wave)
    for (int splits = 2; splits <= tile::max_cluster_splits; ++splits)
      all.push_back({splits, SplitMode::cluster_split_k});
  return all;
}

std::vector<OperandCopies> list_copy_options(const MatmulCall& call) {
  const TileProblem t = make_tile_problem(call);
  const auto may_need_copy = [](const TileOperand& x) { return crosses_sectors(x) || is_narrow(x); };
  std::vector<OperandCopies> all{{false, false}};
  if (t.windows) return all;
  if (may_need_copy(t.a)) all.push_back({true, false});
  if (may_need_copy(t.b)) all.push_back({false, true});
  if (all.size() == 3) all.push_back({true, true});
  return all;
}

namespace {

std::optional<MatmulPlan> plan_gemv(const MatmulCall& call, const DeviceNumbers& device) {
  const auto work = make_gemv_work(call);
  if (!work) return std::nullopt;
  MatmulPlan plan{MatmulPlan::Path::gemv, -1, make_gemv_problem(call).d_transposed};
  plan.predicted_s = predict_gemv_seconds(*work, device);
  return plan;
}

bool is_faster(const MatmulPlan& x, const MatmulPlan& y) { return x.predicted_s < y.predicted_s; }

// Returns the plans of kernels that load operands without the copy engine, the fastest first.
std::vector<MatmulPlan> list_plans_without_tiles(const MatmulCall& call, std::size_t workspace_bytes,
                                                 const DeviceNumbers& device) {
  std::vector<MatmulPlan> out = list_register_loads_plans(call, workspace_bytes, device);
  if (const auto gemv = plan_gemv(call, device)) out.push_back(*gemv);
  std::stable_sort(out.begin(), out.end(), is_faster);
  return out;
}

// Returns every plan of tiles with the time of the closed form; plans of one config are adjacent.
std::vector<UncorrectedPlan> list_uncorrected_plans(const MatmulCall& call, std::size_t workspace_bytes,
                                                    const DeviceNumbers& device) {
  const std::vector<SplitK> all = list_split_options(call, device);
  const std::vector<OperandCopies> copy_choices = list_copy_options(call);
  std::vector<UncorrectedPlan> found;
  for (int config = 0; config < static_cast<int>(sm90_kernel_configs.size()); ++config) {
    if (kernel_config(config, call.problem.a.dtype).adds_without_turns() && call.scattered.rows == 0) continue;
    for (const SplitK split : all)
      for (const OperandCopies copy_choice : copy_choices)
        if (const auto x = make_uncorrected_plan(call, workspace_bytes, device, {config, split, copy_choice}))
          found.push_back(*x);
  }
  return found;
}

}  // namespace

std::vector<MatmulPlan> list_candidates(const MatmulCall& call, std::size_t workspace_bytes,
                                        const DeviceNumbers& device, std::size_t per_config) {
  if (has_narrow_weights(call.problem)) return list_weight_only_plans(call, device);
  const std::vector<UncorrectedPlan> found = list_uncorrected_plans(call, workspace_bytes, device);
  double fastest_s = std::numeric_limits<double>::infinity();
  for (const UncorrectedPlan& x : found) fastest_s = std::min(fastest_s, x.plan.predicted_s);
  // Plans that no correction could make the fastest keep the time of the closed form.
  const double max_form_s = fastest_s * max_correction / min_correction;
  std::vector<MatmulPlan> out = list_plans_without_tiles(call, workspace_bytes, device);
  for (auto x = found.begin(); x != found.end();) {
    const auto next =
        std::find_if(x, found.end(), [&](const UncorrectedPlan& y) { return y.plan.config != x->plan.config; });
    const std::size_t before = out.size();
    for (; x != next; ++x) out.push_back(x->plan.predicted_s > max_form_s ? x->plan : apply_correction(*x, device));
    const auto first = out.begin() + static_cast<std::ptrdiff_t>(before);
    std::stable_sort(first, out.end(), is_faster);
    out.resize(std::min(out.size(), before + per_config));
  }
  std::stable_sort(out.begin(), out.end(), is_faster);
  return out;
}

MatmulPlan choose_plan(const MatmulCall& call, std::size_t workspace_bytes, const DeviceNumbers& device) {
  const MatmulProblem& p = call.problem;
  MatmulPlan none;
  none.d_transposed = make_tile_problem(call).d_transposed;
  if (p.batch == 0 || p.size.m == 0 || p.size.n == 0) {
    none.path = MatmulPlan::Path::nothing;
    return none;
  }
  if (has_narrow_weights(p)) return list_weight_only_plans(call, device).front();
  std::vector<UncorrectedPlan> found = list_uncorrected_plans(call, workspace_bytes, device);
  std::stable_sort(found.begin(), found.end(), [](const UncorrectedPlan& x, const UncorrectedPlan& y) {
    return x.plan.predicted_s < y.plan.predicted_s;
  });
  const std::vector<MatmulPlan> others = list_plans_without_tiles(call, workspace_bytes, device);
  std::optional<MatmulPlan> best = others.empty() ? std::nullopt : std::optional(others.front());
  for (const UncorrectedPlan& x : found) {
    if (best && x.plan.predicted_s * min_correction > best->predicted_s) break;  // Too slow for any correction
    const MatmulPlan plan = apply_correction(x, device);
    if (!best || std::pair(plan.predicted_s, plan.config) < std::pair(best->predicted_s, best->config)) best = plan;
  }
  return best ? *best : none;
}

namespace {

// Adapts a plan to rows that other ranks send or receive in chunks (tile/shared_rows.h), or returns nullopt. A band of
// tile rows must not span two chunks, because tiles and chunks could then wait for each other.
std::optional<MatmulPlan> adapt_to_chunks(MatmulPlan plan, const MatmulCall& call) {
  if (plan.path != MatmulPlan::Path::tiles || plan.splits > 1 || plan.split_mode != SplitMode::split_k)
    return std::nullopt;
  const MatmulConfig c = kernel_config(plan.config, call.problem.a.dtype);
  const RowWalk& walk = call.row_walk();
  const int cluster_rows = c.m * c.cluster_m;
  const bool gathers = call.gathered.rows > 0;
  if (walk.rows % cluster_rows != 0 || (!gathers && walk.rows > max_scatter_band_rows)) return std::nullopt;
  if (gathers ? !c.can_gather_rows() || plan.copy_a || walk.cols % c.k != 0 : !c.can_scatter_rows() || walk.cols < c.n)
    return std::nullopt;
  // With gathered rows, bands are at most one chunk of rows; with scattered rows, a band is one chunk of rows.
  const int chunk_tile_rows = walk.rows / cluster_rows;
  if (!gathers || plan.raster_rows > chunk_tile_rows) plan.raster_rows = chunk_tile_rows;
  while (chunk_tile_rows % plan.raster_rows != 0) --plan.raster_rows;
  plan.first_tile_row = walk.first / cluster_rows;
  return plan;
}

}  // namespace

bool can_store_in_bulk(const MatmulCall& call) {
  const TileProblem t = make_tile_problem(call);
  const TileOperand d{t.d, call.problem.d.dtype, Major::k, t.size.m, t.size.n, t.d_line_stride, t.d_batch_stride};
  return OperandDTypes::contains(t.a.dtype) && (adds_rounded_sum(call) || is_store_only(call.epilogue)) &&
         d.dtype == result_dtype(t.a.dtype) && d.bytes(t.size.n) % 16 == 0 && can_copy_engine_read(d, t.batch);
}

std::optional<MatmulPlan> choose_exchanged_rows_plan(const MatmulCall& call, std::size_t workspace_bytes,
                                                     const DeviceNumbers& device) {
  const RowWalk& walk = call.row_walk();
  const double max_int = 2147483647.0;  // Elements of a rank's chunk are counted in 32 bits
  if (call.problem.batch != 1 || call.problem.size.m != walk.total_rows || make_tile_problem(call).d_transposed)
    return std::nullopt;
  const bool scatters = call.scattered.rows > 0;
  if (scatters && (!can_store_in_bulk(call) ||
                   static_cast<double>(walk.shard_rows) * static_cast<double>(call.problem.size.n) > max_int ||
                   walk.total_rows / walk.shard_rows > ScatteredRows::max_shards))
    return std::nullopt;
  for (const MatmulPlan& plan : list_candidates(call, workspace_bytes, device, 4))
    if (const auto chosen = adapt_to_chunks(plan, call)) return chosen;
  return std::nullopt;
}

}  // namespace ridge::ops::cuda
