// Compares programs on the caller's arrays with plain loops.
#include "ridge/compute.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "ridge/api/computation.h"
#include "ridge/api/plan_cache.h"
#include "ridge/device/device.h"

namespace ridge {
namespace {

// An f32 array and its view.
struct Floats {
  std::vector<float> data;
  std::vector<std::int64_t> shape, strides = {};
  ArrayView view() { return {data.data(), DType::f32, shape, strides}; }
};

Floats make_counting_array(std::vector<std::int64_t> shape, int seed = 0) {
  Floats out{{}, std::move(shape), {}};
  std::int64_t elements = 1;
  for (const std::int64_t extent : out.shape) elements *= extent;
  for (std::int64_t i = 0; i < elements; ++i) out.data.push_back(static_cast<float>((i * 7 + seed * 3) % 11 - 5));
  return out;
}

Floats zeros(std::vector<std::int64_t> shape) {
  Floats out = make_counting_array(std::move(shape));
  std::fill(out.data.begin(), out.data.end(), NAN);
  return out;
}

// Small integers, so that sums are exact.
std::vector<float> product(const Floats& a, const Floats& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t p = 0; p < k; ++p) sum += a.data[i * k + p] * b.data[p * n + j];
      out.push_back(sum);
    }
  return out;
}

ArrayType f32(std::string name, std::vector<std::int64_t> shape) {
  return {std::move(name), DType::f32, std::move(shape)};
}

std::string prepare_error(const ComputeRequest& request, const std::vector<ArrayType>& inputs) {
  const auto prepared = prepare(request, inputs);
  return prepared ? "" : prepared.error().message;
}

constexpr const char* matrices = "X[M, K] * Y[K, N] -> Z[M, N]";

