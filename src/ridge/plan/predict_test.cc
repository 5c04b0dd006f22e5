#include "ridge/plan/predict.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ridge/ops/product/config.h"
#include "ridge/plan/form_estimate.h"
#include "ridge/plan/kernel_list.h"
#include "ridge/plan/library_model.h"

namespace ridge {
namespace {

Result<std::vector<GroupPrediction>> plans(const std::string& text, const Bindings& given,
                                           KernelLibrary library = KernelLibrary::ridge,
                                           const std::string& on = "h200") {
  const auto program = parse(text);
  RIDGE_TRY(explanation, explain(*program, *find_machine(on), given));
  RIDGE_TRY(planned, predict_program(*program, explanation, {library}));
  return planned.kernels;
}
constexpr const char* product = "bf16[B, D] * bf16[D, F] -> bf16[B, F]";
const Bindings large{{"B", 8192}, {"D", 8192}, {"F", 8192}};

TEST(Predict, ListsTheKernelAndItsCandidates) {
  const auto found = plans(product, large);
  ASSERT_TRUE(found.ok());
  const GroupPrediction& op = found->at(0);
  EXPECT_EQ(op.plan.kernel.substr(0, 5), "sm90_");
  EXPECT_EQ(op.plan.split, 1);
  EXPECT_EQ(op.plan.split_description.name, "");
  const std::int64_t tiles =
      (8192 + *op.plan.tile_m - 1) / *op.plan.tile_m * ((8192 + *op.plan.tile_n - 1) / *op.plan.tile_n);
  EXPECT_EQ(op.plan.waves, (tiles + 131) / 132);
  ASSERT_EQ(op.candidates.size(), 4u);
  for (const Candidate& candidate : op.candidates) {
    EXPECT_NE(candidate.plan.kernel, op.plan.kernel);
    EXPECT_FALSE(candidate.why.empty());
  }
  EXPECT_TRUE(std::is_sorted(op.candidates.begin(), op.candidates.end(),
                             [](const Candidate& x, const Candidate& y) { return x.predicted_s < y.predicted_s; }));
}

TEST(Predict, NoCandidateIsFaster) {
  int same_config = 0;
  for (const auto& [rows, columns, depth] : {std::array{1024, 408, 20160}, {224, 18752, 6312}, {128, 2048, 8192}}) {
    const GroupPrediction op =
        plans("bf16[B, D] * bf16[F, D] -> bf16[B, F]", {{"B", rows}, {"F", columns}, {"D", depth}})->at(0);
    for (const Candidate& candidate : op.candidates) {
      EXPECT_GE(candidate.predicted_s, op.predicted_s.expected) << candidate.plan.kernel;
      if (candidate.plan.kernel != op.plan.kernel || candidate.plan.split != op.plan.split) continue;
      ++same_config;
      EXPECT_TRUE(candidate.why == "copies an operand first" || candidate.why == "copies no operand" ||
                  candidate.why == "the splits of k wait for each other" ||
                  candidate.why == "the last split of k adds all partial sums")
          << candidate.why;
    }
  }
  EXPECT_GT(same_config, 0);
}

TEST(Predict, ReportsTheSplitOfK) {
  const GroupPrediction op = plans(product, {{"B", 512}, {"D", 17840}, {"F", 224}})->at(0);
  ASSERT_GT(*op.plan.split, 1);
  EXPECT_TRUE((op.plan.split_description.name == "split_k" &&
               op.plan.split_description.meaning == "the last split of k adds all partial sums") ||
              (op.plan.split_description.name == "cooperative_split_k" &&
               op.plan.split_description.meaning == "the splits of k wait for each other") ||
              (op.plan.split_description.name == "cluster_split_k" &&
               op.plan.split_description.meaning == "the splits of k are the blocks of a cluster"))
      << op.plan.split_description.name;
}

TEST(Predict, ExpectedTimeIsInsideTheInterval) {
  const GroupPrediction op = plans(product, large)->at(0);
  EXPECT_LT(op.predicted_s.low, op.predicted_s.expected);
  EXPECT_LT(op.predicted_s.expected, op.predicted_s.high);
  EXPECT_GT(op.predicted_s.expected, 2.0 * 8192 * 8192 * 8192 / 989e12);
}

TEST(Predict, CountsMemoryBytesAndTileTraffic) {
  const GroupPrediction op = plans(product, {{"B", 4096}, {"D", 4096}, {"F", 4096}})->at(0);
  const std::int64_t least = 3 * 4096 * 4096 * 2;
  EXPECT_GE(op.memory_bytes, least);
  const std::int64_t m = *op.plan.tile_m, n = *op.plan.tile_n, rows = (4096 + m - 1) / m, cols = (4096 + n - 1) / n;
  // Each row of tiles reads all of B, each column of tiles all of A; edge tiles read only valid elements.
  EXPECT_EQ(op.traffic_bytes, std::int64_t{2} * 4096 * 4096 * (rows + cols + 1));
}

TEST(Predict, CublasltHasNoTileOrCandidates) {
  const GroupPrediction op = plans(product, large, KernelLibrary::cublaslt)->at(0);
  EXPECT_EQ(op.plan.kernel, "cublaslt");
  EXPECT_FALSE(op.plan.tile_m.has_value());
  EXPECT_TRUE(op.candidates.empty());
}

TEST(Predict, PlansChainsCopiesAndPlainProducts) {
  const auto found =
      plans("x: f32[B, D]  w: f32[D, F]\nh[B, F] = x * w\ny: f32[B, F] = cos(h)", {{"B", 64}, {"D", 64}, {"F", 64}});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  EXPECT_EQ(found->at(0).plan.kernel, "sm90_registers_128x16x64");
  EXPECT_EQ(found->at(1).plan.kernel, "chain");
  EXPECT_EQ(found->at(1).traffic_bytes, 2 * 64 * 64 * 4);
}

// Operands of the epilogue are read in addition to the product's own traffic, a broadcast row once for each tile.
TEST(Predict, EpilogueOperandsAddTraffic) {
  const std::string inputs = "x: f32[B, D]  w: f32[F, D]  b: f32[F]  r: f32[B, F]\n";
  const Bindings dims{{"B", 4096}, {"D", 1024}, {"F", 2048}};
  const GroupPrediction bare = plans(inputs + "y: f32[B, F] = x * w", dims)->at(0);
  const auto with_epilogue = plans(inputs + "h[B, F] = x * w\ny: f32[B, F] = gelu(h + b) + r", dims);
  ASSERT_TRUE(with_epilogue.ok()) << with_epilogue.error().to_string();
  ASSERT_EQ(with_epilogue->size(), 1u);
  const GroupPrediction& op = with_epilogue->at(0);
  EXPECT_EQ(op.plan.kernel, bare.plan.kernel + " + epilogue");
  EXPECT_EQ(op.memory_bytes, bare.memory_bytes + 4096 * 2048 * 4 + 2048 * 4);
  EXPECT_EQ(op.traffic_bytes, bare.traffic_bytes + 4096 * 2048 * 4 + 4096 / 128 * 2048 * 4);
  EXPECT_GT(op.predicted_s.expected, bare.predicted_s.expected);
  EXPECT_EQ(plans(inputs + "h[B, F] = x * w\ny: f32[B, F] = gelu(h + b) + r", dims, KernelLibrary::cublaslt)->size(),
            2u);
}

TEST(Predict, ChainsOnACpuTakeTheCostsOfItsMachineFile) {
  const auto program = parse("x: f32[N]\ny: f32[N] = repeat(64, cos, x)");
  Machine machine = *find_machine("cpu");
  const auto predicted_at_cost = [&](double cost) {
    machine.numbers["cost_cos"].value = cost;
    return predict_program(*program, *explain(*program, machine, {{"N", 1 << 24}}))->predicted_s.expected;
  };
  EXPECT_NEAR(predicted_at_cost(1000) / predicted_at_cost(100), 10, 0.1);
}

// GPUs other than Hopper have plans with the vendor's library alone.
// A convolution is a plain loop without a prediction; the conversion of an operand takes its time before the product.
TEST(Predict, LoopsOnACpuHaveAnInterval) {
  const auto predict = [](const std::string& text) {
    Bindings dims;
    for (const std::string& dim : parse(text)->dim_names()) dims[dim] = dim == "N" ? 64 : 4096;
    return plans(text, dims, KernelLibrary::ridge, "cpu")->at(0);
  };
  for (const char* text : {"t: bf16[F, D]  i: int32[N]\ny: bf16[N, D] = gather(t, i over F)",
                           "x: f32[N, D]\ny: f32[N, D] = cumsum(x over D)",
                           "x: f32[N, D]  a: f32[N, D]\nh: f32[N, D] = scan(tanh(a * h + x) over D)",
                           "x: f32[N, D]\ni[N, 8] = topk(x over D)", "x: bf16[N, D]\nq[N, D] = quantize(x, mxfp8)",
                           "x: f32[4, N, F]  w: f32[K, N, 3]\ny: f32[4, K, F] = conv(x, w, padding = 1)",
                           "x: f32[4, N, F]  w: f32[N, 1, 3]\ny: f32[4, N, F] = conv(x, w, padding = 1, groups = N)"}) {
    const GroupPrediction op = predict(text);
    EXPECT_TRUE(op.has_model) << text;
    EXPECT_LE(op.predicted_s.low, op.predicted_s.expected) << text;
    EXPECT_LT(op.predicted_s.expected, op.predicted_s.high) << text;
  }
  const GroupPrediction scaled = predict("x: bf16[N, D]  w: mxfp4[F, D]\ny: bf16[N, F] = x * w"),
                        plain = predict("x: bf16[N, D]  w: bf16[F, D]\ny: bf16[N, F] = x * w");
  EXPECT_TRUE(scaled.has_model);
  EXPECT_EQ(scaled.copies, std::vector<std::string>{});
  EXPECT_LT(scaled.traffic_bytes, plain.traffic_bytes - 2 * 4096 * 4096 + 5 * 4096 * 4096 / 8);
  EXPECT_GT(scaled.predicted_s.expected, scaled.predicted_s.low);  // converts the weights
}

// The windows of an input have to be packed, which takes long where few channels use them. The memory is so fast here
// that it does not hide that on any CPU.
TEST(Predict, PackingWindowsOnACpuTakesTime) {
  Machine machine = *find_machine("cpu");
  machine.memory.front().bandwidth->value *= 1000;
  const auto program = parse("x: f32[4, 64, 4096]  w: f32[1, 64, 3]\ny: f32[4, 1, 4096] = conv(x, w, padding = 1)");
  const auto planned = predict_program(*program, *explain(*program, machine, {}));
  ASSERT_TRUE(planned.ok()) << planned.error().to_string();
  EXPECT_GT(planned->predicted_s.expected, 2 * planned->predicted_s.low);
}

TEST(Predict, PlansLibraryKernelsOnOtherGpus) {
  const auto program = parse(product);
  for (const auto& [name, remark] :
       {std::pair{"a100_80", ""},
        {"a100_40",
         "the library is not calibrated on a100_40: its parameters are an H200's, scaled by the peaks, so the "
         "interval is wider"}}) {
    const auto planned =
        predict_program(*program, *explain(*program, *find_machine(name), large), {KernelLibrary::cublaslt});
    ASSERT_TRUE(planned.ok()) << planned.error().to_string();
    EXPECT_EQ(planned->remark, remark);
    EXPECT_EQ(planned->kernels.at(0).plan.kernel, "cublaslt");
    EXPECT_GT(planned->predicted_s.expected, 2.0 * 8192 * 8192 * 8192 / 312e12);
    EXPECT_LT(planned->predicted_s.low, planned->predicted_s.expected);
  }
  const std::string gelu = "x: bf16[B, D]   w: bf16[D, F]\nh[B, F] = x * w\ny: bf16[B, F] = gelu(h)";
  EXPECT_EQ(plans(gelu, large, KernelLibrary::cublaslt, "a100_80")->at(1).plan.kernel, "library_streamed");
  EXPECT_EQ(plans(product, large, KernelLibrary::cublaslt, "mi300x").error().to_string(),
            "expected --library cublaslt with a GPU of NVIDIA's, found --on mi300x\n"
            "  hint: ridge explain PROGRAM --on a100_80 --plan --library cublaslt\n");
  EXPECT_EQ(plans(product, large, KernelLibrary::ridge, "a100_80").error().hint,
            "ridge explain PROGRAM --on a100_80 --plan --library cublaslt");
  const std::string sum = "x: f32[B, D]\ny: f32[B] = sum(x over D)";
  EXPECT_EQ(plans(sum, {{"B", 8192}, {"D", 8192}}, KernelLibrary::cublaslt, "a100_80")->at(0).plan.kernel,
            "library_streamed");
}

// Attention and streaming kernels, by the formulas whose parameters are in the machine's file.
TEST(Predict, UsesFittedLibraryKernels) {
  const std::string text =
      "q: bf16[B, H, S, D]  k: bf16[B, H, T, D]  v: bf16[B, H, T, D]\ns[B, H, S, T] = q * k\n"
      "p[B, H, S, T] = softmax(where(index(T) <= index(S), s * 0.125, -inf) over T)\no: bf16[B, H, S, D] = p * v\n"
      "y: bf16[B, H, S, D] = relu(o)";
  const auto program = parse(text);
  ASSERT_TRUE(program.ok());
  Machine machine = *find_machine("h200");
  const auto planned = [&] {
    const auto explanation = explain(*program, machine, {{"B", 2}, {"H", 16}, {"S", 2048}, {"T", 2048}, {"D", 64}});
    return predict_program(*program, *explanation, {KernelLibrary::cublaslt})->kernels;
  };
  ASSERT_EQ(planned().size(), 4u) << "the library has no attention kernel until it is fitted";
  std::vector<double> numbers[2];
  const ops::LibraryFormula* const formulas[] = {&ops::prefill_formula(), &ops::streamed_formula()};
  for (const std::size_t i : {0, 1}) {
    for (const ops::LibraryParameter& x : formulas[i]->numbers) {
      machine.numbers[std::string(x.key)].value = x.initial_value;
      numbers[i].push_back(x.initial_value);
    }
    machine.numbers[spread_key(*formulas[i], "middle")].value = 2;
  }
  const std::vector<GroupPrediction> after = planned();
  ASSERT_EQ(after.size(), 2u);
  const ops::LibraryDevice chip = make_library_device(machine, *find_datasheet_rates(machine, DType::bf16));
  const std::vector<double> sizes[] = {{2, 16, 16, 2048, 64}, {2 * 16 * 2048, 2 * 64 * 2}};
  const char* const names[] = {"library_prefill", "library_streamed"};
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(after[i].plan.kernel, names[i]);
    EXPECT_DOUBLE_EQ(after[i].predicted_s.expected, 2 * formulas[i]->estimate_seconds(sizes[i], chip, numbers[i]))
        << names[i];
  }
}

TEST(Predict, CountsBytesOnRequest) {
  const auto program = parse("bf16[M, K] * bf16[K, N] -> bf16[M, N]");
  const auto explanation = explain(*program, *find_machine("h200"), {{"M", 4096}, {"N", 4096}, {"K", 4096}});
  const auto with = predict_program(*program, *explanation),
             without = predict_program(*program, *explanation, {.count_bytes = false});
  ASSERT_TRUE(with && without);
  EXPECT_GT(with->kernels[0].traffic_bytes, with->kernels[0].memory_bytes);
  EXPECT_EQ(without->kernels[0].traffic_bytes, 0);
  EXPECT_EQ(without->kernels[0].memory_bytes, 0);
  EXPECT_EQ(without->predicted_s.expected, with->predicted_s.expected);
  EXPECT_EQ(without->kernels[0].plan.kernel, with->kernels[0].plan.kernel);
}

TEST(Predict, PlansAGatedLayerAsOneKernel) {
  const std::string text =
      "x: bf16[N, D]  up: bf16[F, D]  gate: bf16[F, D]  bu: bf16[F]  bg: bf16[F]\n"
      "u[N, F] = x * up\ng[N, F] = x * gate\ny: bf16[N, F] = (u + bu) * gelu(g + bg)";
  const std::int64_t n = 4096, d = 1024, f = 4096;
  const auto found = plans(text, {{"N", n}, {"D", d}, {"F", f}});
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_EQ(found->size(), 1u);
  const GroupPrediction& op = found->at(0);
  EXPECT_EQ(op.plan.kernel.substr(0, 11), "sm90_gated_");
  const std::int64_t rows = (n + *op.plan.tile_m - 1) / *op.plan.tile_m;
  const std::int64_t cols = (2 * f + *op.plan.tile_n - 1) / *op.plan.tile_n;
  // Each column of tiles reads x, each row of tiles both weights and biases; half of the products' results is stored.
  EXPECT_EQ(op.traffic_bytes, 2 * (n * d * cols + 2 * f * d * rows + n * f + 2 * f * rows));
  EXPECT_GE(op.memory_bytes, 2 * (n * d + 2 * f * d + n * f + 2 * f));
  EXPECT_LT(op.memory_bytes, op.traffic_bytes);
  EXPECT_GT(op.predicted_s.expected, 4.0 * n * d * f / 989e12);
  ASSERT_EQ(op.candidates.size(), 4u);
  for (const Candidate& candidate : op.candidates) {
    EXPECT_NE(candidate.plan.kernel, op.plan.kernel);
    EXPECT_GE(candidate.predicted_s, op.predicted_s.expected);
    EXPECT_FALSE(candidate.why.empty());
  }
}

TEST(Predict, RejectsOtherMachinesAndUnboundDimensions) {
  EXPECT_EQ(plans(product, large, KernelLibrary::ridge, "tpu_v5e").error().to_string(),
            "plans need a Hopper GPU or this CPU; expected --on h100, h200, cuda or cpu, found 'tpu_v5e'\n"
            "  hint: ridge explain PROGRAM --on h200 --plan\n");
  EXPECT_EQ(plans(product, {{"B", 2}}).error().to_string(),
            "dimension 'D' has no value; expected one to run the program\n  hint: -d D=64\n");
}

// A Hopper that is not in the catalog and has no measured plans.
constexpr const char* an_h20 = R"(
name = "h20"
kernels = "sm90"
[matrix]
bf16 = { value = 148e12, unit = "FLOP/s", source = "a test", read = 2026-11-25 }
[vector]
f32 = { value = 44e12, unit = "FLOP/s", source = "a test", read = 2026-11-25 }
[memory.hbm]
bandwidth = { value = 4e12, unit = "B/s", source = "a test", read = 2026-11-25 }
[memory.l2]
capacity = { value = 60e6, unit = "B", source = "a test", read = 2026-11-25 }
[numbers]
cores = { value = 78, unit = "1", source = "a test", read = 2026-11-25 }
clock_hz = { value = 1.98e9, unit = "Hz", source = "a test", read = 2026-11-25 }
)";

