// Tests the page of a model: its scripts compute the numbers and sentences of predict_model and render_text at random
// positions of every slider and list, and the page is one file of limited size.
#include "ridge/report/page/model_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <random>

#include "ridge/api/facade.h"
#include "ridge/base/file.h"
#include "ridge/base/testing/temporary_folder.h"
#include "ridge/report/model.h"
#include "ridge/report/page/page_html.h"

namespace ridge {
namespace {

constexpr int points_per_model = 3;

Json module_step_json(const ModuleStep& m) {
  return {{"part", m.part},         {"name", m.module},   {"layers", m.layers},
          {"flops", m.flops},       {"bytes", m.bytes},   {"parameters", m.parameter_bytes},
          {"cache", m.cache_bytes}, {"bound", m.bound_s}, {"limiter", name(m.limiter)}};
}

Json model_step_json(const ModelStep& step) {
  Json out{{"flops", step.flops},
           {"bytes", step.bytes},
           {"bound", step.bound_s},
           {"network", step.network_s},
           {"parameters", step.parameter_bytes},
           {"cache", step.cache_bytes},
           {"activations", step.activation_bytes},
           {"missing", step.missing},
           {"modules", Json::array()}};
  for (const ModuleStep& module : step.modules) out["modules"].push_back(module_step_json(module));
  return out;
}

// Returns what the program answers, with the lines of its text that the page repeats.
Json expected_json(const model::ModelCount& count, const ModelOnMachine& x) {
  const std::string text = render_text(count, {x});
  Json out{{"chips", x.layout.tensor},
           {"maxBatch", or_null(x.max_batch)},
           {"maxContext", or_null(x.max_context)},
           {"fits", x.fits()},
           {"images", nullptr},
           {"audio", nullptr},
           {"decode", model_step_json(x.decode)},
           {"prefill", model_step_json(x.prefill)},
           {"text", text},
           {"sentences", Json::array()}};
  if (x.images)
    out["images"] = {
        {"count", x.images->images_per_chip}, {"bound", x.images->step.bound_s}, {"flops", x.images->step.flops}};
  if (x.audio)
    out["audio"] = {
        {"count", x.audio->clips_per_chip}, {"bound", x.audio->step.bound_s}, {"flops", x.audio->step.flops}};
  const std::size_t lines = (x.phase == ModelPhase::decode ? 4u : 3u) + (x.served ? 1 : 0) + x.encoders().size();
  for (std::size_t start = 0; out["sentences"].size() < lines; start = text.find('\n', start) + 1)
    out["sentences"].push_back(text.substr(start, text.find('\n', start) - start));
  return out;
}

template <class T> const T& choose(const std::vector<T>& all, std::mt19937_64& random) {
  return all[random() % all.size()];
}

// Returns a random integer, log-uniform up to `largest`.
std::int64_t choose_size(std::int64_t largest, std::mt19937_64& random) {
  const double power = std::uniform_real_distribution(0.0, std::log2(static_cast<double>(largest)))(random);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::exp2(power)), 1, largest);
}

ModelRequest choose_request(const ModelFormulas& formulas, std::mt19937_64& random) {
  const StepFormulas& step = choose(formulas.steps, random);
  ModelRequest out{.counts = {.weight_dtype = step.weight_dtype, .cache_dtype = step.cache_dtype},
                   .phase = random() % 3 == 0 ? ModelPhase::prefill : ModelPhase::decode};
  out.counts.batch = choose_size(out.phase == ModelPhase::prefill ? 64 : 4096, random);
  out.counts.context =
      std::max(formulas.min_context, choose_size(std::min<std::int64_t>(formulas.max_context, 1 << 18), random));
  if (random() % 2 == 0) out.tensor_parallel = choose(formulas.chips, random).chips;
  return out;
}

// Returns two images that the model's encoder takes, as small as they can be if it takes any size.
std::optional<ImageRequest> make_images(const model::ModelConfig& config) {
  if (!config.vision) return std::nullopt;
  const bool has_size = config.vision->image_size > 0;
  return ImageRequest{.images = 2, .image_size = has_size ? 0 : 4 * config.vision->patch * config.vision->merged};
}

// Adds a random number of images, and the tokens of a prompt that holds them, to most requests.
void choose_images(const std::optional<ImageRequest>& images, std::mt19937_64& random, ModelRequest& request) {
  if (!images || random() % 4 == 0) return;
  request.images = images;
  request.images->images = choose_size(64, random);
  request.counts.context = std::max<std::int64_t>(*request.counts.context, 64 * 256);
}

Json query_json(const ModelRequest& request, const std::string& machine) {
  return {{"machine", machine},
          {"phase", name(request.phase)},
          {"batch", request.counts.batch},
          {"context", *request.counts.context},
          {"weights", dtype_name(request.counts.weight_dtype)},
          {"cache", dtype_name(request.counts.cache_dtype)},
          {"images", request.images ? request.images->images : 0},
          {"chips", or_null(request.tensor_parallel)}};
}

