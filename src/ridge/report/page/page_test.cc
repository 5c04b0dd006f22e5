// Compares the page's evaluator with the program at 1,250 points of programs that use all kinds of formulas (derived
// sizes, odd int4 counts, largest shards over a mesh, masks, several chips). tests/page/evaluate.mjs runs the evaluator
// under node. Skipped with a message if node is missing.
#include "ridge/report/page/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include "ridge/base/file.h"
#include "ridge/base/testing/temporary_folder.h"
#include "ridge/program/load.h"
#include "ridge/report/svg/roofline.h"

namespace ridge {
namespace {

using Json = nlohmann::ordered_json;

struct Case {
  std::string name, program, machine;
  std::optional<DimensionSplit> cut = {};
  int points = 100;
  std::int64_t largest = 1 << 17;  // upper limit of random sizes
};

std::string example_path(const std::string& name) { return std::string(RIDGE_SOURCE_DIR) + "/examples/" + name; }

std::vector<Case> make_cases() {
  return {
      {"matmul", "bf16[B, D] * bf16[D, F] -> bf16[B, F]", "tpu_v5e", {}, 150, 1 << 20},
      {"mlp", example_path("mlp.ridge"), "h200", {}, 100},
      {"decoder", example_path("llama_decoder.ridge"), "h100", {}, 100, 1 << 12},
      {"follows",
       "dims B, D, F = 4*D, G = F + 2*D\nx: bf16[B, D]  w: bf16[D, F]  v: bf16[F, G]\nu[B, F] = x * w\n"
       "y: bf16[B, G] = u * v\n",
       "a100_40",
       {},
       100,
       1 << 14},
      {"less", "dims B, D, F = D - 5\nx: bf16[B, D]  w: bf16[D, F]\ny: bf16[B, F] = x * w\n", "h100", {}, 50, 1 << 12},
      {"int4", "x: int8[B, D]  w: int4[D, F]\ny: int8[B, F] = x * w\n", "h100", {}, 100, 1 << 16},
      {"causal", example_path("flash_attention.ridge"), "h100", {}, 50, 1 << 12},
      {"window",
       "dims S, T, E = 128\nq: bf16[S, E]  k: bf16[T, E]  v: bf16[T, E]\ns[S, T] = q * k\n"
       "p[S, T] = softmax(where((index(T) - 3 <= index(S)) * (index(S) - index(T) < 1024), s, -inf) over T)\n"
       "o: bf16[S, E] = p * v\n",
       "h200",
       {},
       50,
       1 << 13},
      {"sharded",
       "mesh X = 4, Y = 2\ndims B, D, F\nx: bf16[B, D_X]  w: bf16[D_X, F]\nu[B, F] = x * w\n"
       "v[B, F_Y] = u\ny: bf16[B, F_Y] = gelu(v)\n",
       "tpu_v5e",
       {},
       100,
       1 << 16},
      {"exchanged",
       "mesh X = 4\ndims B, D\nx: bf16[B, D_X]\nu[B_X, D] = x\ny: bf16[B_X, D] = exp(u)\n",
       "tpu_v5p",
       {},
       50},
      {"switch", "mesh X = 8\ndims B, D, F\nx: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w\n", "h100", {}, 25},
      {"nodes", "mesh X = 32\ndims B, D, F\nx: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w\n", "h100", {}, 25},
      {"pair",
       "mesh X = 2\ndims B, D, F\nx: bf16[B, D_X]  w: bf16[D_X, F]\ny: bf16[B, F] = x * w\n",
       "tpu_v5e",
       {},
       25},
      {"reduced in the switch",
       "mesh X = 8\ndims B, D\nx: bf16[B, D_X]\nu[B, D] = x\ny: bf16[B, D] = exp(u)\n",
       "gb200",
       {},
       25},
      {"tensor parallel", example_path("tensor_parallel.ridge"), "h200", {}, 25, 1 << 12},
      {"sharded mask",
       "mesh X = 4\ndims S, T = S, H, E = 128\nq: bf16[S, H_X, E]  k: bf16[T, H_X, E]  v: bf16[T, H_X, E]\n"
       "s[S, H_X, T] = q * k\np[S, H_X, T] = softmax(where(index(T) <= index(S), s, -inf) over T)\n"
       "o: bf16[S, H_X, E] = p * v\n",
       "h100",
       {},
       25,
       1 << 12},
      {"last rows",
       "dims S, T, E = 128\nq: bf16[S, E]  k: bf16[T, E]  v: bf16[T, E]\ns[S, T] = q * k\n"
       "p[S, T] = softmax(where(index(T) <= index(S) + size(T) - size(S), s, -inf) over T)\no: bf16[S, E] = p * v\n",
       "h100",
       {},
       50,
       1 << 12},
      {"quotient",
       "dims B, D, F = D/8\nx: bf16[B, D]  w: bf16[D, F]\ny: bf16[B, F] = x * w\n",
       "h100",
       {},
       50,
       1 << 12},
      {"ties", "x: bf16[N]\ny: bf16[N] = x + 1\nz: bf16[N] = exp(y)\n", "test", {}, 25},
      {"split", example_path("mlp.ridge"), "h100", DimensionSplit{"F", 3}, 100, 1 << 16},
      {"projected causal", example_path("attention.ridge"), "h100", {}, 25, 1 << 10},
  };
}

// One FLOP takes as long as moving the four bytes of an element, so every comparison of times is a tie.
Machine make_test_machine() {
  Machine machine;
  machine.name = "test";
  machine.peaks = {{ComputeUnit::vector, DType::f32, {.value = 2.5e11, .source = "a test", .read_on = "2026-01-02"}}};
  machine.memory = {{"hbm", SourcedValue{.value = 1e12, .source = "a test", .read_on = "2026-01-02"}, std::nullopt}};
  return machine;
}

std::string relation_text(const Threshold& t) {
  return fmt::format("{}{}", name(t.relation), t.value ? fmt::format(" {}", *t.value) : "");
}

bool is_free_size(const Formulas& formulas, const std::string& dim) {
  for (const SizeFormula& size : formulas.sizes)
    if (size.name == dim) return !size.formula;
  return false;
}

Json thresholds_json(const std::vector<Threshold>& all, const Formulas& formulas) {
  Json out = Json::object();
  for (const Threshold& t : all) {
    if (!is_free_size(formulas, t.dim)) continue;
    const std::string key = fmt::format("{} {} {}", t.dim, name(t.roofs[0]), name(t.roofs[1]));
    const std::string before = out.contains(key) ? out[key].get<std::string>() + ", " : "";
    out[key] = before + relation_text(t);
  }
  return out;
}

template <class T> Json json_or_null(const std::optional<T>& value) { return value ? Json(*value) : Json(); }

Json sum_json(const Prediction& p, const Formulas& formulas) {
  return {{"name", p.work.name},
          {"flops", fmt::format("{}", *p.flops)},
          {"bytes", fmt::format("{}", *p.bytes)},
          {"limiter", name(*p.limiter)},
          {"runner_up", p.runner_up ? name(*p.runner_up) : ""},
          {"lower", *p.time_lower_s},
          {"upper", *p.time_upper_s},
          {"math", json_or_null(p.time_math_s)},
          {"memory", json_or_null(p.time_memory_s)},
          {"network", json_or_null(p.time_network_s)},
          {"sent", json_or_null(p.bytes_sent)},
          {"thresholds", thresholds_json(p.thresholds, formulas)}};
}

Json rates_json(const std::vector<Roofline::Rate>& rates) {
  Json out = Json::array();
  for (const Roofline::Rate& rate : rates) out.push_back({{"rate", rate.rate}, {"name", rate.name}});
  return out;
}

Json picture_json(const Roofline& r) {
  Json out{{"subtitle", r.subtitle},
           {"x_low", r.x_low},
           {"x_high", r.x_high},
           {"y_low", r.y_low},
           {"y_high", r.y_high},
           {"bandwidth", r.bandwidth},
           {"sent", r.has_link_dots},
           {"not_drawn", r.not_drawn},
           {"bandwidth_name", r.bandwidth_name},
           {"peaks", rates_json(r.peaks)},
           {"slopes", rates_json(r.other_bandwidths)},
           {"dots", Json::array()}};
  for (const RooflineDot& dot : r.dots)
    out["dots"].push_back({{"name", dot.name},
                           {"tip", dot.tip},
                           {"intensity", dot.intensity},
                           {"rate", dot.rate},
                           {"share", json_or_null(dot.time_fraction)},
                           {"sent", dot.network_bound}});
  return out;
}

Json point_json(const Explanation& e, const Formulas& formulas) {
  Json out{{"ops", Json::array()}, {"total", sum_json(e.total, formulas)}, {"products", Json::object()}};
  for (const Prediction& p : e.ops) out["ops"].push_back(sum_json(p, formulas));
  if (e.fused) {
    out["fused"] = sum_json(*e.fused, formulas);
    if (!e.fused->runner_up) out["fused"].erase("runner_up");
  }
  const auto is_product = [](const Prediction& p) { return p.work.contraction && p.peak; };
  if (std::count_if(e.ops.begin(), e.ops.end(), is_product) >
      1)  // With one product, the command line has no thresholds
    for (const std::string& dim : e.dim_names)
      if (is_free_size(formulas, dim)) out["products"][dim] = "null";
  for (const Threshold& t : e.product_thresholds)
    if (is_free_size(formulas, t.dim)) out["products"][t.dim] = relation_text(t);
  Json fits = Json::object();
  for (const Threshold& t : e.memory->capacity_thresholds)
    if (is_free_size(formulas, t.dim)) fits[t.dim] = t.value ? std::to_string(*t.value) : "0";
  out["memory"] = {{"bytes", *e.memory->peak_bytes}, {"fits", fits}};
  out["picture"] = picture_json(describe_roofline(Report{"explain", "", e, std::nullopt, "2026-01-02"}));
  return out;
}

// Returns a random size, log-uniform up to `largest`; every third one is a power of two.
std::int64_t random_size(std::mt19937_64& random, std::int64_t largest) {
  const double most = std::log2(static_cast<double>(largest));
  const double power = std::uniform_real_distribution(0.0, most)(random);
  const double size = std::exp2(random() % 3 == 0 ? std::floor(power) : power);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(size));
}

// Returns the program's predictions at random sizes, and the data that the page gets.
Json case_json(const Case& each, std::mt19937_64& random) {
  const auto loaded = load_program(each.program, DType::bf16);
  const Machine machine = each.machine == "test" ? make_test_machine() : *find_machine(each.machine);
  const Program& program = loaded->program;
  Formulas formulas = *make_formulas(program, {}, each.cut);
  Json points = Json::array();
  std::optional<Explanation> last;
  for (int i = 0; i < each.points; ++i) {
    Bindings dims;
    for (const SizeFormula& size : formulas.sizes)
      if (!size.formula && !size.shard && !size.mask) dims[size.name] = random_size(random, each.largest);
    const auto explanation = explain(program, machine, dims, each.cut);
    Json point = explanation ? point_json(*explanation, formulas) : Json{{"error", explanation.error().message}};
    for (const auto& [dim, value] : dims) point["dims"][dim] = value;
    points.push_back(std::move(point));
    if (explanation) last = *explanation;
  }
  const Page page{{{Report{"explain", "", *last, std::nullopt, "2026-01-02"}, formulas}}};
  return {{"name", each.name}, {"data", Json::parse(page_data(page))["subjects"][0]}, {"points", std::move(points)}};
}

struct ShellResult {
  int code = -1;
  std::string out;
};

ShellResult run_shell(const std::string& command) {
  ShellResult result;
  FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) result.out.append(buffer.data(), n);
  result.code = ::pclose(pipe);
  return result;
}

