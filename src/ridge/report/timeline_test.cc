#include "ridge/report/timeline.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace ridge {
namespace {

using Json = nlohmann::json;

Timeline two_copies() {
  Timeline t;
  t.ticks_per_second = 1e9;
  const int copies = t.add_lane("copies"), units = t.add_lane("a \"unit\" <1>\t");
  t.add_event(copies, Phase::load, 0, 128, 3);
  t.add_event(copies, Phase::load, 100, 300, 4);
  t.add_event(copies, Phase::load, 128, 200, 5);
  t.add_event(units, Phase::compute, 300, 1500, 3);
  return t;
}

TEST(ChromeTrace, MatchesTheExpectedText) {
  EXPECT_EQ(chrome_trace(two_copies(), "two & more"),
            R"json({"displayTimeUnit":"ns","otherData":{"title":"two & more","clock":"time"},
"traceEvents":[
{"name":"process_name","ph":"M","pid":1,"tid":0,"args":{"name":"two & more"}},
{"name":"thread_name","ph":"M","pid":1,"tid":1,"args":{"name":"copies"}},
{"name":"thread_sort_index","ph":"M","pid":1,"tid":1,"args":{"sort_index":1}},
{"name":"thread_name","ph":"M","pid":1,"tid":2,"args":{"name":"copies (2)"}},
{"name":"thread_sort_index","ph":"M","pid":1,"tid":2,"args":{"sort_index":2}},
{"name":"load 3","cat":"load","ph":"X","ts":0.000000,"dur":0.128000,"pid":1,"tid":1,"args":{"step":3}},
{"name":"load 4","cat":"load","ph":"X","ts":0.100000,"dur":0.200000,"pid":1,"tid":2,"args":{"step":4}},
{"name":"load 5","cat":"load","ph":"X","ts":0.128000,"dur":0.072000,"pid":1,"tid":1,"args":{"step":5}},
{"name":"thread_name","ph":"M","pid":1,"tid":3,"args":{"name":"a \"unit\" <1>\t"}},
{"name":"thread_sort_index","ph":"M","pid":1,"tid":3,"args":{"sort_index":3}},
{"name":"compute 3","cat":"compute","ph":"X","ts":0.300000,"dur":1.200000,"pid":1,"tid":3,"args":{"step":3}}
]}
)json");
}

// Expects valid JSON in which every X event has its numbers and events of one thread do not overlap.
void expect_loads(const std::string& text, std::size_t events) {
  const Json trace = Json::parse(text);
  std::map<int, double> free;
  std::size_t seen = 0;
  for (const Json& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    ++seen;
    const int thread = e.at("tid");
    const double begin = e.at("ts"), length = e.at("dur");
    EXPECT_GE(length, 0);
    EXPECT_GE(begin * (1 + 1e-12), free[thread]);
    free[thread] = begin + length;
  }
  EXPECT_EQ(seen, events);
}

TEST(ChromeTrace, EventsOfAThreadDoNotOverlapAtAnyClockRate) {
  for (const double hertz : {0.0, 1.755e9, 940e6, 3.0}) {
    Timeline t;
    t.ticks_per_second = hertz;
    const int lane = t.add_lane("x");
    for (int i = 0; i < 1000; ++i) t.add_event(lane, Phase::load, i * 7, i * 7 + 1 + i * 13 % 40, i);
    expect_loads(chrome_trace(t, "odd"), 1000);
  }
}

TEST(ChromeTrace, WithoutEventsIsValid) {
  expect_loads(chrome_trace({}, ""), 0);
  EXPECT_NE(chrome_trace({}, "").find("ticks, drawn as microseconds"), std::string::npos);
}

TEST(TimelineSvg, EscapesNamesAndDrawsEveryPhaseOnce) {
  const std::string svg = timeline_svg(two_copies(), "two & <more>");
  EXPECT_NE(svg.find("<title>two &amp; &lt;more&gt;</title>"), std::string::npos);
  EXPECT_NE(svg.find("a &quot;unit&quot; &lt;1&gt; </text>"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_NE(svg.find(">1.5 us</text>"), std::string::npos) << svg;
}

TEST(TimelineSvg, ItsLegendListsThePhasesThatOccur) {
  const std::string svg = timeline_svg(two_copies(), "two copies");
  EXPECT_NE(svg.find(">load</text>"), std::string::npos);
  EXPECT_NE(svg.find(">compute</text>"), std::string::npos);
  EXPECT_EQ(svg.find(">store</text>"), std::string::npos);
}

TEST(TimelineSvg, MergesAMillionEventsIntoASmallPicture) {
  Timeline t;
  const int lane = t.add_lane("x");
  for (int i = 0; i < 1000000; ++i) t.add_event(lane, Phase::compute, i, i + 1, i);
  EXPECT_LT(timeline_svg(t, "many").size(), 200000U);
}

}  // namespace
}  // namespace ridge
