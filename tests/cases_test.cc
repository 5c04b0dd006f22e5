// Text cases: a program, a machine and expected lines, checked through parse, find_machine, explain and advise.
//   cases_test [--update] FOLDER
// runs every *.case file below the folder; --update rewrites the expected lines, except `golden` lines.
// tests/cases/README.md describes the format.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "ridge/base/file.h"
#include "ridge/plan/advise.h"
#include "ridge/program/weights.h"
#include "ridge/roofline/groups.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

std::vector<std::string> split_words(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(word);
  return out;
}

std::vector<std::string> split_names(const std::string& text) {
  std::istringstream names(text);
  std::vector<std::string> out;
  for (std::string name; std::getline(names, name, ',');) out.push_back(name);
  return out;
}

// Returns NaN if the text is not a number; then every comparison fails.
double parse_number(const std::string& text) {
  double value = NAN;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc{} && end == text.data() + text.size() ? value : NAN;
}

struct Case {
  std::string name, program, machine;
  std::vector<std::string> numbers;           // FLOPS BYTES DTYPE, in place of a program
  std::vector<std::vector<std::string>> set;  // bandwidth X, peak matrix bf16 X
  Bindings given;
  std::optional<DimensionSplit> cut;
  std::optional<DType> weights, narrow;
  std::vector<std::vector<std::string>> fused;
  std::int64_t layers = 1;
};

// --- running a case

Result<Machine> make_case_machine(const Case& c) {
  auto machine = find_machine(c.machine);
  if (!machine) return machine;
  for (const auto& words : c.set) {
    SourcedValue stated;
    stated.value = parse_number(words.back());
    stated.source = "the case";
    if (words[0] == "link" && words.size() == 2) {
      machine->links = {{.name = "link", .bandwidth = stated}};
    } else if (words[0] == "bandwidth" && words.size() == 2) {
      machine->memory.at(0).bandwidth = stated;
    } else if (words[0] == "peak" && words.size() == 4 && parse_dtype(words[2])) {
      const ComputeUnit unit = words[1] == "vector" ? ComputeUnit::vector : ComputeUnit::matrix;
      std::erase_if(machine->peaks, [&](const Peak& p) { return p.unit == unit && p.dtype == parse_dtype(words[2]); });
      machine->peaks.push_back({unit, *parse_dtype(words[2]), stated});
    } else {
      return input_error("expected `set bandwidth X`, `set link X` or `set peak matrix DTYPE X`");
    }
  }
  return machine;
}

std::string first_line(const Error& error) {
  const std::string all = error.to_string();
  return all.substr(0, all.find('\n'));
}

Result<Program> parse_case(const Case& c) {
  RIDGE_TRY(program, parse(c.program));
  if (c.narrow) return with_weight_dtype(program, *c.narrow, Narrowed::weights_and_activations);
  return c.weights ? with_weight_dtype(program, *c.weights) : Result<Program>(program);
}

Result<Explanation> explain_case(const Case& c) {
  RIDGE_TRY(machine, make_case_machine(c));
  if (c.numbers.size() == 3)
    return explain(Flops{parse_number(c.numbers[0])}, Bytes{parse_number(c.numbers[1])}, machine,
                   parse_dtype(c.numbers[2]).value_or(DType::bf16));
  RIDGE_TRY(program, parse_case(c));
  auto out = explain(program, machine, c.given, c.cut);
  if (out && (c.layers > 1 || !c.fused.empty())) {
    RIDGE_TRY(groups, parse_groups(program, c.fused));
    RIDGE_TRY(fused, predict_groups(program, *out, groups));
    fused.memory = analyze_memory(program, *out, c.given, groups, c.layers);
    return fused;
  }
  return out;
}

// --- values of an operation, by key

std::string text(double value) { return fmt::format("{:.12g}", value); }
std::string text(std::int64_t value) { return fmt::format("{}", value); }
std::string text(Limiter value) { return std::string(name(value)); }
std::string text(Count value) { return fmt::format("{}", value); }
template <class T> std::string text(const std::optional<T>& value) { return value ? text(*value) : "null"; }

