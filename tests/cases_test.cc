// Text cases: a program, a machine and what must be said of them, through parse, find_machine, explain and advise.
//   cases_test [--update] FOLDER
// runs every *.case below the folder; --update rewrites what is expected (never a `golden` line). tests/cases/README.md
// tells the format.
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
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::istringstream words(text);
  std::vector<std::string> out;
  for (std::string word; words >> word;) out.push_back(word);
  return out;
}

// Not a number: NaN, which no comparison survives.
double number(const std::string& text) {
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
};

// --- running

Result<Machine> machine_of(const Case& c) {
  auto machine = find_machine(c.machine);
  if (!machine) return machine;
  for (const auto& words : c.set) {
    SourcedValue stated;
    stated.value = number(words.back());
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

Result<Explanation> explained(const Case& c) {
  const auto machine = machine_of(c);
  if (!machine) return machine.error();
  if (c.numbers.size() == 3)
    return explain(Flops{number(c.numbers[0])}, Bytes{number(c.numbers[1])}, *machine,
                   parse_dtype(c.numbers[2]).value_or(DType::bf16));
  const auto program = parse(c.program);
  if (!program) return program.error();
  return explain(*program, *machine, c.given, c.cut);
}

// --- what can be said of an operation, by key

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

using Say = std::function<std::string(const Prediction&, const std::vector<std::string>& order)>;
const std::map<std::string, Say>& keys() {
  static const std::map<std::string, Say> all{
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

// Of the program's memory: of all of it, of a tensor or of a dimension.
std::string memory_said(const MemoryUse& memory, const std::string& key, const std::string& name) {
  if (key == "held_bytes") return text(memory.peak_bytes);
  if (key == "held_at") return memory.peak_statement;
  if (key == "parameters") return text(memory.parameter_count);
  if (key == "chips") return text(memory.min_chips);
  for (const Threshold& t : memory.capacity_thresholds)
    if (key == "fits" && t.dim == name) return t.value ? text(t.value) : "none";
  for (const TensorMemory& t : memory.tensors) {
    if (t.name != name) continue;
    if (key == "device_bytes") return text(t.device_bytes);
    if (key == "all_bytes") return text(t.all_bytes);
    if (key == "copies") return text(t.copies);
  }
  return "no such key";
}

bool of_memory(const std::string& key) {
  static const std::set<std::string> keys{"held_bytes", "held_at",      "parameters", "chips",
                                          "fits",       "device_bytes", "all_bytes",  "copies"};
  return keys.contains(key);
}

// Keys with a name behind them.
bool takes_name(const std::string& key) {
  static const std::set<std::string> keys{"fits", "device_bytes", "all_bytes", "copies", "product", "advice"};
  return keys.contains(key) || key.find("threshold") != std::string::npos;
}

// Key: one of the above or `threshold… DIM`, of the first operation, or with `NAME.` in front of that one, of the
// total or of the fused program.
std::string said(const Explanation& e, std::string key, const std::string& dim) {
  if (of_memory(key)) return e.memory ? memory_said(*e.memory, key, dim) : "null";
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
  const auto say = keys().find(key);
  return say == keys().end() ? "no such key" : say->second(*op, e.dim_names);
}

// The advice of that rank, best first: what to do and what it gains of the program's time, at least and at most.
std::string advice_said(const Case& c, const Explanation& e, const std::string& rank) {
  const auto program = parse(c.program);
  if (!program) return "no program";
  const auto all = make_advice(*program, e, {});
  if (!all) return first_line(all.error());
  const double at = number(rank) - 1;
  if (!(at >= 0)) return "no such rank";
  if (at >= static_cast<double>(all->advice.size())) return "nothing";
  const Advice& x = all->advice[static_cast<std::size_t>(at)];
  const auto share = [&](double gain_s) { return 100 * gain_s / all->predicted_s.expected; };
  return fmt::format("{}: {}, gains {:.3g} % ({:.3g} to {:.3g} %)", x.kind, x.what, share(x.gain_s.expected),
                     share(x.gain_s.low), share(x.gain_s.high));
}

// --- files

struct Tally {
  int cases = 0, checks = 0, wrong = 0;
};

class CaseFile {
 public:
  CaseFile(std::string path, bool update) : path_(std::move(path)), update_(update) {}

  void run(Tally& tally) {
    const auto content = read_file(path_);
    if (!content) return complain(tally, content.error().to_string());
    std::istringstream lines(*content);
    for (std::string line; std::getline(lines, line); out_ += line + "\n") {
      ++line_;
      take(line, tally);
    }
    if (update_ && out_ != *content && !write_file(path_, out_)) complain(tally, "could not be rewritten");
  }

 private:
  void complain(Tally& tally, const std::string& what) {
    ++tally.wrong;
    std::fprintf(stderr, "%s:%d: %s: %s\n", path_.c_str(), line_, case_.name.c_str(), what.c_str());
  }

  void take(std::string& line, Tally& tally) {
    const std::vector<std::string> words = split(line);
    if (words.empty() || words[0].starts_with("#")) return;
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    const std::string tail = rest.empty() ? "" : line.substr(line.find(rest[0], words[0].size()));
    if (words[0] == "case") {
      ++tally.cases;
      case_ = {.name = tail, .program = {}, .machine = {}, .numbers = {}, .set = {}, .given = {}, .cut = {}};
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
      if (!cut) return complain(tally, cut.error().to_string());
      case_.cut = *cut;
    } else if (words[0] == "-d") {
      for (const std::string& binding : rest)
        case_.given[binding.substr(0, binding.find('='))] =
            static_cast<std::int64_t>(number(binding.substr(binding.find('=') + 1)));
    } else {
      check(line, words, tally);
    }
  }

  void check(std::string& line, const std::vector<std::string>& words, Tally& tally) {
    ++tally.checks;
    const bool limit = words[0] == "limit" && words.size() > 2;
    const bool golden = limit || (words[0] == "golden" && words.size() > 2);
    const std::size_t at = golden ? 2 : 0;  // of the key
    const bool threshold = takes_name(words[at]) && words.size() > at + 1;
    const std::string key = threshold ? words[at] + " " + words[at + 1] : words[at];
    const auto e = explained(case_);
    std::string found = key == "error" ? "none" : "";
    if (!e)
      found = first_line(e.error());
    else if (words[at] == "advice")
      found = advice_said(case_, *e, threshold ? words[at + 1] : "");
    else if (key != "error")
      found = said(*e, words[at], threshold ? words[at + 1] : "");
    if (golden) {
      const double right = number(words[1]), ours = number(found.substr(0, found.find(' ')));
      if (!(std::abs(ours - right) <= (limit ? 1e-8 : 1e-11) * std::abs(right)))
        complain(tally, fmt::format("expected {} {}, found {}", key, words[1], found));
    } else if (const std::string says = key + " " + found; says != line) {
      if (update_)
        line = says;
      else
        complain(tally, fmt::format("expected {}, found {}", line, says));
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
  Tally tally;
  for (const std::string& path : paths) CaseFile(path, update).run(tally);
  std::fprintf(stderr, "%d cases, %d checks, %d wrong\n", tally.cases, tally.checks, tally.wrong);
  if (tally.cases == 0 || tally.checks == 0) std::fprintf(stderr, "no case was run below '%s'\n", folder.c_str());
  return tally.wrong > 0 || tally.checks == 0 ? 1 : 0;
}

}  // namespace
}  // namespace ridge

int main(int argc, char** argv) { return ridge::run(argc, argv); }
