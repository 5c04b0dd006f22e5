// Tests the fit of served times: constants that made the points are found again, and points that cannot be right are
// named.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ridge/plan/model/fit_serving.h"
#include "ridge/plan/model/machine.h"

namespace ridge {
namespace {

// Returns a file of points that an engine with these constants would have, each time multiplied by a factor in turn.
std::string make_points(const ServingConstants& constants, const std::vector<double>& factors) {
  std::string out = std::string(serving_point_columns) + "\n";
  std::size_t count = 0;
  for (const std::int64_t chips : {1, 2})
    for (const auto& [prompt, output] : {std::pair<std::int64_t, std::int64_t>{256, 128}, {1024, 64}, {2048, 512}})
      for (const std::int64_t requests : {1, 8, 32, 64}) {
        ModelRequest request{.counts = {.context = prompt, .batch = requests},
                             .tensor_parallel = chips,
                             .serving = ServingRequest{.output_tokens = output, .constants = constants}};
        const auto times = predict_served_model(*model::find_config("llama_3_8b"), request, *find_machine("h100"));
        const double factor = factors[count++ % factors.size()];
        out += fmt::format("llama_3_8b,h100,vllm,{},bf16,bf16,{},{},{},{},{}\n", chips, requests, prompt, output,
                           1e3 * factor * times->first_token_s.expected, 1e3 * factor * times->token_s.expected);
      }
  return out;
}

ServingConstants make_slow_constants() {
  ServingConstants out = serving_constants();
  out.layer_s *= 3;
  out.sequence_s *= 2;
  out.prefill_factor *= 1.5;
  return out;
}

TEST(MeasuredServing, FindsTheConstantsThatMadeThePoints) {
  const ServingConstants truth = make_slow_constants();
  const auto fit = fit_serving_file(make_points(truth, {1}), "points.csv");
  ASSERT_TRUE(fit) << fit.error().to_string();
  EXPECT_EQ(fit->points, 24u);
  EXPECT_EQ(fit->configurations, 6u);
  EXPECT_TRUE(fit->impossible.empty());
  EXPECT_NEAR(fit->constants.layer_s / truth.layer_s, 1, 0.05);
  EXPECT_NEAR(fit->constants.sequence_s / truth.sequence_s, 1, 0.1);
  EXPECT_NEAR(fit->constants.prefill_factor / truth.prefill_factor, 1, 0.1);
  EXPECT_EQ(fit->constants.expert_layer_s, serving_constants().expert_layer_s) << "no point depends on it";
  EXPECT_GT(fit->built_in.token_median, 0.2);
  EXPECT_LT(fit->cross_validation->token_median, 0.02);
  EXPECT_LT(fit->cross_validation->first_token_median, 0.02);
}

TEST(MeasuredServing, IntervalsEncloseTheSpreadOfThePoints) {
  const auto fit = fit_serving_file(make_points(make_slow_constants(), {0.8, 1, 1.3}), "points.csv");
  ASSERT_TRUE(fit) << fit.error().to_string();
  EXPECT_FALSE(fit->has_wide_intervals);
  EXPECT_NEAR(fit->constants.token_low, 0.8, 0.05);
  EXPECT_NEAR(fit->constants.token_high, 1.3, 0.05);
}

TEST(MeasuredServing, WritesAFileThatIsReadAgain) {
  const auto fit = fit_serving_file(make_points(make_slow_constants(), {1}), "points.csv");
  const std::string csv = format_serving_constants(*fit, "2026-11-30");
  EXPECT_TRUE(
      csv.starts_with("# Constants of served times, for `ridge model --serve --serving`.\n"
                      "# tool: ridge calibrate --serving\n# day: 2026-11-30\n# timings: 24 points of points.csv\n"
                      "number,unit,value,origin,meaning\nlayer,s,"))
      << csv;
  const auto read = parse_serving_constants(csv, "serving.csv");
  ASSERT_TRUE(read) << read.error().to_string();
  for (const auto& each : named_serving_constants())
    EXPECT_NEAR((*read).*each.member / (fit->constants.*each.member), 1, 0.005) << each.name << ", of three digits";
}

std::string with_line(const std::string& line) { return std::string(serving_point_columns) + "\n" + line + "\n"; }

// A token of llama_3_8b reads 15.01 GB of weights (of the embedding one row), which takes 4.480 ms at 3.35 TB/s. Each
// of 32 attentions takes a launch, 1.3 us: 0.042 ms.
TEST(MeasuredServing, NamesPointsBelowTheirBound) {
  const std::string good = make_points(serving_constants(), {1});
  const auto fit = fit_serving_file(good +
                                        "llama_3_8b,h100,vllm,1,bf16,bf16,1,256,64,30,4\n"
                                        "llama_3_8b,h100,vllm,1,bf16,bf16,1,8192,64,30,9\n",
                                    "points.csv");
  ASSERT_TRUE(fit) << fit.error().to_string();
  ASSERT_EQ(fit->impossible.size(), 2u);
  EXPECT_EQ(fit->impossible[0].line, 26);
  EXPECT_EQ(fit->impossible[0].reason, "4 ms per token are below the bound of 4.524 ms");
  EXPECT_EQ(fit->impossible[1].line, 27);
  EXPECT_TRUE(fit->impossible[1].reason.starts_with("30 ms to the first token are below the bound of "));
  const auto none = fit_serving_file(with_line("llama_3_8b,h100,vllm,1,bf16,bf16,1,256,64,30,4"), "points.csv");
  EXPECT_EQ(none.error().message,
            "'points.csv' has no point that can be fitted: line 2: 4 ms per token are below the bound of 4.524 ms");
}

TEST(MeasuredServing, RefusesCellsWithTheirPlace) {
  const auto error_of = [](const std::string& line) {
    return fit_serving_file(with_line(line), "points.csv").error().to_string();
  };
  EXPECT_EQ(fit_serving_file("a,b\n", "points.csv").error().message,
            fmt::format("expected the columns {}, found a,b", serving_point_columns));
  EXPECT_NE(error_of("llama_3_8b,h100,tgi,1,bf16,bf16,1,256,64,30,9")
                .find("points.csv:2:17: expected vllm, sglang or trtllm, found 'tgi'"),
            std::string::npos)
      << error_of("llama_3_8b,h100,tgi,1,bf16,bf16,1,256,64,30,9");
  EXPECT_NE(error_of("llama_3_8b,h100,vllm,1,bf16,bf16,1,256,64,30,-9").find("expected a number above 0, found -9"),
            std::string::npos);
  EXPECT_NE(error_of("llama_3_8b,h100,vllm,1.5,bf16,bf16,1,256,64,30,9").find("expected a whole number, found 1.5"),
            std::string::npos);
  EXPECT_NE(
      error_of("llama_3_8b,h100,vllm,1,bf17,bf16,1,256,64,30,9").find("expected a dtype such as bf16, found 'bf17'"),
      std::string::npos);
  EXPECT_NE(error_of("llama_3_8b,h100,vllm,3,bf16,bf16,1,256,64,30,9").find("expected --tp that divides the 32 heads"),
            std::string::npos);
  EXPECT_EQ(fit_serving_file(with_line(""), "points.csv").error().message,
            "'points.csv' has no point that can be fitted: no line after the names of the columns");
}

}  // namespace
}  // namespace ridge
