#include "ridge/bench/plan_timings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>

#include "ridge/base/file.h"
#include "ridge/ops/product/describe.h"
#include "ridge/plan/device_numbers.h"
#include "ridge/run/device_machine.h"

namespace ridge {
namespace {

using tile::SplitMode;

constexpr std::string_view file_comment =
    "# Timings of plans of products with cold operands, by `ridge bench plans`. Times are in microseconds.\n"
    "# src/ridge/bench/plan_timings.h describes the lines.\n";
constexpr std::string_view timings_columns = "op,dtype,m,n,k,plans";

constexpr std::pair<char, SplitMode> split_letters[] = {{'k', SplitMode::split_k},
                                                        {'w', SplitMode::cooperative_split_k},
                                                        {'c', SplitMode::cluster_split_k},
                                                        {'s', SplitMode::stream_k}};

std::string format_plan(const TimedPlan& x) {
  std::string out = x.config < 0 ? "gemv" : std::to_string(x.config);
  for (const auto& [letter, mode] : split_letters)
    if (mode == x.split.split_mode && (x.split.splits > 1 || mode == SplitMode::stream_k)) {
      out += letter;
      if (x.split.splits > 1) out += std::to_string(x.split.splits);
    }
  if (x.copies.a || x.copies.b) out += std::string("+") + (x.copies.a ? "a" : "") + (x.copies.b ? "b" : "");
  return out + fmt::format("={:.4g}", 1e6 * x.seconds);
}

// Parses a number at the front of `text` and removes it.
template <class Number> bool consume_number(std::string_view& text, Number& number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end.ec != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end.ptr - text.data()));
  return true;
}
bool consume_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// Parses a plan; its config is the number in the file.
std::optional<TimedPlan> parse_plan(std::string_view text) {
  TimedPlan x;
  if (!consume_prefix(text, "gemv") && (!consume_number(text, x.config) || x.config < 0)) return std::nullopt;
  for (const auto& [letter, mode] : split_letters)
    if (consume_prefix(text, std::string_view(&letter, 1))) {
      x.split.split_mode = mode;
      if (mode != SplitMode::stream_k && (!consume_number(text, x.split.splits) || x.split.splits < 2))
        return std::nullopt;
      break;
    }
  if (consume_prefix(text, "+")) {
    x.copies.a = consume_prefix(text, "a");
    x.copies.b = consume_prefix(text, "b");
  }
  double microseconds = 0;
  if (!consume_prefix(text, "=") || !consume_number(text, microseconds) || !text.empty() || !(microseconds > 0))
    return std::nullopt;
  x.seconds = microseconds * 1e-6;
  return x;
}

class TimingsReader {
 public:
  explicit TimingsReader(const std::string& source) : source_(source) {
    for (int config = 0; config < static_cast<int>(ops::sm90_kernel_configs.size()); ++config)
      configs_by_name_[format_config(config)] = config;
  }

  Status read_lines(std::string_view text) {
    std::istringstream lines{std::string(text)};
    std::string line;
    for (number_ = 1; std::getline(lines, line); ++number_) {
      Status done = Done{};
      if (line.starts_with("# ") && !read_header_line(std::string_view(line).substr(2)))
        done = line_error(fmt::format("expected a number in '{}'", line));
      if (!line.empty() && line[0] != '#' && line != timings_columns) done = read_product(line);
      if (!done) return done;
    }
    if (out.products.empty() || out.device.device.empty())
      return input_error(fmt::format("'{}' holds no timings", source_), "`ridge bench plans` writes them");
    return Done{};
  }

  PlanTimings out;

 private:
  Status line_error(std::string message) const {
    Error error = input_error(std::move(message), "`ridge bench plans` writes such files");
    error.source = source_;
    error.span = {.line = number_, .column = 1};
    return error;
  }

  // Returns false if a number is malformed; ignores unknown remarks.
  bool read_header_line(std::string_view text) {
    TimedDevice& d = out.device;
    if (consume_prefix(text, "device: ")) {
      d.device = text;
    } else if (consume_prefix(text, "day: ")) {
      d.day = text;
    } else if (consume_prefix(text, "ridge: ")) {
      d.ridge_version = text;
    } else if (consume_prefix(text, "driver: ")) {
      return consume_number(text, d.driver);
    } else if (consume_prefix(text, "multiprocessors: ")) {
      return consume_number(text, d.multiprocessors);
    } else if (consume_prefix(text, "clock_hz: ")) {
      return consume_number(text, d.clock_hz);
    } else if (consume_prefix(text, "memory_bytes_per_s: ")) {
      return consume_number(text, d.memory_bytes_per_s);
    } else if (consume_prefix(text, "l2_bytes: ")) {
      return consume_number(text, d.l2_bytes);
    } else if (consume_prefix(text, "clusters_at_once:")) {
      for (int count = 0; consume_prefix(text, " ") && consume_number(text, count);)
        d.max_active_clusters.push_back(count);
    } else if (consume_prefix(text, "config ")) {
      int config = 0;
      if (!consume_number(text, config) || !consume_prefix(text, ": ")) return false;
      const auto found = configs_by_name_.find(std::string(text));
      if (found == configs_by_name_.end()) out.unknown_configs.emplace_back(text);
      file_configs_[config] = found == configs_by_name_.end() ? std::nullopt : std::optional(found->second);
    }
    return true;
  }

