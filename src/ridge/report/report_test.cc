// Goldens: tests/golden/NAME is what the renderer wrote; RIDGE_UPDATE_GOLDENS=1 in the environment rewrites them.
#include "ridge/report/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "ridge/base/file.h"
#include "ridge/base/text.h"
#include "ridge/base/utf8.h"
#include "ridge/base/version.h"
#include "ridge/report/parts/used.h"
#include "ridge/report/svg/picture.h"

namespace ridge {
namespace {

Machine toy() {
  const Sourced matrix{.value = 1e14, .source = "toy datasheet", .read_on = "2026-01-02"};
  const Sourced vector{.value = 1e13, .source = "toy datasheet", .read_on = "2026-01-02"};
  const Sourced bandwidth{.value = 1e12, .source = "toy datasheet", .read_on = "2026-01-02"};
  Machine machine;
  machine.name = "toy";
  machine.title = "A <toy> & more";
  machine.peaks = {{Unit::matrix, DType::bf16, matrix}, {Unit::vector, DType::f32, vector}};
  machine.memory = {{"hbm", bandwidth, std::nullopt}};
  return machine;
}

Report explained(const std::string& text, const Bindings& dims) {
  const auto program = parse(text);
  const auto explanation = explain(program.value(), toy(), dims);
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

Report ran() {
  Report report = explained(five, {});
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

// The build's commit changes with every commit: goldens say COMMIT.
std::string anonymous(std::string text) {
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
  const auto wanted = read_file(path);
  ASSERT_TRUE(wanted.ok()) << wanted.error().text();
  EXPECT_EQ(*wanted, got) << name << " differs; RIDGE_UPDATE_GOLDENS=1 rewrites it";
}

TEST(Report, RendersTextAsTheGoldensSay) {
  expect_golden("explain_one.txt", render_text(explained("bf16[B, D] * bf16[D, F] -> bf16[B, F]",
                                                         {{"B", 512}, {"D", 8192}, {"F", 8192}})));
  expect_golden("explain_open.txt", render_text(explained("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {})));
  expect_golden("explain_five.txt", render_text(explained(five, {})));
  expect_golden("run_five.txt", render_text(ran()));
}

TEST(Report, RendersJsonAsTheGoldensSay) {
  expect_golden("explain_open.json",
                anonymous(render_json(explained("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"D", 8192}}))));
  expect_golden("run_five.json", anonymous(render_json(ran())));
}

TEST(Report, RendersThePictureAsTheGoldensSay) {
  expect_golden("explain_one.svg",
                render_svg(explained("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 512}, {"D", 8192}, {"F", 8192}})));
  expect_golden("run_five.svg", render_svg(ran()));
  EXPECT_EQ(render_svg(ran()), render_svg(ran()));
}

TEST(Report, OneLineOfJsonIsOneLine) {
  const std::string line = render_json(explained(five, {}), true);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_EQ(nlohmann::json::parse(line)["schema"], "ridge.report/2");
}

TEST(Report, BytesThatAreNoUtf8DoNotStopTheJson) {
  Report report = explained(five, {});
  report.explanation.program_text = "\xff";
  EXPECT_EQ(nlohmann::json::parse(render_json(report))["program"], "\xEF\xBF\xBD");
}

// As the JSON writer has them, which sees only what is no plain text.
TEST(Report, TheProgramStandsInTheJsonAsItIsWritten) {
  Report report = explained(five, {});
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

TEST(Report, ColorsOnlyWhereAsked) {
  EXPECT_EQ(render_text(ran()).find('\x1b'), std::string::npos);
  EXPECT_NE(render_text(ran(), {.color = true}).find('\x1b'), std::string::npos);
}

TEST(Report, PictureEscapesWhatXmlWouldRead) {
  Report report = explained(five, {});
  report.title = "a<b>&\"'\x01";
  const std::string svg = render_svg(report);
  EXPECT_NE(svg.find(">a&lt;b&gt;&amp;&quot;&#39; <"), std::string::npos);
  EXPECT_NE(svg.find("A &lt;toy&gt; &amp; more"), std::string::npos);
}

// A small reader of XML, enough to refuse what no browser would read: broken UTF-8, characters that XML forbids,
// entities it does not know, elements that do not close in order.
std::string xml_fault(std::string_view xml) {
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

TEST(Picture, IsXmlWhateverTheNamesAre) {
  EXPECT_EQ(xml_fault(render_svg(ran())), "");
  EXPECT_NE(xml_fault("<svg><g></svg></g>"), "");
  EXPECT_NE(xml_fault("<svg>\xff</svg>"), "");
  for (std::size_t shift = 0; shift < 3; ++shift) {  // the cut falls into the middle of a character
    Report report = explained(five, {});
    report.title = std::string(shift, 'x');
    while (report.title.size() < 300) report.title += "\xC3\xA9\xE2\x86\x92";
    EXPECT_EQ(xml_fault(render_svg(report)), "") << shift;
    EXPECT_EQ(columns(arrange(report).title), 90u);
  }
  Report report = explained(five, {});
  report.title = "caf\xE9 \xff\xEF\xBF\xBF\x02.ridge";
  report.explanation.ops[0].work.name = "\xE9&<";
  const std::string svg = render_svg(report);
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_NE(svg.find(">caf\xEF\xBF\xBD \xEF\xBF\xBD\xEF\xBF\xBD .ridge<"), std::string::npos);
}

TEST(Report, AnInfiniteErrorIsANumberInJson) {
  Report report = ran();
  report.measured->ops[0].max_rel_error = INFINITY;
  EXPECT_EQ(nlohmann::json::parse(render_json(report))["ops"][0]["max_rel_error"], std::numeric_limits<double>::max());
}

TEST(Report, NamesThePeaksByWhichTheOperationsWereJudged) {
  Report report = explained(five, {});
  report.explanation.machine.peaks.clear();  // nothing is looked up again
  const auto used = used_peaks(report.explanation);
  ASSERT_EQ(used.size(), 2u);
  EXPECT_EQ(*used[0], toy().peaks[0]);
  EXPECT_EQ(*used[1], toy().peaks[1]);
}

Box around(Point p) { return {p.x - 6, p.y - 6, p.x + 6, p.y + 6}; }

bool touches(const Box& box, Point a, Point b) {
  for (int i = 0; i <= 1000; ++i) {
    const Point p{a.x + (b.x - a.x) * i / 1000, a.y + (b.y - a.y) * i / 1000};
    if (box.overlaps({p.x, p.y, p.x + 0.01, p.y + 0.01})) return true;
  }
  return false;
}

// Labels within the frame, off each other, off every dot and off every roof.
void expect_apart(const Picture& picture) {
  std::vector<std::pair<std::string, Box>> boxes;
  for (const auto* labels : {&picture.roof_labels, &picture.ridge_labels, &picture.dot_labels})
    for (const Label& label : *labels) {
      EXPECT_GE(label.box.right - label.box.left, text_width(label.text, labels == &picture.dot_labels)) << label.text;
      boxes.emplace_back(label.text, label.box);
    }
  for (const Box& split : picture.bandwidth.boxes) boxes.emplace_back(picture.bandwidth.text, split);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const auto& [text, box] = boxes[i];
    EXPECT_TRUE(box.left >= picture.plot.left && box.right <= picture.plot.right && box.top >= picture.plot.top &&
                box.bottom <= picture.plot.bottom)
        << text << " leaves the frame";
    for (std::size_t j = i + 1; j < boxes.size(); ++j)
      EXPECT_FALSE(text != boxes[j].first && box.overlaps(boxes[j].second)) << text << " and " << boxes[j].first;
    for (const Dot& dot : picture.dots) {
      EXPECT_FALSE(box.overlaps(around(dot.predicted))) << text << " and a dot";
      for (const Point& measured : dot.measured) EXPECT_FALSE(box.overlaps(around(measured))) << text << " and a dot";
    }
    for (const DrawnRoof& roof : picture.roofs)
      EXPECT_FALSE(touches(box, roof.from, roof.corner) || touches(box, roof.corner, roof.to)) << text << " on a roof";
  }
}

TEST(Picture, FiveDistinctOperationsHaveFiveDotsAndFiveNames) {
  const Picture picture = arrange(
      explained("x: bf16[N, D]  WWWWWWMMMMMM: bf16[D, F]  b: bf16[F]  c: bf16[D, G]\n"
                "u[N, F] = x * WWWWWWMMMMMM\nMMMMMMWWWWWW[N, F] = gelu(u + b) * cos(u)\nh[N, F] = exp(MMMMMMWWWWWW)\n"
                "k[N, G] = x * c\ny: bf16[N, D] = repeat(64, cos, x)\n",
                {{"N", 1024}, {"D", 1024}, {"F", 4096}, {"G", 16}}));
  EXPECT_EQ(picture.dots.size(), 5u);
  ASSERT_EQ(picture.dot_labels.size(), 5u);
  EXPECT_EQ(picture.roof_labels.size(), 2u);
  EXPECT_EQ(picture.ridge_labels.size(), 2u);
  expect_apart(picture);
}

TEST(Picture, AWideNameTakesMoreRoomThanANarrowOne) {
  EXPECT_GT(text_width("WWWW", true), 4 * 13 * 1.10);  // DejaVu Sans Bold's W: 1.103 em
  EXPECT_GT(text_width("mmmm"), 4 * 13 * 0.97);
  EXPECT_GT(text_width("0000"), 4 * 13 * 0.636);
  EXPECT_GT(text_width("0000", true), 4 * 13 * 0.695);
  EXPECT_LT(text_width("iiii"), 4 * 13 * 0.5);
  EXPECT_EQ(text_width("\xC3\xA9"), 13);
}

TEST(Picture, LabelsStandApartAtOneFiveAndFortyDots) {
  const Picture one =
      arrange(explained("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 512}, {"D", 8192}, {"F", 8192}}));
  EXPECT_EQ(one.dot_labels.size(), 1u);
  EXPECT_EQ(one.roof_labels.size(), 1u);
  EXPECT_EQ(one.ridge_labels.size(), 1u);
  expect_apart(one);
  const Picture several = arrange(ran());
  EXPECT_EQ(several.dots.size(), 3u + 0u) << "u, g and y share a point";
  EXPECT_EQ(several.dot_labels.size(), several.dots.size());
  expect_apart(several);
  std::string many = "x: bf16[N, D]\n";
  for (int i = 0; i < 40; ++i) many += fmt::format("w{0}: bf16[D, F{0}]\nresult_{0}[N, F{0}] = x * w{0}\n", i);
  Bindings dims{{"N", 300}, {"D", 1024}};
  for (int i = 0; i < 40; ++i) dims[fmt::format("F{}", i)] = 1 + i * i;
  const Picture crowd = arrange(explained(many, dims));
  EXPECT_GT(crowd.dot_labels.size(), 20u);
  expect_apart(crowd);
}

TEST(Picture, DimensionsWithoutValuesLeaveTheRoofsAndSaySo) {
  const Picture picture = arrange(explained("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {}));
  EXPECT_TRUE(picture.dots.empty());
  EXPECT_EQ(picture.not_drawn, std::vector<std::string>{"Z: its dimensions have no values"});
  EXPECT_EQ(picture.roofs.size(), 1u);
}

// g and u meet closer to each other than a label is wide: each name is nearer to its own dot, or a line leads there.
TEST(Picture, ANameBelongsToOneDotOnly) {
  const Picture picture =
      arrange(explained("x: bf16[N, D]  w: bf16[D, F]  v: bf16[D, G]\nlong_name_of_one[N, F] = x * w\n"
                        "long_name_of_two[N, G] = x * v\n",
                        {{"N", 4096}, {"D", 8192}, {"F", 28672}, {"G", 16384}}));
  ASSERT_EQ(picture.dots.size(), 2u);
  ASSERT_EQ(picture.dot_labels.size(), 2u);
  const auto distance = [](const Box& box, Point p) {
    return std::hypot(std::max({box.left - p.x, 0.0, p.x - box.right}),
                      std::max({box.top - p.y, 0.0, p.y - box.bottom}));
  };
  for (const Label& label : picture.dot_labels)
    for (const Dot& dot : picture.dots) {
      const bool own = std::hypot(dot.predicted.x - label.from.x, dot.predicted.y - label.from.y) < 1;
      EXPECT_TRUE(own || label.leader || distance(label.box, dot.predicted) > distance(label.box, label.from) + 4)
          << label.text;
    }
}

// The width of a text is an estimate: what stands left of its dot ends there, however narrow it turns out.
TEST(Picture, ANameLeftOfItsDotEndsThere) {
  const Report report = explained(
      "x: bf16[N, D]  w: bf16[D, F]  v: bf16[D, G]  u: bf16[D, H]\nlong_name_of_one[N, F] = x * w\n"
      "long_name_of_two[N, G] = x * v\nlong_name_of_three[N, H] = x * u\n",
      {{"N", 256}, {"D", 8192}, {"F", 28672}, {"G", 512}, {"H", 128}});
  int left = 0;
  for (const Label& label : arrange(report).dot_labels) {
    const bool is_left = label.box.right <= label.from.x;
    left += is_left;
    EXPECT_EQ(render_svg(report).find(fmt::format(" text-anchor=\"end\">{}<", label.text)) != std::string::npos,
              is_left)
        << label.text;
  }
  EXPECT_GT(left, 0);
}

TEST(Picture, CachesHaveRoofsWhereTheyAreAskedFor) {
  Report report = explained("bf16[B, D] * bf16[D, F] -> bf16[B, F]", {{"B", 512}, {"D", 8192}, {"F", 8192}});
  const Sourced rate{.value = 5e12, .source = "toy datasheet", .read_on = "2026-01-02"};
  report.explanation.machine.memory.push_back({"l2", rate, std::nullopt});
  EXPECT_TRUE(arrange(report).slopes.empty());
  report.roofs = true;
  ASSERT_EQ(arrange(report).slopes.size(), 1u);
  EXPECT_EQ(arrange(report).slopes[0].label.text, "5.000 TB/s l2");
  expect_apart(arrange(report));
}

// Opened alone or put on a page it takes the width that it is given, and its ground goes on beside it.
TEST(Picture, TakesAnyWidthAndItsGroundGoesOn) {
  const std::string svg = render_svg(ran());
  EXPECT_TRUE(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 960 600\" role=\"img\">"));
  EXPECT_NE(svg.find("svg{background:#0d1117}"), std::string::npos);
}

TEST(Report, NamesOutliers) {
  Report report = ran();
  report.measured->ops[2].time.outliers = 2;
  EXPECT_NE(render_text(report).find("outliers: h in 2 of 7 runs, the longest "), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(render_json(report))["ops"][2]["measured_s"]["outliers"], 2);
  EXPECT_EQ(render_text(ran()).find("outliers"), std::string::npos);
}

TEST(Report, OfAProbeIsWhatTheSchemaSays) {
  ProbeReport probe;
  probe.machine = toy();
  probe.lines = {{"f32", "FLOP/s", 1, {1e11, 9e10, 1.1e11, 3}, ""},
                 {"read", "B/s", 2, {4e10, 4e10, 4e10, 3}, "the system gave the probe 62 % of the time"},
                 {"launch", "s", 132, {2e-6, 2e-6, 3e-6, 5}, ""}};
  expect_golden("probe.json", anonymous(render_probe_json(probe)));
}

}  // namespace
}  // namespace ridge
