#include "ridge/cli/request_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <sstream>

#include "ridge/base/contains.h"
#include "ridge/base/string_util.h"
#include "ridge/program/bindings.h"
#include "ridge/program/ranges.h"
#include "ridge/roofline/split.h"

namespace ridge::cli {
namespace {

constexpr double min_rate = 1e6;  // B/s; a smaller rate is a number in GB/s or TB/s

// Returns the factor of "GB/s" or " TB/s", 1 for "" and nullopt for other text.
std::optional<double> unit_factor(std::string_view unit) {
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.empty() || unit == "B/s") return 1;
  constexpr std::string_view prefixes = "kMGTP";
  const std::size_t prefix = prefixes.find(unit.front());
  if (unit.substr(1) != "B/s" || prefix == std::string_view::npos) return std::nullopt;
  return std::pow(1000.0, static_cast<double>(prefix + 1));
}

Error too_small_error(const std::string& text, std::string_view option, const std::string& hint) {
  return usage_error(fmt::format("expected at least 1e6 B/s after {}, found '{}'", option, text), hint);
}

// Returns the rate of "4.5e11" or "450GB/s"; nullopt for a text that is no rate, such as the name of a link. Errors: an
// unknown unit, or a rate below `min_rate`.
Result<std::optional<double>> parse_rate(const std::string& text, std::string_view option) {
  double rate = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, rate);
  if (status != std::errc{}) return std::optional<double>();
  const std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  const auto factor = unit_factor(unit);
  if (!factor && (unit.ends_with("/s") || unit.ends_with('B') || unit.ends_with("ps")))
    return usage_error(fmt::format("expected a rate in B/s after {}, found '{}'", option, text),
                       fmt::format("{0} 450e9 or {0} 450GB/s", option));
  if (!factor || !(rate > 0 && rate * *factor <= 1e30)) return std::optional<double>();
  if (rate * *factor >= min_rate) return std::optional(rate * *factor);
  if (rate >= 1e5) return too_small_error(text, option, fmt::format("{0} 450e9 or {0} 450GB/s", option));
  const bool is_terabytes = rate < 10;  // 4.8 is the bandwidth of a memory in TB/s, 450 that of a link in GB/s
  const double meant = rate * (is_terabytes ? 1e12 : 1e9);
  return too_small_error(
      text, option,
      fmt::format("did you mean {}{} ({})?", rate, is_terabytes ? "e12" : "e9", format_with_prefix(meant, "B/s")));
}

// Parses a rate, NAME=RATE or the name of a link or memory.
Result<std::optional<LinkChoice>> parse_link(const std::string& text, std::string_view option) {
  if (text.empty()) return std::optional<LinkChoice>();
  const std::size_t equals = text.find('=');
  RIDGE_TRY(rate, parse_rate(equals == std::string::npos ? text : text.substr(equals + 1), option));
  if (!rate) return std::optional(LinkChoice(text));
  if (equals == std::string::npos) return std::optional(LinkChoice(ByteRate{*rate}));
  return std::optional(LinkChoice(fmt::format("{}={}", text.substr(0, equals), *rate)));
}

// Parses "D=1,2,4" into three splits.
Result<std::vector<DimensionSplit>> parse_sweep_splits(const std::string& text) {
  std::vector<DimensionSplit> out;
  if (text.empty()) return out;
  const auto range = parse_range(text);
  if (!range) return usage_error(fmt::format("expected NAME=CHIPS after --split, found '{}'", text), "--split D=1,2,4");
  for (const std::int64_t chips : range->values) {
    RIDGE_TRY(split, parse_split(fmt::format("{}={}", range->dim, chips)));
    out.push_back(split);
  }
  return out;
}

// True for "B=256" and "D=1..64:*2": a name, '=' and no blanks; not for paths with a folder and program text.
bool is_size_argument(const std::string& word) {
  const std::size_t equals = word.find('=');
  const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '\''; };
  if (equals == std::string::npos || equals == 0 || std::isdigit(static_cast<unsigned char>(word[0]))) return false;
  return std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals), is_letter) &&
         word.find_first_of(" \t\n", equals) == std::string::npos;
}

}  // namespace

Result<PositionalArgs> split_positionals(const std::vector<std::string>& positionals, std::string_view verb) {
  PositionalArgs out;
  bool found = false;
  for (const std::string& word : positionals) {
    if (is_size_argument(word)) {
      out.dims.push_back(word);
      continue;
    }
    if (found)
      return usage_error(fmt::format("unexpected argument '{}' after {}", word, verb),
                         "quote a program that has spaces");
    found = true;
    out.program = word;
  }
  return out;
}

Status read_positionals(RequestArgs& args, std::string_view verb) {
  RIDGE_TRY(positionals, split_positionals(args.positionals, verb));
  args.program = std::move(positionals.program);
  args.dims.insert(args.dims.end(), positionals.dims.begin(), positionals.dims.end());
  return Done{};
}

std::vector<std::string> split_names(const std::string& list, char separator) {
  std::vector<std::string> out;
  std::istringstream all(list);
  for (std::string name; std::getline(all, name, separator);) out.emplace_back(trim_blanks(name));
  if (list.empty() || list.back() == separator) out.emplace_back();
  return out;
}