TEST(Compute, MatchesPlainLoops) {
  Floats a = make_counting_array({3, 5}), b = make_counting_array({5, 4}, 1), d = zeros({3, 4});
  const auto product_of = prepare({.program = matrices}, {f32("", a.shape), f32("", b.shape)});
  ASSERT_TRUE(product_of.ok()) << product_of.error().to_string();
  EXPECT_EQ(product_of->outputs()[0].shape, (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(product_of->outputs()[0].dtype, DType::f32);
  const ArrayView in[] = {a.view(), b.view()}, out[] = {d.view()};
  const Status done = (*product_of)(in, out);
  ASSERT_TRUE(done.ok()) << done.error().to_string();
  EXPECT_EQ(d.data, product(a, b, 3, 4, 5));
}

TEST(Compute, ReadsSlicesOfAStack) {
  Floats x = make_counting_array({2, 3}), w = make_counting_array({8, 3}, 2), y = zeros({2, 4});
  const auto sum = prepare({.program = "x[N, D]\nw[2*F, D]\nup[F, D] = w[0:F]\ngate[F, D] = w[F:2*F]\n"
                                       "u[N, F] = x * up\ng[N, F] = x * gate\ny[N, F] = u - g"},
                           {f32("w", w.shape), f32("x", x.shape)});
  ASSERT_TRUE(sum.ok()) << sum.error().to_string();
  ASSERT_EQ(sum->inputs()[1].name, "w");
  const ArrayView in[] = {x.view(), w.view()}, out[] = {y.view()};
  ASSERT_TRUE((*sum)(in, out).ok());
  for (std::size_t n = 0; n < 2; ++n)
    for (std::size_t f = 0; f < 4; ++f) {
      float expected = 0;
      for (std::size_t d = 0; d < 3; ++d) expected += x.data[n * 3 + d] * (w.data[f * 3 + d] - w.data[(f + 4) * 3 + d]);
      EXPECT_EQ(y.data[n * 4 + f], expected);
    }
}

TEST(Compute, CopiesUnsupportedLayouts) {
  Floats a = make_counting_array({3, 5}), b = make_counting_array({5, 4}, 1), d = zeros({3, 4});
  Floats wide = zeros({3, 10});  // Holds a in every second element, in reverse along the first axis
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 5; ++j) wide.data[(2 - i) * 10 + 2 * j] = a.data[i * 5 + j];
  const std::int64_t strides[] = {-10, 2};
  const ArrayView in[] = {{wide.data.data() + 20, DType::f32, a.shape, strides}, b.view()}, out[] = {d.view()};
  const auto product_of = prepare({.program = matrices}, {f32("", a.shape), f32("", b.shape)});
  ASSERT_TRUE((*product_of)(in, out).ok());
  EXPECT_EQ(d.data, product(a, b, 3, 4, 5));
  std::vector<char> bytes(a.data.size() * 4 + 1);
  std::memcpy(bytes.data() + 1, a.data.data(), a.data.size() * 4);
  const ArrayView off[] = {{bytes.data() + 1, DType::f32, a.shape, {}}, b.view()};
  d = zeros({3, 4});
  const ArrayView again[] = {d.view()};
  ASSERT_TRUE((*product_of)(off, again).ok());
  EXPECT_EQ(d.data, product(a, b, 3, 4, 5));
}

TEST(Compute, ReturnsRequestedResults) {
  Floats x = make_counting_array({2, 3}), e = zeros({2, 3});
  const ComputeRequest request{.program = "x[N, D]\nd: f32[N, D] = x + x\ne: f32[N, D] = d + x",
                               .requested_results = {"e"}};
  const auto sums = prepare(request, {f32("x", x.shape)});
  ASSERT_TRUE(sums.ok()) << sums.error().to_string();
  ASSERT_EQ(sums->outputs().size(), 1u);
  const ArrayView in[] = {x.view()}, out[] = {e.view()};
  ASSERT_TRUE((*sums)(in, out).ok());
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(e.data[i], 3 * x.data[i]);
  EXPECT_EQ(prepare_error({.program = request.program, .requested_results = {"f"}}, {f32("x", x.shape)}),
            "unknown result 'f'; expected one of d, e");
  EXPECT_EQ(prepare_error({.program = request.program, .requested_results = {"e", "e"}}, {f32("x", x.shape)}),
            "expected result 'e' once, found it twice");
}

TEST(Compute, RejectsMismatchedArrays) {
  const ComputeRequest request{.program = matrices};
  EXPECT_EQ(prepare_error(request, {f32("", {3, 5})}),
            "expected an array for input 'Y', found none; the inputs are X, Y");
  EXPECT_EQ(prepare_error(request, {f32("", {3, 5}), f32("", {6, 4})}),
            "dimension 'K' is 5 in 'X' and 6 in 'Y'; expected one size");
  EXPECT_EQ(prepare_error({.program = matrices, .dims = {{"K", 4}}}, {f32("", {3, 5}), f32("", {5, 4})}),
            "dimension 'K' is 4 as given and 5 in 'X'; expected one size");
  EXPECT_EQ(prepare_error(request, {f32("", {3, 5, 1}), f32("", {5, 4})}),
            "'X' has shape [3, 5, 1]; expected 2 axes, [M, K]");
  EXPECT_EQ(prepare_error(request, {f32("", {3, 0}), f32("", {0, 4})}),
            "'X' has shape [3, 0]; expected every extent to be at least 1");
  EXPECT_EQ(prepare_error(request, {f32("X", {3, 5}), f32("X", {5, 4})}),
            "expected one array for input 'X', found two");
  EXPECT_EQ(prepare_error(request, {f32("X", {3, 5}), f32("W", {5, 4})}), "unknown input 'W'; expected one of X, Y");
  EXPECT_EQ(prepare_error(request, {f32("", {3, 5}), f32("", {5, 4}), f32("", {5, 4})}),
            "expected 2 arrays at most, for X, Y; found more");
  EXPECT_EQ(prepare_error(request, {f32("", {3, 5}), {"", DType::bf16, {5, 4}}}),
            "'Y' is bf16; expected f32, as the program says");
  EXPECT_EQ(prepare_error({.program = "x: f32[N]\ny: f32[N, 2*N] = x"}, {}), "expected ',' or ']', found '*'");
}

TEST(Compute, RejectsInvalidOutputs) {
  Floats a = make_counting_array({3, 3}), d = zeros({3, 3});
  const auto product_of = prepare({.program = matrices}, {f32("", a.shape), f32("", a.shape)});
  const ArrayView in[] = {a.view(), a.view()}, same[] = {a.view()};
  EXPECT_EQ((*product_of)(in, same).error().message, "'Z' shares memory with the input 'X'");
  const std::int64_t transposed[] = {1, 3};
  const ArrayView across[] = {{d.data.data(), DType::f32, d.shape, transposed}};
  EXPECT_EQ((*product_of)(in, across).error().message,
            "expected 'Z' to be written row-major, without gaps, at a multiple of 4 bytes");
  const ArrayView nowhere[] = {{nullptr, DType::f32, d.shape, {}}};
  EXPECT_EQ((*product_of)(in, nowhere).error().message, "'Z' has no memory");
  EXPECT_EQ((*product_of)({}, {}).error().message, "expected 2 inputs and 1 outputs, found 0 and 0");
  const std::int64_t other[] = {3, 4};
  const ArrayView large[] = {{d.data.data(), DType::f32, other, {}}};
  EXPECT_EQ((*product_of)(in, large).error().message,
            "'Z' is f32[3, 4]; expected f32[3, 3], for which the program was planned");
}

TEST(Compute, RejectsAnIndexOutOfRange) {
  Floats table = make_counting_array({4, 2}), rows = zeros({3, 2});
  std::vector<std::int32_t> index = {0, 3, 4};
  const std::int64_t three[] = {3};
  const auto gathered = prepare({.program = "t: f32[V, D]\ni: int32[N]\ny: f32[N, D] = gather(t, i over V)"},
                                {f32("t", table.shape), {"i", DType::int32, {3}}});
  ASSERT_TRUE(gathered.ok()) << gathered.error().to_string();
  const ArrayView in[] = {table.view(), {index.data(), DType::int32, three, {}}}, out[] = {rows.view()};
  EXPECT_EQ((*gathered)(in, out).error().message, "index 2 of 'i' is 4; expected 0 to 3, because it indexes V");
  index[2] = 1;
  ASSERT_TRUE((*gathered)(in, out).ok());
  EXPECT_EQ(rows.data[5], table.data[3]);
}

TEST(Compute, IsSafeFromSeveralThreads) {
  Floats x = make_counting_array({64, 32});
  const ComputeRequest request{.program = "x[N, D]\nm[N] = max(x over D)\ny: f32[N, D] = x - m"};
  std::vector<Floats> results(4, zeros({64, 32}));
  std::vector<std::thread> threads;
  for (Floats& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const auto kept = api::prepare_cached(request, {f32("x", x.shape)});
        const ArrayView in[] = {x.view()}, out[] = {result.view()};
        ASSERT_TRUE((*kept)(in, out, 2).ok());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const Floats& result : results) EXPECT_EQ(result.data, results[0].data);
  EXPECT_FALSE(std::isnan(results[0].data[0]));
}

TEST(Matmul, SupportsAnyStridesAndBatches) {
  for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 4, 5}, {17, 33, 31}, {65, 1, 7}}) {
    Floats a = make_counting_array({m, k}), b = make_counting_array({k, n}, 1), d = zeros({m, n});
    ASSERT_TRUE(matmul(a.view(), b.view(), d.view()).ok());
    EXPECT_EQ(d.data, product(a, b, m, n, k));
    Floats transposed = zeros({n, k});
    for (std::int64_t i = 0; i < k; ++i)
      for (std::int64_t j = 0; j < n; ++j) transposed.data[j * k + i] = b.data[i * n + j];
    const std::int64_t strides[] = {1, k};
    d = zeros({m, n});
    ASSERT_TRUE(matmul(a.view(), {transposed.data.data(), DType::f32, b.shape, strides}, d.view()).ok());
    EXPECT_EQ(d.data, product(a, b, m, n, k));
  }
  Floats a = make_counting_array({2, 3, 5}), b = make_counting_array({5, 4}, 1), d = zeros({2, 3, 4});
  ASSERT_TRUE(matmul(a.view(), b.view(), d.view()).ok());
  EXPECT_EQ(d.data, product(a, b, 6, 4, 5));
}

