// Compares reports with tests/golden/NAME; RIDGE_UPDATE_GOLDENS=1 in the environment rewrites these files.
#include "ridge/report/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "ridge/base/file.h"
#include "ridge/base/string_util.h"
#include "ridge/base/utf8.h"
#include "ridge/base/version.h"
#include "ridge/report/page/page.h"
#include "ridge/report/parts/tables.h"
#include "ridge/report/parts/used_peaks.h"
#include "ridge/report/svg/picture.h"

namespace ridge {
namespace {

Machine make_test_machine() {
  const SourcedValue matrix{.value = 1e14, .source = "test datasheet", .read_on = "2026-01-02"};
  const SourcedValue vector{.value = 1e13, .source = "test datasheet", .read_on = "2026-01-02"};
  const SourcedValue bandwidth{.value = 1e12, .source = "test datasheet", .read_on = "2026-01-02"};
  Machine machine;
  machine.name = "test";
  machine.title = "A <test> & more";
  machine.peaks = {{ComputeUnit::matrix, DType::bf16, matrix}, {ComputeUnit::vector, DType::f32, vector}};
  machine.memory = {{"hbm", bandwidth, std::nullopt}};
  return machine;
}

Report explain_text(const std::string& text, const Bindings& dims) {
  const auto program = parse(text);
  const auto explanation = explain(program.value(), make_test_machine(), dims);
  return {"explain", "golden.ridge", explanation.value(), std::nullopt, "2026-01-02"};
}

constexpr const char* five = R"(dims N = 1024, D = 1024, F = 4*D
x: bf16[N, D]   up: bf16[D, F]   gate: bf16[D, F]   down: bf16[F, D]  b: bf16[F]
u[N, F] = x * up
g[N, F] = x * gate
h[N, F] = silu(g) * u
a[N, F] = gelu(h + b) * cos(h)
y: bf16[N, D] = a * down
)";

Report make_run_report() {
  Report report = explain_text(five, {});
  report.verb = "run";
  Measurement m;
  for (std::size_t i = 0; i < report.explanation.ops.size(); ++i) {
    const double lower = *report.explanation.ops[i].time_lower_s;
    OpMeasurement op;
    op.time = {2 * lower, 1.5 * lower, 3 * lower, 7};
    op.fraction_of_roof = 0.5;
    op.share = 0.2;
    op.max_rel_error = 1e-3;
    op.checked = 10'002;
    op.elements = 4 << 20;
    m.ops.push_back(op);
  }
  m.ops[0].copies = {"x[N, D] to [D, N] order"};
  m.total = m.ops[0];
  m.total.copies.clear();
  m.overhead_s = 1e-6;
  m.threads = 2;
  m.isa = "avx2";
  m.memory_bytes = 1 << 20;
  m.clocks.after_hz = 2e9;
  report.measured = m;
  return report;
}

// Replaces the build's commit, which changes with every commit, by COMMIT.
std::string without_commit(std::string text) {
  const std::string now(commit());
  for (std::size_t at = text.find(now); at != std::string::npos; at = text.find(now))
    text.replace(at, now.size(), "COMMIT");
  return text;
}

void expect_golden(const std::string& name, const std::string& got) {
  const std::string path = std::string(RIDGE_SOURCE_DIR) + "/tests/golden/" + name;
  if (std::getenv("RIDGE_UPDATE_GOLDENS") != nullptr) {
    ASSERT_TRUE(write_file(path, got).ok());
    return;
  }
  const auto expected = read_file(path);
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  EXPECT_EQ(*expected, got) << name << " differs; RIDGE_UPDATE_GOLDENS=1 rewrites it";
}

TEST(Report, TextMatchesGoldenFiles) {
  expect_golden("explain_one.txt", render_text(explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]",
                                                            {{"B", 512}, {"D", 8192}, {"F", 8192}})));
  expect_golden("explain_open.txt", render_text(explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {})));
  expect_golden("explain_five.txt", render_text(explain_text(five, {})));
  expect_golden("run_five.txt", render_text(make_run_report()));
}

TEST(Report, JsonMatchesGoldenFiles) {
  expect_golden("explain_open.json",
                without_commit(render_json(explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"D", 8192}}))));
  expect_golden("run_five.json", without_commit(render_json(make_run_report())));
}

TEST(Report, PictureMatchesGoldenFiles) {
  expect_golden("explain_one.svg", render_svg(explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]",
                                                           {{"B", 512}, {"D", 8192}, {"F", 8192}})));
  expect_golden("run_five.svg", render_svg(make_run_report()));
  EXPECT_EQ(render_svg(make_run_report()), render_svg(make_run_report()));
}

