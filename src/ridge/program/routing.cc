// Top-k routing: i[N, 2] = topk(p over E) says to which 2 of E experts a row goes, and u[N, 2, F] = routed(x, w, i over
// E) multiplies it with theirs, w: bf16[E, F, D]. What each expert gets is even unless a list of loads says otherwise;
// rows beyond a capacity are dropped.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr const char* topk_example = "write i[N, 2] = topk(p over E)";
constexpr const char* routed_example = "write u[N, 2, F] = routed(x, w, i over E)";

}  // namespace

// The dimensions of p, but one more in the place of E.
bool Parser::topk_agrees(const Routine& routine, const Mention& result) {
  const Operand p = operand(0);
  const Axis& over = routine.over.front();
  if (!has(p.axes, over))
    return fail(over.span, fmt::format("{} is not in {}{}", described(over), p.called, text(p.axes)),
                "name a dimension of its argument");
  for (const Axis& a : p.axes)
    if (!one(a) && !(a == over) && !has(result.axes, a))
      return fail(p.span, fmt::format("{} of {} is not in the result {}", described(a), p.called, text(result.axes)),
                  topk_example);
  std::vector<Axis> chosen;
  for (const Axis& a : result.axes)
    if (!has(p.axes, a)) chosen.push_back(a);
  if (has(result.axes, over) || chosen.size() != 1)
    return fail(
        result.span,
        fmt::format("expected a result with one dimension in the place of {}, found {}", text(over), text(result.axes)),
        topk_example);
  if (info(result.dtype.value_or(DType::int32)).integer) return true;
  return fail(result.type_span, fmt::format("expected indices in an integer dtype, found {}", name(*result.dtype)),
              fmt::format("write {}: int32{}", result.name, text(result.axes)));
}

bool Parser::routed_option(Routine& out, const std::string& key) {
  if (key == "capacity") return whole_number(out.capacity, "the capacity");
  const Token open = peek();
  if (!expect("(", "'(' and the load of each expert", "such as loads = (12, 0, 7, 13)")) return false;
  std::int64_t all = 0;
  do {
    const Token number = peek();
    std::int64_t load = 0;
    const bool none = number.text == "0";
    if (none) take();
    if (!none && !whole_number(load, "a load")) return false;
    if (__builtin_add_overflow(all, load, &all))
      return fail(number.span, "expected loads whose sum is below 2^63, found more", "use smaller ones");
    out.loads.push_back(load);
  } while (take(","));
  return close(open, ")", "',' or ')'");
}

// As a contraction of x and of the experts that the indices name, each expert's E left out.
bool Parser::routed_agrees(const Routine& routine, const Mention& result) {
  const Operand x = operand(0), w = operand(1), ids = operand(2);
  const Tensor& id = program_.tensors[static_cast<std::size_t>(ids.tensor)];
  const Axis& over = routine.over.front();
  if (!info(id.dtype).integer)
    return fail(
        ids.span,
        fmt::format("expected indices in an integer dtype, found '{}', which is {}", id.name, ridge::name(id.dtype)),
        fmt::format("declare {}: int32{}", id.name, text(id.axes)));
  if (!has(w.axes, over))
    return fail(over.span, fmt::format("{} is not in {}{}", described(over), w.called, text(w.axes)),
                fmt::format("the weights are a matrix for each: w[{}, F, D]", text(over)));
  for (const auto& [axes, called, span] :
       {std::tuple(x.axes, x.called, x.span), std::tuple(ids.axes, ids.called, ids.span),
        std::tuple(result.axes, std::string("the result"), result.span)})
    if (has(axes, over))
      return fail(span, fmt::format("{} is in {}{}, too", described(over), called, text(axes)),
                  "the indices stand in the place of the experts");
  for (const Axis& a : ids.axes)
    if (!one(a) && !has(result.axes, a))
      return fail(ids.span,
                  fmt::format("{} of {} is not in the result {}", described(a), ids.called, text(result.axes)),
                  "each row and each of its experts has a result; sum them in a statement of their own");
  for (const auto& [mine, other] : {std::pair(&x, &w), {&w, &x}})
    for (const Axis& a : mine->axes)
      if (!one(a) && !(a == over) && !has(other->axes, a) && !has(result.axes, a))
        return fail(mine->span,
                    fmt::format("{} of {} appears nowhere else; contracted dimensions must share a name", described(a),
                                mine->called),
                    routed_example);
  for (const Axis& a : result.axes)
    if (!one(a) && !has(x.axes, a) && !has(w.axes, a) && !has(ids.axes, a))
      return fail(a.span, fmt::format("{} of the result is in no operand", described(a)),
                  "a dimension of the result comes from an operand");
  if (routine.loads.empty() || over.named()) return true;
  if (static_cast<std::int64_t>(routine.loads.size()) == over.literal) return true;
  return fail(over.span, fmt::format("{} loads are given for {} experts", routine.loads.size(), over.literal),
              "give each expert one, 0 where it has none");
}

}  // namespace ridge::notation
