#include "ridge/profiler/trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "ridge/profiler/operator_work.h"
#include "ridge/profiler/summary.h"

namespace ridge::profiler {
namespace {

Result<Trace> read_text(const std::string& text) {
  std::istringstream input(text);
  return read_trace(input);
}

std::string event(const std::string& category, const std::string& name, double start, double duration, int thread,
                  const std::string& args = "") {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 1, "tid": {}, "ts": {}, "dur": {}, "args": {{{}}}}})", category,
      name, thread, start, duration, args);
}
std::string op(const std::string& name, double start, double duration, const std::string& shapes,
               const std::string& types, const std::string& concrete = "") {
  std::string args = fmt::format(R"("Input Dims": {}, "Input type": {})", shapes, types);
  if (!concrete.empty()) args += fmt::format(R"(, "Concrete Inputs": {})", concrete);
  return event("cpu_op", name, start, duration, 1, args);
}
std::string launch(double start, int correlation) {
  return event("cuda_runtime", "cudaLaunchKernel", start, 1, 1, fmt::format(R"("correlation": {})", correlation));
}
std::string kernel(const std::string& name, double start, double duration, int correlation, int device = 0) {
  return event("kernel", name, start, duration, 7,
               fmt::format(R"("correlation": {}, "device": {}, "stream": 7)", correlation, device));
}
std::string trace_of(const std::vector<std::string>& events) {
  std::string out;
  for (const std::string& each : events) out += (out.empty() ? "" : ",\n") + each;
  return "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0}], \"traceEvents\": [" + out + "]}";
}

// A machine with 100 TFLOP/s in bf16, 10 TFLOP/s in f32 on the vector unit, 1 TB/s.
Machine test_machine() {
  Machine machine;
  machine.name = "test";
  machine.peaks = {{ComputeUnit::matrix, DType::bf16, {1e14, "", ""}},
                   {ComputeUnit::vector, DType::f32, {1e13, "", ""}}};
  machine.memory = {{"hbm", SourcedValue{1e12, "", ""}, std::nullopt}};
  return machine;
}

TraceSummary summarize(const std::vector<std::string>& events) {
  const auto trace = read_text(trace_of(events));
  EXPECT_TRUE(trace.ok()) << (trace ? "" : trace.error().message);
  const auto summary = summarize_trace(*trace, test_machine());
  EXPECT_TRUE(summary.ok());
  return *summary;
}

const std::string bf16_pair = R"(["c10::BFloat16", "c10::BFloat16"])";

TEST(TraceSummaries, GiveAKernelToTheInnermostOperatorWithABound) {
  const TraceSummary s = summarize({op("aten::linear", 0, 20, "[[1000, 1000], [1000, 1000]]", bf16_pair),
                                    op("aten::mm", 2, 10, "[[1000, 1000], [1000, 1000]]", bf16_pair),
                                    op("mylib::inner", 3, 5, "[]", "[]"), launch(4, 5), kernel("gemm", 100, 50, 5)});
  ASSERT_EQ(s.rows.size(), 1u);
  EXPECT_EQ(s.rows[0].name, "mm 1000x1000 * 1000x1000");
  EXPECT_EQ(s.rows[0].kernel, "gemm");
  EXPECT_DOUBLE_EQ(s.rows[0].measured_s, 50e-6);
  EXPECT_DOUBLE_EQ(*s.rows[0].bound_s, 20e-6);  // 2e9 FLOP at 1e14 FLOP/s; 6 MB at 1e12 B/s take 6 us
  EXPECT_EQ(s.rows[0].limiter, Limiter::compute);
  EXPECT_EQ(static_cast<std::int64_t>(*s.rows[0].bytes), 6'000'000);
}

TEST(TraceSummaries, RankByLostTimeAndMeasureIdleTime) {
  const TraceSummary s =
      summarize({op("aten::add", 0, 2, "[[1000000], [1000000]]", bf16_pair), launch(1, 1), kernel("add", 100, 10, 1),
                 op("aten::add", 3, 2, "[[1000000], [1000000]]", bf16_pair), launch(4, 2), kernel("add", 105, 10, 2),
                 op("mylib::pack", 6, 2, "[[8]]", R"(["float"])"), launch(7, 3), kernel("pack", 135, 5, 3),
                 kernel("orphan", 140, 1, 99)});
  ASSERT_EQ(s.rows.size(), 3u);
  EXPECT_EQ(s.rows[0].name, "add 1000000");  // 20 us, 2 x 6 us bound
  EXPECT_EQ(s.rows[0].calls, 2);
  EXPECT_DOUBLE_EQ(*s.rows[0].bound_s, 12e-6);
  EXPECT_EQ(s.rows[1].name, "mylib::pack 8");
  EXPECT_FALSE(s.rows[1].bound_s.has_value());
  EXPECT_EQ(s.rows[2].name, "orphan");
  EXPECT_NEAR(s.busy_s, 21e-6, 1e-12);  // From 100 to 115 and from 135 to 141
  EXPECT_NEAR(s.span_s, 41e-6, 1e-12);
  EXPECT_NEAR(s.known_s, 20e-6, 1e-12);
}

