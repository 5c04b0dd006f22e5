#include "ridge/measure/contest/contest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "ridge/base/text.h"
#include "ridge/measure/contest/baseline.h"
#include "ridge/measure/contest/contestant.h"
#include "ridge/measure/memory.h"

namespace ridge {
namespace {

constexpr double round_s = 0.02;  // time that one library computes per turn, at least one call
constexpr auto settle =
    // OpenBLAS' idle threads spin for 2^26 cycles, libgomp's for a few ms.
    std::chrono::milliseconds(40);

// Bound for sums of k terms in f32 plus one rounding to the output's format; integer sums are exact.
double allowed_error(const ContestShape& s) {
  if (s.out == DType::int32) return 0;
  double rounding = 0x1p-24;
  if (s.out == DType::bf16) rounding = 0x1p-8;
  if (s.out == DType::f16) rounding = 0x1p-11;
  return static_cast<double>(s.k + 8) * 0x1p-24 + rounding;
}

Status check(Contestant& who, const ContestShape& shape, ContestTime& time) {
  auto answer = who.check();
  if (!answer) return answer.error();
  time.max_error = std::max(time.max_error, answer->max_error);
  if (!(answer->max_error <= allowed_error(shape)))
    return Error{.kind = ErrorKind::mismatch,
                 .message = fmt::format("{} is wrong at {}: error {:.3g} of |A||B|, expected at most {:.3g}",
                                        who.library(), shape.text(), answer->max_error, allowed_error(shape))};
  return Done{};
}

// Compares ridge with the fastest other library: ratio of the medians, and its range over the rounds.
void compare(ContestRow& row, const std::vector<std::vector<double>>& rounds) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < row.times.size(); ++i)
    if (row.times[i].took_part && (best == 0 || row.times[i].time.median < row.times[best].time.median)) best = i;
  if (best == 0 || !row.times[0].took_part) return;
  row.best = row.times[best].library;
  row.ratio = row.times[best].time.median / row.times[0].time.median;
  std::vector<double> pairs;
  for (std::size_t r = 0; r < rounds[0].size(); ++r) pairs.push_back(rounds[best][r] / rounds[0][r]);
  const Statistics spread = statistics(pairs);
  row.ratio_low = spread.min;
  row.ratio_high = spread.max;
}

Result<ContestRow> play(std::vector<Contestant>& all, const ContestShape& shape, const ContestOptions& options) {
  ContestRow row{.shape = shape};
  std::vector<std::vector<double>> rounds(all.size());
  std::vector<int> calls;  // calls of each library per turn
  for (Contestant& who : all) {
    row.times.emplace_back().library = who.library();
    auto answer = who.prepare(shape);
    if (!answer) return answer.error();
    row.times.back().took_part = answer->took_part;
    calls.push_back(static_cast<int>(std::clamp(std::ceil(round_s / std::max(answer->seconds, 1e-9)), 1.0, 1e6)));
    if (!answer->took_part) continue;
    if (auto ok = check(who, shape, row.times.back()); !ok) return ok.error();
  }
  for (int r = 0; r < options.rounds; ++r)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t who = (i + static_cast<std::size_t>(r)) % all.size();  // a different library starts each round
      if (!row.times[who].took_part) continue;
      if (options.threads > 1) std::this_thread::sleep_for(settle);
      auto answer = all[who].run(calls[who]);
      if (!answer) return answer.error();
      rounds[who].push_back(answer->seconds / calls[who]);
    }
  for (std::size_t i = 0; i < all.size(); ++i) {
    ContestTime& t = row.times[i];
    if (!t.took_part) continue;
    t.time = statistics(rounds[i]);
    t.flop_per_s = shape.flops() / t.time.median;
    if (auto ok = check(all[i], shape, t); !ok) return ok.error();
  }
  compare(row, rounds);
  return row;
}

Status check_libraries(const std::vector<std::string>& wanted) {
  const std::vector<std::string> known = matmul_libraries();
  std::vector<std::string> seen{"ridge"};
  for (const std::string& library : wanted) {
    if (library == "ridge")
      return usage_error("expected libraries to compare ridge with, found 'ridge' itself", "--against openblas,onednn");
    if (std::find(known.begin(), known.end(), library) == known.end()) {
      const std::string near = nearest(library, known);
      return usage_error(fmt::format("unknown library '{}'; expected openblas, onednn or torch", library),
                         near.empty() ? "" : fmt::format("did you mean {}?", near));
    }
    if (std::find(seen.begin(), seen.end(), library) != seen.end())
      return usage_error(fmt::format("expected each library once, found '{}' twice", library));
    seen.push_back(library);
  }
  return Done{};
}

}  // namespace

std::vector<ContestClass> Contest::classes() const {
  std::vector<std::string> families;
  for (const ContestRow& row : rows)
    if (std::find(families.begin(), families.end(), row.shape.dtypes()) == families.end())
      families.push_back(row.shape.dtypes());
  std::vector<ContestClass> out;
  for (const std::string& family : families) {
    struct Group {
      const char* name;
      std::int64_t from, to;
    };
    for (const Group& g : {Group{"all", 1, INT64_MAX}, Group{"M > 8", 9, INT64_MAX}, Group{"M <= 8", 1, 8}}) {
      ContestClass c{.name = fmt::format("{} {}", family, g.name), .worst = INFINITY};
      double logs = 0;
      for (const ContestRow& row : rows) {
        if (row.shape.dtypes() != family || row.shape.m < g.from || row.shape.m > g.to || row.ratio == 0) continue;
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

Status check_memory(const std::vector<ContestShape>& shapes, std::size_t processes, std::int64_t available) {
  for (const ContestShape& shape : shapes) {
    const double bytes = shape.bytes() * static_cast<double>(processes);
    if (bytes <= static_cast<double>(available)) continue;
    return input_error(
        fmt::format("{} takes {} in {} processes; expected at most the {} that are available", shape.text(),
                    engineering(bytes, "B"), processes, engineering(static_cast<double>(available), "B")),
        "leave the shape out, or name fewer libraries after --against");
  }
  return Done{};
}

Result<Contest> contest(const std::vector<ContestShape>& shapes, const Machine& machine,
                        const ContestOptions& options) {
  if (const Status known = check_libraries(options.libraries); !known) return known.error();
  if (const auto available = available_bytes())
    if (const Status fits = check_memory(shapes, options.libraries.size() + 1, *available); !fits) return fits.error();
  Contest result{.threads = options.threads,
                 .rounds = options.rounds,
                 .machine = machine.name,
                 .machine_title = machine.title,
                 .removed_environment = clean_environment()};
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
    if (const auto peak = machine.contraction_peak(shapes[i].dtype); peak && row->times[0].took_part)
      row->fraction_of_peak = row->times[0].flop_per_s / (*peak)->rate.value;
    result.rows.push_back(*std::move(row));
  }
  if (options.progress) options.progress(shapes.size(), shapes.size());
  for (Contestant& who : all) {
    auto about = who.describe();
    if (!about) return about.error();
    result.libraries.emplace_back(about->text);
  }
  return result;
}

}  // namespace ridge
