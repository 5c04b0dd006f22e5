#include "ridge/cli/request_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <sstream>

#include "ridge/base/string_util.h"
#include "ridge/program/bindings.h"
#include "ridge/program/ranges.h"
#include "ridge/roofline/split.h"

namespace ridge::cli {
namespace {

// Parses a number as a rate; other text is the name of a link.
std::optional<LinkChoice> parse_link(const std::string& text) {
  if (text.empty()) return std::nullopt;
  double rate = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, rate);
  if (status == std::errc{} && rest == end && rate >= 1e-30 && rate <= 1e30) return LinkChoice(ByteRate{rate});
  return LinkChoice(text);
}

// Parses "D=1,2,4" into three splits.
Result<std::vector<DimensionSplit>> parse_sweep_splits(const std::string& text) {
  std::vector<DimensionSplit> out;
  if (text.empty()) return out;
  const auto range = parse_range(text);
  if (!range) return usage_error(fmt::format("expected NAME=CHIPS after --split, found '{}'", text), "--split D=1,2,4");
  for (const std::int64_t chips : range->values) {
    const auto split = parse_split(fmt::format("{}={}", range->dim, chips));
    if (!split) return split.error();
    out.push_back(*split);
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
  auto positionals = split_positionals(args.positionals, verb);
  if (!positionals) return positionals.error();
  args.program = std::move(positionals->program);
  args.dims.insert(args.dims.end(), positionals->dims.begin(), positionals->dims.end());
  return Done{};
}

std::vector<std::string> split_names(const std::string& list) {
  std::vector<std::string> out;
  std::istringstream all(list);
  for (std::string name; std::getline(all, name, ',');) out.push_back(name);
  if (list.empty() || list.back() == ',') out.emplace_back();
  return out;
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
  auto dims = parse_assignments(args.dims);
  if (!dims) return dims.error();
  Request request{.program = args.program, .on = args.on, .dims = *std::move(dims)};
  if (!args.dtype.empty()) {
    const auto dtype = parse_dtype_argument(args.dtype);
    if (!dtype) return dtype.error();
    request.dtype = *dtype;
  }
  request.link = parse_link(args.link);
  request.memory = parse_link(args.memory);
  request.fuse = args.fuse;
  request.why = args.explain_overhead;
  request.sustained = args.sustained;
  request.layers = args.layers;
  if (args.plan) request.planned = args.library == "cublaslt" ? KernelChoice::cublaslt : KernelChoice::ridge;
  for (const std::string& list : args.fused_groups) request.fused.push_back(split_names(list));
  if (!args.weights.empty()) {
    const auto weights = parse_dtype_argument(args.weights);
    if (!weights) return weights.error();
    request.weights = *weights;
  }
  if (args.split.empty()) return request;
  const auto split = parse_splits(args.split);
  if (!split) return split.error();
  request.split = *split;
  return request;
}

Result<BareWork> bare_work(const RequestArgs& args) {
  if (args.plan) return usage_error("expected --plan with a PROGRAM, found --flops and --bytes");
  if (!args.flops || !args.bytes || !args.program.empty())
    return usage_error("expected --flops and --bytes together and no PROGRAM",
                       "ridge explain --flops 1e12 --bytes 1e9 --on h100");
  const auto dtype = parse_dtype_argument(args.dtype.empty() ? "bf16" : args.dtype);
  if (!dtype) return dtype.error();
  return BareWork{Flops{*args.flops}, Bytes{*args.bytes}, args.on, *dtype, parse_link(args.memory), args.sustained};
}

RequestArgs with_alternative(RequestArgs args, const std::string& other) {
  const std::vector<std::string> names = catalog_names();
  const bool is_machine = run_target_of(other) != RunTarget::prediction_only || other.ends_with(".toml") ||
                          std::find(names.begin(), names.end(), other) != names.end();
  (is_machine ? args.on : args.program) = other;
  return args;
}

Result<SweepRequest> to_request(const SweepRequestArgs& args) {
  SweepRequest request{.program = args.program, .on = {}, .dtypes = {}};
  for (const std::string& text : args.dims) {
    auto range = parse_range(text);
    if (!range) return range.error();
    request.ranges.push_back(*std::move(range));
  }
  request.on.assign(args.on.begin(), args.on.end());
  request.link = parse_link(args.link);
  auto splits = parse_sweep_splits(args.split);
  if (!splits) return splits.error();
  request.splits = *std::move(splits);
  for (const std::string& text : args.dtypes) {
    const auto dtype = parse_dtype_argument(text);
    if (!dtype) return dtype.error();
    request.dtypes.push_back(*dtype);
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

}  // namespace ridge::cli