TEST(TraceSummaries, AddDevices) {
  const TraceSummary s = summarize({kernel("a", 0, 10, -1, 0), kernel("a", 5, 10, -1, 1), kernel("a", 25, 5, -1, 1)});
  EXPECT_EQ(s.devices, 2);
  EXPECT_NEAR(s.span_s, 35e-6, 1e-12);
  EXPECT_NEAR(s.busy_s, 25e-6, 1e-12);
}

TEST(TraceSummaries, UseSelfTimesOfTheHostWithoutKernels) {
  const TraceSummary s =
      summarize({op("aten::linear", 0, 30, "[[100, 200], [300, 200]]", bf16_pair),
                 op("aten::mm", 5, 20, "[[100, 200], [200, 300]]", bf16_pair), op("aten::empty", 6, 4, "[]", "[]")});
  EXPECT_FALSE(s.is_of_device);
  ASSERT_EQ(s.rows.size(), 2u);
  EXPECT_EQ(s.rows[0].name, "mm 100x200 * 200x300");  // With what it calls
  EXPECT_NEAR(s.rows[0].measured_s, 20e-6, 1e-12);
  EXPECT_NEAR(s.rows[1].measured_s, 10e-6, 1e-12);
  EXPECT_FALSE(s.rows[1].bound_s.has_value());  // Its bound is that of mm
}

OperatorWork work_of(const std::string& name, const std::string& shapes, const std::string& types,
                     const std::string& concrete = "") {
  const auto work = find_operator_work({name, shapes, types, concrete});
  EXPECT_TRUE(work.has_value()) << name;
  return work.value_or(OperatorWork());
}