std::vector<std::string> split_machines(const std::string& list) {
  std::vector<std::string> out, keys;
  for (std::string& name : split_names(list)) {
    std::string key = name.ends_with(".toml") ? name : to_lower_case(name);
    if (contains(keys, key)) continue;
    keys.push_back(std::move(key));
    out.push_back(std::move(name));
  }
  return out;
}

Status check_one_machine(const std::string& list, std::string_view what) {
  const std::size_t count = split_names(list).size();
  if (count <= 1) return Done{};
  return usage_error(fmt::format("expected one machine for {}, found {}", what, count));
}

Result<DType> parse_dtype_argument(const std::string& text) {
  if (const auto dtype = parse_dtype(text)) return *dtype;
  std::vector<std::string> names;
  for (const DTypeInfo& each : dtypes) names.emplace_back(each.name);
  const std::string suggestion = find_nearest(text, names);
  return usage_error(fmt::format("unknown dtype '{}'; expected one of {}", text, fmt::join(names, ", ")),
                     suggestion.empty() ? "" : fmt::format("did you mean {}?", suggestion));
}

Result<Request> to_request(const RequestArgs& args) {
  RIDGE_TRY(dims, parse_assignments(args.dims));
  Request request{.program = args.program, .on = args.on, .dims = std::move(dims)};
  if (!args.dtype.empty()) {
    RIDGE_TRY(dtype, parse_dtype_argument(args.dtype));
    request.dtype = dtype;
  }
  RIDGE_TRY(link, parse_link(args.link, "--link"));
  request.link = link;
  RIDGE_TRY(memory, parse_link(args.memory, "--memory"));
  request.memory = memory;
  request.fuse = args.fuse;
  request.why = args.explain_overhead;
  request.sustained = args.sustained;
  request.layers = args.layers;
  if (args.plan) request.planned = args.library == "cublaslt" ? KernelChoice::cublaslt : KernelChoice::ridge;
  for (const std::string& list : args.fused_groups) request.fused.push_back(split_names(list));
  if (!args.weights.empty()) {
    RIDGE_TRY(weights, parse_dtype_argument(args.weights));
    request.weights = weights;
  }
  if (!args.narrow.empty()) {
    RIDGE_TRY(narrow, parse_dtype_argument(args.narrow));
    request.narrow = narrow;
  }
  if (args.split.empty()) return request;
  RIDGE_TRY(split, parse_splits(args.split));
  request.split = split;
  return request;
}

Result<BareWork> bare_work(const RequestArgs& args) {
  if (args.plan) return usage_error("expected --plan with a PROGRAM, found --flops and --bytes");
  if (!args.flops || !args.bytes || !args.program.empty())
    return usage_error("expected --flops and --bytes together and no PROGRAM",
                       "ridge explain --flops 1e12 --bytes 1e9 --on h100");
  RIDGE_TRY(dtype, parse_dtype_argument(args.dtype.empty() ? "bf16" : args.dtype));
  RIDGE_TRY(memory, parse_link(args.memory, "--memory"));
  return BareWork{Flops{*args.flops}, Bytes{*args.bytes}, args.on, dtype, memory, args.sustained};
}

RequestArgs with_alternative(RequestArgs args, const std::string& other) {
  const std::vector<std::string> names = catalog_names();
  const bool is_machine =
      run_target_of(other) != RunTarget::prediction_only || other.ends_with(".toml") || contains(names, other);
  (is_machine ? args.on : args.program) = other;
  return args;
}

Result<SweepRequest> to_request(const SweepRequestArgs& args) {
  SweepRequest request{.program = args.program, .on = {}, .dtypes = {}};
  for (const std::string& text : args.dims) {
    RIDGE_TRY(range, parse_range(text));
    request.ranges.push_back(std::move(range));
  }
  for (const std::string& name : args.on) request.on.emplace_back(std::string(trim_blanks(name)));
  RIDGE_TRY(link, parse_link(args.link, "--link"));
  request.link = link;
  RIDGE_TRY(splits, parse_sweep_splits(args.split));
  request.splits = std::move(splits);
  for (const std::string& text : args.dtypes) {
    RIDGE_TRY(dtype, parse_dtype_argument(text));
    request.dtypes.push_back(dtype);
  }
  return request;
}

Result<FunctionCosts> parse_function_costs(const std::vector<std::string>& texts) {
  FunctionCosts out;
  for (const std::string& text : texts) {
    const auto cost = parse_assignments({text});
    if (!cost)
      return usage_error(fmt::format("expected FUNCTION=FLOPS after --cost, found '{}'", text), "--cost cos=20");
    out[cost->begin()->first] = static_cast<double>(cost->begin()->second);
  }
  return out;
}

void add_repeated_option(CLI::App& verb, const std::string& name, std::vector<std::string>& values,
                         const std::string& text, const char* value_name) {
  verb.add_option(name, values, text)->type_name(value_name)->expected(1)->take_all()->allow_extra_args(false);
}

}  // namespace ridge::cli
