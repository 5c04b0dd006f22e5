// Basic SVG elements: escaped text, a line, a rectangle. Coordinates have one decimal digit, so that the same picture
// has the same bytes on every platform.
#pragma once

#include <string>
#include <string_view>

#include "ridge/report/svg/picture.h"

namespace ridge {

// Escapes text for XML. Control characters, which XML forbids, become spaces, and invalid UTF-8 becomes U+FFFD.
std::string escape_xml(std::string_view text);
// Returns the opening tag for a picture of this size in pixels. The picture scales to any width, and its background
// colour fills the rest of the viewport.
std::string svg_head(double width, double height);
// Returns the CSS of text, background, grid, frame and leaders for light and dark mode, and the picture's own rules.
std::string style_sheet(std::string_view on_light, std::string_view on_dark);
std::string draw_text(std::string_view kind, PicturePoint at, std::string_view text, std::string_view more = "");
std::string draw_line(std::string_view kind, PicturePoint a, PicturePoint b);
std::string draw_box(std::string_view kind, const PictureBox& at);

}  // namespace ridge