TEST(Report, OneLineJsonHasOneLine) {
  const std::string line = render_json(explain_text(five, {}), true);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(line)["schema"], "ridge.report/2");
}

TEST(Report, JsonReplacesInvalidUtf8) {
  Report report = explain_text(five, {});
  report.explanation.program_text = "\xff";
  EXPECT_EQ(nlohmann::json::parse(render_json(report))["program"], "\xEF\xBF\xBD");
}

// The JSON writer only sees the characters that are not plain; the result must be the same as if it wrote all.
TEST(Report, JsonHasTheUnchangedProgramText) {
  Report report = explain_text(five, {});
  for (const std::string& text :
       {std::string(), std::string("# \"a\\b\" \t\x01\x7f\n\n# caf\xC3\xA9\xC3\xA9 \xE2\x88\x9E\"\n"),
        std::string(3, '\0'), std::string("\xC3\xA9\xFFx\xC3"), std::string("\"program\": \"\"\r\n")}) {
    report.explanation.program_text = text;
    for (const bool one_line : {false, true}) {
      const std::string json = render_json(report, one_line);
      const std::string written = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      EXPECT_NE(json.find((one_line ? "\"program\":" : "\"program\": ") + written + ","), std::string::npos) << json;
      EXPECT_TRUE(nlohmann::json::accept(json));
    }
  }
}

TEST(Report, NumbersOfAMachineHaveTheirUnits) {
  const std::string text = render_machine_text(*find_machine("h100"));
  for (const char* line : {"\nclock_hz +1\\.980 GHz  ", "\ncores +132  ", "\nlaunch_s +1\\.300 us  "})
    EXPECT_THAT(text, ::testing::ContainsRegex(line));
}

TEST(Report, HasColorsOnlyIfRequested) {
  EXPECT_EQ(render_text(make_run_report()).find('\x1b'), std::string::npos);
  EXPECT_NE(render_text(make_run_report(), {.color = true}).find('\x1b'), std::string::npos);
}

TEST(Report, PictureEscapesXmlCharacters) {
  Report report = explain_text(five, {});
  report.title = "a<b>&\"'\x01";
  const std::string svg = render_svg(report);
  EXPECT_NE(svg.find(">a&lt;b&gt;&amp;&quot;&#39; <"), std::string::npos);
  EXPECT_NE(svg.find("A &lt;test&gt; &amp; more"), std::string::npos);
}