TEST(Matmul, HandlesEmptySizes) {
  Floats none{{}, {3, 0}, {}}, d = zeros({3, 4});
  ASSERT_TRUE(matmul(none.view(), Floats{{}, {0, 4}, {}}.view(), d.view()).ok());
  EXPECT_EQ(d.data, std::vector<float>(12, 0));
  Floats b = make_counting_array({5, 4});
  EXPECT_TRUE(matmul(Floats{{}, {0, 5}, {}}.view(), b.view(), Floats{{}, {0, 4}, {}}.view()).ok());
}

TEST(Matmul, RejectsMismatchedShapes) {
  Floats a = make_counting_array({3, 5}), b = make_counting_array({4, 5}), d = zeros({3, 4});
  EXPECT_EQ(
      matmul(a.view(), b.view(), d.view()).error().message,
      "expected a[..., m, k] * b[..., k, n] -> d[..., m, n] of one type, found f32[3, 5] * f32[4, 5] -> f32[3, 4]");
  Floats square = make_counting_array({3, 3});
  EXPECT_EQ(matmul(square.view(), square.view(), square.view()).error().message, "d shares memory with a or b");
}

TEST(Compute, ReportsAMissingDevice) {
  const auto missing = device::unavailable_reason();
  if (!missing) GTEST_SKIP() << "there is a device";
  ComputeRequest request{.program = matrices};
  const std::vector<ArrayType> types{f32("", {3, 5}), f32("", {5, 4})};
  ASSERT_TRUE(api::prepare_cached(request, types).ok());
  request.device = 0;
  const auto planned = api::prepare_cached(request, types);
  ASSERT_FALSE(planned.ok()) << "what is kept for this computer's memory is no plan for a device's";
  EXPECT_EQ(planned.error().message, missing.text());
  EXPECT_EQ(planned.error().kind, ErrorKind::absent);
}

