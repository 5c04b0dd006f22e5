// What calls cost: kernel by kernel, fused, looped, over the time that a call takes.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "ridge/base/text.h"
#include "ridge/base/version.h"
#include "ridge/report/simulate/simulate.h"
#include "ridge/report/svg/drawing.h"

namespace ridge {
namespace {

constexpr std::array<Calling, 3> callings{Calling::kernel_by_kernel, Calling::fused, Calling::looped};
constexpr std::string_view unpublished =
    "no time per call is published for these chips: --sync gives one, or several\n";

std::string percent(double fraction) { return significant(100 * fraction, 3) + " %"; }
// What does not fit onto the chip has no time.
std::string time_of(const CallingCost& c, double seconds) { return c.possible ? engineering(seconds, "s") : "-"; }
double sync_of(const CallingReport& r) {
  return r.costs[0].calls > 0 ? r.costs[0].sync_seconds / static_cast<double>(r.costs[0].calls) : 0;
}

std::string ratio_of(const CallingReport& r, Calling from) {
  const bool known = r.of(from).possible && r.of(Calling::looped).possible;
  return known ? significant(r.speedup(from, Calling::looped), 3) + " x" : "-";
}

constexpr std::string_view styles = R"(<style>
text{font-family:system-ui,"Segoe UI","DejaVu Sans",sans-serif;font-size:12px;fill:#1f2328}
.title{font-size:15px;font-weight:600}
.soft{fill:#57606a}
.back{fill:#ffffff}
.grid{stroke:#d0d7de}
.curve{fill:none;stroke-width:2.5;stroke-linejoin:round}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.soft{fill:#9198a1}.back{fill:#0d1117}.grid{stroke:#30363d}}
</style>
)";

struct Axis10 {  // logarithmic
  double low = 1, high = 10, from = 0, to = 1;
  double place(double value) const { return from + std::log(value / low) / std::log(high / low) * (to - from); }
  std::vector<double> decades() const {
    std::vector<double> out;
    for (double v = std::pow(10, std::ceil(std::log10(low) - 1e-9)); v <= high * (1 + 1e-9); v *= 10) out.push_back(v);
    return out;
  }
};

std::string short_seconds(double value) {
  std::string text = engineering(value, "s");
  const std::size_t space = text.find(' ');
  return significant(std::stod(text.substr(0, space)), 3) + text.substr(space);
}

std::string grid(const Axis10& x, const Axis10& y) {
  std::string out;
  for (const double v : x.decades())
    out += line("grid", {x.place(v), y.to}, {x.place(v), y.from}) +
           text_at("soft", {x.place(v), y.from + 18}, short_seconds(v), " text-anchor=\"middle\"");
  for (const double v : y.decades())
    out += line("grid", {x.from, y.place(v)}, {x.to, y.place(v)}) +
           text_at("soft", {x.from - 8, y.place(v) + 4}, short_seconds(v), " text-anchor=\"end\"");
  return out;
}

}  // namespace

std::string calling_text(std::span<const CallingReport> sweep, std::string_view first_header) {
  std::vector<std::vector<std::string>> rows{
      {std::string(first_header), "calls", "bytes", "calls take", "time", "bandwidth"}};
  if (sweep.size() == 1) {
    for (const CallingCost& c : sweep[0].costs)
      rows.push_back({std::string(name(c.calling)), std::to_string(c.calls), engineering(c.bytes, "B"),
                      engineering(c.sync_seconds, "s"), time_of(c, c.seconds),
                      c.possible ? percent(c.bandwidth_fraction) : "does not fit"});
    return aligned(rows, {false, true, true, true, true, true});
  }
  std::string out;
  rows = {{std::string(first_header), "calls", "bytes", "work"}};
  for (const CallingCost& c : sweep[0].costs)
    rows.push_back(
        {std::string(name(c.calling)), std::to_string(c.calls), engineering(c.bytes, "B"), time_of(c, c.work_seconds)});
  out += aligned(rows, {false, true, true, true}) + "\n";
  rows = {{"a call", "kernel by kernel", "fused", "looped", "looped is", "than fused", "bandwidth, looped"}};
  for (const CallingReport& r : sweep)
    rows.push_back({engineering(sync_of(r), "s"), time_of(r.costs[0], r.costs[0].seconds),
                    time_of(r.costs[1], r.costs[1].seconds), time_of(r.costs[2], r.costs[2].seconds),
                    ratio_of(r, Calling::kernel_by_kernel), ratio_of(r, Calling::fused),
                    r.costs[2].possible ? percent(r.costs[2].bandwidth_fraction) : "-"});
  return out + aligned(rows, {true, true, true, true, true, true, true});
}

std::string render_text(const DecodeReport& d) {
  std::string out = fmt::format("Llama-3.1-8B, one token after {}, bf16, on {} {}\n", d.context, d.chips, d.machine);
  out += fmt::format("{} and {} a token; {}, {}\n\n", engineering(d.bytes, "B"), engineering(d.flops, "FLOP"),
                     engineering(d.rates.bytes_per_second, "B/s"), engineering(d.rates.flops_per_second, "FLOP/s"));
  out += calling_text(d.calling, "");
  std::vector<std::vector<std::string>> rows{{"published", "implies a call of"}};
  for (const ImpliedSync& i : d.implied)
    rows.push_back({std::string(i.figure), i.seconds ? engineering(*i.seconds, "s") : "nothing here"});
  return out + "\n" + aligned(rows, {false, true}) + "from " + std::string(d.implied.front().source) +
         ", if synchronisation is all that keeps a call from the peak\n" + std::string(unpublished);
}

std::string render_json(const DecodeReport& d) {
  using Json = nlohmann::ordered_json;
  Json out{{"schema", "ridge.simulate/1"},
           {"verb", "simulate decode"},
           {"model", "Llama-3.1-8B"},
           {"machine", d.machine},
           {"chips", d.chips},
           {"context", d.context},
           {"bytes", d.bytes},
           {"flops", d.flops},
           {"calling", Json::array()},
           {"implied", Json::array()}};
  for (const CallingReport& r : d.calling)
    for (const CallingCost& c : r.costs)
      out["calling"].push_back({{"call_s", sync_of(r)},
                                {"name", name(c.calling)},
                                {"calls", c.calls},
                                {"bytes", c.bytes},
                                {"sync_s", c.sync_seconds},
                                {"time_s", c.seconds},
                                {"bandwidth_fraction", c.bandwidth_fraction}});
  for (const ImpliedSync& i : d.implied)
    out["implied"].push_back({{"figure", i.figure},
                              {"source", i.source},
                              {"call_s", i.seconds ? Json(*i.seconds) : Json(nullptr)},
                              {"why", i.why_not.empty() ? Json(nullptr) : Json(i.why_not)}});
  out["provenance"] = {{"ridge", version()}, {"commit", commit()}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string calling_svg(std::span<const CallingReport> sweep, std::string_view title, std::string_view subtitle) {
  constexpr std::array<std::string_view, 3> colours{"#d55e00", "#0072b2", "#009e73"};
  constexpr double width = 960, height = 480;
  double low = HUGE_VAL, high = 0, least = HUGE_VAL, most = 0;
  for (const CallingReport& r : sweep) {
    if (sync_of(r) > 0) {
      low = std::min(low, sync_of(r));
      high = std::max(high, sync_of(r));
    }
    for (const CallingCost& c : r.costs) {
      if (!c.possible) continue;
      least = std::min(least, c.seconds);
      most = std::max(most, c.seconds);
    }
  }
  std::string out = svg_head(width, height);
  out += fmt::format("<title>{2}</title>\n{3}<rect class=\"back\" width=\"{0}\" height=\"{1}\"/>\n", width, height,
                     escaped(title), styles);
  out += text_at("title", {24, 28}, title) + text_at("soft", {24, 48}, subtitle);
  if (high <= low || least <= 0)
    return out + text_at("soft", {24, 90}, "expected at least two times of a call above 0: --sync 1e-7..1e-4:*10") +
           "</svg>\n";
  const Axis10 x{low, high, 90, width - 170}, y{least / 1.2, most * 1.2, height - 70, 70};
  out += grid(x, y) +
         text_at("soft", {(x.from + x.to) / 2, height - 24}, "what a call costs", " text-anchor=\"middle\"") +
         text_at("soft", {24, 66}, "time");
  double above = -HUGE_VAL;
  for (const Calling calling : callings) {
    const auto i = static_cast<std::size_t>(calling);
    if (!sweep[0].costs[i].possible) continue;
    std::string points;
    double end = 0;
    for (const CallingReport& r : sweep)
      if (sync_of(r) > 0) {
        end = y.place(r.costs[i].seconds);
        points += fmt::format("{:.1f},{:.1f} ", x.place(sync_of(r)), end);
      }
    out += fmt::format("<polyline class=\"curve\" stroke=\"{}\" points=\"{}\"/>\n", colours[i], points);
    above = std::max(end + 4, above + 16);
    out += text_at("name", {x.to + 8, above}, fmt::format("{}, {} calls", name(calling), sweep[0].costs[i].calls),
                   fmt::format(" style=\"fill:{}\"", colours[i]));
  }
  return out + "</svg>\n";
}

std::string render_svg(const DecodeReport& d) {
  return calling_svg(d.calling, fmt::format("A token of Llama-3.1-8B on {} {}", d.chips, d.machine),
                     "kernel by kernel, fused, and all layers looped in one call; no time per call is published");
}

}  // namespace ridge
