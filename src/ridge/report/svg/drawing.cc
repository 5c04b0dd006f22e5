#include "ridge/report/svg/drawing.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/utf8.h"

namespace ridge {

std::string escape_xml(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(1, size));
    text.remove_prefix(character.size());
    if (size == 0 || character == "\xEF\xBF\xBE" || character == "\xEF\xBF\xBF")
      out += "\xEF\xBF\xBD";
    else if (size > 1)
      out += character;
    else
      switch (const char c = character[0]) {
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

std::string svg_head(double width, double height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\">\n"
      "<style>svg{{color-scheme:light dark;background:#ffffff}}"
      "@media (prefers-color-scheme:dark){{svg{{background:#0d1117}}}}</style>\n",
      width, height);
}

std::string style_sheet(std::string_view on_light, std::string_view on_dark) {
  static constexpr std::string_view light = R"(<style>
text{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:13px;fill:#1f2328}
.title{font-size:16px;font-weight:600}
.soft{fill:#57606a;font-size:12px}
.back{fill:#ffffff}
.grid{stroke:#d0d7de;stroke-width:1}
.frame{fill:none;stroke:#8c959f;stroke-width:1}
.leader{stroke:#8c959f;stroke-width:1}
)";
  static constexpr std::string_view dark = R"(@media (prefers-color-scheme:dark){
text{fill:#e6edf3}
.soft{fill:#9198a1}
.back{fill:#0d1117}
.grid{stroke:#30363d}
.frame,.leader{stroke:#6e7681}
)";
  return std::string(light).append(on_light).append(dark).append(on_dark) + "}\n</style>\n";
}

std::string draw_text(std::string_view kind, PicturePoint at, std::string_view text, std::string_view more) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", kind, at.x, at.y, more,
                     escape_xml(text));
}

std::string draw_line(std::string_view kind, PicturePoint a, PicturePoint b) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind, a.x, a.y,
                     b.x, b.y);
}

std::string draw_box(std::string_view kind, const PictureBox& at) {
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", kind,
                     at.left, at.top, at.right - at.left, at.bottom - at.top);
}

}  // namespace ridge
