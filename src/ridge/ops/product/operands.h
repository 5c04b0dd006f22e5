// The matrices of a call as tile kernels read them. D transposed is B transposed times A transposed, so A and B may be
// exchanged twice: first to make D's rows contiguous, then (`MatmulConfig::swap`) if D has few rows. Internal to the
// CUDA product.
#pragma once

#include "ridge/base/operand_type.h"
#include "ridge/ops/product/config.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ops::cuda {

struct TileOperand {  // An operand of `extent` x k elements
  const void* data = nullptr;
  DType dtype = DType::f32;
  tile::Major major = tile::Major::k;
  std::int64_t extent = 0, k = 0;
  std::int64_t line_stride = 0;  // Elements between the starts of contiguous lines
  std::int64_t batch_stride = 0;
  std::optional<std::int64_t> stored_elements = {};  // Elements of a matrix in memory, if not extent * k
  std::int64_t contiguous_extent() const { return major == tile::Major::k ? k : extent; }
  std::int64_t line_count() const { return major == tile::Major::k ? extent : k; }
  // Returns the bytes of `elements` consecutive elements. Scales of blocks follow the last element of the tensor.
  std::int64_t bytes(std::int64_t elements) const { return elements * dtype_bits(dtype) / 8; }
};

struct TileProblem {  // A product whose D is m x n with contiguous rows
  std::int64_t batch = 0;
  ProductSize size;
  TileOperand a, b;
  void* d = nullptr;
  std::int64_t d_line_stride = 0, d_batch_stride = 0;
  bool d_transposed = false;
  std::optional<PixelWindows> windows = {};  // Elements of A; k then has whole boxes of channels for each tap
  bool grouped = false;                      // True if the m rows are divided into `batch` groups
  const std::int32_t* starts = nullptr;
  std::int64_t result_matrices() const { return grouped ? 1 : batch; }  // Number of matrices in D
  bool constant_a = false, constant_b = false;
};

TileProblem make_tile_problem(const MatmulCall& call);
// Returns the problem for kernels that read tf32 as the f32 in which it is stored, and multiply all of its bits.
TileProblem with_f32_for_tf32(TileProblem t);
// Returns the problem as the GEMV kernel computes it: one contiguous column of D is a row.
TileProblem make_gemv_problem(const MatmulCall& call);

// Returns the layout of a copy with k contiguous; the caller sets `data` and `line_stride`.
TileOperand with_contiguous_k(const TileOperand& x);

// Line stride in elements, and size in bytes, of a copy of the operand whose lines start at multiples of 128 bytes.
std::int64_t copy_line_stride(const TileOperand& x);
std::size_t copy_size_bytes(const TileOperand& x, std::int64_t batch);
// True if the copy engine (TMA) can read the operand without a copy.
bool can_copy_engine_read(const TileOperand& x, std::int64_t batch);
// True if the operand is contiguous along a short output axis, so that its lines have fewer bytes than a box.
bool is_narrow(const TileOperand& x);
// Alignment of all lines in bytes, up to 128.
int line_alignment(const TileOperand& x);

// True if the copy engine can store D or add to it: the epilogue only rounds, and D is aligned for it.
bool can_store_in_bulk(const MatmulCall& call);

inline constexpr std::int64_t max_kernel_count = (std::int64_t{1} << 31) - 1024;  // Kernels count in 32 bits

// Limits of the kernel for a few rows of D.
inline constexpr std::int64_t max_gemv_rows = 4, max_gemv_columns = std::int64_t{1} << 31;

// Division of a block of the GEMV kernel for lines along k: groups of `warps` multiply `columns` lines of B each, and a
// lane loads `words` of a line before it multiplies. Each group reads the rows of A from L2, which with two lines of B
// would take longer for f32 than reading B from memory.
struct GemvLineWarps {
  static constexpr int per_block = 8;
  static constexpr int columns(std::int64_t rows, int element_bytes) { return rows > 1 && element_bytes == 4 ? 4 : 2; }
  static constexpr int words(std::int64_t rows, int element_bytes) { return 8 / columns(rows, element_bytes); }
  int warps = 1;
  std::int64_t blocks_across = 1;  // Blocks for all columns of one product
};
// Groups get more warps while each has a full iteration of loads.
GemvLineWarps divide_gemv_warps(const ProductSize& size, int element_bytes, int word_bytes);

// Threads of a block of the GEMV kernel for a B that is contiguous along n: each of `columns` threads has adjacent
// columns, and `lines` such groups divide the lines of B. A thread loads from `loads` lines before it multiplies.
struct GemvColumnThreads {
  static constexpr int max_columns = 256, loads = 8;
  static constexpr int max_count(std::int64_t rows) { return rows == 1 ? 512 : 256; }
  int columns = max_columns, lines = 1;
  std::int64_t blocks_across = 1;  // Blocks for all columns of one product
  int count() const { return columns * lines; }
};
// With few columns, more threads divide the lines. Blocks get fewer columns and more threads while there are fewer
// blocks than multiprocessors.
GemvColumnThreads divide_gemv_threads(const ProductSize& size, std::int64_t batch, std::int64_t word_elements,
                                      int multiprocessors);

// Number and size of the tiles of partial sums that the splits of k write to memory.
std::int64_t count_partial_tiles(const MatmulPlan& plan);
std::size_t partial_sum_bytes(const MatmulConfig& config, std::int64_t partial_tiles);

}  // namespace ridge::ops::cuda
