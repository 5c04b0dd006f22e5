// Stubs of the functions of one instruction set, for builds that have no kernels for it (RIDGE_ISAS=NATIVE in
// cmake/RidgeIsa.cmake). pool/isa.h never selects such an instruction set, so that no stub is called.
#include <cstdio>
#include <cstdlib>

#include "ridge/ops/attention/cpu_run.h"
#include "ridge/ops/chain/lower.h"
#include "ridge/ops/function/block_scale.h"
#include "ridge/ops/loops/direct_convolution.h"
#include "ridge/ops/loops/isa_kernels.h"
#include "ridge/ops/product/epilogue.h"
#include "ridge/ops/product/windows/operand.h"
#include "ridge/ops/rows/arithmetic.h"
#include "ridge/ops/rows/isa_kernels.h"

namespace ridge::ops::RIDGE_BODY_ISA {
namespace {

#define RIDGE_ISA_STRING(isa) #isa
#define RIDGE_ISA_NAME(isa) RIDGE_ISA_STRING(isa)
[[noreturn]] void stop_without_kernels() {
  std::fputs("ridge: this program has no kernels for " RIDGE_ISA_NAME(RIDGE_BODY_ISA) "\n", stderr);
  std::abort();
}

}  // namespace

void run_direct_convolution(const DirectConvolutionRun&) { stop_without_kernels(); }
void run_depthwise(const DepthwiseRun&) { stop_without_kernels(); }
void apply_epilogue(const tile::EpilogueTile&) { stop_without_kernels(); }
void copy_windows(const WindowCopy&) { stop_without_kernels(); }
tile::PlacedRows place_windows(const WindowCopy&) { stop_without_kernels(); }
void pair_channels(const WeightPairs&) { stop_without_kernels(); }
void run_chain(const ChainRunArgs&) { stop_without_kernels(); }
void run_repeated_chain(const RepeatedChainArgs&) { stop_without_kernels(); }
std::int64_t chain_group_elements() { stop_without_kernels(); }
void run_roof_loop(const RoofLoopCall&) { stop_without_kernels(); }
void run_compiled_chain(const CompiledChain&) { stop_without_kernels(); }
void run_rows(const RowRun&) { stop_without_kernels(); }
void run_column_softmax(const ColumnSoftmaxRun&) { stop_without_kernels(); }
void run_gradient(const RowRun&) { stop_without_kernels(); }
void reduce_columns_part(const ColumnReductionRun&) { stop_without_kernels(); }
float reduce_row(const ReduceRun&) { stop_without_kernels(); }
void copy_rows(const RowCopies&) { stop_without_kernels(); }
void sum_rows(const RowSums&) { stop_without_kernels(); }
void run_running_sums(const RunningSumRows&) { stop_without_kernels(); }
void run_running_sums(const RunningSumLines&) { stop_without_kernels(); }
void transpose_lines(const LineTransposition&) { stop_without_kernels(); }
void scan_keys(KeyScan&) { stop_without_kernels(); }
void pool_rows(const PoolRows&) { stop_without_kernels(); }
void pool_windows(const PoolWindows&) { stop_without_kernels(); }
void fill_rotary_angles(const RotaryAngles&) { stop_without_kernels(); }
void rotate_pairs(const RotaryPairs&) { stop_without_kernels(); }
void quantize_blocks(const BlockQuantization&) { stop_without_kernels(); }
void dequantize_blocks(const BlockDequantization&) { stop_without_kernels(); }
void run_attention(const AttentionRun&) { stop_without_kernels(); }
std::size_t attention_scratch_bytes(bool) { stop_without_kernels(); }
void prepare_attention_backward(const AttentionBackwardRun&, std::int64_t, std::int64_t) { stop_without_kernels(); }
void run_attention_backward(const AttentionBackwardRun&) { stop_without_kernels(); }
void finish_attention_backward(const AttentionBackwardRun&, std::int64_t, std::int64_t) { stop_without_kernels(); }
std::size_t backward_scratch_bytes() { stop_without_kernels(); }

}  // namespace ridge::ops::RIDGE_BODY_ISA
