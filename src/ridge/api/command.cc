#include "ridge/api/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace ridge::api {
namespace {

std::string quote_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_-./,=:+@%").find(c) != std::string::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string quote_link(const LinkChoice& link) {
  if (const auto* rate = std::get_if<ByteRate>(&link)) return fmt::format("{:g}", rate->value);
  return quote_word(std::get<std::string>(link));
}

}  // namespace

std::string quote_for_shell(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::string trimmed = text.substr(0, end == std::string::npos ? 0 : end + 1);
  if (trimmed.find('\n') == std::string::npos) return quote_word(trimmed);
  std::string out = "$'";
  const auto escape = [](char c) -> std::string {
    if (c == '\n') return "\\n";
    return c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  };
  for (const char c : trimmed) out += escape(c);
  return out + "'";
}

std::string explain_command(const Request& request, const Bindings& dims, const std::string& options) {
  std::string out = "ridge explain " + quote_word(request.program);
  if (request.on.where() != RunTarget::cpu) out += " --on " + quote_word(request.on.name());
  if (request.dtype) out += fmt::format(" --dtype {}", dtype_name(*request.dtype));
  Bindings all = dims;
  all.insert(request.dims.begin(), request.dims.end());
  for (const auto& [dim, value] : all) out += fmt::format(" -d {}={}", dim, value);
  if (request.split) {
    out += fmt::format(" --split {}={}", request.split->dim, request.split->chips);
    for (const DimensionSplit& each : request.split->other_splits)
      out += fmt::format(" --split {}={}", each.dim, each.chips);
  }
  if (request.link) out += " --link " + quote_link(*request.link);
  if (request.memory) out += " --memory " + quote_link(*request.memory);
  if (request.sustained) out += " --sustained";
  if (request.narrow) out += fmt::format(" --narrow {}", dtype_name(*request.narrow));
  if (request.weights && options.find("--weights") == std::string::npos)
    out += fmt::format(" --weights {}", dtype_name(*request.weights));
  if (request.layers > 1) out += fmt::format(" --layers {}", request.layers);
  for (const auto& group : request.fused) out += fmt::format(" --fuse {}", fmt::join(group, ","));
  return options.empty() ? out : out + " " + options;
}

}  // namespace ridge::api
