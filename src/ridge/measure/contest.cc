#include "ridge/measure/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "ridge/measure/baseline.h"
#include "ridge/measure/contestant.h"

namespace ridge::measure {
namespace {

constexpr double round_s = 0.02;  // how long one library computes in one turn, at least one call
constexpr auto settle =
    std::chrono::milliseconds(40);  // OpenBLAS' idle threads spin for 2^26 cycles, libgomp's for a few ms
constexpr double unit_roundoff_f32 = 0x1p-24, unit_roundoff_bf16 = 0x1p-8;

double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  const std::size_t n = x.size();
  return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

std::string describe(const ContestShape& s) {
  return fmt::format("{} {} m={} n={} k={}", s.op, name(s.dtype), s.m, s.n, s.k);
}

// Sums of k terms in f32, then one rounding to the output's format.
double allowed_error(const ContestShape& s) {
  return static_cast<double>(s.k + 8) * unit_roundoff_f32 +
         (s.out == DType::bf16 ? unit_roundoff_bf16 : unit_roundoff_f32);
}

Status check(Contestant& who, const ContestShape& shape, ContestTime& time) {
  auto answer = who.check();
  if (!answer) return answer.error();
  time.max_error = std::max(time.max_error, answer->max_error);
  if (!(answer->max_error <= allowed_error(shape)))
    return Error{.kind = ErrorKind::mismatch,
                 .message = fmt::format("{} is wrong at {}: error {:.3g} of |A||B|, expected at most {:.3g}",
                                        who.library(), describe(shape), answer->max_error, allowed_error(shape))};
  return Done{};
}

Result<ContestRow> play(std::vector<Contestant>& all, const ContestShape& shape, const ContestOptions& options) {
  ContestRow row{.shape = shape};
  std::vector<std::vector<double>> rounds(all.size());
  double slowest = 0;
  for (Contestant& who : all) {
    row.times.push_back({.library = who.library()});
    auto answer = who.prepare(shape);
    if (!answer) return answer.error();
    row.times.back().took_part = answer->took_part;
    slowest = std::max(slowest, answer->seconds);
    if (!answer->took_part) continue;
    if (auto ok = check(who, shape, row.times.back()); !ok) return ok.error();
  }
  const int calls = static_cast<int>(std::clamp(std::ceil(round_s / std::max(slowest, 1e-9)), 1.0, 1e6));
  for (int r = 0; r < options.rounds; ++r)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t who = (i + static_cast<std::size_t>(r)) % all.size();  // nobody always goes first
      if (!row.times[who].took_part) continue;
      if (options.threads > 1) std::this_thread::sleep_for(settle);
      auto answer = all[who].run(calls);
      if (!answer) return answer.error();
      rounds[who].push_back(answer->seconds / calls);
    }
  for (std::size_t i = 0; i < all.size(); ++i) {
    ContestTime& t = row.times[i];
    if (!t.took_part) continue;
    t.median_s = median(rounds[i]);
    std::tie(t.min_s, t.max_s) = std::pair(*std::min_element(rounds[i].begin(), rounds[i].end()),
                                           *std::max_element(rounds[i].begin(), rounds[i].end()));
    if (auto ok = check(all[i], shape, t); !ok) return ok.error();
  }
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (row.times[i].took_part && (best == 0 || row.times[i].median_s < row.times[best].median_s)) best = i;
  if (best == 0 || !row.times[0].took_part) return row;
  row.best = row.times[best].library;
  row.ratio = row.times[best].median_s / row.times[0].median_s;
  std::vector<double> pairs;
  for (std::size_t r = 0; r < rounds[0].size(); ++r) pairs.push_back(rounds[best][r] / rounds[0][r]);
  row.ratio_low = *std::min_element(pairs.begin(), pairs.end());
  row.ratio_high = *std::max_element(pairs.begin(), pairs.end());
  return row;
}

}  // namespace

kernels::MatmulProblem ContestShape::problem() const {
  const bool ta = op == "tn" || op == "tt", tb = op == "linear" || op == "nt" || op == "tt";
  kernels::MatmulProblem p;
  p.m = m, p.n = n, p.k = k;
  p.a = {.dtype = dtype, .row_stride = ta ? 1 : k, .col_stride = ta ? m : 1};
  p.b = {.dtype = dtype, .row_stride = tb ? 1 : n, .col_stride = tb ? k : 1};
  p.d = {.dtype = out, .row_stride = n, .col_stride = 1};
  return p;
}

