// The few words in which every SVG of ridge is written: escaped text, a line, a rectangle. Coordinates have one digit
// behind the point, so that the same picture is the same bytes everywhere.
#pragma once

#include <string>
#include <string_view>

#include "ridge/report/svg/picture.h"

namespace ridge {

// Text for XML: the five that have a meaning there; control characters, which XML forbids, become spaces,
// and what is no UTF-8 becomes U+FFFD.
std::string escaped(std::string_view text);
// The opening of a picture so large, in pixels: it takes the width that it is given, and the ground of its own colour
// goes on beside it.
std::string svg_head(double width, double height);
// Text, ground, grid, frame and leaders on a light and on a dark ground, and a picture's own rules for either.
std::string style_sheet(std::string_view on_light, std::string_view on_dark);
std::string text_at(std::string_view kind, Point at, std::string_view text, std::string_view more = "");
std::string line(std::string_view kind, Point a, Point b);
std::string box(std::string_view kind, const Box& at);

}  // namespace ridge