std::string threshold_text(const Threshold& t, const std::string& aspect) {
  if (aspect == "threshold")
    return fmt::format("{}{}{}", name(t.relation), t.value ? " " : "", t.value ? text(t.value) : "");
  if (aspect == "threshold_real") return text(t.value_real);
  if (aspect == "threshold_approx") return text(t.approx) + (t.assuming.empty() ? "" : " where " + t.assuming);
  if (aspect == "threshold_exact") return t.exact;
  if (aspect == "threshold_condition") return t.condition;
  if (aspect == "threshold_ratio") return text(t.ratio);
  return "no such key";
}

using DescribeKey = std::function<std::string(const Prediction&, const std::vector<std::string>& order)>;
const std::map<std::string, DescribeKey>& prediction_keys() {
  static const std::map<std::string, DescribeKey> all{
      {"flops", [](auto& p, auto&) { return text(p.flops); }},
      {"bytes", [](auto& p, auto&) { return text(p.bytes); }},
      {"intensity", [](auto& p, auto&) { return text(p.intensity); }},
      {"ridge", [](auto& p, auto&) { return text(p.ridge); }},
      {"limiter", [](auto& p, auto&) { return text(p.limiter); }},
      {"time_math_s", [](auto& p, auto&) { return text(p.time_math_s); }},
      {"time_memory_s", [](auto& p, auto&) { return text(p.time_memory_s); }},
      {"time_lower_s", [](auto& p, auto&) { return text(p.time_lower_s); }},
      {"time_upper_s", [](auto& p, auto&) { return text(p.time_upper_s); }},
      {"attainable_flops_per_s",
       [](auto& p, auto&) { return text(static_cast<double>(p.flops.value()) / p.time_lower_s.value()); }},
      {"peak_fraction", [](auto& p, auto&) { return text(p.time_math_s.value() / p.time_lower_s.value()); }},
      {"runs_per_s", [](auto& p, auto&) { return text(1 / p.time_lower_s.value()); }},
      {"time_network_s", [](auto& p, auto&) { return text(p.time_network_s); }},
      {"bytes_in_formula", [](auto& p, auto& order) { return p.work.bytes_in.to_string(order); }},
      {"bytes_sent", [](auto& p, auto&) { return text(p.bytes_sent); }},
      {"runner_up", [](auto& p, auto&) { return text(p.runner_up); }},
      {"sent_formula", [](auto& p, auto& order) { return p.work.bytes_sent.to_string(order); }},
      {"missing", [](auto& p, auto&) { return p.missing; }},
      {"flops_formula", [](auto& p, auto& order) { return p.work.flops.to_string(order); }},
      {"bytes_formula", [](auto& p, auto& order) { return p.work.bytes().to_string(order); }},
      {"intensity_formula", [](auto& p, auto&) { return p.intensity_formula; }},
  };
  return all;
}

// Returns a value of the program's memory use: the total, or that of the tensor or dimension `name`.
std::string describe_memory_key(const MemoryUse& memory, const std::string& key, const std::string& name) {
  if (key == "held_bytes") return text(memory.peak_bytes);
  if (key == "held_at") return memory.peak_statement;
  if (key == "in_place_bytes") return text(memory.replaced_peak_bytes);
  if (key == "parameters") return text(memory.parameter_count);
  if (key == "chips") return text(memory.min_chips);
  for (const Threshold& t : memory.capacity_thresholds)
    if (key == "fits" && t.dim == name) return t.value ? text(t.value) : "none";
  for (const TensorMemory& t : memory.tensors) {
    if (t.name != name) continue;
    if (key == "use") return std::string(input_use_word(t.use));
    if (key == "device_bytes") return text(t.device_bytes);
    if (key == "all_bytes") return text(t.all_bytes);
    if (key == "copies") return text(t.copies);
  }
  return "no such key";
}