TEST(Page, ScriptsComputeTheSameNumbersAsExplain) {
  if (run_shell("node --version").code != 0)
    GTEST_SKIP() << "SKIPPED: node is missing, so the page's formulas are not tested";
  std::mt19937_64 random(20261125);
  Json all = Json::array();
  int points = 0;
  for (const Case& each : make_cases()) {
    all.push_back(case_json(each, random));
    points += each.points;
  }
  EXPECT_EQ(points, 1250);
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/points.json", source = RIDGE_SOURCE_DIR;
  ASSERT_TRUE(write_file(file, all.dump()).ok());
  const ShellResult result =
      run_shell(fmt::format("node {0}/tests/page/evaluate.mjs {0}/src/ridge/report/page {1}", source, file));
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find("1250 points, "), std::string::npos) << result.out;
}

Page page_of(const std::string& text, const Bindings& dims) {
  const Program program = *parse(text);
  const Explanation e = *explain(program, *find_machine("h100"), dims);
  return {{{Report{"explain", "layer.ridge", e, std::nullopt, "2026-01-02"}, *make_formulas(program, dims)}}};
}

TEST(Page, LoadsNoOtherFiles) {
  const std::string html = render_page(page_of("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 64}}));
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_LE(html.size(), 300'000u);
  for (const char* word : {"src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "https://"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  EXPECT_EQ(html.find("{{"), std::string::npos);
}

TEST(Page, EscapesScriptEndsInNames) {
  Page page = page_of("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 64}, {"D", 64}, {"F", 64}});
  page.subjects[0].report.title = "</script><b>&\xff";
  const std::string html = render_page(page);
  EXPECT_EQ(html.find("</script><b>"), std::string::npos);
  EXPECT_NE(html.find("\\u003c/script>\\u003cb>"), std::string::npos) << "in the data";
  EXPECT_NE(html.find("<title>&lt;/script&gt;&lt;b&gt;&amp;"), std::string::npos);
}

// With a thousand statements the page would be too large, so it shows only picture and table.
TEST(Page, IsNotInteractiveForAThousandStatements) {
  std::string text = "x: bf16[B, D]  w: bf16[D, F]\n";
  for (int i = 0; i < 1000; ++i) text += fmt::format("y{}[B, F] = x * w\n", i);
  const std::string html = render_page(page_of(text, {{"B", 64}, {"D", 64}, {"F", 64}}));
  EXPECT_LE(html.size(), 600'000u);
  EXPECT_NE(html.find("{\"subjects\": []}"), std::string::npos);
}

}  // namespace
}  // namespace ridge
