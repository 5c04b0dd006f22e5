// rows_random [CASES [SEED]]: random functions of rows on this CPU, each on one of its instruction sets and with one to
// three threads.
#include "cases.h"
#include "ridge/pool/isa.h"

int main(int argc, char** argv) {
  using namespace ridge;
  using random_rows::Case, random_rows::Data;
  const std::vector<tile::cpu::Isa> isas = tile::cpu::available_isas();
  int count = 0;
  const auto refuse = [](const Case& c) { return c.sum ? ops::refuse(*c.sum) : ops::refuse(c.p); };
  const auto run = [&](const Case& c, Data& d) -> std::optional<std::string> {
    tile::cpu::use_isa(isas[static_cast<std::size_t>(++count) % isas.size()]);
    const auto at = [](random_rows::Elements& x) { return x.bytes().data() + x.off_bytes(); };
    if (c.sum)
      ops::reduce(*c.sum, at(d.x), at(d.y), 1 + count / 7 % 3);
    else
      ops::rows(c.p, {at(d.x), c.weighted ? at(d.weight) : nullptr, at(d.y), at(d.dy)}, 1 + count / 7 % 3);
    return std::nullopt;
  };
  return random_rows::check(argc - 1, argv + 1, {refuse, run});
}