// Returns the first error of an XML document, or an empty string: invalid UTF-8, forbidden characters, unknown
// entities, elements that are not closed in order.
std::string xml_error(std::string_view xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size();) {
    const std::size_t size = character_bytes(xml.substr(at));
    const std::string place = " at byte " + std::to_string(at);
    if (size == 0) return "no UTF-8" + place;
    if (size == 1 && xml[at] < ' ' && xml[at] != '\n' && xml[at] != '\t') return "a control character" + place;
    if (xml.substr(at, size) == "\xEF\xBF\xBE" || xml.substr(at, size) == "\xEF\xBF\xBF") return "U+FFFE" + place;
    if (xml[at] == '&') {
      const std::string_view name = xml.substr(at, xml.substr(at).find(';') + 1);
      if (name != "&amp;" && name != "&lt;" && name != "&gt;" && name != "&quot;" && name != "&#39;")
        return "an unknown entity" + place;
    }
    if (xml[at] == '<') {
      const std::string_view tag = xml.substr(at + 1, xml.substr(at).find('>') - 1);
      const std::string name(tag.substr(tag.starts_with('/'), tag.find_first_of(" /", 1) - tag.starts_with('/')));
      if (std::count(tag.begin(), tag.end(), '"') % 2 != 0 || tag.find('<') != tag.npos) return "a broken tag" + place;
      if (tag.starts_with('/')) {
        if (open.empty() || open.back() != name) return "</" + name + "> closes nothing" + place;
        open.pop_back();
      } else if (!tag.ends_with('/')) {
        open.push_back(name);
      }
    }
    at += size;
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

TEST(Picture, IsValidXmlForAnyNames) {
  EXPECT_EQ(xml_error(render_svg(make_run_report())), "");
  EXPECT_NE(xml_error("<svg><g></svg></g>"), "");
  EXPECT_NE(xml_error("<svg>\xff</svg>"), "");
  for (std::size_t shift = 0; shift < 3; ++shift) {  // truncation falls into the middle of a character
    Report report = explain_text(five, {});
    report.title = std::string(shift, 'x');
    while (report.title.size() < 300) report.title += "\xC3\xA9\xE2\x86\x92";
    EXPECT_EQ(xml_error(render_svg(report)), "") << shift;
    EXPECT_EQ(count_characters(arrange_picture(report).title), 90u);
  }
  Report report = explain_text(five, {});
  report.title = "caf\xE9 \xff\xEF\xBF\xBF\x02.ridge";
  report.explanation.ops[0].work.name = "\xE9&<";
  const std::string svg = render_svg(report);
  EXPECT_EQ(xml_error(svg), "");
  EXPECT_NE(svg.find(">caf\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD .ridge<"), std::string::npos);
}

TEST(Report, AnInfiniteErrorIsANumberInJson) {
  Report report = make_run_report();
  report.measured->ops[0].max_rel_error = INFINITY;
  EXPECT_EQ(nlohmann::json::parse(render_json(report))["ops"][0]["max_rel_error"], std::numeric_limits<double>::max());
}

TEST(Report, NamesThePeaksThatTheOperationsUse) {
  Report report = explain_text(five, {});
  report.explanation.machine.peaks.clear();  // the peaks must not be looked up again
  const auto used = used_peaks(report.explanation);
  ASSERT_EQ(used.size(), 2u);
  EXPECT_EQ(*used[0], make_test_machine().peaks[0]);
  EXPECT_EQ(*used[1], make_test_machine().peaks[1]);
}

PictureBox box_around(PicturePoint p) { return {p.x - 6, p.y - 6, p.x + 6, p.y + 6}; }

bool touches(const PictureBox& box, PicturePoint a, PicturePoint b) {
  for (int i = 0; i <= 1000; ++i) {
    const PicturePoint p{a.x + (b.x - a.x) * i / 1000, a.y + (b.y - a.y) * i / 1000};
    if (box.overlaps({p.x, p.y, p.x + 0.01, p.y + 0.01})) return true;
  }
  return false;
}

// Expects that labels are within the frame and overlap no other label, dot or roof.
void expect_no_overlap(const Picture& picture) {
  std::vector<std::pair<std::string, PictureBox>> boxes;
  for (const auto* labels : {&picture.roof_labels, &picture.ridge_labels, &picture.dot_labels})
    for (const PictureLabel& label : *labels) {
      EXPECT_GE(label.box.right - label.box.left, text_width(label.text, labels == &picture.dot_labels)) << label.text;
      boxes.emplace_back(label.text, label.box);
    }
  for (const PictureBox& split : picture.bandwidth.boxes) boxes.emplace_back(picture.bandwidth.text, split);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto& [text, box] = boxes[i];
    EXPECT_TRUE(box.left >= picture.plot.left && box.right <= picture.plot.right && box.top >= picture.plot.top &&
                box.bottom <= picture.plot.bottom)
        << text << " leaves the frame";
    for (std::size_t j = i + 1; j < boxes.size(); ++j)
      EXPECT_FALSE(text != boxes[j].first && box.overlaps(boxes[j].second)) << text << " and " << boxes[j].first;
    for (const PictureDot& dot : picture.dots) {
      EXPECT_FALSE(box.overlaps(box_around(dot.predicted))) << text << " and a dot";
      for (const PicturePoint& measured : dot.measured)
        EXPECT_FALSE(box.overlaps(box_around(measured))) << text << " and a dot";
    }
    for (const DrawnRoof& roof : picture.roofs)
      EXPECT_FALSE(touches(box, roof.from, roof.corner) || touches(box, roof.corner, roof.to)) << text << " on a roof";
  }
}

TEST(Picture, FiveDistinctOperationsHaveFiveDotsAndFiveNames) {
  const Picture picture = arrange_picture(explain_text(
      "x: bf16[N, D]  WWWWWWMMMMMM: bf16[D, F]  b: bf16[F]  c: bf16[D, G]\n"
      "u[N, F] = x * WWWWWWMMMMMM\nMMMMMMWWWWWW[N, F] = gelu(u + b) * cos(u)\nh[N, F] = exp(MMMMMMWWWWWW)\n"
      "k[N, G] = x * c\ny: bf16[N, D] = repeat(64, cos, x)\n",
      {{"N", 1024}, {"D", 1024}, {"F", 4096}, {"G", 16}}));
  EXPECT_EQ(picture.dots.size(), 5u);
  ASSERT_EQ(picture.dot_labels.size(), 5u);
  EXPECT_EQ(picture.roof_labels.size(), 2u);
  EXPECT_EQ(picture.ridge_labels.size(), 2u);
  expect_no_overlap(picture);
}

