// Draws timelines. `chrome_trace` returns JSON for https://ui.perfetto.dev and chrome://tracing: one thread per lane,
// complete events ("ph":"X") with begin and length in microseconds. The format forbids overlapping events on one
// thread, so overlapping events of a lane (copies in flight) use several threads. `timeline_svg` returns one picture
// with a row per lane and a colour per phase.
//   1 GHz, lane "copies", load [0, 128) of stage 3: {"name":"load
//   3","cat":"load","ph":"X","ts":0.000000,"dur":0.128000,…}
#pragma once

#include <string>
#include <string_view>

#include "ridge/base/timeline.h"

namespace ridge {

// Without a clock rate a tick is drawn as a microsecond, and the trace's otherData says so.
std::string chrome_trace(const Timeline& timeline, std::string_view title);

// The rows of the picture without the page around them, 960 wide, from `top` to `bottom`. The page must include
// `timeline_styles`, which have light and dark colours.
struct DrawnTimeline {
  std::string svg;
  double bottom = 0;
};
DrawnTimeline draw_timeline(const Timeline& timeline, double top);
std::string_view timeline_styles();

std::string timeline_svg(const Timeline& timeline, std::string_view title);

// Draws twice the time until every lane has worked once, and below it the whole run. Draws only the whole run if the
// first part is most of it.
std::string pipeline_fill_svg(const Timeline& timeline, std::string_view title, std::string_view subtitle);

}  // namespace ridge