bool is_memory_key(const std::string& key) {
  static const std::set<std::string> keys{"held_bytes", "held_at", "in_place_bytes", "use",       "parameters",
                                          "chips",      "fits",    "device_bytes",   "all_bytes", "copies"};
  return keys.contains(key);
}

// True if a name follows the key, for example a dimension.
bool has_name_argument(const std::string& key) {
  static const std::set<std::string> keys{"fits", "use", "device_bytes", "all_bytes", "copies", "product", "advice"};
  return keys.contains(key) || key.find("threshold") != std::string::npos;
}

// Returns the value of a key: one of the above or `threshold… DIM`. A prefix `NAME.` selects an operation, `total.` the
// whole program, `fused.` the fused program; without a prefix the first operation is used.
std::string describe_key(const Explanation& e, std::string key, const std::string& dim) {
  if (is_memory_key(key)) return e.memory ? describe_memory_key(*e.memory, key, dim) : "null";
  if (key == "network") return e.network ? ridge::describe_network(*e.network) : "none";
  for (const Threshold& t : e.product_thresholds)
    if (key == "product" && t.dim == dim) return threshold_text(t, "threshold");
  const Prediction* op = &e.ops.at(0);
  if (const auto dot = key.find('.'); dot != std::string::npos) {
    const std::string wanted = key.substr(0, dot);
    const auto found = std::find_if(e.ops.begin(), e.ops.end(), [&](const auto& p) { return p.work.name == wanted; });
    const bool fused = wanted == "fused" && e.fused;
    if (wanted != "total" && !fused && found == e.ops.end()) return "no such operation";
    op = fused ? &*e.fused : &e.total;
    if (!fused && wanted != "total") op = &*found;
    key.erase(0, dot + 1);
  }
  if (!dim.empty()) {  // D, or D@compute/network where the roofs are not compute and memory
    const auto at = dim.find('@');
    const std::string roofs = at == std::string::npos ? "compute/memory" : dim.substr(at + 1);
    for (const Threshold& t : op->thresholds)
      if (t.dim == dim.substr(0, at) && fmt::format("{}/{}", name(t.roofs[0]), name(t.roofs[1])) == roofs)
        return threshold_text(t, key);
    return "no such threshold";
  }
  const auto say = prediction_keys().find(key);
  return say == prediction_keys().end() ? "no such key" : say->second(*op, e.dim_names);
}

// Returns the advice number `rank`, 1 being the best: its text and its gain, in % of the program's time.
std::string describe_advice(const Case& c, const Explanation& e, const std::string& rank) {
  const auto program = parse(c.program);
  if (!program) return "no program";
  const auto all = make_advice(*program, e, {});
  if (!all) return first_line(all.error());
  const double at = parse_number(rank) - 1;
  if (!(at >= 0)) return "no such rank";
  if (at >= static_cast<double>(all->advice.size())) return "nothing";
  const Advice& x = all->advice[static_cast<std::size_t>(at)];
  const auto share = [&](double gain_s) { return 100 * gain_s / all->predicted_s.expected; };
  return fmt::format("{}: {}, gains {:.3g} % ({:.3g} to {:.3g} %)", x.kind, x.description, share(x.gain_s.expected),
                     share(x.gain_s.low), share(x.gain_s.high));
}

// --- files

struct TestCounts {
  int cases = 0, checks = 0, wrong = 0;
};

class CaseFile {
 public:
  CaseFile(std::string path, bool update) : path_(std::move(path)), update_(update) {}

  void run(TestCounts& counts) {
    const auto content = read_file(path_);
    if (!content) return report_failure(counts, content.error().to_string());
    std::istringstream lines(*content);
    for (std::string line; std::getline(lines, line); out_ += line + "\n") {
      ++line_;
      read_case_line(line, counts);
    }
    if (update_ && out_ != *content && !write_file(path_, out_)) report_failure(counts, "could not be rewritten");
  }