Result<std::vector<ContestShape>> read_shapes(const std::string& path) {
  std::ifstream file(path);
  if (!file)
    return input_error(fmt::format("cannot read '{}'", path), "expected a CSV file with the columns op,dtype,m,n,k");
  auto fail = [&](int line, std::string message) {
    return Error{.message = std::move(message), .source = path, .span = {.line = line, .column = 1}};
  };
  std::vector<std::string> header;
  std::vector<ContestShape> shapes;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells;
    std::stringstream split(line);
    for (std::string cell; std::getline(split, cell, ',');) cells.push_back(cell);
    if (header.empty()) {
      header = cells;
      continue;
    }
    if (cells.size() != header.size())
      return fail(number, fmt::format("expected {} columns, found {}", header.size(), cells.size()));
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < cells.size(); ++i) row[header[i]] = cells[i];
    ContestShape s{.op = row["op"]};
    const auto dtype = dtype_from(row["dtype"]), out = dtype_from(row.contains("out") ? row["out"] : "f32");
    if (s.op != "linear" && s.op != "nt" && s.op != "nn" && s.op != "tn" && s.op != "tt")
      return fail(number, fmt::format("expected op linear, nn, tn or tt, found '{}'", s.op));
    if (!dtype || !out)
      return fail(number, fmt::format("expected a dtype, found '{}'", dtype ? row["out"] : row["dtype"]));
    s.dtype = *dtype;
    s.out = *out;
    for (auto [key, into] : {std::pair{"m", &s.m}, std::pair{"n", &s.n}, std::pair{"k", &s.k}}) {
      const std::string& text = row[key];
      const bool digits =
          !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
      *into = digits ? std::stoll(text) : 0;
      if (*into < 1)
        return fail(number, fmt::format("expected {} to be a whole number of at least 1, found '{}'", key, text));
    }
    shapes.push_back(s);
  }
  if (shapes.empty())
    return input_error(fmt::format("'{}' holds no shapes", path),
                       "expected a header op,dtype,m,n,k and at least one row");
  return shapes;
}

std::vector<ContestClass> Contest::classes() const {
  std::vector<ContestClass> out;
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::int8}) {
    struct Group {
      const char* name;
      std::int64_t from, to;
    };
    for (const Group& g : {Group{"all", 1, INT64_MAX}, Group{"M > 8", 9, INT64_MAX}, Group{"M <= 8", 1, 8}}) {
      ContestClass c{.name = fmt::format("{} {}", name(dtype), g.name), .worst = INFINITY};
      double logs = 0;
      for (const ContestRow& row : rows) {
        if (row.shape.dtype != dtype || row.shape.m < g.from || row.shape.m > g.to || row.ratio == 0) continue;
        ++c.rows;
        logs += std::log(row.ratio);
        c.worst = std::min(c.worst, row.ratio);
      }
      if (c.rows == 0) continue;
      c.geometric_mean = std::exp(logs / static_cast<double>(c.rows));
      out.push_back(c);
    }
  }
  return out;
}

Result<Contest> contest(const std::vector<ContestShape>& shapes, const ContestOptions& options) {
  Contest result{.threads = options.threads, .rounds = options.rounds};
  result.removed_environment = clean_environment();
  std::vector<std::string> names{"ridge"};
  names.insert(names.end(), options.libraries.begin(), options.libraries.end());
  std::vector<Contestant> all;
  for (const std::string& library : names) {
    auto started = Contestant::start(library, options.threads);
    if (!started) return started.error();
    all.push_back(std::move(*started));
  }
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (options.progress) options.progress(i, shapes.size());
    auto row = play(all, shapes[i], options);
    if (!row) return row.error();
    result.rows.push_back(*row);
  }
  if (options.progress) options.progress(shapes.size(), shapes.size());
  for (Contestant& who : all) {
    auto about = who.describe();
    if (!about) return about.error();
    result.libraries.emplace_back(about->text);
  }
  return result;
}

}  // namespace ridge::measure
