#include "ridge/roofline/routines/gathers.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/contains.h"

namespace ridge {

static int find_or_add_mask(const Program& program, ProgramMasks& masks, const TableRows& gathered) {
  IndexMask mask{.rows = gathered.rows.dim, .gathered = gathered};
  int number = 1;
  for (std::size_t i = 0; i < masks.all.size(); ++i) {
    if (masks.all[i].has_same_condition(mask)) return static_cast<int>(i);
    number += masks.all[i].gathered.has_value();
  }
  mask.symbol = make_unused_symbol(program, "rows") + (number == 1 ? "" : std::to_string(number));
  masks.all.push_back(std::move(mask));
  return static_cast<int>(masks.all.size()) - 1;
}

void add_gather_masks(const Program& program, ProgramMasks& masks) {
  std::map<int, std::map<int, TableRows>> by_table;  // Rows for each tensor of indices
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    const Routine* const routine = routine_of(program.statements[s]);
    if (!routine || routine->kind != RoutineKind::gather) continue;
    const std::vector<int> operands = expression_operands(std::get<Expression>(program.statements[s].op));
    const std::vector<Axis>& table = program.tensors[operands[0]].axes;
    TableRows gathered{{{}}, *std::find(table.begin(), table.end(), routine->over.front())};
    for (const Axis& axis : program.tensors[operands[1]].axes)
      if (!contains(table, axis)) gathered.indices.front().push_back(axis);
    masks.statements[s].gathered = find_or_add_mask(program, masks, gathered);
    by_table[operands[0]].emplace(operands[1], gathered);
  }
  for (const auto& [table, gathers] : by_table) {
    TableRows all{{}, gathers.begin()->second.rows};
    const auto has_other_rows = [&](const auto& each) { return !(each.second.rows == all.rows); };
    if (gathers.size() < 2 || std::any_of(gathers.begin(), gathers.end(), has_other_rows)) continue;
    for (const auto& each : gathers) all.indices.push_back(each.second.indices.front());
    masks.read_by_all[table] = find_or_add_mask(program, masks, all);
  }
}

std::vector<std::string> dependency_dims(const TableRows& gathered) {
  std::vector<std::string> out{gathered.rows.dim};
  for (const std::vector<Axis>& each : gathered.indices)
    for (const Axis& axis : each)
      if (axis.is_named()) out.push_back(axis.dim);
  return out;
}

static std::int64_t count_devices(const Axis& axis, const Bindings& dims) {
  std::int64_t out = 1;
  for (const char letter : axis.mesh)
    if (const auto size = dims.find(std::string(1, letter)); size != dims.end()) out *= size->second;
  return out;
}

// Returns the number of indices on a device, or `limit` if it is larger.
static std::optional<std::int64_t> count_indices(const std::vector<Axis>& axes, const Bindings& dims,
                                                 std::int64_t limit) {
  std::int64_t out = 1;
  for (const Axis& axis : axes) {
    const auto size = axis.size(dims);
    if (!size) return std::nullopt;
    if (__builtin_mul_overflow(out, (*size - 1) / count_devices(axis, dims) + 1, &out)) out = limit;
  }
  return std::min(out, limit);
}

// Devices with a part of the table look up an equal part of the indices.
std::optional<std::int64_t> count_gathered(const TableRows& gathered, const Bindings& dims) {
  const auto rows = gathered.rows.size(dims);
  if (!rows) return std::nullopt;
  std::int64_t named = 0;
  for (const std::vector<Axis>& each : gathered.indices) {
    const auto count = count_indices(each, dims, *rows - named);
    if (!count) return std::nullopt;
    named += *count;
  }
  return (named - 1) / count_devices(gathered.rows, dims) + 1;
}

}  // namespace ridge
