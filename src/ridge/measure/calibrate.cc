#include "ridge/measure/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numeric>

#include "ridge/base/csv.h"
#include "ridge/base/portable_math.h"
#include "ridge/measure/fit/simplex.h"
#include "ridge/plan/library.h"

namespace ridge {
namespace {

constexpr std::size_t least_products = 40, most_fitted = 2500;

struct Columns {
  int m = -1, n = -1, k = -1, batch = -1, dtype = -1, time = -1;
  bool in_seconds = false;
};

Result<Columns> columns_of(const CsvLine& head, const std::string& source, const std::string& column) {
  Columns out;
  for (std::size_t i = 0; i < head.cells.size(); ++i) {
    const std::string& name = head.cells[i].text;
    const int at = static_cast<int>(i);
    if (name == "m") out.m = at;
    if (name == "n") out.n = at;
    if (name == "k") out.k = at;
    if (name == "batch") out.batch = at;
    if (name == "dtype") out.dtype = at;
    const bool is_time = name == "us" || name.ends_with("_us") || name == "us_best" || name == "us_default" ||
                         name == "time_s" || name == "median_s";
    if (column.empty() ? is_time && (out.time < 0 || name == "us_best") : name == column) {
      out.time = at;
      out.in_seconds = name.ends_with("_s");
    }
  }
  if (out.m >= 0 && out.n >= 0 && out.k >= 0 && out.time >= 0) return out;
  return placed(input_error(fmt::format("expected the columns m, n, k and {}, found {}",
                                        column.empty() ? "a time such as us or time_s" : column, head.text),
                            "--column NAME says which one holds the times"),
                source, head, head.cells[0]);
}

Result<double> number(const std::string& source, const CsvLine& line, int at) {
  const CsvCell& cell = line.cells[static_cast<std::size_t>(at)];
  double out = 0;
  const char* const stop = cell.text.data() + cell.text.size();
  const auto end = std::from_chars(cell.text.data(), stop, out);
  if (end.ec == std::errc{} && end.ptr == stop && out > 0 && std::isfinite(out)) return out;
  return placed(input_error(fmt::format("expected a number above 0, found '{}'", cell.text)), source, line, cell);
}

Result<TimedLibraryProduct> read_line(const std::string& source, const CsvLine& line, const Columns& at, DType dtype) {
  TimedLibraryProduct out;
  out.product.operand_bytes = bits(dtype) / 8.0;
  const std::pair<int, double*> cells[] = {{at.m, &out.product.m},
                                           {at.n, &out.product.n},
                                           {at.k, &out.product.k},
                                           {at.batch, &out.product.batch},
                                           {at.time, &out.seconds}};
  for (const auto& [cell, to] : cells) {
    if (cell < 0) continue;
    const auto read = number(source, line, cell);
    if (!read) return read.error();
    *to = *read;
  }
  if (!at.in_seconds) out.seconds *= 1e-6;
  return out;
}

// Half of the sites, by a hash that depends on nothing else.
bool is_fitted_site(const ops::LibraryProduct& p) {
  auto x =
      static_cast<std::uint64_t>(p.n) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(p.k) * 0xc2b2ae3d27d4eb4fULL;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9ULL;
  return (x >> 40 & 1) != 0;
}

using Timings = std::vector<TimedLibraryProduct>;
double quantile(std::vector<double> sorted, double share) {
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

LibraryErrors errors_of(const Timings& timings, const std::function<double(const ops::LibraryProduct&)>& predicted,
                        const ops::Spread& spread) {
  LibraryErrors out{.products = static_cast<int>(timings.size())};
  if (timings.empty()) return out;
  std::vector<double> off;
  for (const TimedLibraryProduct& x : timings) {
    const double seconds = predicted(x.product), ratio = x.seconds / seconds;
    off.push_back(std::abs(seconds / x.seconds - 1));
    out.inside += spread.low <= ratio && ratio <= spread.high;
  }
  out.inside /= static_cast<double>(off.size());
  out.mean = std::accumulate(off.begin(), off.end(), 0.0) / static_cast<double>(off.size());
  out.median = quantile(off, 0.5);
  out.percentile_90 = quantile(off, 0.9);
  return out;
}

// Every so many, so that no more take part than a fit has time for.
Timings thinned(const Timings& all) {
  const std::size_t step = (all.size() + most_fitted - 1) / most_fitted;
  Timings out;
  for (std::size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

ops::LibraryNumbers fitted(const Timings& timings, const ops::LibraryMachine& machine,
                           const ops::LibraryNumbers& from) {
  const auto numbers_at = [&](const std::vector<double>& logs) {
    ops::LibraryNumbers out;
    for (std::size_t i = 0; i < logs.size(); ++i) out.*ops::library_numbers[i].place = portable::exp(logs[i]);
    return out;
  };
  std::vector<double> begin;
  for (const ops::NamedLibraryNumber& x : ops::library_numbers) begin.push_back(portable::log(from.*x.place));
  const auto found = least_by_simplex(begin, 0.2, 400, [&](const std::vector<double>& logs) {
    const ops::LibraryNumbers tried = numbers_at(logs);
    double sum = 0;
    for (const TimedLibraryProduct& x : timings)
      sum += std::abs(portable::log(library_seconds(x.product, machine, tried) / x.seconds));
    return sum;
  });
  return numbers_at(found);
}

ops::Spread spread_of(const Timings& timings, const ops::LibraryMachine& machine, const ops::LibraryNumbers& numbers) {
  std::vector<double> ratios;
  for (const TimedLibraryProduct& x : timings)
    ratios.push_back(x.seconds / library_seconds(x.product, machine, numbers));
  return {quantile(ratios, 0.1), quantile(ratios, 0.5), quantile(ratios, 0.9)};
}

double roofline_seconds(const ops::LibraryProduct& p, const ops::LibraryMachine& machine) {
  return std::max(2 * p.batch * p.m * p.n * p.k / machine.flops_per_s, least_bytes(p) / machine.memory_bytes_per_s);
}

}  // namespace

Result<Timings> read_library_timings(std::string_view csv, const std::string& source, DType dtype,
                                     const std::string& column) {
  Timings out;
  std::optional<Columns> at;
  for (const CsvLine& line : read_csv(csv)) {
    if (line.text.starts_with('#')) continue;
    if (!at) {
      const auto found = columns_of(line, source, column);
      if (!found) return found.error();
      at = *found;
      continue;
    }
    const auto cell = [&](int i) {
      return static_cast<std::size_t>(i) < line.cells.size() ? line.cells[static_cast<std::size_t>(i)].text : "";
    };
    if (cell(at->time).empty()) continue;
    const std::string typed = at->dtype < 0 ? "" : cell(at->dtype);
    const bool is_short = dtype == DType::bf16 && typed == "f16";  // the same kernels
    if (!typed.empty() && typed != name(dtype) && !is_short) continue;
    const auto read = read_line(source, line, *at, dtype);
    if (!read) return read.error();
    out.push_back(*read);
  }
  if (out.size() >= least_products) return out;
  return input_error(fmt::format("'{}' holds {} timings of {} products, expected {} or more", source, out.size(),
                                 name(dtype), least_products),
                     "a CSV with the columns dtype,m,n,k,us: `ridge bench matmul --against cublaslt --csv`");
}

Result<Calibration> calibrate(const Machine& machine, DType dtype, const Timings& timings) {
  const auto known = library_on(machine, dtype);
  if (!known) return known.error();
  Timings near, apart;
  for (const TimedLibraryProduct& x : timings) (is_fitted_site(x.product) ? near : apart).push_back(x);
  if (near.size() < least_products / 4 || apart.size() < least_products / 4)
    return input_error(
        fmt::format("{} products have too few different n and k to keep half of these apart", timings.size()),
        "time products of at least 20 different n and k");
  Calibration out{.machine = machine.name,
                  .title = machine.title,
                  .dtype = dtype,
                  .numbers = {},
                  .spread = {},
                  .fitted = {},
                  .apart = {},
                  .before = {},
                  .roofline = {}};
  const ops::LibraryMachine& sheet = known->machine;
  out.numbers = fitted(thinned(near), sheet, known->numbers);
  out.spread = spread_of(near, sheet, out.numbers);
  const auto by = [&](const ops::LibraryNumbers& numbers) {
    return [&numbers, &sheet](const ops::LibraryProduct& p) { return library_seconds(p, sheet, numbers); };
  };
  out.fitted = errors_of(near, by(out.numbers), out.spread);
  out.apart = errors_of(apart, by(out.numbers), out.spread);
  out.before = errors_of(apart, by(known->numbers), known->spread);
  out.roofline = errors_of(apart, [&](const ops::LibraryProduct& p) { return roofline_seconds(p, sheet); }, {});
  return out;
}

Machine with_library(Machine machine, const Calibration& x, const std::string& source, const std::string& day) {
  const auto set = [&](const std::string& key, double value) {
    machine.numbers[key] = Sourced{value, fmt::format("ridge calibrate, {} products of {}", x.fitted.products, source),
                                   day, Origin::measured, ""};
  };
  for (const ops::NamedLibraryNumber& each : ops::library_numbers) set(std::string(each.key), x.numbers.*each.place);
  set("library_low", x.spread.low);
  set("library_middle", x.spread.middle);
  set("library_high", x.spread.high);
  return machine;
}

std::string machine_lines(const Calibration& x, const std::string& source, const std::string& day) {
  std::string out;
  for (const ops::NamedLibraryNumber& each : ops::library_numbers)
    out += fmt::format(
        "{} = {{ value = {:.4g}, unit = \"{}\", source = \"ridge calibrate, {} products of {}\", read = {}, origin = "
        "\"measured\" }}\n",
        each.key, x.numbers.*each.place, each.unit, x.fitted.products, source, day);
  const std::pair<const char*, double> spread[] = {
      {"library_low", x.spread.low}, {"library_middle", x.spread.middle}, {"library_high", x.spread.high}};
  for (const auto& [key, value] : spread)
    out += fmt::format(
        "{} = {{ value = {:.3g}, unit = \"1\", source = \"ridge calibrate, {} products of {}\", read = {}, origin = "
        "\"measured\" }}\n",
        key, value, x.fitted.products, source, day);
  return out;
}

}  // namespace ridge
