// The reference against numbers computed by hand, kernels against the reference on odd shapes, and the reference's
// bound against results that are corrupted on purpose.
#include "ridge/measure/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>

#include "ridge/base/float16.h"
#include "ridge/measure/clocks.h"
#include "ridge/measure/element_check.h"
#include "ridge/measure/reference.h"
#include "ridge/program/program.h"
#include "ridge/run/memory.h"
#include "ridge/run/npy.h"
#include "ridge/run/parallel_for.h"

namespace ridge {
namespace {

Array array_of(std::vector<float>& values) {
  return {DType::f32, static_cast<std::int64_t>(values.size()), reinterpret_cast<std::byte*>(values.data())};
}

TEST(Reference, AgreesWithNumbersComputedByHand) {
  std::vector<float> x{1, 2, 3, 4}, w{5, 6, 7, 8}, z(4);
  const auto program = parse("f32[M, K] * f32[N, K] -> f32[M, N]").value();
  const Bindings dims{{"M", 2}, {"K", 2}, {"N", 2}};
  const Reference reference{program, dims, {array_of(x), array_of(w), array_of(z)}};
  const auto expected = reference.evaluate_elements(program.statements[0], {0, 1, 2, 3});
  EXPECT_EQ(expected[0].value, 17);
  EXPECT_EQ(expected[1].value, 23);
  EXPECT_EQ(expected[2].value, 39);
  EXPECT_EQ(expected[3].value, 53);
  EXPECT_EQ(expected[3].scale, 53);
}

// Devices drop bits of tf32, so that a result off by 2^-10 is right there and wrong on a CPU.
TEST(Reference, AllowsForTheBitsThatTensorCoresDrop) {
  const Program program = parse("x: tf32[M, K]  w: tf32[K, N]\ny: f32[M, N] = x * w").value();
  const Bindings dims{{"M", 1}, {"N", 1}, {"K", 4}};
  std::vector<float> x{1, 1, 1, 1}, w{1, 1, 1, 1}, y{4};
  Reference reference{program, dims, {array_of(x), array_of(w), array_of(y)}, false};
  const auto bound = [&] { return reference.evaluate_elements(program.statements[0], {0})[0].bound; };
  EXPECT_LT(bound(), 4 * 0x1p-20);
  reference.on_tensor_cores = true;
  EXPECT_GT(bound(), 4 * 0x1p-9);
  EXPECT_LT(bound(), 4 * 0x1p-8);
}

// A device's gelu may be approximate; other functions have no such tolerance.
TEST(Reference, AppliesTheGeluToleranceOfTheKernel) {
  std::vector<float> x{-3, 0.5F, 3}, y(3);
  const auto bounds = [&](const char* function, GeluTolerance tolerance) {
    const auto program = parse(fmt::format("x: f32[N]  y: f32[N] = {}(x)", function)).value();
    const Bindings dims{{"N", 3}};
    const Reference reference{program, dims, {array_of(x), array_of(y)}, true, 1, {}, tolerance};
    std::vector<double> out;
    for (const Expected& e : reference.evaluate_elements(program.statements[0], {0, 1, 2})) out.push_back(e.bound);
    return out;
  };
  for (const char* function : {"gelu", "gelu_tanh", "silu"}) {
    const auto exact = bounds(function, {}), device = bounds(function, {1e-3, 0}), gated = bounds(function, {0, 1e-2});
    const std::string_view name = function;
    EXPECT_NEAR(device[0] - exact[0], name == "silu" ? 0 : 3e-3, 1e-9) << function;
    EXPECT_NEAR(gated[2] - exact[2], name == "gelu" ? 1e-2 * (1 + 4.5) * 2.99595 : 0, 1e-6) << function;
  }
}

// At -inf, CPU kernels and generated kernels return the limit, a product's epilogue on a device NaN.
TEST(Reference, GeluAtMinusInfinityDependsOnTheKernel) {
  std::vector<float> x{-INFINITY, INFINITY}, y(2);
  for (const char* function : {"gelu", "gelu_tanh", "silu"}) {
    const auto program = parse(fmt::format("x: f32[N]  y: f32[N] = {}(x)", function)).value();
    const Bindings dims{{"N", 2}};
    for (const bool limits : {true, false}) {
      const Reference reference{program, dims, {array_of(x), array_of(y)}, false, 1, {}, {.exact_limits = limits}};
      const std::vector<Expected> at = reference.evaluate_elements(program.statements[0], {0, 1});
      EXPECT_TRUE(limits ? at[0].value == 0 && std::signbit(at[0].value) : std::isnan(at[0].value)) << function;
      EXPECT_EQ(at[1].value, INFINITY) << function;
    }
  }
}

TEST(Reference, Int8IsExactAndSaturates) {
  std::vector<std::int8_t> x{100, 2, 3, 4}, w{5, 6, 7, 8};
  const auto array = [](auto& values, DType dtype) {
    return Array{dtype, static_cast<std::int64_t>(values.size()), reinterpret_cast<std::byte*>(values.data())};
  };
  const Bindings dims{{"M", 2}, {"K", 2}, {"N", 2}};
  const auto expected = [&](const char* text, DType dtype) {
    const auto program = parse(text).value();
    std::vector<std::int32_t> z(4);
    const Reference reference{program, dims, {array(x, DType::int8), array(w, DType::int8), array(z, dtype)}};
    return reference.evaluate_elements(program.statements[0], {0, 3});
  };
  const auto wide = expected("int8[M, K] * int8[N, K] -> int32[M, N]", DType::int32);
  EXPECT_EQ(wide[0].value, 512);
  EXPECT_EQ(wide[1].value, 53);
  EXPECT_EQ(wide[1].bound, 0);
  const auto narrow = expected("int8[M, K] * int8[N, K] -> int8[M, N]", DType::int8);
  EXPECT_EQ(narrow[0].value, 127);
  EXPECT_EQ(narrow[0].bound, 0);
}

TEST(Reference, EvaluatesPointwiseByName) {
  std::vector<float> x{1, -2, 3, 4, 5, 6}, b{10, 20, 30}, y(6);
  const auto program = parse("x: f32[N, F]  b: f32[F]\ny: f32[N, F] = max(x, 0) + b * repeat(2, sqrt, b)").value();
  const Bindings dims{{"N", 2}, {"F", 3}};
  const Reference reference{program, dims, {array_of(x), array_of(b), array_of(y)}};
  const auto expected = reference.evaluate_elements(program.statements[0], {1, 5});
  EXPECT_NEAR(expected[0].value, 0 + 20 * std::pow(20, 0.25), 1e-12);
  EXPECT_NEAR(expected[1].value, 6 + 30 * std::pow(30, 0.25), 1e-12);
  EXPECT_LT(expected[0].bound, 1e-4);
}

// A condition that is too close to decide in f32 allows both branches.
TEST(Reference, AllowsEitherBranchOfAnUncertainCondition) {
  std::vector<float> x{1, 5, 0, 7}, y(4);
  const auto bounds = [&](const std::string& condition) {
    const auto program = parse(fmt::format("x: f32[N]  y: f32[N] = where({}, 1, max(x, 8) - 5)", condition)).value();
    const Bindings dims{{"N", 4}};
    const Reference reference{program, dims, {array_of(x), array_of(y)}};
    std::vector<bool> either;
    for (const Expected& e : reference.evaluate_elements(program.statements[0], {0, 1, 2, 3})) {
      EXPECT_TRUE(e.bound < 1e-5 || (e.bound > 1.99 && e.bound < 2.01)) << condition << " bound " << e.bound;
      either.push_back(e.bound > 1);
    }
    return either;
  };
  const std::vector<bool> none{false, false, false, false}, all{true, true, true, true};
  EXPECT_EQ(bounds("x / 3 * 3 == x"), all);
  EXPECT_EQ(bounds("x / 3 * 3 < x + 0"), all);
  EXPECT_EQ(bounds("x / 3 * 3 - x"), all);
  EXPECT_EQ(bounds("x == 5"), none);
  EXPECT_EQ(bounds("x - 5"), none);
  EXPECT_EQ(bounds("x * 0"), none);
  EXPECT_EQ(bounds("x / 3 < 2"), none);
  EXPECT_EQ(bounds("index(N) < 2"), none);
  EXPECT_EQ(bounds("index(N) < size(N) - 1"), none);
  EXPECT_EQ(bounds("index(N) * 0.1 < size(N) - 3.9"), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(bounds("x < 0.1"), none);
}

TEST(Reference, EvaluatesAlongDimensions) {
  std::vector<float> x{1, 2, 3, 4, 5, 9}, y(6), z(2), w(3);
  const auto program = parse(
                           "x: f32[N, D]\n"
                           "y: f32[N, D] = softmax(where(index(D) <= index(N), x, -inf) over D) + size(D)\n"
                           "z: f32[N] = max(x - mean(x over N) over D) * sum(x * x over D)\n"
                           "w: f32[D] = sum(layernorm(x over D) / rmsnorm(x over N, D) over N)")
                           .value();
  const Bindings dims{{"N", 2}, {"D", 3}};
  const Reference reference{program, dims, {array_of(x), array_of(y), array_of(z), array_of(w)}};
  const auto soft = reference.evaluate_elements(program.statements[0], {0, 1, 3, 4, 5});
  EXPECT_EQ(soft[0].value, 4);
  EXPECT_EQ(soft[1].value, 3);
  EXPECT_NEAR(soft[2].value, 3 + 1 / (1 + std::exp(1.0)), 1e-12);
  EXPECT_NEAR(soft[3].value, 3 + std::exp(1.0) / (1 + std::exp(1.0)), 1e-12);
  EXPECT_EQ(soft[4].value, 3);
  EXPECT_LT(soft[3].bound, 1e-5);
  const auto peak = reference.evaluate_elements(program.statements[1], {0, 1});
  EXPECT_NEAR(peak[0].value, -1.5 * 14, 1e-12);  // differences from the means 2.5, 3.5, 6: -1.5, -1.5, -3
  EXPECT_NEAR(peak[1].value, 3.0 * 122, 1e-12);
  const double rms = std::sqrt((1 + 4 + 9 + 16 + 25 + 81) / 6.0 + 1e-5);
  const double low = 1 / std::sqrt(2.0 / 3 + 1e-5), high = 1 / std::sqrt(14.0 / 3 + 1e-5);
  const auto ratio = reference.evaluate_elements(program.statements[2], {0, 1});
  EXPECT_NEAR(ratio[0].value, -1 * low / (1 / rms) + -2 * high / (4 / rms), 1e-12);
  EXPECT_NEAR(ratio[1].value, 0 * low / (2 / rms) + -1 * high / (5 / rms), 1e-12);
}

TEST(Reference, ChecksFewerElementsIfEachNeedsARow) {
  const auto program = parse("x: f32[N, D]\ny[N, D] = softmax(x over D)\nz[N, D] = cos(x)").value();
  const Bindings dims{{"N", 4096}, {"D", 65536}};
  const Reference reference{program, dims, {}};
  EXPECT_EQ(reference.max_affordable_elements(program.statements[0], 10'000), 101);
  EXPECT_EQ(reference.max_affordable_elements(program.statements[1], 10'000), 10'000);
}

TEST(Reference, DetectsAMissingTermOfASum) {
  constexpr std::int64_t k = 4096;
  std::vector<float> x(k), w(k), z{0};
  fill_normal(array_of(x), 1, 0, 1);
  fill_normal(array_of(w), 1, 1, 1);
  const auto program = parse("f32[K] * f32[K] -> f32[1]").value();
  const Bindings dims{{"K", k}};
  const Reference reference{program, dims, {array_of(x), array_of(w), array_of(z)}};
  const auto expected = reference.evaluate_elements(program.statements[0], {0});
  z[0] = static_cast<float>(expected[0].value);
  EXPECT_EQ(compare_elements(array_of(z), {0}, expected).first_wrong_position, -1);
  z[0] = static_cast<float>(expected[0].value - 1.0 * expected[0].scale / k);  // a term of mean size
  EXPECT_EQ(compare_elements(array_of(z), {0}, expected).first_wrong_position, 0);
  z[0] = NAN;
  EXPECT_EQ(compare_elements(array_of(z), {0}, expected).first_wrong_position, 0);
}

// Compares one f32 or f16 element.
ElementComparison compare_one(float got, Expected expected, DType dtype = DType::f32) {
  F16 half = to_f16(got);
  std::byte* data = dtype == DType::f16 ? reinterpret_cast<std::byte*>(&half) : reinterpret_cast<std::byte*>(&got);
  return compare_elements({dtype, 1, data}, {0}, {expected});
}

TEST(Compare, ZeroOverZeroIsNoError) {
  EXPECT_EQ(compare_one(0, {0, 0, 0}).max_rel_error, 0);
  EXPECT_EQ(compare_one(0, {0, 0, 0}).first_wrong_position, -1);
}

TEST(Compare, NonFiniteValuesAreRightOnlyIfEqual) {
  const float nan = NAN, inf = INFINITY;
  for (const auto& [got, value, right] : {std::tuple(inf, inf, true),
                                          {-inf, -inf, true},
                                          {nan, nan, true},
                                          {-inf, inf, false},
                                          {nan, inf, false},
                                          {1.0f, inf, false},
                                          {0.0f, -inf, false},
                                          {inf, nan, false},
                                          {1.0f, nan, false},
                                          {nan, 1.0f, false},
                                          {inf, 1.0f, false}}) {
    const double bound = std::isfinite(value) ? 1e-6 : INFINITY;  // the bound that the reference returns
    for (const double scale : {0.0, static_cast<double>(std::fabs(value))}) {
      const ElementComparison c = compare_one(got, {value, scale, bound});
      EXPECT_EQ(c.first_wrong_position, right ? -1 : 0) << got << " for " << value << ", scale " << scale;
      EXPECT_EQ(c.max_rel_error, right ? 0 : INFINITY) << got << " for " << value << ", scale " << scale;
    }
  }
}

TEST(Compare, ValuesThatOverflowTheDtypeCountAsInfinite) {
  EXPECT_EQ(compare_one(INFINITY, {1e40, 0, 1e33}).first_wrong_position, -1);
  EXPECT_EQ(compare_one(-INFINITY, {1e40, 0, 1e33}).first_wrong_position, 0);
  EXPECT_EQ(compare_one(3e38f, {1e40, 0, 1e33}).first_wrong_position, 0);
  EXPECT_EQ(compare_one(INFINITY, {65520, 0, 0}, DType::f16).first_wrong_position, -1);
  EXPECT_EQ(compare_one(INFINITY, {65519, 0, 0.5}, DType::f16).first_wrong_position, 0);
  EXPECT_EQ(compare_one(INFINITY, {65519, 0, 2}, DType::f16).first_wrong_position,
            -1);  // 65519 + 2 may round to infinity or to 65504
  EXPECT_EQ(compare_one(65504, {65521, 0, 34}, DType::f16).first_wrong_position, -1);
  EXPECT_EQ(compare_one(NAN, {1, 1e39, 1e33}).first_wrong_position,
            -1);  // scale 1e39: a partial sum may have overflowed
}

TEST(Compare, OverflowingValuesDoNotHideOtherErrors) {
  std::vector<float> got{INFINITY, 1};
  const ElementComparison c = compare_elements(array_of(got), {0, 1}, {{1e300, 0, 1e293}, {0, 0, 0}});
  EXPECT_EQ(c.first_wrong_position, 1);
  EXPECT_EQ(c.max_rel_error, INFINITY);  // relative to an rms of 0, which excludes 1e300
}

TEST(Compare, CountsValuesOutsideTheRangeAndWithoutADigit) {
  EXPECT_EQ(compare_one(INFINITY, {360000, 0, 1}, DType::f16).out_of_range.count, 1);
  EXPECT_EQ(compare_one(INFINITY, {INFINITY, 0, 0}, DType::f16).out_of_range.count, 0);  // the exact result is infinite
  EXPECT_EQ(compare_one(127, {.value = 127, .before_limit = 40000}).out_of_range.count, 1);
  EXPECT_EQ(compare_one(0, {1.25, 0, 90}).lost_digits.count, 1);
  EXPECT_EQ(compare_one(0.75, {1.25, 0, 90}).lost_digits.count, 0);
  EXPECT_EQ(compare_one(0, {1e-39, 0, 0x1p-126}).lost_digits.count, 0);  // too small for f32, as a softmax's tail
  EXPECT_EQ(compare_one(0, {1.25, 0, 1}).lost_digits.count, 0);          // wrong
}

TEST(Compare, ChecksDescribeTheFirstElement) {
  std::vector<F16> got{to_f16(INFINITY), to_f16(2), to_f16(-INFINITY)};
  OpMeasurement op;
  const Array array{DType::f16, 3, reinterpret_cast<std::byte*>(got.data())};
  EXPECT_FALSE(
      check_elements({"y", {1, 3}, "y = x * w"}, array, {0, 1, 2}, {{1e5, 0, 1}, {4, 0, 3}, {-2e5, 0, 1}}, op));
  EXPECT_EQ(op.warnings, (std::vector<std::string>{
                             "y: 2 of 3 checked results are outside the range of f16; y[0, 0] is 100000, stored as inf",
                             "y: 1 of 3 checked results have no right digit, because numbers that are nearly equal are "
                             "subtracted; y[0, 1] is 2, exactly 4"}));
  EXPECT_EQ(op.out_of_range, 2);
  EXPECT_EQ(op.lost_digits, 1);
  EXPECT_EQ(op.checked, 3);
}

TEST(ParallelFor, RunsAllBlocksIfNoThreadStarts) {
  const auto child = [] {
    std::ifstream about("/proc/self/statm");
    rlim_t pages = 0;
    about >> pages;
    const rlimit limit{pages * 4096 + (16 << 20), pages * 4096 + (16 << 20)};  // no memory for a thread's stack
    ::setrlimit(RLIMIT_AS, &limit);
    std::atomic<int> done{0};
    parallel_for(256, 1, 64, [&](std::int64_t begin, std::int64_t end) { done += static_cast<int>(end - begin); });
    ::_exit(done == 256 ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

TEST(Sample, TakesAllIfFewElseOnePerInterval) {
  EXPECT_EQ(sample_indices({2, 3}, 10, 0).size(), 6u);
  const auto many = sample_indices({1000, 1000}, 1000, 0);
  EXPECT_GE(many.size(), 1000u);
  for (const std::int64_t corner : {0, 999, 999'000, 999'999})
    EXPECT_TRUE(std::binary_search(many.begin(), many.end(), corner)) << corner;
  EXPECT_NE(many, sample_indices({1000, 1000}, 1000, 1));
}

TEST(Fill, IsNormalAndTheSameForEveryNumberOfThreads) {
  std::vector<float> one(1 << 18), two(1 << 18);
  fill_normal(array_of(one), 7, 0, 1);
  fill_normal(array_of(two), 7, 0, 3);
  EXPECT_EQ(one, two);
  double sum = 0, squares = 0, fourth = 0, adjacent_products = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    const double x = one[i];
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
    adjacent_products += i > 0 ? x * one[i - 1] : 0;
  }
  const double n = static_cast<double>(one.size());
  EXPECT_NEAR(sum / n, 0, 0.01);
  EXPECT_NEAR(squares / n, 1, 0.01);
  EXPECT_NEAR(fourth / n, 3, 0.1);
  EXPECT_NEAR(adjacent_products / n, 0, 0.01);
  std::vector<Bf16> narrow(64);
  fill_normal({DType::bf16, 64, reinterpret_cast<std::byte*>(narrow.data())}, 7, 0, 1);
  for (std::size_t i = 0; i < narrow.size(); ++i) EXPECT_EQ(narrow[i], to_bf16(one[i]));
}

TEST(Npy, ReadsWhatItWrites) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {5}, {2, 3, 4}}) {
      const std::string header = make_npy_header(dtype, shape);
      EXPECT_EQ(header.size() % 64, 0u);
      EXPECT_EQ(*parse_npy_header(header), (NpyHeader{dtype, shape, header.size()}));
    }
}

TEST(Npy, RefusesOtherForms) {
  const auto error = [](std::string dict) {
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(dict.size());
    bytes += '\0';
    return parse_npy_header(bytes + dict).error().message;
  };
  EXPECT_EQ(error("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}"),
            "expected little-endian numbers, found dtype '>f4'");
  EXPECT_EQ(error("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}"),
            "expected dtype <f4 (f32), <f2 (f16), <V2 (bf16), |i1 (int8) or <i4 (int32), found '<f8'");
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': True, 'shape': (2,)}"), "expected C order, found Fortran order");
  const std::string dict = "expected an .npy file, found a header that is not {'descr', 'fortran_order', 'shape'}";
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': False}"), dict);
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"), dict);
  EXPECT_EQ(error("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), dict);
  EXPECT_EQ(error("{'descr': '<f4"), dict);
}

TEST(Npy, RejectsEveryTruncatedHeader) {
  const std::string header = make_npy_header(DType::f32, {2, 3});
  for (std::size_t length = 0; length < header.size(); ++length)
    EXPECT_FALSE(parse_npy_header(std::string_view(header).substr(0, length)).ok()) << length;
}

TEST(Memory, ParsesAvailableBytesOfMeminfo) {
  EXPECT_EQ(parse_available_bytes("MemTotal:  9 kB\nMemAvailable:   2048 kB\n"), 2048 * 1024);
  EXPECT_EQ(parse_available_bytes("MemTotal: 9 kB\n"), std::nullopt);
  EXPECT_GT(available_bytes().value_or(0), 1 << 20);
}

TEST(Clocks, MeanHzIsOverAllCores) {
  EXPECT_EQ(parse_mean_hz("cpu MHz\t\t: 2000.0\ncpu MHz : 3000.0\n"), 2.5e9);
  EXPECT_EQ(parse_mean_hz("model name : x\n"), std::nullopt);
}

Measurement measure_program(const std::string& text, const Bindings& dims, DType dtype = DType::bf16,
                            const std::string& on = "h100") {
  const auto program = parse(text, {.dtype = dtype});
  EXPECT_TRUE(program.ok()) << program.error().to_string();
  const auto explanation = explain(*program, *find_machine(on), dims);
  EXPECT_TRUE(explanation.ok()) << explanation.error().to_string();
  return run_program(*program, *explanation, {}).value();
}

TEST(Run, MatchesReferenceOnOddShapesLayoutsAndDtypes) {
  const std::vector<std::string> programs{"A[B, D] * B[D, F] -> C[B, F]",
                                          "A[B, D] * B[F, D] -> C[B, F]",
                                          "A[D, B] * B[D, F] -> C[F, B]",
                                          "A[B, D, E] * B[D, F, E] -> C[B, F]",
                                          "A[G, B, D] * B[G, D, F] -> C[G, B, F]",
                                          "A[B, G, D] * B[D, F] -> C[B, F, G]",
                                          "A[B] * B[F] -> C[B, F]",
                                          "A[B, F] * B[B, F] -> C[B, F]",
                                          "A[D] * B[D] -> C[1]"};
  for (const std::string& program : programs)
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Bindings& dims : {Bindings{{"B", 1}, {"D", 1}, {"E", 1}, {"F", 1}, {"G", 1}},
                                   Bindings{{"B", 17}, {"D", 33}, {"E", 3}, {"F", 5}, {"G", 2}},
                                   Bindings{{"B", 3}, {"D", 257}, {"E", 2}, {"F", 65}, {"G", 7}}}) {
        Bindings used;
        for (const auto& [name, value] : dims)
          if (program.find(name + "]") != std::string::npos || program.find(name + ",") != std::string::npos)
            used[name] = value;
        const Measurement m = measure_program(program, used, dtype);
        EXPECT_FALSE(m.mismatch) << program << ' ' << dtype_name(dtype) << ' ' << m.mismatch->to_string();
        EXPECT_LT(m.total.max_rel_error, dtype == DType::f32 ? 1e-5 : 1e-2);
        EXPECT_GE(m.total.time.runs, 5);
      }
}

TEST(Run, LayerResultsHaveTheMagnitudeOfInputs) {
  const auto program = parse("x: f32[N, D]\nW: f32[D, F]\nV: f32[D, F]\nh[N, F] = x * W\ny[N, D] = V * h\n");
  const auto explanation = explain(*program, *find_machine("h100"), {{"N", 32}, {"D", 256}, {"F", 128}});
  const std::string path = testing::TempDir() + "ridge_layers.npy";
  ASSERT_FALSE(run_program(*program, *explanation, {.out = {{"y", path}}}).value().mismatch);
  std::vector<float> y(32 * 256);
  ASSERT_TRUE(read_npy(path, array_of(y), {32, 256}).ok());
  std::remove(path.c_str());
  double squares = 0;
  for (const float v : y) squares += static_cast<double>(v) * v;
  EXPECT_NEAR(squares / static_cast<double>(y.size()), 1, 0.2);
}

// On a guessed machine, tensors in a cache have no roof, because no cache's rate was measured.
TEST(Run, ReportsRoofFractionUnlessTensorsAreInCache) {
  const std::string folder = testing::TempDir() + "ridge_never_probed";
  setenv("XDG_DATA_HOME", folder.c_str(), 1);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Measurement m = measure_program("A[B, D] * B[D, F] -> C[B, F]", {{"B", 5}, {"D", 7}, {"F", 3}}, dtype, "cpu");
    EXPECT_FALSE(m.mismatch) << dtype_name(dtype) << ' ' << m.mismatch->to_string();
    EXPECT_NE(m.ops[0].fraction_of_roof.has_value(), !m.ops[0].cache.empty()) << dtype_name(dtype);
  }
  for (const char* text : {"int8[B, D] * int8[D, F] -> int32[B, F]", "int8[B, D] * int8[D, F] -> int8[B, F]",
                           "int8[G, B, D] * int8[F, D] -> f32[G, B, F]", "bf16[B, D] * int8[D, F] -> bf16[B, F]",
                           "int8[B, D] * f32[D, F] -> f32[F, B]"}) {
    Bindings dims{{"B", 35}, {"D", 129}, {"F", 67}};
    if (std::string_view(text).find('G') != std::string_view::npos) dims["G"] = 3;
    const Measurement m = measure_program(text, dims, DType::bf16, "cpu");
    EXPECT_FALSE(m.mismatch) << text << ' ' << m.mismatch->to_string();
    EXPECT_NE(m.ops[0].fraction_of_roof.has_value(), !m.ops[0].cache.empty()) << text;
  }
  unsetenv("XDG_DATA_HOME");
}

TEST(Run, FunctionsAlongDimensionsMatchReference) {
  const std::string program =
      "x[A, B, C]   w[C]\n"
      "a[A, B, C] = softmax(x over C)\n"
      "b[A, B, C] = softmax(x over B)\n"
      "c[C, A, B] = softmax(x over A, C)\n"
      "d[A, B, C] = rmsnorm(x over C) * w\n"
      "e[B, A, C] = w * rmsnorm(x over C)\n"
      "f[A, B, C] = layernorm(x over C, B) * w + 1\n"
      "g[A, B] = sum(x over C)\n"
      "h[C] = mean(x over A, B)\n"
      "i[A, C] = max(x over B) - min(x over B)\n"
      "j[1] = sum(x * x - w over A, B, C)\n"
      "k[A, B] = sum(x * w over C) / size(C)\n"
      "l[A, B, C] = x / sum(abs(x) over C) + sum(w over C)\n"
      "m[A, B, C] = softmax(where(index(C) <= index(B), x * rsqrt(size(A)), -inf) over C)\n"
      "n[A, B, C] = exp(x - max(x over C)) * (index(A) >= 2) + (index(B) == index(C)) + (x > w)\n"
      "o[B] = max(softmax(x - mean(x over B) over B, A) over A, C)\n"
      "p[C] = sum(sum(max(x over A) over B) * w over C) + w\n";
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [a, b, c] : {std::tuple(1, 1, 1), {3, 7, 33}, {5, 2, 131}}) {
      const Measurement m = measure_program(program, {{"A", a}, {"B", b}, {"C", c}}, dtype);
      EXPECT_FALSE(m.mismatch) << dtype_name(dtype) << ' ' << m.mismatch->to_string();
    }
}

// The reference computes a fused kernel's result in fp64 from the layer's inputs.
TEST(Run, FusedStatementsMatchReference) {
  const std::string inputs =
      "x: {0}[N, D]  up: {0}[F, D]  gate: {0}[F, D]  bu: {0}[F]  bg: {0}[F]  r: {0}[N, F]\nu[N, F] = x * up\n"
      "g[N, F] = x * gate\n";
  for (const char* text : {"y: {0}[N, F] = (u + bu) * gelu(g + bg)", "y: {0}[N, F] = (u + bu) * gelu_tanh(g + bg)",
                           "y: {0}[N, F] = u * silu(g)", "y: {0}[N, F] = u * g", "y: {0}[F, N] = (u + bu) * gelu(g)",
                           "a[N, F] = u + bu\nb[N, F] = gelu(g + bg)\ny: {0}[N, F] = a * b\nz: f32[N, F] = r - y",
                           "y: {0}[N, F] = r + u * 3\nz: f32[N, F] = g + y * y\nv: {0}[N, F] = y * z"})
    for (const char* dtype : {"f32", "bf16", "f16"})
      for (const Bindings& dims : {Bindings{{"N", 1}, {"D", 37}, {"F", 150}}, Bindings{{"N", 33}, {"D", 130}, {"F", 7}},
                                   Bindings{{"N", 130}, {"D", 1}, {"F", 1}}}) {
        const std::string program = fmt::format(fmt::runtime(inputs + text), dtype);
        const Measurement m = measure_program(program, dims);
        EXPECT_FALSE(m.mismatch) << program << '\n' << m.mismatch->to_string();
        EXPECT_EQ(m.result_names.size(), 1u) << program;
      }
}

// The kernel computes both operands of a sum of products.
TEST(Run, MatchesReferenceIfBothOperandsAreFused) {
  const std::string text =
      "x: bf16[B, D]  y: bf16[B, D]\na[B, D] = x\nb[B, D] = exp(y)\nz[B] = a * b\nw: bf16[B, D] = b * exp(z)";
  const Measurement m = measure_program(text, {{"B", 5}, {"D", 7}});
  EXPECT_FALSE(m.mismatch) << m.mismatch->to_string();
  EXPECT_EQ(m.result_names.size(), 1u);
}

TEST(Run, UnfusedStatementsMatchReference) {
  const auto program = parse("x: f32[N]\na[N] = exp(x)\nb[N] = a * x\ny: f32[N] = b + a").value();
  const auto explanation = explain(program, *find_machine("h100"), {{"N", 1000}}).value();
  const Measurement unfused = run_program(program, explanation, {.fuse = false}).value(),
                    one = run_program(program, explanation, {}).value();
  EXPECT_FALSE(unfused.mismatch || one.mismatch);
  EXPECT_EQ(unfused.result_names.size(), 3u);
  EXPECT_EQ(one.result_names, (std::vector<std::vector<std::string>>{{"a", "b", "y"}}));
  EXPECT_EQ(one.memory_bytes, 8000);
  EXPECT_EQ(unfused.memory_bytes, 16000);
}

TEST(Run, RowBlocksMatchReference) {
  const std::string text =
      "x: {0}[N, M, D]  w: {0}[D]\n"
      "m[N, M] = max(x over D)\ne[N, M, D] = exp(x - m)\ns[N, M] = sum(e over D)\ny: {0}[N, M, D] = e / s\n"
      "v[N, M, D] = x * x\nr[N, M] = mean(v over D)\nz: {0}[M, D, N] = x * rsqrt(r + 1) * w + index(N) + size(N)\n"
      "q: f32[N, D] = layernorm(max(x over M) over D) * w\n";
  for (const char* dtype : {"f32", "bf16", "f16"})
    for (const Bindings& dims :
         {Bindings{{"N", 1}, {"M", 1}, {"D", 1}}, Bindings{{"N", 37}, {"M", 5}, {"D", 301}},
          Bindings{{"N", 3}, {"M", 67}, {"D", 101}}, Bindings{{"N", 1}, {"M", 1}, {"D", 2000}}}) {
      const Measurement m = measure_program(fmt::format(fmt::runtime(text), dtype), dims);
      EXPECT_FALSE(m.mismatch) << dtype << ' ' << m.mismatch->to_string();
    }
  EXPECT_EQ(
      measure_program(fmt::format(fmt::runtime(text), "f32"), {{"N", 37}, {"M", 5}, {"D", 301}}).result_names.size(),
      2u);
}

// Each statement reads the one before it twice: without a cache the reference would take 2^40 steps.
TEST(Run, ChecksALongChainInReasonableTime) {
  std::string text = "x: f32[N]\na0[N] = cos(x)\n";
  for (int i = 1; i <= 40; ++i) text += fmt::format("a{}[N] = cos(a{} + a{}) * 0.5\n", i, i - 1, i > 1 ? i - 2 : 0);
  const Measurement m = measure_program(text + "y: f32[N] = a40", {{"N", 100}});
  EXPECT_FALSE(m.mismatch) << m.mismatch->to_string();
  EXPECT_EQ(m.result_names.size(), 1u);
}

TEST(Run, RejectsShardedProgramsAndLargeIndices) {
  const auto refusal = [](const std::string& text, const Bindings& dims) {
    const auto program = parse(text).value();
    const auto explanation = explain(program, *find_machine("h100"), dims);
    EXPECT_TRUE(explanation.ok()) << explanation.error().to_string();
    return run_program(program, *explanation, {}).error().to_string();
  };
  EXPECT_EQ(refusal("bf16[B, D_X] * bf16[D_X, F] -> bf16[B, F]", {{"B", 4}, {"D", 8}, {"F", 4}, {"X", 2}}),
            "cannot run a program that is sharded over the mesh axis X: it runs on one device\n"
            "  hint: `ridge explain` counts what each device does\n");
  EXPECT_EQ(refusal("x: f32[N]\ny[N] = x * index(N) + 1", {{"N", 1 << 25}}),
            "cannot run 'y[N] = x * index(N) + 1': expected an index below 2^24, found index(N) with N = 33554432\n"
            "  hint: -d N=16777216\n");
}

TEST(Run, EveryFunctionMatchesReference) {
  const Measurement m = measure_program(
      "x: f32[N, F]  b: f32[F]\n"
      "p: f32[N, F] = where(x < b, exp(x), log(abs(b) + 1)) + cos(x) * sin(b)\n"
      "q: f32[N, F] = gelu(p) - gelu_tanh(x) / (1 + silu(b) * silu(b)) + relu(x) * sigmoid(b)\n"
      "r: bf16[N, F] = tanh(q) + sqrt(abs(x)) * rsqrt(abs(b) + 1) - max(x, b) + min(p, -q) + repeat(7, cos, x)\n",
      {{"N", 13}, {"F", 1001}});
  EXPECT_FALSE(m.mismatch) << m.mismatch->to_string();
  EXPECT_EQ(m.total.elements, 3 * 13 * 1001);
  EXPECT_EQ(m.ops.size(), 1u);
  EXPECT_GE(m.ops[0].checked, 10'000);
}

// A row kernel that stores an intermediate may continue with the rounded or the unrounded value.
TEST(Run, AllowsStoredIntermediatesToBeRounded) {
  const Measurement m = measure_program(
      "x: bf16[B, D]  o: bf16[B, D]  g: bf16[D]  w: bf16[D, F]\n"
      "y: bf16[B, D] = x + o\nn: bf16[B, D] = rmsnorm(y over D) * g\nq: bf16[B, F] = y * w\n",
      {{"B", 16}, {"D", 1024}, {"F", 64}});
  EXPECT_FALSE(m.mismatch) << m.mismatch->to_string();
}

}  // namespace
}  // namespace ridge
