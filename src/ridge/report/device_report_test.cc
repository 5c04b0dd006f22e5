// Reports of a run on a device and of a plan, without a device.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ridge/ops/product/describe.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/report.h"

namespace ridge {
namespace {

Report make_device_report() {
  const auto program = parse("bf16[B, D] * bf16[D, F] -> bf16[B, F]");
  const auto explanation = explain(*program, *find_machine("h200"), {{"B", 16}, {"D", 256}, {"F", 256}});
  Report report{"run", "product", *explanation, std::nullopt, "2026-01-02"};
  Measurement m;
  OpMeasurement op;
  op.time = {2e-6, 1.9e-6, 2.1e-6, 10};
  op.measured_bound = MeasuredBound{"D", 1.9e-6, 2e-6, 2.2e-6, 1.8e-6, Limiter::overhead};
  m.ops = {op};
  m.total = op;
  m.total.measured_bound.reset();
  m.clocks.before_hz = 1.5e9;
  m.clocks.after_hz = 1.9e9;
  m.clocks.max_hz = 1.98e9;
  m.clocks.power_w = 312;
  m.clocks.throttle_reasons = {"power limit"};
  m.device = DeviceMeasurement{"NVIDIA H200", 13000, 6e-6, 5e10, 4e10, 100'000'000, 8'000'000};
  report.measured = m;
  return report;
}

TEST(DeviceReport, ShowsTimingMethodAndTransferTime) {
  const std::string text = render_text(make_device_report());
  for (const char* line :
       {"cold L2, launched as a graph; 6.000 us per pass with separate launches; time between operations 0 s\n",
        "NVIDIA H200, driver 13.0; seed 0; 0 B in memory\n",
        "clock 1.900 GHz of 1.980 GHz, 312 W, limited by: power limit\n",
        "host to device 50.00 GB/s: copying the inputs, 100.0 MB, takes 2.000 ms, 1000 times the program's time\n",
        "Z: overhead-bound: 1.900 us at half of D, 2.000 us as given, 2.200 us at double; fixed part 1.800 us\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << "in\n" << text;
}

TEST(DeviceReport, JsonHasTheSameNumbers) {
  const auto json = nlohmann::json::parse(render_json(make_device_report()));
  EXPECT_EQ(json["ops"][0]["regime"]["name"], "overhead");
  EXPECT_EQ(json["ops"][0]["regime"]["dim"], "D");
  EXPECT_EQ(json["transfer"]["input_s"], 2e-3);
  EXPECT_EQ(json["transfer"]["output_s"], 2e-4);
  EXPECT_EQ(json["clocks"]["slowed_by"][0], "power limit");
  EXPECT_EQ(json["device"]["eager_s"], 6e-6);
  EXPECT_FALSE(json["total"].contains("regime"));
}

TEST(DeviceReport, NamesSlowerKernelsAndTheRemedy) {
  const std::string note = "one block per row, which is slower: NVRTC was not found; `pip install nvidia-cuda-nvrtc`";
  Report report = make_device_report();
  const auto program = parse("x: f32[N]\na: f32[N] = cos(x)\nb: f32[N] = a * x\nc: f32[N] = exp(b)");
  report.explanation = *explain(*program, *find_machine("h200"), {{"N", 16}});
  report.measured->ops.assign(3, report.measured->ops[0]);
  for (const std::size_t i : {0, 2}) report.measured->ops[i].note = note;
  EXPECT_NE(render_text(report).find("\nnote: a; c: " + note + "\n"), std::string::npos) << render_text(report);
  const auto json = nlohmann::json::parse(render_json(report));
  EXPECT_EQ(json["ops"][0]["note"], note);
  EXPECT_FALSE(json["ops"][1].contains("note"));
  EXPECT_EQ(json["ops"][2]["note"], note);
  EXPECT_FALSE(json["total"].contains("note"));
  EXPECT_EQ(render_text(make_device_report()).find("note: "), std::string::npos);
}

TEST(DeviceReport, ShowsTheGainOfTuning) {
  Report report = make_device_report();
  const auto line = [&](const TuningResult& tuned) {
    report.measured->ops[0].tuned = {tuned};
    const std::string text = render_text(report);
    return text.substr(text.find("\nZ: ", text.find("fixed part")) + 1);
  };
  TuningResult tuned{"sm90_128x64x64_pingpong", 2, 1.25e-5, 1.5e-5, 8, true, false, ""};
  EXPECT_EQ(
      line(tuned).find("Z: tuned now: sm90_128x64x64_pingpong, split-K 2, 12.50 us; the cost model's choice 15.00 us "
                       "(fastest of 8)\nchecked"),
      0U)
      << line(tuned);
  const auto json = nlohmann::json::parse(render_json(report))["ops"][0]["tuned"][0];
  EXPECT_EQ(json.dump(), R"({"candidates":8,"is_model":false,"kernel":"sm90_128x64x64_pingpong","measured_now":true,)"
                         R"("model_s":1.5e-05,"split":2,"tuned_s":1.25e-05})");
  tuned.measured_now = false;
  tuned.is_model = true;
  tuned.splits = 1;
  tuned.model_seconds = tuned.seconds;
  EXPECT_EQ(line(tuned).find("Z: tuned earlier: none of 8 is 2 % faster than the cost model's choice, "
                             "sm90_128x64x64_pingpong, 12.50 us\nchecked"),
            0U)
      << line(tuned);
  tuned.candidates = 0;
  tuned.remark = "the tuned choice 0a is ignored: it is damaged";
  EXPECT_EQ(line(tuned).find("Z: the tuned choice 0a is ignored: it is damaged; --tune measures again\nchecked"), 0U)
      << line(tuned);
  const auto unknown = nlohmann::json::parse(render_json(report))["ops"][0]["tuned"][0];
  EXPECT_EQ(unknown["tuned_s"], nullptr);
  EXPECT_EQ(unknown["remark"], "the tuned choice 0a is ignored: it is damaged");
}

TEST(PlanReport, ListsChosenKernelsAndAlternatives) {
  Report report = make_device_report();
  report.verb = "explain";
  report.measured.reset();
  GroupPrediction op;
  op.predicted_s = {1e-6, 2e-6, 3e-6};
  op.plan = {
      "sm90_64x64x64_single", 64, 64, 64, 8, 2, 1, ops::cuda::describe_split(tile::SplitMode::cooperative_split_k)};
  op.traffic_bytes = 4000;
  op.memory_bytes = 3000;
  op.candidates = {{{"sm90_128x64x64_pingpong", 128, 64, 64, 8, 1, 1}, 2.5e-6, "loads more"}};
  report.planned = PlannedProgram{{}, {op}, {0}, op.predicted_s, {}};
  report.planned->fusion.groups = {FusionGroup{.statements = {0}, .results = {0}}};
  const std::string text = render_text(report);
  EXPECT_NE(text.find("Z   sm90_64x64x64_single       8      2      1  2.000 us  1.000 us .. 3.000 us  4.000 kB"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("\nZ, split 2: the splits of k wait for each other\nZ was chosen over\n  "
                      "sm90_128x64x64_pingpong, split 1  2.500 us  loads more\n"),
            std::string::npos)
      << text;
  const auto json = nlohmann::json::parse(render_json(report))["ops"][0];
  EXPECT_EQ(json["predicted_s"]["expected"], 2e-6);
  EXPECT_EQ(json["plan"]["tile"]["m"], 64);
  EXPECT_EQ(json["plan"]["split"], 2);
  EXPECT_EQ(json["plan"]["split_mode"], "cooperative_split_k");
  EXPECT_EQ(json["candidates"][0]["why"], "loads more");
  EXPECT_EQ(json["candidates"][0]["split_mode"], nullptr);
  const std::string csv = render_csv(report), markdown = render_markdown(report);
  EXPECT_NE(csv.find(",time_upper_s,group,kernel,tile_m,tile_n,tile_k,stages,split,waves,predicted_low_s,predicted_s,"
                     "predicted_high_s,traffic_bytes,memory_bytes\nZ,"),
            std::string::npos)
      << csv;
  EXPECT_NE(csv.find(",0,sm90_64x64x64_single,64,64,64,8,2,1,1e-06,2e-06,3e-06,4000,3000\ntotal,"), std::string::npos)
      << csv;
  EXPECT_TRUE(csv.ends_with(",,,,,,,,1e-06,2e-06,3e-06,4000,3000\n")) << csv;
  EXPECT_NE(
      markdown.find("\n| op | kernel | stages | split | waves | expected | low .. high | traffic | from memory |\n"
                    "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
                    "| Z | sm90_64x64x64_single | 8 | 2 | 1 | 2.000 us | 1.000 us .. 3.000 us | 4.000 kB | 3.000 "
                    "kB |\n\n```\nZ, split 2: the splits of k wait for each other\nZ was chosen over\n"),
      std::string::npos)
      << markdown;
}

}  // namespace
}  // namespace ridge
