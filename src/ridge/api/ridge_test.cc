// Tests the API of ridge.h: numbers, thresholds and the same output as the command line.
#include "ridge/ridge.h"

#include <gtest/gtest.h>

#include "ridge/api/facade.h"

namespace ridge {
namespace {

constexpr const char* layer = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";

TEST(Explain, SummarizesAnOperation) {
  const auto summary = explain(Request{.program = layer, .on = "h200", .dims = {{"B", 256}, {"D", 8192}, {"F", 8192}}});
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  ASSERT_EQ(summary->ops.size(), 1u);
  const OpSummary& op = summary->ops[0];
  EXPECT_EQ(op.flops, 2LL * 256 * 8192 * 8192);
  EXPECT_EQ(op.bytes, 2LL * (2 * 256 * 8192 + 8192 * 8192));
  EXPECT_EQ(op.flops_formula, "2*B*D*F");
  EXPECT_EQ(op.bytes_formula, "2*B*D + 2*B*F + 2*D*F");
  EXPECT_EQ(op.limiter, Limiter::compute);
  EXPECT_EQ(op.lower_s, op.math_s);
  EXPECT_DOUBLE_EQ(*op.upper_s, *op.math_s + *op.memory_s);
  EXPECT_EQ(op.thresholds[0].dim, "B");
  EXPECT_EQ(op.thresholds[0].value, 218);
  EXPECT_EQ(summary->machine.name, "h200");
  EXPECT_EQ(summary->total.flops, op.flops);
}

TEST(Explain, RendersWhatTheCommandLinePrints) {
  const Request request{.program = layer, .on = "tpu_v5e", .split = DimensionSplit{"D", 2}, .link = ByteRate{4.5e10}};
  const auto summary = explain(request);
  const auto report = api::explain(request);
  ASSERT_TRUE(summary.ok() && report.ok());
  EXPECT_EQ(render_text(*summary), render_text(*report));
  EXPECT_EQ(render_json(*summary), render_json(*report));
  EXPECT_EQ(render_svg(*summary), render_svg(*report));
  const Summary copy = *summary;  // Shares the report
  EXPECT_EQ(render_json(copy), render_json(*report));
}

TEST(Explain, NamesTheKernelsOfAPlan) {
  Request request{.program = layer, .on = "h200", .dims = {{"B", 4096}, {"D", 8192}, {"F", 8192}}};
  request.planned = KernelChoice::ridge;
  const auto summary = explain(request);
  ASSERT_TRUE(summary.ok());
  ASSERT_EQ(summary->planned.size(), 1u);
  EXPECT_EQ(summary->planned[0].kernel.substr(0, 5), "sm90_");
  EXPECT_GT(summary->planned[0].expected_s, *summary->ops[0].lower_s);
  EXPECT_EQ(summary->planned[0].results, std::vector{summary->ops[0].name});
}

TEST(Explain, AcceptsAMachineOutsideTheCatalog) {
  Machine half = *find_machine("h200");
  half.name = "half";
  half.memory.front().bandwidth->value /= 2;
  const auto whole = explain(Request{.program = layer, .on = "h200", .dims = {{"B", 1}, {"D", 64}, {"F", 64}}});
  const auto slow = explain(Request{.program = layer, .on = half, .dims = {{"B", 1}, {"D", 64}, {"F", 64}}});
  ASSERT_TRUE(whole.ok() && slow.ok());
  EXPECT_DOUBLE_EQ(*slow->ops[0].memory_s, 2 * *whole->ops[0].memory_s);
}

TEST(Explain, AcceptsBareWorkAndRows) {
  const auto bare = explain(BareWork{Flops{1e12}, Bytes{1e9}, "h100"});
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->total.limiter, Limiter::compute);
  EXPECT_EQ(explain(BareWork{Flops{0}, Bytes{1e9}, "h100"}).error().message,
            "expected --flops and --bytes above 0 and below 1e38");
  const Request request{.program = layer, .on = "h200", .dims = {{"B", 7}, {"D", 8192}, {"F", 8192}}};
  const auto rows = explain_each(request, {{{"B", 1}}, {{"B", 1024}}});
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].ops[0].limiter, Limiter::memory);
  EXPECT_EQ((*rows)[1].ops[0].limiter, Limiter::compute);
}

TEST(Explain, ReportsErrors) {
  EXPECT_EQ(explain(Request{}).error().message, "expected a PROGRAM, found none");
  EXPECT_EQ(explain(Request{.program = layer, .on = "h200", .link = "ici"}).error().message,
            "expected a rate in B/s, one way, or a link of h200 after --link, found 'ici'");
}

TEST(Run, MeasuresEachKernelOnThisCpu) {
  const Request request{.program = "f32[M, K] * f32[K, N] -> f32[M, N]", .dims = {{"M", 32}, {"K", 16}, {"N", 24}}};
  const auto summary = run(request, {.seed = 1, .threads = 1});
  ASSERT_TRUE(summary.ok()) << summary.error().to_string();
  ASSERT_EQ(summary->ops.size(), 1u);
  ASSERT_TRUE(summary->ops[0].measured && summary->total.measured);
  EXPECT_GT(summary->ops[0].measured->median_s, 0);
  EXPECT_GE(summary->ops[0].measured->runs, 5);
  EXPECT_LT(summary->ops[0].measured->max_rel_error, 1e-5);
  EXPECT_EQ(summary->mismatch, std::nullopt);
  EXPECT_EQ(run(Request{.program = layer, .on = "h200"}).error().message,
            "run uses this computer; expected --on cpu, --on cuda or this CPU's machine file, found 'h200'");
}

TEST(Sweep, CoversMachinesDtypesAndSplits) {
  const SweepRequest request{.program = "A[B, D] * W[D, F] -> C[B, F]",
                             .on = {"h100", "h200"},
                             .dtypes = {DType::bf16, DType::int8},
                             .ranges = {{"D", {8192}}, {"F", {8192}}, {"B", {1, 1024}}}};
  const auto swept = sweep(request);
  ASSERT_TRUE(swept.ok()) << swept.error().to_string();
  ASSERT_EQ(swept->lines.size(), 4u);
  EXPECT_EQ(swept->lines[3].machine, "h200");
  EXPECT_EQ(swept->lines[3].dtype, "int8");
  EXPECT_EQ(swept->lines[0].points[0].limiter, Limiter::memory);
  EXPECT_TRUE(swept->lines[0].points[1].limiter_changed);
}

TEST(Machines, ReturnsOneOrAll) {
  EXPECT_EQ(machines({"h200"})->machines.size(), 1u);
  EXPECT_GE(machines()->machines.size(), catalog_names().size());
  EXPECT_EQ(machine_of("h2000").error().kind, ErrorKind::absent);
  EXPECT_EQ(MachineChoice().where(), RunTarget::cpu);
  EXPECT_EQ(MachineChoice("cuda").where(), RunTarget::cuda);
  EXPECT_EQ(MachineChoice("h200").where(), RunTarget::prediction_only);
}

}  // namespace
}  // namespace ridge