Result<PlannedProgram> plans_on(const Machine& machine, const Bindings& dims) {
  RIDGE_TRY(program, parse(product));
  RIDGE_TRY(explanation, explain(program, machine, dims));
  return predict_program(program, explanation);
}

TEST(Predict, PlanDependsOnTheHopperModel) {
  // 4 waves of 132 in tiles of 128 x 256, 4.6 of 114: the best tile of one device is not that of the other.
  const Bindings dims{{"B", 8448}, {"D", 4096}, {"F", 2048}};
  std::map<std::string, PlannedProgram> planned;
  for (const char* name : {"h200", "h100", "h100_pcie"}) {
    auto plan = plans_on(*find_machine(name), dims);
    ASSERT_TRUE(plan) << plan.error().to_string();
    ASSERT_EQ(plan->kernels[0].candidates.size(), 4u);
    for (const Candidate& candidate : plan->kernels[0].candidates) EXPECT_FALSE(candidate.why.empty());
    planned.emplace(name, *std::move(plan));
  }
  const auto &h200 = planned.at("h200"), &h100 = planned.at("h100"), &pcie = planned.at("h100_pcie");
  const auto shape = [](const PlannedProgram& p) {
    return std::pair(p.kernels[0].plan.kernel, p.kernels[0].plan.waves);
  };
  EXPECT_NE(shape(h200), shape(pcie));
  EXPECT_GT(pcie.predicted_s.expected, h200.predicted_s.expected);
  EXPECT_NE(h100.predicted_s.expected, h200.predicted_s.expected);
  EXPECT_TRUE(h200.remark.empty()) << h200.remark;
  // A memory-bound product takes longer by the ratio of the bandwidths.
  const Bindings thin{{"B", 16}, {"D", 16384}, {"F", 16384}};
  const auto of = [&](const char* name) { return plans_on(*find_machine(name), thin)->predicted_s.expected; };
  EXPECT_NEAR(of("h100") / of("h200"), 4.8 / 3.35, 0.2);
  EXPECT_NEAR(of("h100_pcie") / of("h200"), 4.8 / 2.0, 0.5);
}

