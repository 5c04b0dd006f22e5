// Runs matmul kernels on the cpu target: binds layouts to the views of the kernel definition. A D with contiguous
// columns is computed as D transposed = B transposed times A transposed.
#include "ridge/ops/product/matmul.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "ridge/base/float16.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/groups.h"
#include "ridge/ops/product/layout.h"
#include "ridge/pool/arena.h"
#include "ridge/pool/isa.h"
#include "ridge/tile/cpu/run.h"

namespace ridge::ops {
namespace {

using tile::Matrix;

std::optional<std::string> refuse_layout(const char* name, const MatrixLayout& given, std::int64_t rows,
                                         std::int64_t cols) {
  const MatrixLayout x = settled(given, rows, cols);
  if (x.row_stride != 1 && x.col_stride != 1) {
    return fmt::format("{}: expected rows or columns that are contiguous, found strides {} and {}", name, x.row_stride,
                       x.col_stride);
  }
  if (given.row_stride < 0 || given.col_stride < 0 || given.batch_stride < 0)
    return fmt::format("{}: expected strides of at least 0, found {}, {} and {}", name, given.row_stride,
                       given.col_stride, given.batch_stride);
  return std::nullopt;
}

// Kernel definitions depend only on the size of elements; the engine depends on their format.
template <int bytes> struct Sized;
template <> struct Sized<1> { using type = std::int8_t; };
template <> struct Sized<2> { using type = Bf16; };
template <> struct Sized<4> { using type = float; };

template <int a_bytes, int b_bytes, class Sum>
void run_matmul(const MatmulCall& call, const void* packed_b, int threads) {
  using Kernel = Matmul<cpu_menu[0], typename Sized<a_bytes>::type, typename Sized<b_bytes>::type, Sum, Sum>;
  const MatmulProblem& p = call.problem;
  const MatrixLayout layout = settled(p.d, p.m, p.n);
  typename Kernel::Globals g;
  static_cast<Matrix&>(g.a) = seen(p.a, call.a, p.m, p.k);
  static_cast<Matrix&>(g.b) = seen(transposed(p.b), call.b, p.n, p.k);
  g.b.prepacked = packed_b;
  g.d = {static_cast<Sum*>(call.d), p.m, p.n, layout.row_stride, layout.col_stride, layout.batch_stride};
  constexpr bool sums_are_integers = std::is_same_v<Sum, std::int32_t>;
  if (!is_plain(call.epilogue) || p.d.dtype != (sums_are_integers ? DType::int32 : DType::f32))
    g.d.on_target = {finish_of(call.epilogue, p.d.dtype), finish};
  const tile::cpu::Problem sizes{p.batch, p.m, p.n, p.k};
  tile::cpu::run_kernel<Kernel>(
      g, sizes, *tile::cpu::engine(p.a.dtype, p.b.dtype, tile::cpu::this_cpu(), packed_b != nullptr), threads);
}

// Calls each(i, threads) for all groups. All threads share a long group; each short group runs on one thread.
template <class Each> void each_group(const MatmulProblem& p, int threads, const Each& each) {
  MatmulProblem mean = p;
  mean.batch = 1;
  mean.m = (p.m + p.batch - 1) / p.batch;
  if (p.batch < 2 * threads || threads_for(mean, threads) > 1) {
    for (std::int64_t i = 0; i < p.batch; ++i) each(i, threads);
    return;
  }
  std::atomic<std::int64_t> next{0};
  tile::cpu::run(threads, [&](int) {
    for (std::int64_t i = next++; i < p.batch; i = next++) each(i, 1);
  });
}

void dispatch(const MatmulCall& call, const void* packed_b, int threads) {
  const MatmulProblem& p = call.problem;
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  threads = threads_for(p, threads);
  if (p.grouped)
    return each_group(p, threads, [&](std::int64_t i, int some) { dispatch(group_of(call, i), nullptr, some); });
  if (settled(p.d, p.m, p.n).col_stride != 1) return dispatch(exchanged(call), nullptr, threads);
  switch (bits(p.a.dtype) * 100 + bits(p.b.dtype)) {
    case 3232: return run_matmul<4, 4, float>(call, packed_b, threads);
    case 3208: return run_matmul<4, 1, float>(call, packed_b, threads);
    case 1616: return run_matmul<2, 2, float>(call, packed_b, threads);
    case 1608: return run_matmul<2, 1, float>(call, packed_b, threads);
    case 832: return run_matmul<1, 4, float>(call, packed_b, threads);
    case 816: return run_matmul<1, 2, float>(call, packed_b, threads);
    default: return run_matmul<1, 1, std::int32_t>(call, packed_b, threads);
  }
}

constexpr std::int64_t most_int8_products = (std::int64_t{1} << 17) - 1;  // Products whose sum fits in int32

bool is_float(DType x) { return x == DType::f32 || x == DType::bf16 || x == DType::f16; }

std::optional<std::string> refuse_dtypes(const MatmulProblem& p) {
  const DType a = p.a.dtype, b = p.b.dtype, d = p.d.dtype;
  const bool integers = a == DType::int8 && b == DType::int8;
  const bool floats = (a == b && is_float(a)) || (is_float(a) && b == DType::int8) || (a == DType::int8 && is_float(b));
  if (!(integers && (is_float(d) || d == DType::int8 || d == DType::int32)) && !(floats && is_float(d)))
    return fmt::format(
        "expected f32, bf16 or f16, both equal or one of them int8 -> f32, bf16 or f16; or int8 * int8 -> int32, int8, "
        "f32, bf16 or f16; found {} * {} -> {}",
        name(a), name(b), name(d));
  if (integers && p.k > most_int8_products)
    return fmt::format("expected k of at most {}, where an int32 holds any sum of int8 products, found {}",
                       most_int8_products, p.k);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> refuse(const MatmulProblem& p) {
  if (std::optional<std::string> refusal = tile::cpu::isa_refusal()) return refusal;
  if (p.batch < 0 || p.m < 0 || p.n < 0 || p.k < 0) {
    return fmt::format("expected sizes of at least 0, found batch {}, m {}, n {}, k {}", p.batch, p.m, p.n, p.k);
  }
  if (auto refusal = refuse_dtypes(p)) return refusal;
  if (auto refusal = refuse_layout("a", p.a, p.m, p.k)) return refusal;
  if (auto refusal = refuse_layout("b", p.b, p.k, p.n)) return refusal;
  if (auto refusal = refuse_layout("d", p.d, p.m, p.n)) return refusal;
  if (auto refusal = refuse_groups(p)) return refusal;
  const MatrixLayout d = settled(p.d, p.m, p.n);
  const std::int64_t line = d.col_stride == 1 ? p.n : p.m, stride = d.col_stride == 1 ? d.row_stride : d.col_stride;
  const std::int64_t lines = d.col_stride == 1 ? p.m : p.n;
  if (lines > 1 && stride < line)
    return fmt::format("d: expected a stride of at least {}, found {}: its rows would overlap", line, stride);
  // True if each stride, in ascending order, exceeds the extent that smaller strides cover.
  const bool apart = d.batch_stride >= (lines - 1) * stride + line ||
                     (d.batch_stride >= line && (lines == 1 || stride >= (p.batch - 1) * d.batch_stride + line));
  if (p.batch > 1 && p.m > 0 && p.n > 0 && !apart && !p.grouped)
    return fmt::format("d: expected a batch stride that steps over the other products, found {}: they would overlap",
                       d.batch_stride);
  return std::nullopt;
}

std::optional<std::string> refuse(const MatmulCall& call) {
  if (auto refusal = refuse(call.problem)) return refusal;
  if (auto refusal = refuse_starts(call)) return refusal;
  if (auto refusal = refuse_epilogue(call.epilogue)) return refusal;
  if (call.problem.d.dtype == DType::int32 && !is_plain(call.epilogue))
    return "d: expected f32, bf16, f16 or int8 after an epilogue, found int32";
  return std::nullopt;
}

void matmul(const MatmulCall& call, int threads) { dispatch(call, nullptr, threads); }

void matmul(const MatmulProblem& p, const void* a, const void* b, void* d, int threads) {
  dispatch({p, a, b, d}, nullptr, threads);
}

PackedWeights::PackedWeights(const MatmulProblem& p, const void* b)
    : n_(p.n), k_(p.k), left_(p.a.dtype), right_(p.b.dtype) {
  const tile::cpu::Engine& engine = *tile::cpu::engine(p.a.dtype, p.b.dtype, tile::cpu::this_cpu(), true);
  const Matrix matrix = seen(transposed(p.b), b, p.n, p.k);
  const std::size_t bytes = tile::cpu::prepacked_bytes(matrix, engine);
  data_ = std::shared_ptr<void>(tile::cpu::allocate_pages(bytes), std::free);
  if (data_ == nullptr) throw std::bad_alloc();
  tile::cpu::prepack(matrix, engine, bits(p.b.dtype) / 8, data_.get());
}

std::optional<std::string> refuse(const MatmulProblem& p, const PackedWeights& b) {
  if (auto refusal = refuse(p)) return refusal;
  if (p.n != b.n() || p.k != b.k())
    return fmt::format("b: expected weights of k {} and n {}, found k {} and n {}", p.k, p.n, b.k(), b.n());
  if (p.a.dtype != b.left() || p.b.dtype != b.right())
    return fmt::format("b: expected weights packed for {} * {}, found weights packed for {} * {}", name(p.a.dtype),
                       name(p.b.dtype), name(b.left()), name(b.right()));
  if (p.grouped) return "b: expected no groups of rows where the weights are packed";
  if (p.batch > 1 && p.b.batch_stride != 0)
    return fmt::format("b: expected one matrix of packed weights for all batches, found a batch stride of {}",
                       p.b.batch_stride);
  if (settled(p.d, p.m, p.n).col_stride != 1)
    return "d: expected contiguous rows where the weights are packed, found contiguous columns";
  return std::nullopt;
}

void matmul(const MatmulCall& call, const PackedWeights& b, int threads) { dispatch(call, b.data(), threads); }

void matmul(const MatmulProblem& p, const void* a, const PackedWeights& b, void* d, int threads) {
  dispatch({p, a, nullptr, d}, b.data(), threads);
}

}  // namespace ridge::ops
