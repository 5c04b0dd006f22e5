// Tests generated kernels. If NVRTC is found, the test compiles them, which needs no device.
#include "ridge/ops/chain/source.h"
#include "ridge/ops/rows/source.h"

#include <gtest/gtest.h>

#include "ridge/device/nvrtc.h"
#include "ridge/device/run_generated.h"
#include "ridge/ops/chain/cuda.h"

namespace ridge::ops {
namespace {

// Returns the kernel of y = silu(x)*u over n elements whose tensors are at `address`.
device::GeneratedKernel gate_kernel(std::int64_t n, DType dtype, std::uintptr_t address = 4096) {
  const ChainTensor flat{dtype, {1}};
  const std::vector<ChainStep> steps{{.op = ChainOp::load, .result = 0, .slot = 0},
                                     {.op = ChainOp::silu, .result = 0, .a = 0},
                                     {.op = ChainOp::load, .result = 1, .slot = 1},
                                     {.op = ChainOp::multiply, .result = 0, .a = 0, .b = 1},
                                     {.op = ChainOp::store, .a = 0, .slot = 2}};
  void* const at = reinterpret_cast<void*>(address);
  const std::vector<void*> data{at, at, at};
  return generate_chain_kernel({{n}, {flat, flat, flat}, steps, 2}, data, 132);
}

constexpr device::MultiprocessorLimits h100_limits{132, 65536, 228 << 10, 1 << 10};

device::GeneratedKernel row_kernel(RowFunction function, std::int64_t columns, DType dtype = DType::bf16) {
  RowProblem p;
  p.function = function;
  p.rows = 1000;
  p.columns = columns;
  p.x = p.y = p.dy = {dtype, columns};
  const RowProgram program = make_row_program(p, false);
  const std::vector<void*> data(program.tensors.size(), reinterpret_cast<void*>(std::uintptr_t{4096}));
  return generate_row_kernel(program, data, h100_limits);
}
device::GeneratedKernel softmax_kernel(std::int64_t columns, DType dtype = DType::bf16) {
  return row_kernel(RowFunction::softmax, columns, dtype);
}

TEST(GeneratedTest, SourceDoesNotDependOnTheSize) {
  EXPECT_EQ(gate_kernel(1 << 20, DType::f32).source, gate_kernel((1 << 20) + 4096, DType::f32).source);
  EXPECT_NE(gate_kernel(1 << 20, DType::f32).source, gate_kernel(1 << 20, DType::bf16).source);
  EXPECT_NE(gate_kernel(1 << 20, DType::f32).source, gate_kernel(1 << 20, DType::f32, 4100).source);  // no vector loads
}

TEST(GeneratedTest, ChainsAreRefusedIfKernelsCannotBeGenerated) {
  const Reason why = device::generation_unavailable_reason();
  if (!why) GTEST_SKIP() << "kernels can be generated";
  const ChainTensor flat{DType::f32, {1}};
  const ChainProgram copy{
      {8}, {flat, flat}, {{.op = ChainOp::load, .result = 0, .slot = 0}, {.op = ChainOp::store, .a = 0, .slot = 1}}, 1};
  EXPECT_EQ(cuda::unsupported_reason(copy).text(),
            "NVRTC compiles pointwise kernels when they are first run: " + why.text());
}

TEST(GeneratedTest, EmptyChainsLaunchNoBlocks) { EXPECT_EQ(gate_kernel(0, DType::f32).blocks, 0); }

TEST(GeneratedTest, LongRowsUseClustersAndTooLongRowsAreInvalid) {
  EXPECT_EQ(softmax_kernel(1024).cluster_blocks, 1);
  EXPECT_GT(softmax_kernel(131072).cluster_blocks, 1);
  EXPECT_TRUE(softmax_kernel(131072).persistent);
  EXPECT_EQ(softmax_kernel(16384).cluster_blocks, 1);
  EXPECT_FALSE(softmax_kernel(16384).persistent);
  RowProblem p;
  p.rows = 1;
  p.columns = std::int64_t{1} << 30;
  p.x = p.y = {DType::f32, p.columns};
  EXPECT_TRUE(invalid_reason(make_row_program(p, false)));
}

// A thread has 128 registers.
TEST(GeneratedTest, LanesHoldFewerElementsIfMoreValuesAreLive) {
  const auto of = [](int inputs) {
    RowProgramBuilder b({7}, 1000);
    std::vector<int> values;
    for (int i = 0; i < inputs; ++i) values.push_back(b.load(b.add_tensor({DType::f32, {1000, 1}})));
    const int row = b.reduce_row(ReduceFunction::sum, values[0]);
    for (int i = 1; i < inputs; ++i) values[0] = b.apply(ChainOp::add, values[0], values[i]);
    b.store(b.apply(ChainOp::multiply, values[0], row), b.add_tensor({DType::f32, {1000, 1}}));
    return max_elements_per_lane(b.finish());
  };
  EXPECT_EQ(of(1), 64);
  EXPECT_EQ(of(2), 32);
  EXPECT_EQ(of(3), 16);
  EXPECT_EQ(of(5), 8);
}

TEST(GeneratedTest, ClustersPrefetchTheNextRowIfRowsAreAlignedAndRegistersSuffice) {
  const auto fetches = [](const device::GeneratedKernel& kernel) {
    return kernel.source.find("at.next_row(row))") != std::string::npos;
  };
  const auto rmsnorm = [](std::int64_t columns, DType dtype) {
    return row_kernel(RowFunction::rmsnorm, columns, dtype);
  };
  EXPECT_TRUE(fetches(rmsnorm(131072, DType::bf16)));
  EXPECT_TRUE(fetches(rmsnorm(20008, DType::bf16)));
  EXPECT_FALSE(fetches(rmsnorm(8192, DType::bf16)));
  EXPECT_EQ(rmsnorm(131072, DType::bf16).shared_bytes, 0);
}

TEST(GeneratedTest, UnalignedRowsAndSomeFunctionsUseSharedMemory) {
  const auto rows_in_flight = [](const device::GeneratedKernel& kernel) {
    const std::size_t at = kernel.source.find("wait_for_all_but<");
    return at == std::string::npos ? 0 : kernel.source[at + 17] - '0';
  };
  EXPECT_EQ(rows_in_flight(softmax_kernel(131072)), 3);
  EXPECT_EQ(softmax_kernel(131072).shared_bytes, 3 * 32768);
  EXPECT_EQ(rows_in_flight(softmax_kernel(131072, DType::f32)), 1);
  EXPECT_EQ(rows_in_flight(softmax_kernel(20001)), 3);
  EXPECT_TRUE(softmax_kernel(20001).persistent);
  EXPECT_EQ(rows_in_flight(row_kernel(RowFunction::rmsnorm_gradient, 131072)), 3);
  for (const device::GeneratedKernel& kernel :
       {softmax_kernel(8192), softmax_kernel(20001, DType::f32), row_kernel(RowFunction::log_sum_exp, 20001),
        row_kernel(RowFunction::layernorm_gradient, 131072)}) {
    EXPECT_EQ(rows_in_flight(kernel), 0);
    EXPECT_EQ(kernel.shared_bytes, 0);
  }
}

// Unaligned rows are loaded when they are needed if shared memory cannot hold a row or if there is only one row.
TEST(GeneratedTest, UnalignedRowsAreNotPrefetchedIntoRegisters) {
  const auto softmax_of = [](std::int64_t rows, std::int64_t columns, std::vector<DType> dtypes, int steps,
                             unsigned at) {
    RowProgramBuilder b({rows}, columns);
    const ChainTensor first{DType::bf16, {columns, 1}};
    int x = b.load(b.add_tensor(first));
    for (const DType dtype : dtypes) x = b.apply(ChainOp::add, x, b.load(b.add_tensor({dtype, {columns, 1}})));
    for (int i = 0; i < steps; ++i) x = b.apply(ChainOp::add, x, x);
    b.store(b.apply_row_function(RowFunction::softmax, x), b.add_tensor(first));
    const RowProgram program = b.finish();
    const std::vector<void*> data(program.tensors.size(), reinterpret_cast<void*>(std::uintptr_t{4096 + at}));
    return generate_row_kernel(program, data, h100_limits);
  };
  const std::vector<DType> many(8, DType::bf16), wide(3, DType::f32);
  for (const device::GeneratedKernel& kernel :
       {softmax_of(1, 20001, {}, 0, 2), softmax_of(1000, 65521, wide, 0, 0), softmax_of(1000, 20001, many, 0, 0),
        softmax_of(1000, 120001, {}, 300, 0)}) {
    EXPECT_NE(kernel.source.find("TailMode::shifted"), std::string::npos);
    EXPECT_EQ(kernel.source.find("= at.read("), std::string::npos);
    EXPECT_EQ(kernel.source.find("wait_for_all_but<-"), std::string::npos);
    EXPECT_EQ(kernel.persistent, kernel.shared_bytes > 0);
  }
  EXPECT_GT(softmax_of(1000, 120001, {}, 300, 0).shared_bytes, 0);
}

TEST(GeneratedTest, RowFunctionsCallTheirKernelClasses) {
  EXPECT_NE(softmax_kernel(1024).source.find("at.run_row_kernel<ops::Softmax<float, float>, 0>(v0, "),
            std::string::npos);
  EXPECT_NE(row_kernel(RowFunction::layernorm, 1024)
                .source.find("at.run_row_kernel<ops::Layernorm<float, float, float>, 0>(v0, "),
            std::string::npos);
}

TEST(GeneratedTest, ProgramsWithoutReductionsAreInvalid) {
  RowProgramBuilder b({7}, 10);
  b.store(b.load(b.add_tensor({DType::f32, {10, 1}})), b.add_tensor({DType::f32, {10, 1}}));
  EXPECT_EQ(invalid_reason(b.finish()).text(), "no step reduces its rows; such a program is a chain");
}

TEST(GeneratedTest, StridedColumnsAreInvalid) {
  RowProgramBuilder b({7}, 10);
  b.store(b.apply_row_function(RowFunction::softmax, b.load(b.add_tensor({DType::f32, {1, 7}}))),
          b.add_tensor({DType::f32, {10, 1}}));
  EXPECT_EQ(invalid_reason(b.finish()).text(), "expected contiguous columns, found a stride of 7");
}

TEST(GeneratedTest, GeneratedSourcesCompile) {
  if (!device::find_nvrtc()) GTEST_SKIP() << device::find_nvrtc().error().message;
  for (const device::GeneratedKernel& kernel :
       {gate_kernel(1001, DType::f16), gate_kernel(1 << 28, DType::bf16), softmax_kernel(1001), softmax_kernel(20001),
        softmax_kernel(131072), row_kernel(RowFunction::rmsnorm, 33, DType::f32),
        row_kernel(RowFunction::rmsnorm, 131072, DType::f32), row_kernel(RowFunction::layernorm, 20001),
        row_kernel(RowFunction::layernorm, 131072), row_kernel(RowFunction::log_sum_exp, 1000),
        row_kernel(RowFunction::softmax_gradient, 4096), row_kernel(RowFunction::rmsnorm_gradient, 20001),
        row_kernel(RowFunction::layernorm_gradient, 131072)}) {
    const auto code = device::compile_to_cubin(kernel.source);
    ASSERT_TRUE(code) << code.error().message << "\n" << kernel.source;
    EXPECT_TRUE(
        code->starts_with("\x7f"
                          "ELF"));
  }
  const auto wrong = device::compile_to_cubin("__global__ void ridge_kernel() { none; }");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("identifier \"none\" is undefined"), std::string::npos) << wrong.error().message;
}

}  // namespace
}  // namespace ridge::ops