  Status read_product(const std::string& line) {
    const auto comma = line.rfind(',');
    if (comma == std::string::npos) return line_error(fmt::format("expected {}, found '{}'", timings_columns, line));
    const auto shapes = parse_shapes("op,dtype,m,n,k\n" + line.substr(0, comma), source_, BenchmarkTarget::device);
    if (!shapes) return line_error(shapes.error().message);
    TimedProduct product{shapes->front(), {}};
    std::istringstream plans(line.substr(comma + 1));
    for (std::string word; plans >> word;) {
      auto plan = parse_plan(word);
      if (!plan) return line_error(fmt::format("expected a plan and its microseconds as 17k4=12.34, found '{}'", word));
      if (plan->config >= 0) {
        const auto config = file_configs_.find(plan->config);
        if (config == file_configs_.end())
          return line_error(fmt::format("no line above names config {}", plan->config));
        if (!config->second) continue;
        plan->config = *config->second;
      }
      product.plans.push_back(*plan);
    }
    out.products.push_back(std::move(product));
    return Done{};
  }

  const std::string& source_;
  int number_ = 1;
  std::map<std::string, int> configs_by_name_;
  std::map<int, std::optional<int>> file_configs_;  // nullopt for a config that no longer exists
};

}  // namespace

std::string format_config(int config) {
  const ops::MatmulConfig& c = ops::sm90_kernel_configs[config];
  return fmt::format("{} stages {} staging {}", ops::config_name(config), c.stages, c.staging);
}

ops::cuda::MatmulCall make_timed_call(const BenchmarkShape& shape) {
  ops::cuda::MatmulCall call{};
  call.problem = shape.problem();
  call.constant_b = shape.op != "tn";                // weights, unless both are activations
  std::uintptr_t address = std::uintptr_t{1} << 32;  // plans only read the addresses
  for (const void** x : {&call.a, &call.b}) *x = reinterpret_cast<const void*>(address += std::uintptr_t{1} << 32);
  call.d = reinterpret_cast<void*>(address + (std::uintptr_t{1} << 32));
  return call;
}

Result<ops::DeviceNumbers> timed_device_numbers(const TimedDevice& device) {
  RIDGE_TRY(machine, guess_device_machine({.name = device.device,
                                           .multiprocessors = device.multiprocessors,
                                           .l2_bytes = device.l2_bytes,
                                           .clock_hz = device.clock_hz,
                                           .memory_bytes_per_s = device.memory_bytes_per_s}));
  return device_numbers(machine);
}

std::optional<ops::cuda::UncorrectedPlan> plan_timed_work(const ops::cuda::MatmulCall& call,
                                                          const ops::DeviceNumbers& device, const TimedPlan& timed,
                                                          const ops::cuda::ProductModel& model) {
  for (const ops::cuda::OperandCopies copies : ops::cuda::list_copy_options(call)) {
    auto x = ops::cuda::make_uncorrected_plan(call, std::size_t{1} << 30, device, {timed.config, timed.split, copies},
                                              model);
    if (x && x->plan.copy_a == timed.copies.a && x->plan.copy_b == timed.copies.b) return x;
  }
  return std::nullopt;
}

std::string format_timings_header(const TimedDevice& d) {
  std::string out(file_comment);
  out += fmt::format("# device: {}\n# day: {}\n# ridge: {}\n# driver: {}\n# multiprocessors: {}\n", d.device, d.day,
                     d.ridge_version, d.driver, d.multiprocessors);
  out += fmt::format("# clock_hz: {}\n# memory_bytes_per_s: {}\n# l2_bytes: {}\n# clusters_at_once: {}\n", d.clock_hz,
                     d.memory_bytes_per_s, d.l2_bytes, fmt::join(d.max_active_clusters, " "));
  for (int config = 0; config < static_cast<int>(ops::sm90_kernel_configs.size()); ++config)
    out += fmt::format("# config {}: {}\n", config, format_config(config));
  return out + std::string(timings_columns) + "\n";
}

std::string format_timings_line(const TimedProduct& product) {
  const BenchmarkShape& s = product.shape;
  std::string out = fmt::format("{},{},{},{},{},", s.op, dtype_name(s.dtype), s.size.m, s.size.n, s.size.k);
  for (const TimedPlan& plan : product.plans) out += (out.back() == ',' ? "" : " ") + format_plan(plan);
  return out + "\n";
}

Result<PlanTimings> parse_timings(std::string_view text, const std::string& source) {
  TimingsReader reader(source);
  RIDGE_TRY_STATUS(reader.read_lines(text));
  return std::move(reader.out);
}

Result<PlanTimings> read_timings(const std::string& path) {
  RIDGE_TRY(text, read_file(path));
  return parse_timings(text, path);
}

}  // namespace ridge