TEST(Picture, WideCharactersHaveALargerTextWidth) {
  EXPECT_GT(text_width("WWWW", true), 4 * 13 * 1.10);  // DejaVu Sans Bold's W: 1.103 em
  EXPECT_GT(text_width("mmmm"), 4 * 13 * 0.97);
  EXPECT_GT(text_width("0000"), 4 * 13 * 0.636);
  EXPECT_GT(text_width("0000", true), 4 * 13 * 0.695);
  EXPECT_LT(text_width("iiii"), 4 * 13 * 0.5);
  EXPECT_EQ(text_width("\xC3\xA9"), 13);
}

TEST(Picture, LabelsDoNotOverlapAtOneFiveAndFortyDots) {
  const Picture one =
      arrange_picture(explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 512}, {"D", 8192}, {"F", 8192}}));
  EXPECT_EQ(one.dot_labels.size(), 1u);
  EXPECT_EQ(one.roof_labels.size(), 1u);
  EXPECT_EQ(one.ridge_labels.size(), 1u);
  expect_no_overlap(one);
  const Picture several = arrange_picture(make_run_report());
  EXPECT_EQ(several.dots.size(), 3u + 0u) << "u, g and y share a point";
  EXPECT_EQ(several.dot_labels.size(), several.dots.size());
  expect_no_overlap(several);
  std::string many = "x: bf16[N, D]\n";
  for (int i = 0; i < 40; ++i) many += fmt::format("w{0}: bf16[D, F{0}]\nresult_{0}[N, F{0}] = x * w{0}\n", i);
  Bindings dims{{"N", 300}, {"D", 1024}};
  for (int i = 0; i < 40; ++i) dims[fmt::format("F{}", i)] = 1 + i * i;
  const Picture crowd = arrange_picture(explain_text(many, dims));
  EXPECT_GT(crowd.dot_labels.size(), 20u);
  expect_no_overlap(crowd);
}

TEST(Picture, WithoutSizesShowsOnlyRoofsAndANote) {
  const Picture picture = arrange_picture(explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {}));
  EXPECT_TRUE(picture.dots.empty());
  EXPECT_EQ(picture.not_drawn, std::vector<std::string>{"Z: its dimensions have no values"});
  EXPECT_EQ(picture.roofs.size(), 1u);
}

// Two dots are closer to each other than a label is wide: each name is closer to its own dot, or a line joins them.
TEST(Picture, EachNameIsAssignedToOneDot) {
  const Picture picture =
      arrange_picture(explain_text("x: bf16[N, D]  w: bf16[D, F]  v: bf16[D, G]\nlong_name_of_one[N, F] = x * w\n"
                                   "long_name_of_two[N, G] = x * v\n",
                                   {{"N", 4096}, {"D", 8192}, {"F", 28672}, {"G", 16384}}));
  ASSERT_EQ(picture.dots.size(), 2u);
  ASSERT_EQ(picture.dot_labels.size(), 2u);
  const auto distance = [](const PictureBox& box, PicturePoint p) {
    return std::hypot(std::max({box.left - p.x, 0.0, p.x - box.right}),
                      std::max({box.top - p.y, 0.0, p.y - box.bottom}));
  };
  for (const PictureLabel& label : picture.dot_labels)
    for (const PictureDot& dot : picture.dots) {
      const bool own = std::hypot(dot.predicted.x - label.dot_centre.x, dot.predicted.y - label.dot_centre.y) < 1;
      EXPECT_TRUE(own || label.draw_leader ||
                  distance(label.box, dot.predicted) > distance(label.box, label.dot_centre) + 4)
          << label.text;
    }
}

// Text widths are estimates: a label left of its dot is anchored at its right end.
TEST(Picture, NamesLeftOfDotsAreAnchoredAtTheirEnd) {
  const Report report = explain_text(
      "x: bf16[N, D]  w: bf16[D, F]  v: bf16[D, G]  u: bf16[D, H]\nlong_name_of_one[N, F] = x * w\n"
      "long_name_of_two[N, G] = x * v\nlong_name_of_three[N, H] = x * u\n",
      {{"N", 256}, {"D", 8192}, {"F", 28672}, {"G", 512}, {"H", 128}});
  int left = 0;
  for (const PictureLabel& label : arrange_picture(report).dot_labels) {
    const bool is_left = label.box.right <= label.dot_centre.x;
    left += is_left;
    EXPECT_EQ(render_svg(report).find(fmt::format(" text-anchor=\"end\">{}<", label.text)) != std::string::npos,
              is_left)
        << label.text;
  }
  EXPECT_GT(left, 0);
}