TEST(OperatorsOfTraces, HaveTheWorkOfTheirShapes) {
  const std::string f32 = R"(["float","float","float"])";
  const OperatorWork addmm = work_of("aten::addmm", "[[7],[3,5],[5,7]]", f32);
  EXPECT_EQ(static_cast<std::int64_t>(addmm.flops), 2 * 3 * 5 * 7);
  EXPECT_EQ(static_cast<std::int64_t>(addmm.bytes_in), 4 * (7 + 15 + 35));
  const OperatorWork bmm = work_of("aten::bmm", "[[2,3,5],[2,5,7]]", R"(["double","double"])");
  EXPECT_EQ(static_cast<std::int64_t>(bmm.flops), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(bmm.math, DType::f64);
  const OperatorWork linear = work_of("aten::linear", "[[2,3,5],[7,5],[7]]", f32);
  EXPECT_EQ(static_cast<std::int64_t>(linear.flops), 2 * 2 * 3 * 5 * 7);
  EXPECT_EQ(static_cast<std::int64_t>(linear.bytes_in), 4 * (30 + 35 + 7));
  // 4 x 4 windows of 3 x 3 on 8 x 8 with stride 2 and padding 1: 11 of 12 rows and columns are inside.
  const OperatorWork conv =
      work_of("aten::convolution", "[[1,4,8,8],[6,4,3,3],[],[],[],[],[],[],[]]",
              R"(["float","float","","ScalarList","ScalarList","ScalarList","Scalar","ScalarList","Scalar"])",
              R"(["","","","[2, 2]","[1, 1]","[1, 1]","False","[0, 0]","1"])");
  EXPECT_EQ(static_cast<std::int64_t>(conv.flops), 2 * 6 * 4 * 11 * 11);
  EXPECT_EQ(static_cast<std::int64_t>(conv.bytes_out), 4 * 6 * 16);
  const OperatorWork attention =
      work_of("aten::scaled_dot_product_attention", "[[2,3,16,8],[2,3,16,8],[2,3,16,8],[],[],[]]",
              R"(["c10::Half","c10::Half","c10::Half","","Scalar","Scalar"])", R"(["","","","","0.","True"])");
  EXPECT_EQ(static_cast<std::int64_t>(attention.flops), 2 * 2 * 3 * (16 * 17 / 2) * 16);
  // Other arguments that are True do not halve it.
  const OperatorWork full =
      work_of("aten::_scaled_dot_product_efficient_attention", "[[2,3,16,8],[2,3,16,8],[2,3,16,8],[],[],[],[],[]]",
              R"(["c10::Half","c10::Half","c10::Half","","Scalar","Scalar","Scalar","Scalar"])",
              R"(["","","","","True","0.","False",""])");
  EXPECT_EQ(static_cast<std::int64_t>(full.flops), 2 * 2 * 3 * 16 * 16 * 16);
  const OperatorWork embedding = work_of("aten::embedding", "[[1000,64],[2,3]]", R"(["float","long int"])");
  EXPECT_EQ(static_cast<std::int64_t>(embedding.bytes_in + embedding.bytes_out), 2 * 6 * 64 * 4 + 6 * 8);
  const OperatorWork copy = work_of("aten::copy_", "[[10,10],[10,10],[]]", R"(["c10::BFloat16","float",""])");
  EXPECT_EQ(static_cast<std::int64_t>(copy.bytes_in), 400);
  EXPECT_EQ(static_cast<std::int64_t>(copy.bytes_out), 200);
}

TEST(OperatorsOfTraces, CountProductsOfBroadcastStacks) {
  const std::string pair = R"(["float","float"])";
  const OperatorWork both = work_of("aten::matmul", "[[2,1,3,5],[4,5,7]]", pair);
  EXPECT_EQ(static_cast<std::int64_t>(both.flops), 2 * 2 * 4 * 3 * 5 * 7);
  EXPECT_EQ(static_cast<std::int64_t>(both.bytes_in), 4 * (2 * 3 * 5 + 4 * 5 * 7));
  EXPECT_EQ(static_cast<std::int64_t>(both.bytes_out), 4 * 2 * 4 * 3 * 7);
  const OperatorWork vector = work_of("aten::matmul", "[[5],[4,5,7]]", pair);
  EXPECT_EQ(static_cast<std::int64_t>(vector.flops), 2 * 4 * 5 * 7);
  const OperatorWork columns = work_of("aten::matmul", "[[4,3,5],[5]]", pair);
  EXPECT_EQ(static_cast<std::int64_t>(columns.bytes_out), 4 * 4 * 3);
  EXPECT_FALSE(find_operator_work({"aten::matmul", "[[2,3,5],[4,5,7]]", pair, ""}));
  const OperatorWork sum = work_of("aten::addbmm", "[[3,7],[4,3,5],[4,5,7]]", R"(["float","float","float"])");
  EXPECT_EQ(static_cast<std::int64_t>(sum.flops), 2 * 4 * 3 * 5 * 7);
  EXPECT_EQ(static_cast<std::int64_t>(sum.bytes_out), 4 * 3 * 7);
  const OperatorWork bytes = work_of("aten::_int_mm", "[[32,16],[16,8]]", R"(["signed char","signed char"])");
  EXPECT_EQ(static_cast<std::int64_t>(bytes.bytes_in), 32 * 16 + 16 * 8);
  EXPECT_EQ(static_cast<std::int64_t>(bytes.bytes_out), 4 * 32 * 8);
}

TEST(OperatorsOfTraces, WriteTheTypeOfTheirResults) {
  const std::string pair = R"(["float","float"])";
  const auto bytes_out = [&](const std::string& name, const std::string& shapes, const std::string& types) {
    return static_cast<std::int64_t>(work_of(name, shapes, types).bytes_out);
  };
  EXPECT_EQ(bytes_out("aten::eq", "[[10,1],[20]]", pair), 200);
  EXPECT_EQ(bytes_out("aten::isnan", "[[10]]", R"(["float"])"), 10);
  EXPECT_EQ(bytes_out("aten::eq_", "[[10],[10]]", pair), 40);
  EXPECT_EQ(bytes_out("aten::where", "[[10],[10],[10]]", R"(["bool","float","float"])"), 40);
  EXPECT_EQ(bytes_out("aten::mul", "[[],[10]]", R"(["double","float"])"), 40);
  EXPECT_EQ(bytes_out("aten::mul", "[[],[]]", R"(["double","double"])"), 8);
}

// As PyTorch 2.11 writes it on an H200.
TEST(OperatorsOfTraces, CountTheGradientsOfLayerNorm) {
  const OperatorWork x = work_of(
      "aten::native_layer_norm_backward", "[[2,64,32],[2,64,32],[],[2,64,1],[2,64,1],[32],[32],[]]",
      R"(["c10::BFloat16","c10::BFloat16","ScalarList","float","float","c10::BFloat16","c10::BFloat16","ScalarList"])");
  EXPECT_EQ(static_cast<std::int64_t>(x.flops), 13 * 2 * 64 * 32);
  EXPECT_EQ(static_cast<std::int64_t>(x.bytes_in), 2 * 2 * 64 * 32 * 2 + 2 * 2 * 64 * 4 + 2 * 32 * 2);
  EXPECT_EQ(static_cast<std::int64_t>(x.bytes_out), 2 * 64 * 32 * 2 + 2 * 32 * 2);
}

TEST(OperatorsOfTraces, CountTheExponentialsOfSoftmax) {
  const std::string pair = R"(["float","float"])";
  const OperatorWork forward = work_of("aten::_softmax", "[[10,10]]", R"(["float"])");
  ASSERT_EQ(forward.costly.size(), 1u);
  const OperatorWork backward = work_of("aten::_softmax_backward_data", "[[10,10],[10,10]]", pair);
  EXPECT_EQ(static_cast<std::int64_t>(backward.flops), 400);
  EXPECT_TRUE(backward.costly.empty());
  const OperatorWork of_logarithm = work_of("aten::_log_softmax_backward_data", "[[10,10],[10,10]]", pair);
  EXPECT_EQ(static_cast<std::int64_t>(of_logarithm.flops), 400);
  ASSERT_EQ(of_logarithm.costly.size(), 1u);
  EXPECT_EQ(static_cast<std::int64_t>(of_logarithm.costly[0].count), 100);
}

TEST(OperatorsOfTraces, WithoutFittingShapesHaveNoBound) {
  EXPECT_FALSE(find_operator_work({"aten::mm", "", "", ""}));
  EXPECT_FALSE(find_operator_work({"aten::mm", "[[3,5],[6,7]]", bf16_pair, ""}));
  EXPECT_FALSE(find_operator_work({"aten::mm", "[[3,5],[5,7]]", R"(["long int","long int"])", ""}));
  EXPECT_FALSE(find_operator_work({"aten::add", "[[9223372036854775807]]", R"(["float"])", ""}));
  EXPECT_FALSE(find_operator_work({"aten::unknown", "[[3,5]]", R"(["float"])", ""}));
}

TEST(Traces, RejectOtherFilesWithSentences) {
  EXPECT_EQ(read_text("{\"traceEvents\": [").error().message, "expected JSON, found something else at byte 18");
  EXPECT_EQ(read_text("\x1f\x8b").error().message, "expected JSON, found gzip");
  EXPECT_EQ(read_text("\x1f\x8b").error().hint, "zcat trace.json.gz | ridge trace - --on h200");
  EXPECT_EQ(
      read_text("[]").error().message,
      "expected complete events (\"ph\": \"X\") of the categories cpu_op or kernel in \"traceEvents\", found none");
  EXPECT_EQ(read_text(std::string(1000, '[')).error().message, "expected JSON nested at most 64 levels, found more");
}

TEST(Traces, RejectTimesThatAreNone) {
  const auto message_of = [](const std::string& times, const std::string& phase = "X") {
    const auto trace = read_text("[" + kernel("a", 0, 10, 1) + R"(, {"ph": ")" + phase + "\", " + times + "}]");
    return trace ? std::string() : trace.error().message;
  };
  const std::string hint = " of event 2 as a number from -1e16 to 1e16 (microseconds), found ";
  EXPECT_EQ(message_of(R"("ts": 0, "dur": "abc")"), "expected \"dur\"" + hint + "\"abc\"");
  EXPECT_EQ(message_of(R"("ts": 2e16, "dur": 1)"), "expected \"ts\"" + hint + "2e+16");
  EXPECT_EQ(message_of(R"("ts": -20000000000000001, "dur": 1)"), "expected \"ts\"" + hint + "-2e+16");
  EXPECT_EQ(message_of(R"("ts": 0, "dur": 1e999)"), "expected \"dur\"" + hint + "1e999");
  EXPECT_EQ(message_of(R"("ts": 0, "dur": null)"), "expected \"dur\"" + hint + "null");
  EXPECT_EQ(message_of(R"("ts": true, "dur": 1)"), "expected \"ts\"" + hint + "true");
  EXPECT_EQ(message_of(R"("ts": [1], "dur": 1)"), "expected \"ts\"" + hint + "an array");
  EXPECT_EQ(message_of(R"("ts": {"dur": "abc"}, "dur": 1)"), "expected \"ts\"" + hint + "an object");
  EXPECT_EQ(message_of(R"("ts": NaN, "dur": 1)"), "expected \"ts\"" + hint + "N");  // The byte that ends the JSON
  EXPECT_EQ(message_of(R"("ts": 1621401187223005, "dur": 1)"), "");  // From 1970, as older traces have it
  EXPECT_EQ(message_of(R"("ts": "abc")", "M"), "");                  // Only complete events are read
  EXPECT_EQ(message_of(R"("args": {"ts": "abc", "dur": null})"), "");
}

TEST(Traces, MayBeAnArrayOfEvents) {
  const auto trace = read_text("[" + kernel("a", 0, 10, 1) + "]");
  ASSERT_TRUE(trace.ok());
  EXPECT_EQ(trace->device_activities.size(), 1u);
}

}  // namespace
}  // namespace ridge::profiler
