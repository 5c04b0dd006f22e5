#include "ridge/api/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace ridge::api {
namespace {

std::string word(const std::string& text) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_-./,=:+@%").find(c) != std::string::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string link_word(const LinkChoice& link) {
  if (const auto* rate = std::get_if<ByteRate>(&link)) return fmt::format("{:g}", rate->value);
  return word(std::get<std::string>(link));
}

}  // namespace

std::string shell_word(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  const std::string shown = text.substr(0, end == std::string::npos ? 0 : end + 1);
  if (shown.find('\n') == std::string::npos) return word(shown);
  std::string out = "$'";
  const auto shown_as = [](char c) -> std::string {
    if (c == '\n') return "\\n";
    return c == '\'' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  };
  for (const char c : shown) out += shown_as(c);
  return out + "'";
}

std::string explain_command(const Request& request, const Bindings& dims, const std::string& options) {
  std::string out = "ridge explain " + word(request.program);
  if (request.on.where() != Where::cpu) out += " --on " + word(request.on.name());
  if (request.dtype) out += fmt::format(" --dtype {}", name(*request.dtype));
  Bindings all = dims;
  all.insert(request.dims.begin(), request.dims.end());
  for (const auto& [dim, value] : all) out += fmt::format(" -d {}={}", dim, value);
  if (request.split) {
    out += fmt::format(" --split {}={}", request.split->dim, request.split->chips);
    for (const Split& each : request.split->also) out += fmt::format(" --split {}={}", each.dim, each.chips);
  }
  if (request.link) out += " --link " + link_word(*request.link);
  if (request.memory) out += " --memory " + link_word(*request.memory);
  if (request.sustained) out += " --sustained";
  if (request.weights && options.find("--weights") == std::string::npos)
    out += fmt::format(" --weights {}", name(*request.weights));
  if (request.layers > 1) out += fmt::format(" --layers {}", request.layers);
  for (const auto& group : request.fused) out += fmt::format(" --fuse {}", fmt::join(group, ","));
  return options.empty() ? out : out + " " + options;
}

}  // namespace ridge::api
