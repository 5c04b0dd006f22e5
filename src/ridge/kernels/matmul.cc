// The matmul kernels on the cpu target: binds a problem's layouts to the text's views and runs it. A D whose columns
// are contiguous is the transpose of one whose rows are, so it is computed as B transposed times A transposed.
#include "ridge/kernels/matmul.h"

#include <fmt/format.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "ridge/base/cores.h"
#include "ridge/base/float16.h"
#include "ridge/kernels/run.h"
#include "ridge/tile/target/cpu/isa.h"
#include "ridge/tile/target/cpu/run.h"

namespace ridge::kernels {
namespace {

using tile::Matrix;

// An extent of at most 1 has no stride; say that it is contiguous, so that only the strides that exist decide.
MatrixLayout settled(MatrixLayout layout, std::int64_t rows, std::int64_t cols) {
  if (cols <= 1) layout.col_stride = 1;
  if (rows <= 1 && layout.col_stride != 1) layout.row_stride = 1;
  return layout;
}

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

// The matrix as the text sees it: its first coordinate runs along an axis of the output, its second along k.
Matrix seen(const MatrixLayout& layout, const void* data, std::int64_t rows, std::int64_t k) {
  const MatrixLayout x = settled(layout, rows, k);
  return {data, rows, k, x.row_stride, x.col_stride, x.batch_stride};
}

MatrixLayout transposed(MatrixLayout x) {
  std::swap(x.row_stride, x.col_stride);
  return x;
}

template <class In, class Out>
void run_matmul(const MatmulProblem& p, const void* a, const void* b, const void* packed_b, void* d, int threads) {
  using Kernel = Matmul<cpu_menu[0], In, In, Out>;
  const MatrixLayout layout = settled(p.d, p.m, p.n);
  typename Kernel::Globals g;
  static_cast<Matrix&>(g.a) = seen(p.a, a, p.m, p.k);
  static_cast<Matrix&>(g.b) = seen(transposed(p.b), b, p.n, p.k);
  g.b.prepacked = packed_b;
  g.d = {static_cast<Out*>(d), p.m, p.n, layout.row_stride, layout.col_stride, layout.batch_stride};
  const tile::cpu::Problem sizes{p.batch, p.m, p.n, p.k};
  tile::cpu::run_kernel<Kernel>(g, sizes, *tile::cpu::engine(p.a.dtype, p.b.dtype), threads);
}

// Waking another thread costs some 5 us: what one thread computes (100 GFLOP/s) or reads (30 GB/s) in that time is not
// worth sharing. Thread counts change no bit of the result.
bool tiny(const MatmulProblem& p) {
  const auto real = [](std::int64_t x) { return static_cast<double>(x); };
  const double flops = 2 * real(p.batch) * real(p.m) * real(p.n) * real(p.k);
  const double bytes = real(p.batch) * (real(p.m) * real(p.k) + real(p.k) * real(p.n) + real(p.m) * real(p.n)) * 4;
  return flops < 0x1p19 && bytes < 0x1p17;
}

void dispatch(const MatmulProblem& p, const void* a, const void* b, const void* packed_b, void* d, int threads) {
  if (p.batch == 0 || p.m == 0 || p.n == 0) return;
  if (threads <= 0) threads = usable_cores();
  if (tiny(p)) threads = 1;
  if (settled(p.d, p.m, p.n).col_stride != 1) {
    const MatmulProblem swapped{p.batch, p.n, p.m, p.k, transposed(p.b), transposed(p.a), transposed(p.d)};
    return dispatch(swapped, b, a, nullptr, d, threads);
  }
  if (p.a.dtype == DType::f32) return run_matmul<float, float>(p, a, b, packed_b, d, threads);
  if (p.d.dtype == DType::f32) return run_matmul<Bf16, float>(p, a, b, packed_b, d, threads);
  run_matmul<Bf16, Bf16>(p, a, b, packed_b, d, threads);
}

}  // namespace

std::optional<std::string> refuse(const MatmulProblem& p) {
  if (std::optional<std::string> refusal = tile::cpu::isa_refusal()) return refusal;
  if (p.batch < 0 || p.m < 0 || p.n < 0 || p.k < 0) {
    return fmt::format("expected sizes of at least 0, found batch {}, m {}, n {}, k {}", p.batch, p.m, p.n, p.k);
  }
  const DType in = p.a.dtype, out = p.d.dtype;
  const bool known = p.b.dtype == in && ((in == DType::f32 && out == DType::f32) ||
                                         (in == DType::bf16 && (out == DType::f32 || out == DType::bf16)));
  if (!known) {
    return fmt::format("expected f32 * f32 -> f32 or bf16 * bf16 -> f32 or bf16, found {} * {} -> {}", name(in),
                       name(p.b.dtype), name(out));
  }
  if (auto refusal = refuse_layout("a", p.a, p.m, p.k)) return refusal;
  if (auto refusal = refuse_layout("b", p.b, p.k, p.n)) return refusal;
  if (auto refusal = refuse_layout("d", p.d, p.m, p.n)) return refusal;
  const MatrixLayout d = settled(p.d, p.m, p.n);
  const std::int64_t line = d.col_stride == 1 ? p.n : p.m, stride = d.col_stride == 1 ? d.row_stride : d.col_stride;
  const std::int64_t lines = d.col_stride == 1 ? p.m : p.n;
  if (lines > 1 && stride < line)
    return fmt::format("d: expected a stride of at least {}, found {}: its rows would overlap", line, stride);
  if (p.batch > 1 && d.batch_stride == 0) return "d: expected a batch stride, found 0: the products would overlap";
  return std::nullopt;
}

void matmul(const MatmulProblem& p, const void* a, const void* b, void* d, int threads) {
  dispatch(p, a, b, nullptr, d, threads);
}

PackedWeights::PackedWeights(const MatmulProblem& p, const void* b) : n_(p.n), k_(p.k) {
  const tile::cpu::Engine& engine = *tile::cpu::engine(p.a.dtype, p.b.dtype);
  const Matrix matrix = seen(transposed(p.b), b, p.n, p.k);
  constexpr std::size_t line = 64;
  const std::size_t bytes = (tile::cpu::prepacked_bytes(matrix, engine) / line + 1) * line;
  data_ = std::shared_ptr<void>(std::aligned_alloc(line, bytes), std::free);
  if (data_ == nullptr) throw std::bad_alloc();
  tile::cpu::prepack(matrix, engine, bits(p.b.dtype) / 8, data_.get());
}

std::optional<std::string> refuse(const MatmulProblem& p, const PackedWeights& b) {
  if (auto refusal = refuse(p)) return refusal;
  if (p.n != b.n() || p.k != b.k())
    return fmt::format("b: expected weights of k {} and n {}, found k {} and n {}", p.k, p.n, b.k(), b.n());
  if (p.batch > 1 && p.b.batch_stride != 0)
    return fmt::format("b: expected one matrix of packed weights for all batches, found a batch stride of {}",
                       p.b.batch_stride);
  if (settled(p.d, p.m, p.n).col_stride != 1)
    return "d: expected contiguous rows where the weights are packed, found contiguous columns";
  return std::nullopt;
}

void matmul(const MatmulProblem& p, const void* a, const PackedWeights& b, void* d, int threads) {
  dispatch(p, a, nullptr, b.data(), d, threads);
}

}  // namespace ridge::kernels