TEST(Picture, DrawsCacheRoofsIfRequested) {
  Report report = explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 512}, {"D", 8192}, {"F", 8192}});
  const SourcedValue rate{.value = 5e12, .source = "test datasheet", .read_on = "2026-01-02"};
  report.explanation.machine.memory.push_back({"l2", rate, std::nullopt});
  EXPECT_TRUE(arrange_picture(report).bandwidth_lines.empty());
  report.show_cache_roofs = true;
  ASSERT_EQ(arrange_picture(report).bandwidth_lines.size(), 1u);
  EXPECT_EQ(arrange_picture(report).bandwidth_lines[0].label.text, "5.000 TB/s l2");
  expect_no_overlap(arrange_picture(report));
}

TEST(Picture, ItsLegendExplainsDashedLines) {
  Report report = explain_text("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 512}, {"D", 8192}, {"F", 8192}});
  const SourcedValue rate{.value = 5e12, .source = "test datasheet", .read_on = "2026-01-02"};
  report.explanation.machine.memory.push_back({"l2", rate, std::nullopt});
  EXPECT_EQ(render_svg(report).find(">cache bandwidth<"), std::string::npos);
  report.show_cache_roofs = true;
  EXPECT_NE(render_svg(report).find(">cache bandwidth<"), std::string::npos);
}

// A kernel of several statements has their names, as in the table.
TEST(Picture, NamesTheStatementsOfAKernel) {
  Report report = make_run_report();
  report.measured->result_names = {{"u"}, {"g"}, {"h"}, {"h", "a"}, {"y"}};
  const std::string svg = render_svg(report);
  EXPECT_NE(svg.find(">h, a</text>"), std::string::npos);
  EXPECT_NE(svg.find(">u; g; y</text>"), std::string::npos) << "a comma separates the statements of one kernel";
}

// Text, tables and pages name the roof of operands in a cache in the same way.
TEST(Report, NamesTheCacheInEveryFormat) {
  Report report = make_run_report();
  report.measured->ops[0].cache = report.measured->total.cache = "l3";
  report.measured->ops[0].fraction_of_roof.reset();
  for (const std::string& text : {render_text(report), render_markdown(report), render_page({{{report}}})}) {
    EXPECT_NE(text.find("in l3"), std::string::npos) << text;
    EXPECT_NE(text.find("50.0 % of l3"), std::string::npos) << text;
  }
}

TEST(Report, SaysThatGuessedNumbersAreNoBounds) {
  const std::string said = "above 100 %: the guessed numbers below are too low, so these times are no bounds\n";
  Report report = make_run_report();
  report.measured->total.fraction_of_roof = 1.1;
  EXPECT_EQ(render_text(report).find(said), std::string::npos) << "no number is guessed";
  report.explanation.machine.memory[0].bandwidth->origin = Origin::guessed;
  EXPECT_NE(render_text(report).find(said), std::string::npos);
  report.measured->total.fraction_of_roof = 0.9;
  EXPECT_EQ(render_text(report).find(said), std::string::npos);
}

// Alone or embedded in a page, the picture scales to the available width, and its background fills the rest.
TEST(Picture, ScalesAndItsBackgroundFillsThePage) {
  const std::string svg = render_svg(make_run_report());
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 600\" role=\"img\">"));
  EXPECT_NE(svg.find("svg{background:#0d1117}"), std::string::npos);
}

TEST(Report, NamesOutliers) {
  Report report = make_run_report();
  report.measured->ops[2].time.outliers = 2;
  EXPECT_NE(render_text(report).find("outliers: h in 2 of 7 runs, the longest "), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(render_json(report))["ops"][2]["measured_s"]["outliers"], 2);
  EXPECT_EQ(render_text(make_run_report()).find("outliers"), std::string::npos);
}

TEST(Report, OfAProbeMatchesTheSchema) {
  ProbeReport probe;
  probe.machine = make_test_machine();
  probe.lines = {{"f32", "FLOP/s", 1, {1e11, 9e10, 1.1e11, 3}, ""},
                 {"read", "B/s", 2, {4e10, 4e10, 4e10, 3}, "the system gave the probe 62 % of the time"},
                 {"launch", "s", 132, {2e-6, 2e-6, 3e-6, 5}, ""}};
  expect_golden("probe.json", without_commit(render_probe_json(probe)));
}

}  // namespace
}  // namespace ridge