// Returns the answer with served times if the machine has any.
Result<std::vector<ModelOnMachine>> predict_served_or_bound(const std::string& name, ModelRequest request,
                                                            const MachineChoice& machine) {
  if (request.phase == ModelPhase::decode && !request.images) {
    request.serving = ServingRequest{.output_tokens = 64};
    auto served = api::predict_model(name, request, {machine});
    const bool is_served = served && served->front().served;
    if (is_served && served->front().served->batch < request.counts.batch)
      return usage_error("the command line answers for the requests that do not wait, and the page for all");
    if (served) return served;
    request.serving = {};
  }
  return api::predict_model(name, request, {machine});
}

// Returns the data of a model's page, and queries with the program's answers.
Json model_case_json(const std::string& name, std::mt19937_64& random) {
  const std::vector<MachineChoice> machines{"h200", "mi300x", "b200", "h100", "tpu_v5p"};
  const auto images = make_images(*model::find_config(name));
  ModelRequest first{.counts = {.context = images ? 512 : 64}, .tensor_parallel = 1, .images = images};
  const auto answers = api::predict_model(name, first, machines);
  EXPECT_TRUE(answers) << name << (answers ? "" : answers.error().message);
  first.serving = ServingRequest{.output_tokens = 64};
  const auto page = api::make_page(name, first, machines, *answers);
  EXPECT_TRUE(page) << name << (page ? "" : page.error().message);
  Json queries = Json::array();
  while (queries.size() < points_per_model) {
    ModelRequest request = choose_request(page->formulas, random);
    choose_images(images, random, request);
    const MachineChoice machine = choose(machines, random);
    const auto answer = predict_served_or_bound(name, request, machine);
    if (!answer) continue;  // A machine without this format, or too many sequences
    const auto count = api::count_model(name, request.counts);
    queries.push_back({{"query", query_json(request, answer->front().machine)},
                       {"expected", expected_json(*count, answer->front())}});
  }
  return {{"data", Json::parse(model_page_data(*page))}, {"queries", std::move(queries)}};
}

struct NodeResult {
  int code = -1;
  std::string out;
};

NodeResult run_node(const std::string& arguments) {
  NodeResult result;
  FILE* const pipe = ::popen(("node " + arguments + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) result.out.append(buffer.data(), n);
  result.code = ::pclose(pipe);
  return result;
}

TEST(ModelPage, ScriptsAnswerAsTheCommandLine) {
  if (run_node("--version").code != 0)
    GTEST_SKIP() << "SKIPPED: node is missing, so the page's formulas are not tested";
  std::mt19937_64 random(20261130);
  Json all = Json::array();
  const TemporaryFolder folder;
  for (const std::string& name : model::shipped_names()) all.push_back(model_case_json(name, random));
  const std::string file = folder.path() + "/points.json", source = RIDGE_SOURCE_DIR;
  ASSERT_TRUE(write_file(file, all.dump()).ok());
  const NodeResult result =
      run_node(fmt::format("{0}/tests/page/evaluate_model.mjs {0}/src/ridge/report/page {1}", source, file));
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_NE(result.out.find(fmt::format("{} points, ", points_per_model * all.size())), std::string::npos)
      << result.out;
}

ModelPage make_llama_page() {
  const ModelRequest request{.counts = {.context = 4096}};
  auto answers = api::predict_model("llama_3_8b", request, {"h200"});
  return *api::make_page("llama_3_8b", request, {"h200"}, *std::move(answers));
}

TEST(ModelPage, IsOneSmallFile) {
  const std::string html = render_page(make_llama_page());
  EXPECT_TRUE(html.starts_with("<!doctype html>"));
  EXPECT_LE(html.size(), max_page_bytes);
  for (const char* word : {"src=", "href=", "@import", "url(", "fetch(", "XMLHttpRequest", "https://", "{{"})
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  EXPECT_NE(html.find("llama_3_8b on h200: a token of 1 sequence takes 3.240 ms at least: 309 tokens/s"),
            std::string::npos)
      << "without scripts";
}

TEST(ModelPage, EscapesNames) {
  ModelPage page = make_llama_page();
  page.count.name = "</script><b>";
  const std::string html = render_page(page);
  EXPECT_EQ(html.find("</script><b>"), std::string::npos);
  EXPECT_NE(html.find("\\u003c/script>\\u003cb>"), std::string::npos) << "in the data";
  EXPECT_NE(html.find("<title>&lt;/script&gt;&lt;b&gt;"), std::string::npos);
}

TEST(ModelPage, RefusesContextsThatItsFormulasDoNotHave) {
  const auto error_of = [](const std::string& name, std::int64_t context) {
    return api::make_page(name, {.counts = {.context = context}}, {"h200"}, {}).error().message;
  };
  EXPECT_EQ(error_of("llama_3_8b", 1), "expected --context from 2 to 16777216 with --html, found 1");
  EXPECT_EQ(error_of("gpt_3_175b", 2049), "expected --context from 2 to 2048 with --html, found 2049");
}

}  // namespace
}  // namespace ridge
