#include "ridge/measure/ranks/chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/measure/ranks/route.h"

namespace ridge::ranks {
namespace {

constexpr std::int64_t tile_rows = 128;

const Slot& slot_of(const Acts& acts, int slot) { return acts.slots[static_cast<std::size_t>(slot)]; }

bool has(const Tensor& tensor, const std::string& dim) {
  return std::any_of(tensor.axes.begin(), tensor.axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
}

bool has(const std::vector<std::string>& dims, const std::string& dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// The dimension is a tensor's first axis, or none of it; of elements of whole bytes.
bool is_rows(const Tensor& tensor, const std::string& dim) {
  if (!has(tensor, dim)) return true;
  const auto count = std::count_if(tensor.axes.begin(), tensor.axes.end(), [&](const Axis& a) { return a.dim == dim; });
  return tensor.axes.front().dim == dim && count == 1 && bits(tensor.dtype) % 8 == 0 && !is_scaled(tensor.dtype);
}

bool keeps_rows_apart(const Program& program, const Statement& statement, const std::string& dim) {
  if (!has(program.tensors[static_cast<std::size_t>(statement.result())], dim)) return false;
  if (const auto* product = std::get_if<Contraction>(&statement.op))
    return !product->grouped && !has(product->contracted, dim);
  const auto& e = std::get<Expression>(statement.op);
  return !e.routine && std::all_of(e.nodes.begin(), e.nodes.end(), [&](const Node& node) {
    const bool over = std::any_of(node.over.begin(), node.over.end(), [&](const Axis& a) { return a.dim == dim; });
    return !over && node.kind != Node::Kind::previous;
  });
}

bool keeps_rows_apart(const Program& program, const std::string& dim) {
  return std::all_of(program.tensors.begin(), program.tensors.end(),
                     [&](const Tensor& t) { return is_rows(t, dim); }) &&
         std::all_of(program.statements.begin(), program.statements.end(),
                     [&](const Statement& s) { return keeps_rows_apart(program, s, dim); });
}

// Whether the move changes the first axis alone, or addends into whole sums.
bool moves_rows(const Move& move) {
  Layout now = move.before, then = move.after;
  if (now.cut.empty()) return false;
  now.cut.front() = then.cut.front() = "";
  now.addends = then.addends = "";
  if (now != then) return false;
  const std::string& from = move.before.cut.front();
  const std::string& to = move.after.cut.front();
  switch (*move.kind) {
    case Collective::all_gather: return from == to + move.over && move.before.addends == move.after.addends;
    case Collective::reduce_scatter: return to == from + move.over && move.after.addends.empty();
    case Collective::all_reduce: return to == from && move.after.addends.empty();
    default: return false;
  }
}

bool is_read_elsewhere(const Acts& acts, int slot, const ChunkedPair& pair, const std::vector<int>& stored) {
  if (std::find(stored.begin(), stored.end(), slot) != stored.end()) return true;
  for (std::size_t i = 0; i < acts.acts.size(); ++i) {
    if (i == pair.compute || i == pair.shift) continue;
    if (const auto* shift = std::get_if<Shift>(&acts.acts[i])) {
      if (shift->from == slot || shift->to == slot) return true;
    } else if (const auto& slots = std::get<Compute>(acts.acts[i]).slots;
               std::find(slots.begin(), slots.end(), slot) != slots.end()) {
      return true;
    }
  }
  return false;
}

// The tensor of the compute act's program that the move reads or writes; -1: none.
int tensor_between(const Compute& compute, int slot) {
  const auto at = std::find(compute.slots.begin(), compute.slots.end(), slot);
  return at == compute.slots.end() ? -1 : static_cast<int>(at - compute.slots.begin());
}

bool ends_in_product(const Compute& compute, int tensor) {
  const Statement& last = compute.program.statements.back();
  return std::holds_alternative<Contraction>(last.op) && last.result() == tensor;
}

void set_rows(Program& program, const std::string& dim, std::int64_t rows) {
  for (Dimension& known : program.dims)
    if (known.name == dim) known.value = Polynomial(rows);
}

// The program's last product with what came from the others added to its sums; behind its tensors stand what came and
// the result.
void add_received(Program& program, std::size_t received, DType result) {
  const int made = program.statements.back().result();
  Tensor sum = program.tensors[static_cast<std::size_t>(made)];
  Expression all{.result = 0, .nodes = {{.kind = Node::Kind::tensor, .tensor = made}}, .routine = {}};
  for (std::size_t i = 0; i < received; ++i) {
    Tensor come = sum;
    come.name += fmt::format("#{}", i);
    come.role = Role::input;
    const int before = static_cast<int>(all.nodes.size()) - 1;
    all.nodes.push_back({.kind = Node::Kind::tensor, .tensor = static_cast<int>(program.tensors.size())});
    all.nodes.push_back({.kind = Node::Kind::call, .function = Function::add, .arguments = {before, before + 1}});
    program.tensors.push_back(std::move(come));
  }
  Tensor& addends = program.tensors[static_cast<std::size_t>(made)];
  addends.role = Role::intermediate;
  addends.declared = false;
  sum.name += "#sum";
  sum.dtype = result;
  sum.role = Role::output;
  all.result = static_cast<int>(program.tensors.size());
  program.tensors.push_back(std::move(sum));
  program.statements.push_back({.op = std::move(all), .text = program.statements.back().text, .span = {}});
}

}  // namespace

std::optional<ChunkedPair> chunked_pair(const Acts& acts, std::size_t act, const Device& device,
                                        const std::vector<int>& stored) {
  if (act + 1 >= acts.acts.size()) return std::nullopt;
  const auto* const first = std::get_if<Shift>(&acts.acts[act]);
  const std::size_t compute_at = first != nullptr ? act + 1 : act, shift_at = first != nullptr ? act : act + 1;
  const auto* const compute = std::get_if<Compute>(&acts.acts[compute_at]);
  const auto* const shift = std::get_if<Shift>(&acts.acts[shift_at]);
  if (compute == nullptr || shift == nullptr || compute->empty || !shift->move.kind) return std::nullopt;
  ChunkedPair out{.compute = compute_at, .shift = shift_at, .kind = *shift->move.kind, .dim = ""};
  if (out.gathers() != (first != nullptr) || !moves_rows(shift->move)) return std::nullopt;
  if (shift->how != transport::Reduction::sum || device.mesh.size(shift->move.over) < 2) return std::nullopt;
  const int between = out.gathers() ? shift->to : shift->from, tensor = tensor_between(*compute, between);
  if (tensor < 0 || is_read_elsewhere(acts, between, out, stored)) return std::nullopt;
  const std::vector<Axis>& axes = compute->program.tensors[static_cast<std::size_t>(tensor)].axes;
  if (axes.size() < 2 || !axes.front().named()) return std::nullopt;
  out.dim = axes.front().dim;
  if (!keeps_rows_apart(compute->program, out.dim)) return std::nullopt;
  if (!out.gathers() && !ends_in_product(*compute, tensor)) return std::nullopt;
  return out;
}

std::vector<RowPiece> row_pieces(const Acts& acts, const ChunkedPair& pair, const Device& device) {
  const auto& shift = std::get<Shift>(acts.acts[pair.shift]);
  const Slot& whole = slot_of(acts, pair.gathers() ? shift.to : shift.from);
  const Mesh& mesh = device.mesh;
  Layout cut = whole.layout;
  cut.addends = "";
  cut.cut.front() += shift.move.over;
  const std::int64_t begin = block_of(whole.extents, whole.layout, mesh, device.number).front().begin;
  std::vector<RowPiece> out;
  for (const int other : sharers(mesh, shift.move.over, device.number)) {
    const Piece rows = block_of(whole.extents, cut, mesh, other).front();
    out.push_back({other, {rows.begin - begin, rows.end - begin}});
  }
  return out;
}

Program chunk_program(const Acts& acts, const ChunkedPair& pair, std::int64_t rows, std::size_t received) {
  Program out = std::get<Compute>(acts.acts[pair.compute]).program;
  set_rows(out, pair.dim, rows);
  if (received > 0) add_received(out, received, slot_of(acts, std::get<Shift>(acts.acts[pair.shift]).to).dtype);
  return out;
}

std::vector<Piece> cut_rows(const Piece& rows, std::int64_t chunks) {
  const std::int64_t even = (rows.size() + chunks - 1) / chunks, each = (even + tile_rows - 1) / tile_rows * tile_rows;
  std::vector<Piece> out;
  for (std::int64_t at = rows.begin; at < rows.end; at += each) out.push_back({at, std::min(rows.end, at + each)});
  return out;
}

double chunked_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const ChunkSeconds& s) {
  double computed = 0, copied = s.wait;
  if (kind == Collective::all_gather) {
    computed = s.own;
    for (std::int64_t i = 0; i < (ranks - 1) * chunks; ++i) {
      copied += s.sending;
      computed = std::max(computed, copied) + s.other;
    }
    return computed;
  }
  std::vector<double> ready;
  for (std::int64_t i = 0; i < (ranks - 1) * chunks; ++i) ready.push_back(computed += s.other);
  std::vector<double> done;
  for (std::int64_t j = 0; j < chunks; ++j) {
    const double last = ready[static_cast<std::size_t>((ranks - 2) * chunks + j)];
    done.push_back(computed = std::max(computed, last + s.wait) + s.own);
  }
  if (kind == Collective::reduce_scatter) return computed;
  for (std::int64_t j = 0; j < chunks; ++j)
    for (std::int64_t d = 0; d + 1 < ranks; ++d)
      copied = std::max(copied, done[static_cast<std::size_t>(j)] + s.wait) + s.sending;
  return std::max(computed, copied);
}

}  // namespace ridge::ranks