 private:
  void report_failure(TestCounts& counts, const std::string& what) {
    ++counts.wrong;
    std::fprintf(stderr, "%s:%d: %s: %s\n", path_.c_str(), line_, case_.name.c_str(), what.c_str());
  }

  void read_case_line(std::string& line, TestCounts& counts) {
    const std::vector<std::string> words = split_words(line);
    if (words.empty() || words[0].starts_with("#")) return;
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    const std::string tail = rest.empty() ? "" : line.substr(line.find(rest[0], words[0].size()));
    if (words[0] == "case") {
      ++counts.cases;
      case_ = Case();
      case_.name = tail;
    } else if (words[0] == "program") {
      case_.program += tail + "\n";
    } else if (words[0] == "numbers") {
      case_.numbers = rest;
    } else if (words[0] == "on") {
      case_.machine = tail;
    } else if (words[0] == "set") {
      case_.set.push_back(rest);
    } else if (words[0] == "split") {
      const auto cut = parse_split(tail);
      if (!cut) return report_failure(counts, cut.error().to_string());
      case_.cut = *cut;
    } else if ((words[0] == "weights" || words[0] == "narrow") && parse_dtype(tail)) {
      (words[0] == "weights" ? case_.weights : case_.narrow) = parse_dtype(tail);
    } else if (words[0] == "fuse") {
      case_.fused.push_back(split_names(tail));
    } else if (words[0] == "layers") {
      case_.layers = static_cast<std::int64_t>(parse_number(tail));
    } else if (words[0] == "-d") {
      for (const std::string& binding : rest)
        case_.given[binding.substr(0, binding.find('='))] =
            static_cast<std::int64_t>(parse_number(binding.substr(binding.find('=') + 1)));
    } else {
      check(line, words, counts);
    }
  }

  void check(std::string& line, const std::vector<std::string>& words, TestCounts& counts) {
    ++counts.checks;
    const bool limit = words[0] == "limit" && words.size() > 2;
    const bool golden = limit || (words[0] == "golden" && words.size() > 2);
    const std::size_t at = golden ? 2 : 0;  // index of the key
    const bool threshold = has_name_argument(words[at]) && words.size() > at + 1;
    const std::string key = threshold ? words[at] + " " + words[at + 1] : words[at];
    const auto e = explain_case(case_);
    std::string found = key == "error" ? "none" : "";
    if (!e)
      found = first_line(e.error());
    else if (words[at] == "advice")
      found = describe_advice(case_, *e, threshold ? words[at + 1] : "");
    else if (key != "error")
      found = describe_key(*e, words[at], threshold ? words[at + 1] : "");
    if (golden) {
      const double right = parse_number(words[1]), ours = parse_number(found.substr(0, found.find(' ')));
      if (!(std::abs(ours - right) <= (limit ? 1e-8 : 1e-11) * std::abs(right)))
        report_failure(counts, fmt::format("expected {} {}, found {}", key, words[1], found));
    } else if (const std::string says = key + " " + found; says != line) {
      if (update_)
        line = says;
      else
        report_failure(counts, fmt::format("expected {}, found {}", line, says));
    }
  }

  std::string path_, out_;
  bool update_;
  int line_ = 0;
  Case case_;
};

int run(int argc, char** argv) {
  const bool update = argc > 1 && std::string(argv[1]) == "--update";
  const std::string folder = argc > 1 + update ? argv[1 + update] : "";
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error))
    if (entry.path().extension() == ".case") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  TestCounts counts;
  for (const std::string& path : paths) CaseFile(path, update).run(counts);
  std::fprintf(stderr, "%d cases, %d checks, %d wrong\n", counts.cases, counts.checks, counts.wrong);
  if (counts.cases == 0 || counts.checks == 0) std::fprintf(stderr, "no case was run below '%s'\n", folder.c_str());
  return counts.wrong > 0 || counts.checks == 0 ? 1 : 0;
}

}  // namespace
}  // namespace ridge

int main(int argc, char** argv) { return ridge::run(argc, argv); }
