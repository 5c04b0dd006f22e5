// rows_random [CASES [SEED]]: row functions on this CPU with one to three threads. First every function with 1 to 150
// columns on every instruction set, then random cases, each on one instruction set.
#include "cases.h"
#include "ridge/pool/isa.h"

namespace ridge::random_rows {
namespace {

Status run_case(const Case& c, Data& d, int threads) {
  const auto at = [](Elements& x) { return x.bytes().data() + x.off_bytes(); };
  if (c.sum)
    ops::reduce(*c.sum, at(d.x), at(d.y), threads);
  else
    ops::run_row_function(c.p, {at(d.x), c.weighted ? at(d.weight) : nullptr, at(d.y), at(d.dy)}, threads);
  return Done{};
}

bool check_every_width() {
  std::mt19937 random(1);
  bool is_right = true;
  constexpr std::int64_t functions = std::size(ops::row_functions), widths = 150;
  for (std::int64_t i = 0; i < widths * functions; ++i) {
    Case c;
    c.p.function = ops::row_functions[i % functions];
    c.p.rows = 1 + i % 37;
    c.p.columns = i / functions + (is_gradient(c.p.function) ? 8 : 1);
    const DType dtype = dtypes[i % 3];
    c.p.x = c.p.y = c.p.dy = {dtype, c.p.columns + i % 5};
    c.p.weight_dtype = dtypes[i % 7 % 3];
    c.weighted = has_weight(c.p.function) && i % 4 != 0;
    if (c.is_scalar_per_row()) c.p.y.row_stride = 1;
    if (c.is_across()) c.p.y.row_stride = 0;
    Data d = random_data(c, random);
    (void)run_case(c, d, 1);
    std::string where;
    if (const double times = max_error_ratio(c, d, where); !(times <= 1)) {
      std::fprintf(stderr, "%s: %g of the allowed error%s\n", text(c).c_str(), times, where.c_str());
      is_right = false;
    }
  }
  return is_right;
}

int main(int argc, char** argv) {
  const std::vector<pool::Isa> isas = pool::available_isas();
  for (const pool::Isa isa : isas)
    if (!pool::set_active_isa(isa) || !check_every_width()) return 1;
  int count = 0;
  const auto refuse = [](const Case& c) {
    return c.sum ? ops::unsupported_reason(*c.sum) : ops::unsupported_reason(c.p);
  };
  const auto run = [&](const Case& c, Data& d) {
    pool::set_active_isa(isas[static_cast<std::size_t>(++count) % isas.size()]);
    return run_case(c, d, 1 + count / 7 % 3);
  };
  return check(argc, argv, {true, refuse, run});
}

}  // namespace
}  // namespace ridge::random_rows

int main(int argc, char** argv) { return ridge::random_rows::main(argc - 1, argv + 1); }
