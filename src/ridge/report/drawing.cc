#include "ridge/report/drawing.h"

#include <fmt/format.h>

namespace ridge {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += static_cast<unsigned char>(c) < 0x20 && c != '\n' ? ' ' : c;
    }
  }
  return out;
}

std::string text_at(std::string_view kind, Point at, std::string_view text, std::string_view more) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", kind, at.x, at.y, more,
                     escaped(text));
}

std::string line(std::string_view kind, Point a, Point b) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, a.x, a.y,
                     b.x, b.y);
}

std::string box(std::string_view kind, const Box& at) {
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", kind,
                     at.left, at.top, at.right - at.left, at.bottom - at.top);
}

}  // namespace ridge