TEST(Compute, CopiesMisalignedSlices) {
  Computation::Impl impl;
  impl.plan.buffers = {{DType::bf16, 8}, {DType::bf16, 91}, {DType::bf16, 91},
                       {DType::f32, 3},  {DType::f32, 5},   {DType::f32, 0}};
  impl.tensors = {{0, 1, 2}};
  impl.results = {3};
  api::place_buffers(impl, {.scratch_alignment = 256, .input_alignment = 16});
  using Space = api::BufferLocation::Space;
  const auto location_of = [&](std::size_t i) { return std::pair(impl.locations[i].space, impl.locations[i].offset); };
  EXPECT_EQ(location_of(0), std::pair(Space::input, std::int64_t{0}));
  EXPECT_EQ(location_of(1), std::pair(Space::input, std::int64_t{16}));
  EXPECT_EQ(location_of(2), std::pair(Space::scratch, std::int64_t{0}));  // Offset 198 of the input is misaligned
  EXPECT_EQ(location_of(3), std::pair(Space::output, std::int64_t{0}));
  EXPECT_EQ(location_of(4), std::pair(Space::scratch, std::int64_t{256}));
  EXPECT_EQ(location_of(5).first, Space::none);
  ASSERT_EQ(impl.misaligned.size(), 1u);
  EXPECT_EQ(impl.misaligned[0].source_offset, 198);
  EXPECT_EQ(impl.misaligned[0].bytes, 182);
  EXPECT_EQ(impl.scratch_bytes, 512);
}

TEST(Compute, QueuesOnlyOnThePlannedDevice) {
  Floats a = make_counting_array({3, 5}), b = make_counting_array({5, 4}, 1), d = zeros({3, 4});
  const auto here = prepare({.program = matrices}, {f32("", a.shape), f32("", b.shape)});
  ASSERT_TRUE(here.ok());
  const ArrayView in[] = {a.view(), b.view()}, out[] = {d.view()};
  EXPECT_EQ(here->queue(nullptr, in, out, nullptr).error().message,
            "the program was planned for arrays in host memory; expected a device in the request");
}

TEST(Compute, QueuesOnlyAlignedContiguousArrays) {
  alignas(16) float data[64] = {};
  const std::int64_t shape[] = {2, 3}, transposed[] = {1, 2}, padded[] = {4, 1};
  EXPECT_TRUE(Computation::can_queue({data, DType::f32, shape}));
  EXPECT_FALSE(Computation::can_queue({data + 1, DType::f32, shape}));
  EXPECT_FALSE(Computation::can_queue({data, DType::f32, shape, transposed}));
  EXPECT_FALSE(Computation::can_queue({data, DType::f32, shape, padded}));
}

