// Pieces of HTML that several pages consist of (page.h, model_page.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/report/table.h"

namespace ridge {

inline constexpr std::size_t max_page_bytes = 300'000;

// Returns the embedded file with this name, without its extension.
std::string_view find_embedded_file(std::string_view name);
std::string join_embedded_files(const std::vector<std::string_view>& names);

using TemplateFields = std::map<std::string, std::string, std::less<>>;
// Replaces every {{name}} in `text` by its field.
std::string fill_template(std::string_view text, const TemplateFields& fields);

// Returns JSON that cannot end the script element that contains it.
std::string escape_script_ends(std::string json);

std::string table_html(const Cells& cells);
std::string section_html(const std::string& id, const std::string& heading, const std::string& content);
// Returns a text that the reader opens.
std::string details_html(const std::string& summary, const std::string& text, bool open = false);
// Returns a table that scrolls if it is too wide; `name` is the id of its heading.
std::string scrolling_html(const std::string& name, const std::string& table);

}  // namespace ridge