TEST(Predict, UntimedDeviceHasAWiderInterval) {
  const auto machine = parse_machine(an_h20, "h20.toml");
  ASSERT_TRUE(machine) << machine.error().to_string();
  const Bindings dims{{"B", 64}, {"D", 4096}, {"F", 4096}};
  const auto there = plans_on(*machine, dims), timed = plans_on(*find_machine("h200"), dims);
  ASSERT_TRUE(there) << there.error().to_string();
  EXPECT_EQ(there->remark,
            "no plans were timed on h20: its clocks and bandwidths are estimated from its peaks, so the interval is "
            "wider");
  EXPECT_LE(there->kernels[0].plan.waves, 2);
  const auto width = [](const PlannedProgram& p) { return p.predicted_s.high / p.predicted_s.low; };
  EXPECT_GT(width(*there), 1.3 * width(*timed));
}

TEST(Predict, ReportsMissingMachineNumbers) {
  std::string text = an_h20;
  text.erase(text.find("clock_hz"));
  const auto machine = parse_machine(text, "h20.toml");
  ASSERT_TRUE(machine) << machine.error().to_string();
  EXPECT_EQ(plans_on(*machine, large).error().to_string(),
            "cannot plan for h20: no clock on record\n"
            "  hint: its machine file needs numbers.cores, numbers.clock_hz and memory.l2.capacity\n");
}

TEST(KernelList, NamesAreUniqueAndRegistersAreKnown) {
  std::set<std::string> names;
  for (const KernelListEntry& entry : list_kernels()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    ASSERT_TRUE(entry.registers && entry.shared_bytes) << entry.name;
    EXPECT_GE(*entry.registers, 32);
    EXPECT_GE(*entry.shared_bytes, entry.stages * (entry.m + entry.n) * entry.k * 2);
  }
  EXPECT_EQ(names.size(), ops::sm90_kernel_configs.size());
}

}  // namespace
}  // namespace ridge