// Every weight is (2 - 4) * 0.5 = -1.
TEST(Matmul, MultipliesByBlockScaledWeights) {
  constexpr std::int64_t n = 3, k = 64;
  std::vector<std::uint8_t> blocks;
  for (std::int64_t i = 0; i < n; ++i) {
    blocks.insert(blocks.end(), {0x00, 0x38, 4, 0});
    blocks.insert(blocks.end(), k / 2, 0x22);
  }
  Floats a = make_counting_array({2, 2, k}), d = zeros({2, 2, n});
  const BlockScaledWeights weights{blocks.data(), DType::u4_64, n, k};
  ASSERT_TRUE(matmul(a.view(), weights, d.view()).ok());
  for (std::int64_t row = 0; row < 4; ++row) {
    float sum = 0;
    for (std::int64_t i = 0; i < k; ++i) sum -= a.data[row * k + i];
    for (std::int64_t column = 0; column < n; ++column) EXPECT_EQ(d.data[row * n + column], sum) << row;
  }
  const auto refusal = [&](const BlockScaledWeights& b) { return matmul(a.view(), b, d.view()).error().message; };
  EXPECT_EQ(refusal({blocks.data(), DType::bf16, n, k}),
            "expected weights[n, k] of a dtype with block scales, found bf16[3, 64]");
  EXPECT_EQ(
      refusal({blocks.data(), DType::u4_64, 2, k}),
      "expected a[..., m, k] * weights[n, k] -> d[..., m, n], found f32[2, 2, 64] * u4_64[2, 64] -> f32[2, 2, 3]");
  EXPECT_EQ(refusal({blocks.data(), DType::u4_128, n, k}),
            "u4_128: expected k and strides in multiples of 128 elements, found 64");
  EXPECT_EQ(refusal({nullptr, DType::u4_64, n, k}), "expected a, b and d to have memory");
  EXPECT_EQ(refusal({d.data.data(), DType::u4_64, n, k}), "d shares memory with a or b");
}

TEST(MatmulOnDevice, ValidatesBeforeOpeningADevice) {
  Floats a = make_counting_array({3, 5}), b = make_counting_array({5, 4}), d = zeros({3, 4});
  const auto prepare_error = [&] { return MatmulOnDevice::make(0, a.view(), b.view(), d.view()).error().message; };
  d.shape = {4, 3};
  EXPECT_EQ(prepare_error(),
            "expected a[..., m, k] * b[..., k, n] -> d[..., m, n] of one type, found f32[3, 5] * f32[5, 4] "
            "-> f32[4, 3]");
  d.shape = {3, 4};
  b.strides = {8, 2};
  EXPECT_FALSE(MatmulOnDevice::can_read(b.view()));
  EXPECT_EQ(prepare_error(), "expected a and b with contiguous rows or columns");
  b.strides = {1, 5};
  EXPECT_TRUE(MatmulOnDevice::can_read(b.view()));
  d.strides = {1, 3};
  EXPECT_EQ(prepare_error(), "expected d to be row-major, without gaps, at a multiple of its element's size");
  const std::vector<std::int64_t> square{2, 2};
  const ArrayView int8_array{a.data.data(), DType::int8, square}, narrow{d.data.data(), DType::int8, square};
  EXPECT_EQ(MatmulOnDevice::make(0, int8_array, int8_array, narrow).error().message,
            "expected two operands of the same dtype, f32, bf16, f16, e4m3, tf32, e4m3_128 or int8, and a result of "
            "f32, bf16 or f16, of int8 also int32; found int8 * int8 -> int8");
  const ArrayView scaled{a.data.data(), DType::e4m3_128, square}, half{d.data.data(), DType::bf16, square};
  EXPECT_EQ(MatmulOnDevice::make(0, scaled, scaled, half).error().message,
            "expected arrays without block scales, found e4m3_128");
}

