#include "ridge/report/page/page_html.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/report/page/page.h"
#include "ridge/report/svg/drawing.h"

namespace ridge {

std::string_view find_embedded_file(std::string_view name) {
  for (const EmbeddedFile& each : embedded_page_files())
    if (each.name == name) return each.text;
  return {};
}

std::string join_embedded_files(const std::vector<std::string_view>& names) {
  std::string out;
  for (const std::string_view name : names) out += find_embedded_file(name);
  return out;
}

std::string fill_template(std::string_view text, const TemplateFields& fields) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t open = std::min(text.find("{{", at), text.size()), close = text.find("}}", open);
    out += text.substr(at, open - at);
    if (close == text.npos) break;
    const auto field = fields.find(text.substr(open + 2, close - open - 2));
    if (field != fields.end()) out += field->second;
    at = close + 2;
  }
  return out;
}

std::string escape_script_ends(std::string json) {
  for (std::size_t at = json.find('<'); at != json.npos; at = json.find('<', at)) json.replace(at, 1, "\\u003c");
  return json;
}

std::string table_html(const Cells& cells) {
  std::string out = "<table>\n";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    out += i == 0 ? "<thead><tr>" : "<tr>";
    for (std::size_t k = 0; k < cells[i].size(); ++k) {
      const std::string text = escape_xml(cells[i][k]);
      if (i == 0)
        out += "<th scope=\"col\">" + text + "</th>";
      else
        out += k == 0 ? "<th scope=\"row\">" + text + "</th>" : "<td>" + text + "</td>";
    }
    out += i == 0 ? "</tr></thead>\n<tbody>\n" : "</tr>\n";
  }
  return out + "</tbody></table>\n";
}

std::string section_html(const std::string& id, const std::string& heading, const std::string& content) {
  return fmt::format("<section>\n<h2 id=\"{0}\">{1}</h2>\n{2}</section>\n", id, heading, content);
}

std::string details_html(const std::string& summary, const std::string& text, bool open) {
  return fmt::format("<details{}>\n<summary>{}</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
                     open ? " open" : "", escape_xml(summary), escape_xml(text));
}

std::string scrolling_html(const std::string& name, const std::string& table) {
  return fmt::format("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-labelledby=\"{}\">\n{}</div>\n", name,
                     table);
}

}  // namespace ridge
