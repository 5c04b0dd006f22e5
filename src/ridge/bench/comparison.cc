#include "ridge/bench/comparison.h"

#include <fmt/format.h>

namespace ridge {

Status warm_up(const std::vector<Competitor>& competitors, double seconds,
               const std::function<Result<double>(std::size_t)>& time_call) {
  const Timer timer;
  do {
    for (std::size_t i = 0; i < competitors.size(); ++i)
      if (competitors[i].is_supported) RIDGE_TRY_STATUS(time_call(i));
  } while (timer.seconds() < seconds);
  return Done{};
}

Status time_round(std::vector<Competitor>& competitors, std::size_t round,
                  const std::function<Result<double>(std::size_t)>& time_call) {
  std::vector<std::size_t> supported;
  for (std::size_t i = 0; i < competitors.size(); ++i)
    if (competitors[i].is_supported) supported.push_back(i);
  for (std::size_t turn = 0; turn < supported.size(); ++turn) {
    const std::size_t i = supported[(turn + round) % supported.size()];
    RIDGE_TRY(seconds, time_call(i));
    competitors[i].samples.push_back(seconds);
  }
  return Done{};
}

Status time_in_turns(std::vector<Competitor>& competitors, int rounds,
                     const std::function<Result<double>(std::size_t)>& time_call) {
  for (int round = 0; round < rounds; ++round)
    RIDGE_TRY_STATUS(time_round(competitors, static_cast<std::size_t>(round), time_call));
  return Done{};
}

Statistics ratio_of_rounds(const Competitor& theirs, const Competitor& ours) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(theirs.samples.size(), ours.samples.size()); ++i)
    ratios.push_back(theirs.samples[i] / ours.samples[i]);
  return compute_statistics(std::move(ratios));
}

void set_ratio(ComparisonRow& row, std::size_t other) {
  if (other == 0 || !row.competitors[0].is_supported) return;
  row.best = row.competitors[other].name;
  row.ratio = ratio_of_rounds(row.competitors[other], row.competitors[0]);
}

std::size_t find_fastest_other(const ComparisonRow& row) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < row.competitors.size(); ++i)
    if (row.competitors[i].is_supported &&
        (best == 0 || row.competitors[i].time().median < row.competitors[best].time().median))
      best = i;
  return best;
}

Status check_results(const Comparison& comparison) {
  for (const ComparisonRow& row : comparison.rows) {
    if (row.numbers.value("right", true)) continue;
    std::string text;
    for (const auto& [key, value] : row.labels.items())
      text += value.is_string() ? value.get<std::string>() + " " : fmt::format("{}={} ", key, value.dump());
    text.pop_back();
    return Error{.kind = ErrorKind::mismatch, .message = "ridge computes wrong results for " + text};
  }
  return Done{};
}

}  // namespace ridge
