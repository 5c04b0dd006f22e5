#include "ridge/report/stripes.h"

#include <fmt/format.h>

#include "ridge/base/string_util.h"
#include "ridge/report/json_values.h"

namespace ridge {
namespace {

std::string rate_text(const Stripe& row, std::optional<double> seconds) {
  return seconds ? format_with_prefix(row.flops / *seconds, "FLOP/s") : "-";
}

}  // namespace

void describe_edges(Stripes& stripes) {
  for (std::size_t i = 1; i < stripes.rows.size(); ++i) {
    const Stripe& before = stripes.rows[i - 1];
    Stripe& current = stripes.rows[i];
    current.edge.clear();
    if (current.kernel != before.kernel)
      current.edge = fmt::format("{} instead of {}", current.kernel, before.kernel);
    else if (current.tiles != before.tiles)
      current.edge = fmt::format("{} tiles instead of {}", current.tiles, before.tiles);
    if (current.waves != before.waves && !current.edge.empty())
      current.edge += fmt::format(", {} wave{} ({} {})", current.waves, current.waves == 1 ? "" : "s",
                                  before.waves == 1 ? "was" : "were", before.waves);
  }
}

std::string render_text(const Stripes& stripes, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows{
      {stripes.dim, "kernel", "tiles", "waves", "predicted", "low .. high", "rate", "measured", "rate", "change"}};
  for (const Stripe& row : stripes.rows)
    rows.push_back({std::to_string(row.size), row.kernel, std::to_string(row.tiles), std::to_string(row.waves),
                    format_with_prefix(row.predicted_s.expected, "s"),
                    fmt::format("{} .. {}", format_with_prefix(row.predicted_s.low, "s"),
                                format_with_prefix(row.predicted_s.high, "s")),
                    rate_text(row, row.predicted_s.expected),
                    row.measured_s ? format_with_prefix(*row.measured_s, "s") : "-", rate_text(row, row.measured_s),
                    row.edge});
  return fmt::format("{} on {}, {} cores\n", stripes.title, stripes.machine_title, stripes.cores) +
         text_table(rows,
                    {.right = {true, false, true, true, true, true, true, true, true, false},
                     .omit_first = {"tiles", "waves", "measured", "kernel", "low .. high"}},
                    style) +
         (stripes.remark.empty() ? "" : stripes.remark + "\n");
}

std::string render_json(const Stripes& stripes) {
  Json out{{"schema", "ridge.stripes/1"}, {"title", stripes.title}, {"machine", stripes.machine},
           {"dim", stripes.dim},          {"cores", stripes.cores}, {"sizes", Json::array()}};
  out["remark"] = stripes.remark;
  for (const Stripe& row : stripes.rows) {
    Json each{{"size", row.size},   {"kernel", row.kernel}, {"tiles", row.tiles},
              {"waves", row.waves}, {"flops", row.flops},   {"edge", row.edge}};
    each["predicted_s"] = {
        {"low", row.predicted_s.low}, {"expected", row.predicted_s.expected}, {"high", row.predicted_s.high}};
    each["measured_s"] = or_null(row.measured_s);
    out["sizes"].push_back(std::move(each));
  }
  return out.dump(1) + "\n";
}

}  // namespace ridge
