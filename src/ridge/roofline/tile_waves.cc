#include "ridge/roofline/tile_waves.h"

#include <fmt/format.h>

#include <cmath>

#include "ridge/base/ceil_div.h"
#include "ridge/base/string_util.h"
#include "ridge/program/contraction.h"

namespace ridge {
namespace {

struct OutputTile {
  std::int64_t m = 0, n = 0;
};

Result<OutputTile> parse_tile(const std::string& text) {
  constexpr std::int64_t max_tile = 1 << 20;
  const std::size_t x = text.find('x');
  const auto m = parse_whole_number(text.substr(0, x));
  const auto n = x == std::string::npos ? std::nullopt : parse_whole_number(text.substr(x + 1));
  if (m && n && *m >= 1 && *n >= 1 && *m <= max_tile && *n <= max_tile) return OutputTile{*m, *n};
  return usage_error(fmt::format("expected ROWSxCOLUMNS of 1 to {} after --tile, found '{}'", max_tile, text),
                     "--tile 256x128");
}

Result<std::int64_t> evaluate_extent(const std::vector<std::string>& dims, const Bindings& sizes) {
  std::vector<std::string> factors(dims);
  return Polynomial::make_term(1, std::move(factors)).evaluate(sizes);
}

Result<TileWaves> count_waves(const Contraction& product, const Bindings& sizes, const OutputTile& tile,
                              std::int64_t cores) {
  const auto m = evaluate_extent(product.left_free, sizes), n = evaluate_extent(product.right_free, sizes),
             batch = evaluate_extent(product.batch, sizes);
  for (const auto* each : {&m, &n, &batch})
    if (!*each) return each->error();
  TileWaves out{.m = *m, .n = *n, .batch = *batch, .tile_m = tile.m, .tile_n = tile.n, .cores = cores};
  const __int128 tiles = static_cast<__int128>(*batch) * ceil_div(*m, tile.m) * ceil_div(*n, tile.n);
  if (tiles > INT64_MAX) return input_error("expected fewer than 2^63 tiles, found more", "use smaller sizes");
  out.tiles = static_cast<std::int64_t>(tiles);
  out.waves = ceil_div(out.tiles, cores);
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  out.utilization = real(out.tiles) / (real(out.waves) * real(cores));
  out.padding_fraction = 1 - real(*m) * real(*n) * real(*batch) / (real(out.tiles) * real(tile.m) * real(tile.n));
  return out;
}

}  // namespace

Result<std::vector<TileWaves>> count_tile_waves(const Program& program, const Machine& machine, const Bindings& given,
                                                const std::string& text) {
  RIDGE_TRY(tile, parse_tile(text));
  RIDGE_TRY(sizes, program.bind_sizes(given));
  const auto cores = machine.numbers.find("cores");
  if (cores == machine.numbers.end())
    return input_error(fmt::format("machine '{}' has no cores on record", machine.name),
                       "add cores under [numbers] in a machine file");
  std::vector<TileWaves> out;
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (!product || !has_sum(*product)) continue;
    RIDGE_TRY(waves, count_waves(*product, sizes, tile, std::llround(cores->second.value)));
    waves.name = program.tensors[product->result].name;
    waves.text = statement.text;
    out.push_back(std::move(waves));
  }
  if (out.empty()) return usage_error("expected a product with a sum for --tile, found none");
  return out;
}

}  // namespace ridge
