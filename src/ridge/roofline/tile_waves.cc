#include "ridge/roofline/tile_waves.h"

#include <fmt/format.h>

#include <cmath>

#include "ridge/base/text.h"
#include "ridge/program/elementwise.h"

namespace ridge {
namespace {

struct Tile {
  std::int64_t m = 0, n = 0;
};

Result<Tile> parse_tile(const std::string& text) {
  constexpr std::int64_t most = 1 << 20;
  const std::size_t x = text.find('x');
  const auto m = whole_number(text.substr(0, x));
  const auto n = x == std::string::npos ? std::nullopt : whole_number(text.substr(x + 1));
  if (m && n && *m >= 1 && *n >= 1 && *m <= most && *n <= most) return Tile{*m, *n};
  return usage_error(fmt::format("expected ROWSxCOLUMNS of 1 to {} after --tile, found '{}'", most, text),
                     "--tile 256x128");
}

Result<std::int64_t> extent(const std::vector<std::string>& dims, const Bindings& sizes) {
  std::vector<std::string> factors(dims);
  return Polynomial::product(1, std::move(factors)).evaluate(sizes);
}

std::int64_t pieces(std::int64_t whole, std::int64_t piece) { return (whole + piece - 1) / piece; }

Result<TileWaves> waves_of(const Contraction& product, const Bindings& sizes, const Tile& tile, std::int64_t cores) {
  const auto m = extent(product.left_free, sizes), n = extent(product.right_free, sizes),
             batch = extent(product.batch, sizes);
  for (const auto* each : {&m, &n, &batch})
    if (!*each) return each->error();
  TileWaves out{.m = *m, .n = *n, .batch = *batch, .tile_m = tile.m, .tile_n = tile.n, .cores = cores};
  const __int128 tiles = static_cast<__int128>(*batch) * pieces(*m, tile.m) * pieces(*n, tile.n);
  if (tiles > INT64_MAX) return input_error("expected fewer than 2^63 tiles, found more", "use smaller sizes");
  out.tiles = static_cast<std::int64_t>(tiles);
  out.waves = pieces(out.tiles, cores);
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  out.used = real(out.tiles) / (real(out.waves) * real(cores));
  out.beyond_edges = 1 - real(*m) * real(*n) * real(*batch) / (real(out.tiles) * real(tile.m) * real(tile.n));
  return out;
}

}  // namespace

Result<std::vector<TileWaves>> tile_waves(const Program& program, const Machine& machine, const Bindings& given,
                                          const std::string& text) {
  const auto tile = parse_tile(text);
  if (!tile) return tile.error();
  const auto sizes = program.bind(given);
  if (!sizes) return sizes.error();
  const auto cores = machine.numbers.find("cores");
  if (cores == machine.numbers.end())
    return input_error(fmt::format("machine '{}' has no cores on record", machine.name),
                       "add cores under [numbers] in a machine file");
  std::vector<TileWaves> out;
  for (const Statement& statement : program.statements) {
    const auto* product = std::get_if<Contraction>(&statement.op);
    if (!product || !sums(*product)) continue;
    auto waves = waves_of(*product, *sizes, *tile, std::llround(cores->second.value));
    if (!waves) return waves.error();
    waves->name = program.tensors[static_cast<std::size_t>(product->result)].name;
    waves->text = statement.text;
    out.push_back(*std::move(waves));
  }
  if (out.empty()) return usage_error("expected a product with a sum for --tile, found none");
  return out;
}

}  // namespace ridge