TEST(MatmulOnDevice, ValidatesBlockScaledWeights) {
  alignas(16) std::uint8_t memory[64] = {}, elsewhere[64] = {};  // Refusals read no elements
  struct Case {
    DType a, weights, d;
    std::int64_t rows, n, k;
    std::string_view message;
  };
  const Case cases[] = {
      {DType::bf16, DType::bf16, DType::bf16, 3, 5, 64,
       "expected weights[n, k] of a dtype with block scales, found bf16[5, 64]"},
      {DType::f32, DType::u4_64, DType::f32, 3, 5, 64,
       "expected narrow weights, such as int8, e4m3 or mxfp4, with bf16 or f16, found f32 * u4_64"},
      {DType::bf16, DType::e4m3_128, DType::bf16, 3, 5, 128,
       "expected narrow weights, such as int8, e4m3 or mxfp4, with bf16 or f16, found bf16 * e4m3_128"},
      {DType::f16, DType::mxfp4, DType::f16, 3, 5, 64, "a: expected bf16 with mxfp4, found f16"},
      {DType::f16, DType::mxfp4, DType::f16, 65, 5, 64, "a: expected bf16 with mxfp4, found f16"},
      {DType::bf16, DType::u4_128, DType::bf16, 65, 5, 64, "u4_128: expected k in multiples of 128 elements, found 64"},
      {DType::bf16, DType::nvfp4, DType::bf16, 3, 5, 48, "nvfp4: expected k in multiples of 32 elements, found 48"},
      {DType::bf16, DType::int4_64, DType::int8, 3, 5, 64,
       "expected two operands of the same dtype, f32, bf16, f16, e4m3, tf32, e4m3_128 or int8, and a result of f32, "
       "bf16 or f16, of int8 also int32; found bf16 * int4_64 -> int8"},
  };
  for (const Case& c : cases) {
    const std::int64_t a_shape[] = {c.rows, c.k}, d_shape[] = {c.rows, c.n};
    std::vector<std::uint8_t> a(static_cast<std::size_t>(c.rows * c.k * 4)), d(a.size());
    std::vector<std::uint8_t> weights(static_cast<std::size_t>(stored_bytes(c.weights, c.n * c.k)) + 16);
    void* const start = weights.data() + (16 - reinterpret_cast<std::uintptr_t>(weights.data()) % 16) % 16;
    const auto made = MatmulOnDevice::make(0, {a.data(), c.a, a_shape}, BlockScaledWeights{start, c.weights, c.n, c.k},
                                           {d.data(), c.d, d_shape});
    EXPECT_EQ(made.error().message, c.message);
  }
  const std::int64_t a_shape[] = {1, 32}, d_shape[] = {1, 1}, wide_shape[] = {1, 2}, spread[] = {64, 2};
  const ArrayView a{memory, DType::bf16, a_shape}, d{elsewhere, DType::bf16, d_shape};
  const auto refusal = [&](const ArrayView& left, const void* weights, const ArrayView& result) {
    return MatmulOnDevice::make(0, left, BlockScaledWeights{weights, DType::int4_32, 1, 32}, result).error().message;
  };
  EXPECT_EQ(refusal(a, elsewhere + 33, d), "expected weights whose address on a device is a multiple of 16 bytes");
  EXPECT_EQ(refusal(a, nullptr, d), "expected a, b and d to have memory");
  EXPECT_EQ(refusal(a, elsewhere, d), "d shares memory with a or b");
  EXPECT_EQ(refusal(a, elsewhere + 32, {elsewhere, DType::bf16, wide_shape}),
            "expected a[..., m, k] * weights[n, k] -> d[..., m, n], found bf16[1, 32] * int4_32[1, 32] -> bf16[1, 2]");
  EXPECT_EQ(refusal({memory, DType::bf16, a_shape, spread}, elsewhere + 32, d),
            "expected a with contiguous rows or columns");
}

TEST(MatmulOnDevice, ReportsAMissingDevice) {
  const auto missing = device::unavailable_reason();
  if (!missing) GTEST_SKIP() << "there is a device";
  Floats a = make_counting_array({3, 5}), b = make_counting_array({5, 4}), d = zeros({3, 4});
  EXPECT_EQ(MatmulOnDevice::make(0, a.view(), b.view(), d.view()).error().message, missing.text());
  // The weights are read as they are stored, or converted first for more than 64 rows or fewer than 8 columns. Rows at
  // equal distances are one matrix.
  struct Case {
    std::int64_t matrices, rows, n, k, matrix_stride, row_stride;
  };
  for (const Case& c :
       {Case{1, 3, 8, 128, 0, 128}, Case{1, 65, 8, 128, 0, 128}, Case{1, 3, 5, 128, 0, 128}, Case{1, 0, 8, 128, 0, 128},
        Case{1, 3, 0, 128, 0, 128}, Case{1, 3, 8, 0, 0, 0}, Case{1, 65, 8, 0, 0, 0}, Case{4, 20, 8, 128, 20 * 128, 128},
        Case{4, 3, 8, 64, 64, 4 * 64}, Case{4, 1, 8, 64, 128, 64}, Case{4, 70, 8, 64, 0, 64}}) {
    const std::int64_t a_shape[] = {c.matrices, c.rows, c.k}, d_shape[] = {c.matrices, c.rows, c.n};
    const std::int64_t strides[] = {c.matrix_stride, c.row_stride, 1};
    std::vector<float> left(1 << 16), result(1 << 16);
    alignas(16) static std::uint8_t weights[stored_bytes(DType::u4_64, 8 * 128)] = {};
    const BlockScaledWeights matrix{weights, DType::u4_64, c.n, c.k};
    const auto made = MatmulOnDevice::make(0, {left.data(), DType::f16, a_shape, strides}, matrix,
                                           {result.data(), DType::f16, d_shape});
    EXPECT_EQ(made.error().message, missing.text()) << c.matrices << " " << c.rows << " " << c.n << " " << c.k;
  }
}

}  // namespace
}  // namespace ridge
