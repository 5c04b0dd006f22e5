#include "ridge/ops/fused/matmul.h"

#include <algorithm>
#include <atomic>

#include "ridge/base/float16.h"
#include "ridge/ops/chain/cpu.h"
#include "ridge/ops/fused/cpu.h"
#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/layout.h"
#include "ridge/ops/product/windows/operand.h"
#include "ridge/tile/cpu/run_matmul.h"

namespace ridge::ops {
namespace {

// The element type that a kernel definition uses for elements of this size; the engine knows the format.
template <int bytes> struct ElementOfSize;
template <> struct ElementOfSize<1> { using type = std::int8_t; };
template <> struct ElementOfSize<2> { using type = Bf16; };
template <> struct ElementOfSize<4> { using type = float; };

struct OperandPointers {
  const void *a, *b, *second;
  std::span<void* const> chain;
};

template <int left, int right>
void run_with_element_bytes(const FusedMatmul& x, const OperandPointers& data, int threads) {
  using Left = typename ElementOfSize<left>::type;
  using Right = typename ElementOfSize<right>::type;
  const MatmulProblem& p = x.product;
  const tile::cpu::Engine& engine = *tile::cpu::find_engine(p.a.dtype, p.b.dtype);
  const auto run = [&]<class Kernel>(typename Kernel::Globals& g) {
    g.d.rows = p.size.m;
    g.d.cols = p.size.n;
    tile::cpu::run_kernel<Kernel>(g, {p.batch, p.size}, engine, threads);
  };
  if (!x.second) {
    typename CpuMatmulWithChain<Left, Right>::Globals g;
    static_cast<tile::Matrix&>(g.a) = to_tile_matrix(p.a, data.a, p.size.m, p.size.k);
    static_cast<tile::Matrix&>(g.b) = to_tile_matrix(transpose_layout(p.b), data.b, p.size.n, p.size.k);
    g.chain = TileChain(x, data.chain);
    std::optional<WindowOperand> windows;
    if (p.windows) {
      g.b.computed = &windows.emplace(p, engine, data.a, data.b);
      g.a.data = windows->weights;
    }
    return run.template operator()<CpuMatmulWithChain<Left, Right>>(g);
  }
  typename CpuMatmulPairWithChain<Left, Right>::Globals g;
  static_cast<tile::Matrix&>(g.a) = to_tile_matrix(p.a, data.a, p.size.m, p.size.k);
  static_cast<tile::Matrix&>(g.b) = to_tile_matrix(transpose_layout(p.b), data.b, p.size.n, p.size.k);
  static_cast<tile::Matrix&>(g.c) = to_tile_matrix(transpose_layout(*x.second), data.second, p.size.n, p.size.k);
  g.combine = TileChain(x, data.chain);
  run.template operator()<CpuMatmulPairWithChain<Left, Right>>(g);
}

Reason invalid_sums_reason(const FusedMatmul& x) {
  const ChainProgram& chain = x.chain;
  const std::size_t products = x.product_count();
  const std::vector<std::int64_t> extents{x.product.batch, x.product.size.m, x.product.size.n};
  if (chain.extents != extents) return "chain: expected the extents of the product, batch, m and n";
  if (chain.tensors.size() < products) return "chain: expected a tensor for the sums of each product";
  for (std::size_t t = 0; t < products; ++t)
    if (chain.tensors[t].dtype != DType::f32) return "chain: expected sums in f32";
  for (const ChainStep& s : chain.steps)
    if (s.op == ChainOp::store && static_cast<std::size_t>(s.slot) < products)
      return "chain: expected sums that are only loaded";
  return {};
}

}  // namespace

TileChain::TileChain(const FusedMatmul& problem, std::span<void* const> data) : problem_(&problem), data_(data) {
  static std::atomic<std::uint64_t> calls{0};
  call_number_ = ++calls;
  const ChainProgram& chain = problem.chain;
  ChainOperands tensors;
  for (std::size_t t = problem.product_count(); t < chain.tensors.size(); ++t) {
    const std::vector<std::int64_t>& s = chain.tensors[t].strides;
    const bool is_written = std::any_of(chain.steps.begin(), chain.steps.end(), [&](const ChainStep& step) {
      return step.op == ChainOp::store && static_cast<std::size_t>(step.slot) == t;
    });
    // Only the strides are used; the address only has to be non-null.
    (is_written ? tensors.writes : tensors.reads)
        .push_back({this, tile::to_storage_format(chain.tensors[t].dtype), s[1], s[2], s[0]});
  }
  tensors_ = std::make_shared<const ChainOperands>(std::move(tensors));
}

LoweredChain TileChain::lower_for_tile(const tile::EpilogueTile& x) const {
  ChainProgram part = problem_->chain;
  part.extents = {x.row.size, x.col.size};
  for (std::size_t t = 0; t < part.tensors.size(); ++t) {
    std::vector<std::int64_t>& s = part.tensors[t].strides;
    const bool sums = t < static_cast<std::size_t>(problem_->product_count());
    s = sums ? std::vector{x.sums_stride, std::int64_t{1}} : std::vector{s[1], s[2]};
  }
  return lower_chain(part);
}

// Tiles of a call have few sizes, so the lowered chain is cached while the size stays the same.
void TileChain::tile(const tile::EpilogueTile& x) const {
  struct CachedCode {
    std::uint64_t call = 0;
    std::int64_t rows = 0, cols = 0, stride = 0;
    LoweredChain code;
    std::vector<void*> data;
  };
  thread_local CachedCode cached;
  if (cached.call != call_number_ || cached.rows != x.row.size || cached.cols != x.col.size ||
      cached.stride != x.sums_stride) {
    cached.code = lower_for_tile(x);
    cached.call = call_number_;
    cached.rows = x.row.size;
    cached.cols = x.col.size;
    cached.stride = x.sums_stride;
  }
  const std::size_t products = problem_->product_count();
  cached.data.clear();
  for (std::size_t t = 0; t < problem_->chain.tensors.size(); ++t) {
    if (t < products) {  // Only read
      const float* const sums = static_cast<const float*>(x.sums) + static_cast<std::int64_t>(t) * x.col.size;
      cached.data.push_back(const_cast<float*>(sums));
      continue;
    }
    const ChainTensor& tensor = problem_->chain.tensors[t];
    const std::int64_t offset =
        x.batch * tensor.strides[0] + x.row.begin * tensor.strides[1] + x.col.begin * tensor.strides[2];
    cached.data.push_back(static_cast<char*>(data_[t - products]) + offset * (dtype_bits(tensor.dtype) / 8));
  }
  run_chain(cached.code, cached.data);
}

Reason unsupported_reason(const FusedMatmul& x) {
  MatmulProblem p = x.product;  // Sums are f32
  p.d = {DType::f32, p.size.n, 1, p.size.m * p.size.n};
  for (const auto& b : {std::optional(p.b), x.second}) {
    if (!b) continue;
    p.b = *b;
    if (auto reason = unsupported_reason(p)) return reason;
  }
  if (x.second && x.second->dtype != x.product.b.dtype)
    return "expected two weights of one dtype, found " + std::string(dtype_name(x.product.b.dtype)) + " and " +
           std::string(dtype_name(x.second->dtype));
  if (p.a.dtype == DType::int8 && p.b.dtype == DType::int8)
    return "expected sums in f32 for a product with a fused chain, found int8 * int8";
  if (is_block_scaled(p.a.dtype) || is_block_scaled(p.b.dtype))
    return "expected no block-scaled operand of a product with a fused chain, found " +
           std::string(dtype_name(p.a.dtype)) + " * " + std::string(dtype_name(p.b.dtype));
  if (x.product.windows && (x.second || x.product.windows->groups > 1))
    return "windows: expected one product without groups";
  if (auto reason = invalid_sums_reason(x)) return reason;
  return unsupported_reason(x.chain);
}

void matmul(const FusedMatmul& x, const void* a, const void* b, const void* second, std::span<void* const> chain_data,
            int threads) {
  const MatmulProblem& p = x.product;
  if (p.batch == 0 || p.size.m == 0 || p.size.n == 0) return;
  threads = choose_thread_count(p, threads);
  const OperandPointers data{a, b, second, chain_data};
  switch (dtype_bits(p.a.dtype) * 100 + dtype_bits(p.b.dtype)) {
    case 3232: return run_with_element_bytes<4, 4>(x, data, threads);
    case 3208: return run_with_element_bytes<4, 1>(x, data, threads);
    case 1616: return run_with_element_bytes<2, 2>(x, data, threads);
    case 1608: return run_with_element_bytes<2, 1>(x, data, threads);
    case 832: return run_with_element_bytes<1, 4>(x, data, threads);
    default: return run_with_element_bytes<1, 2>(x, data, threads);
  }
}

}  // namespace ridge::ops
