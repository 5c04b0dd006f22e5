// Runs matmul kernels on the cpu target: binds layouts to the views of the kernel definition. A D with contiguous
// columns, and a product whose A is block-scaled, are computed as D transposed = B transposed times A transposed.
#include "ridge/ops/product/matmul.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "ridge/base/dtype_set.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/groups.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/scaled/operand.h"
#include "ridge/ops/product/windows/operand.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"
#include "ridge/tile/cpu/run_matmul.h"
#include "ridge/tile/cpu/small.h"

namespace ridge::ops {
namespace {

using tile::Matrix;

Reason validate_layout(const char* name, const MatrixLayout& given, std::int64_t rows, std::int64_t cols) {
  const MatrixLayout x = canonical_layout(given, rows, cols);
  if (x.row_stride != 1 && x.col_stride != 1) {
    return fmt::format("{}: expected rows or columns that are contiguous, found strides {} and {}", name, x.row_stride,
                       x.col_stride);
  }
  if (given.row_stride < 0 || given.col_stride < 0 || given.batch_stride < 0)
    return fmt::format("{}: expected strides of at least 0, found {}, {} and {}", name, given.row_stride,
                       given.col_stride, given.batch_stride);
  return {};
}

// Kernel definitions depend only on the size of elements; the engine depends on their format.
template <int bytes> struct ElementOfSize;
template <> struct ElementOfSize<1> { using type = std::int8_t; };
template <> struct ElementOfSize<2> { using type = Bf16; };
template <> struct ElementOfSize<4> { using type = float; };

template <int a_bytes, int b_bytes, class Sum>
void run_matmul(const MatmulCall& call, const void* packed_b, int threads) {
  using Kernel = Matmul<cpu_kernel_configs[0], typename ElementOfSize<a_bytes>::type,
                        typename ElementOfSize<b_bytes>::type, Sum, Sum>;
  const MatmulProblem& p = call.problem;
  const MatrixLayout layout = canonical_layout(p.d, p.size.m, p.size.n);
  const tile::cpu::Engine& engine =
      *tile::cpu::find_engine(p.a.dtype, decoded_dtype(p.b.dtype, p.a.dtype), pool::this_cpu(), packed_b != nullptr);
  typename Kernel::Globals g;
  static_cast<Matrix&>(g.a) = to_tile_matrix(p.a, call.a, p.size.m, p.size.k);
  static_cast<Matrix&>(g.b) = to_tile_matrix(transpose_layout(p.b), call.b, p.size.n, p.size.k);
  g.b.prepacked = packed_b;
  std::optional<WindowOperand> windows;
  if (p.windows) {
    g.b.computed = &windows.emplace(p, engine, call.a, call.b);
    g.a.data = windows->weights;
  }
  std::optional<BlockScaledOperand> scaled;
  if (is_block_scaled(p.b.dtype)) g.b.computed = &scaled.emplace(p, call.b);
  g.d = {static_cast<Sum*>(call.d), p.size.m, p.size.n, layout.row_stride, layout.col_stride, layout.batch_stride};
  constexpr bool sums_are_integers = std::is_same_v<Sum, std::int32_t>;
  if (!is_store_only(call.epilogue) || p.d.dtype != (sums_are_integers ? DType::int32 : DType::f32))
    g.d.target = {to_tile_epilogue(call.epilogue, p.d.dtype), apply_epilogue,
                  is_store_only(call.epilogue) && p.d.dtype == DType::bf16};
  const tile::cpu::MatmulSizes sizes{p.batch, p.size};
  tile::cpu::run_kernel<Kernel>(g, sizes, engine, threads);
}

// Returns the arguments of a small product whose D has contiguous rows.
tile::cpu::SmallArgs to_small_args(const ProductSize& size, const MatrixLayout& a, const MatrixLayout& b) {
  tile::cpu::SmallArgs x;
  x.a_along_k = a.col_stride == 1 || size.k == 1;
  x.a_stride = x.a_along_k ? a.row_stride : a.col_stride;
  x.b_along_k = b.col_stride != 1 && size.n > 1;
  x.b_stride = x.b_along_k ? b.col_stride : b.row_stride;
  x.m = size.m;
  x.n = size.n;
  x.k = size.k;
  return x;
}

// Computes a small product of f32 without the schedule of larger ones; returns false if it is none. The smallest ones
// take 20 ns, so that nothing larger than their arguments is copied before.
bool run_small_matmul(const MatmulProblem& p, const void* a, const void* b, void* d, int threads) {
  using tile::cpu::Unit;
  const auto are_f32 = [](DType x, DType y, DType z) { return x == DType::f32 && y == x && z == x; };
  if (!tile::cpu::has_small_size(p.size) || p.batch != 1 || !are_f32(p.a.dtype, p.b.dtype, p.d.dtype) || p.grouped ||
      p.windows || p.pixel_windows)
    return false;
  if (threads != 1 && choose_thread_count(p, threads) != 1) return false;
  const bool transposed = p.d.col_stride != 1 && p.size.n > 1;
  tile::cpu::SmallArgs x =
      transposed ? to_small_args({p.size.n, p.size.m, p.size.k}, transpose_layout(p.b), transpose_layout(p.a))
                 : to_small_args(p.size, p.a, p.b);
  x.a = static_cast<const Unit*>(transposed ? b : a);
  x.b = static_cast<const Unit*>(transposed ? a : b);
  x.c = static_cast<float*>(d);
  x.c_stride = transposed ? p.d.col_stride : p.d.row_stride;
  return tile::cpu::multiply_small(x);
}

// Calls each(i, threads) for all groups. All threads share a long group; each short group runs on one thread.
template <class Each> void for_each_group(const MatmulProblem& p, int threads, const Each& each) {
  MatmulProblem mean = p;
  mean.batch = 1;
  mean.size.m = (p.size.m + p.batch - 1) / p.batch;
  if (p.batch < 2 * threads || choose_thread_count(mean, threads) > 1) {
    for (std::int64_t i = 0; i < p.batch; ++i) each(i, threads);
    return;
  }
  std::atomic<std::int64_t> next{0};
  pool::run_parallel(threads, [&](int) {
    for (std::int64_t i = next++; i < p.batch; i = next++) each(i, 1);
  });
}

// Returns the products of one image of a convolution in groups.
MatmulCall extract_image(const MatmulCall& call, std::int64_t image) {
  MatmulCall out = call;
  const MatmulProblem& p = call.problem;
  const std::int64_t first = image * p.windows->groups;
  out.problem.batch = p.windows->groups;
  out.b = static_cast<const char*>(call.b) + first * p.b.batch_stride * (dtype_bits(p.b.dtype) / 8);
  out.d = static_cast<char*>(call.d) + first * p.d.batch_stride * (dtype_bits(p.d.dtype) / 8);
  return out;
}

void dispatch_matmul(const MatmulCall& call, const void* packed_b, int threads) {
  const MatmulProblem& p = call.problem;
  if (p.batch == 0 || p.size.m == 0 || p.size.n == 0) return;
  if (packed_b == nullptr && is_store_only(call.epilogue) && run_small_matmul(p, call.a, call.b, call.d, threads))
    return;
  threads = choose_thread_count(p, threads);
  if (p.grouped)
    return for_each_group(p, threads,
                          [&](std::int64_t i, int some) { dispatch_matmul(extract_group(call, i), nullptr, some); });
  if (p.windows && p.windows->groups > 1 && p.batch > p.windows->groups) {
    for (std::int64_t i = 0; i < p.batch / p.windows->groups; ++i)
      dispatch_matmul(extract_image(call, i), nullptr, threads);
    return;
  }
  if (computes_transposed(p)) return dispatch_matmul(transpose_call(call), nullptr, threads);
  switch (dtype_bits(p.a.dtype) * 100 + dtype_bits(decoded_dtype(p.b.dtype, p.a.dtype))) {
    case 3232: return run_matmul<4, 4, float>(call, packed_b, threads);
    case 3208: return run_matmul<4, 1, float>(call, packed_b, threads);
    case 1616: return run_matmul<2, 2, float>(call, packed_b, threads);
    case 1632: return run_matmul<2, 4, float>(call, packed_b, threads);
    case 1608: return run_matmul<2, 1, float>(call, packed_b, threads);
    case 832: return run_matmul<1, 4, float>(call, packed_b, threads);
    case 816: return run_matmul<1, 2, float>(call, packed_b, threads);
    default: return run_matmul<1, 1, std::int32_t>(call, packed_b, threads);
  }
}

constexpr std::int64_t max_int8_k = (std::int64_t{1} << 17) - 1;  // Products whose sum fits in int32

bool is_float(DType x) { return StoredFloats::contains(x); }

Reason validate_dtypes(const MatmulProblem& p) {
  if (auto reason = validate_scaled_operand(p)) return reason;
  const DType a = decoded_dtype(p.a.dtype, p.b.dtype), b = decoded_dtype(p.b.dtype, p.a.dtype), d = p.d.dtype;
  const bool integers = a == DType::int8 && b == DType::int8;
  const bool is_scaled = is_block_scaled(p.a.dtype) || is_block_scaled(p.b.dtype);  // Others have been refused
  const bool floats =
      is_scaled || (a == b && is_float(a)) || (is_float(a) && b == DType::int8) || (a == DType::int8 && is_float(b));
  if (!(integers && (is_float(d) || d == DType::int8 || d == DType::int32)) && !(floats && is_float(d)))
    return fmt::format(
        "expected f32, bf16 or f16, both equal or one of them int8 -> f32, bf16 or f16; or int8 * int8 -> int32, int8, "
        "f32, bf16 or f16; found {} * {} -> {}",
        dtype_name(a), dtype_name(b), dtype_name(d));
  if (integers && p.size.k > max_int8_k)
    return fmt::format("expected k of at most {}, where an int32 holds any sum of int8 products, found {}", max_int8_k,
                       p.size.k);
  return {};
}

}  // namespace

Reason unsupported_reason(const MatmulProblem& p) {
  if (auto reason = pool::isa_override_error()) return reason;
  if (p.batch < 0 || p.size.m < 0 || p.size.n < 0 || p.size.k < 0) {
    return fmt::format("expected sizes of at least 0, found batch {}, m {}, n {}, k {}", p.batch, p.size.m, p.size.n,
                       p.size.k);
  }
  if (auto reason = validate_dtypes(p)) return reason;
  if (auto reason = validate_layout("a", p.a, p.size.m, p.size.k)) return reason;
  if (auto reason = p.windows ? validate_windows(p) : validate_layout("b", p.b, p.size.k, p.size.n)) return reason;
  if (auto reason = validate_layout("d", p.d, p.size.m, p.size.n)) return reason;
  if (auto reason = validate_groups(p)) return reason;
  const MatrixLayout d = canonical_layout(p.d, p.size.m, p.size.n);
  const std::int64_t line = d.col_stride == 1 ? p.size.n : p.size.m,
                     stride = d.col_stride == 1 ? d.row_stride : d.col_stride;
  const std::int64_t lines = d.col_stride == 1 ? p.size.m : p.size.n;
  if (lines > 1 && stride < line)
    return fmt::format("d: expected a stride of at least {}, found {}: its rows would overlap", line, stride);
  // True if each stride, in ascending order, exceeds the extent that smaller strides cover.
  const bool is_disjoint = d.batch_stride >= (lines - 1) * stride + line ||
                           (d.batch_stride >= line && (lines == 1 || stride >= (p.batch - 1) * d.batch_stride + line));
  if (p.batch > 1 && p.size.m > 0 && p.size.n > 0 && !is_disjoint && !p.grouped)
    return fmt::format("d: expected a batch stride that steps over the other products, found {}: they would overlap",
                       d.batch_stride);
  return {};
}

Reason unsupported_reason(const MatmulCall& call) {
  if (auto reason = unsupported_reason(call.problem)) return reason;
  if (auto reason = validate_group_starts(call)) return reason;
  if (auto reason = validate_epilogue(call.epilogue)) return reason;
  if (call.problem.windows && call.problem.windows->groups > 1 && !is_store_only(call.epilogue))
    return "windows: expected no epilogue of a convolution in groups";
  if (call.problem.d.dtype == DType::int32 && !is_store_only(call.epilogue))
    return "d: expected f32, bf16, f16 or int8 after an epilogue, found int32";
  return {};
}

void matmul(const MatmulCall& call, int threads) { dispatch_matmul(call, nullptr, threads); }

void matmul(const MatmulProblem& p, const void* a, const void* b, void* d, int threads) {
  if (!run_small_matmul(p, a, b, d, threads)) dispatch_matmul({p, a, b, d}, nullptr, threads);
}

PackedWeights::PackedWeights(const MatmulProblem& p, const void* b)
    : n_(p.size.n), k_(p.size.k), left_dtype_(p.a.dtype), right_dtype_(p.b.dtype) {
  const tile::cpu::Engine& engine = *tile::cpu::find_engine(p.a.dtype, p.b.dtype, pool::this_cpu(), true);
  const Matrix matrix = to_tile_matrix(transpose_layout(p.b), b, p.size.n, p.size.k);
  const std::size_t bytes = tile::cpu::prepacked_bytes(matrix, engine);
  data_ = std::shared_ptr<void>(pool::allocate_pages(bytes), std::free);
  if (data_ == nullptr) throw std::bad_alloc();
  tile::cpu::prepack_right(matrix, engine, dtype_bits(p.b.dtype) / 8, data_.get());
}

Reason unsupported_reason(const MatmulProblem& p, const PackedWeights& b) {
  if (auto reason = unsupported_reason(p)) return reason;
  if (is_block_scaled(p.a.dtype) || is_block_scaled(p.b.dtype))
    return "expected no block-scaled operand where the weights are packed";
  if (p.size.n != b.n() || p.size.k != b.k())
    return fmt::format("b: expected weights of k {} and n {}, found k {} and n {}", p.size.k, p.size.n, b.k(), b.n());
  if (p.a.dtype != b.left_dtype() || p.b.dtype != b.right_dtype())
    return fmt::format("b: expected weights packed for {} * {}, found weights packed for {} * {}",
                       dtype_name(p.a.dtype), dtype_name(p.b.dtype), dtype_name(b.left_dtype()),
                       dtype_name(b.right_dtype()));
  if (p.grouped) return "b: expected no groups of rows where the weights are packed";
  if (p.batch > 1 && p.b.batch_stride != 0)
    return fmt::format("b: expected one matrix of packed weights for all batches, found a batch stride of {}",
                       p.b.batch_stride);
  if (canonical_layout(p.d, p.size.m, p.size.n).col_stride != 1)
    return "d: expected contiguous rows where the weights are packed, found contiguous columns";
  return {};
}

void matmul(const MatmulCall& call, const PackedWeights& b, int threads) { dispatch_matmul(call, b.data(), threads); }

void matmul(const MatmulProblem& p, const void* a, const PackedWeights& b, void* d, int threads) {
  dispatch_matmul({p, a, nullptr, d}, b.data(), threads);
}

}  // namespace ridge::ops
