// Draws who was busy when. chrome_trace gives the JSON that https://ui.perfetto.dev and chrome://tracing load: a thread
// for each lane, complete events ("ph":"X") with begin and length in microseconds. Events of one lane that overlap
// (copies on their way) go to several threads, for the format forbids it on one. timeline_svg gives one picture, for a
// report: every lane a row, every phase a colour.
//   1 GHz, lane "copies", load [0, 128) of stage 3: {"name":"load
//   3","cat":"load","ph":"X","ts":0.000000,"dur":0.128000,…}
#pragma once

#include <string>
#include <string_view>

#include "ridge/base/timeline.h"

namespace ridge {

// Without a clock a tick is drawn as a microsecond, and the trace's otherData says so.
std::string chrome_trace(const Timeline& timeline, std::string_view title);

// The picture's rows alone, for a page that holds more: they take the page's width of 960 from `top` to `bottom`. The
// page's <style> holds timeline_styles, which come with their dark twins.
struct DrawnTimeline {
  std::string svg;
  double bottom = 0;
};
DrawnTimeline draw_timeline(const Timeline& timeline, double top);
std::string_view timeline_styles();

std::string timeline_svg(const Timeline& timeline, std::string_view title);

// A pipe's picture: its beginning, until every lane has worked and as long again, and below all of it. One picture
// where the beginning is most of it.
std::string filling_svg(const Timeline& timeline, std::string_view title, std::string_view subtitle);

}  // namespace ridge
