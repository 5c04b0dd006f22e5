#include "ridge/measure/ranks/chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ridge/measure/ranks/route.h"
#include "ridge/ops/product/cuda.h"

namespace ridge::ranks {
namespace {

constexpr std::int64_t tile_rows = 128, strip_columns = 128;
// Minimum width of a column block: narrower ones are copied slowly. Several scattered ones are sent in one copy.
constexpr std::int64_t least_gathered = 2048, least_scattered = 1024;

const Slot& slot_of(const Acts& acts, int slot) { return acts.slots[static_cast<std::size_t>(slot)]; }

bool has(const Tensor& tensor, const std::string& dim) {
  return std::any_of(tensor.axes.begin(), tensor.axes.end(), [&](const Axis& axis) { return axis.dim == dim; });
}

bool has(const std::vector<std::string>& dims, const std::string& dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// True if the dimension is the tensor's first axis (and elements have full bytes), or does not occur in the tensor.
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

// True if the move only changes how the first axis is split, and possibly reduces partial sums.
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

int tensor_of(const Compute& compute, int slot) {  // index in the step's program, or -1
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
  if (slot_of(acts, shift->from).dtype != slot_of(acts, shift->to).dtype) return std::nullopt;
  if (shift->how != transport::Reduction::sum || device.mesh.size(shift->move.over) < 2) return std::nullopt;
  const int between = out.gathers() ? shift->to : shift->from, tensor = tensor_of(*compute, between);
  if (tensor < 0 || is_read_elsewhere(acts, between, out, stored)) return std::nullopt;
  const std::vector<Axis>& axes = compute->program.tensors[static_cast<std::size_t>(tensor)].axes;
  if (axes.size() < 2 || !axes.front().named()) return std::nullopt;
  out.dim = axes.front().dim;
  if (!keeps_rows_apart(compute->program, out.dim)) return std::nullopt;
  if (!out.gathers() && !ends_in_product(*compute, tensor)) return std::nullopt;
  const std::vector<RowPiece> pieces = row_pieces(acts, out, device);
  if (std::any_of(pieces.begin(), pieces.end(), [](const RowPiece& p) { return p.rows.size() == 0; }))
    return std::nullopt;
  return out;
}

int tensor_between(const Acts& acts, const ChunkedPair& pair) {
  const auto& shift = std::get<Shift>(acts.acts[pair.shift]);
  return tensor_of(std::get<Compute>(acts.acts[pair.compute]), pair.gathers() ? shift.to : shift.from);
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

Program chunk_program(const Acts& acts, const ChunkedPair& pair, std::int64_t rows) {
  Program out = std::get<Compute>(acts.acts[pair.compute]).program;
  set_rows(out, pair.dim, rows);
  return out;
}

std::vector<Piece> cut_rows(const Piece& rows, std::int64_t chunks) {
  const std::int64_t even = (rows.size() + chunks - 1) / chunks, each = (even + tile_rows - 1) / tile_rows * tile_rows;
  std::vector<Piece> out;
  for (std::int64_t at = rows.begin; at < rows.end; at += each) out.push_back({at, std::min(rows.end, at + each)});
  return out;
}

ops::RowWalk walk(const std::vector<RowPiece>& pieces, std::size_t place, const WalkShape& shape, std::int64_t chunks) {
  const std::int64_t piece = pieces.front().rows.size() * shape.scale, all = pieces.back().rows.end * shape.scale;
  const auto alike = [&](const RowPiece& one) { return one.rows.size() * shape.scale == piece; };
  if (all > ops::RowWalk::never || piece % tile_rows != 0 || !std::all_of(pieces.begin(), pieces.end(), alike))
    return {};
  std::int64_t rows = shape.gathers ? piece : std::min(piece, ops::cuda::most_group_rows) / tile_rows * tile_rows;
  while (rows > 0 && (piece % rows != 0 || rows % shape.scale != 0)) rows -= tile_rows;
  if (rows == 0) return {};
  const std::int64_t strips = std::max<std::int64_t>(1, chunks * rows / piece);
  const std::int64_t even =
      std::max((shape.columns + strips - 1) / strips, shape.gathers ? least_gathered : least_scattered);
  ops::RowWalk out;
  out.rows = static_cast<int>(rows);
  out.piece = static_cast<int>(piece);
  out.all = static_cast<int>(all);
  out.cols = static_cast<int>((even + strip_columns - 1) / strip_columns * strip_columns);
  out.strips = static_cast<int>((shape.columns + out.cols - 1) / out.cols);
  out.of_piece = static_cast<int>(piece / rows) * out.strips;
  out.first = static_cast<int>(pieces[(place + (shape.gathers ? 0 : 1)) % pieces.size()].rows.begin * shape.scale);
  return out.of_piece > most_chunks ? ops::RowWalk() : out;
}

namespace {

int wave_of(std::size_t step, double waves) { return static_cast<int>((static_cast<double>(step) + 0.5) * waves); }

// The shards of a wave process their column blocks together, each block when it has arrived for all of them.
double gathered_s(std::size_t ranks, std::size_t strips, const KernelSeconds& s) {
  std::vector<double> come(ranks * strips, 0);
  double sent = s.wait;
  for (const Sending& each : sending_order(ranks, strips, s.waves))
    come[each.step * strips + each.strip] = sent += s.carrying + s.copy;
  double computed = 0;
  for (std::size_t first = 0, end = 0; first < ranks; first = end) {
    while (end < ranks && wave_of(end, s.waves) == wave_of(first, s.waves)) ++end;
    const double each = s.each * static_cast<double>(end - first), once = each / std::max(1.0, s.waves);
    for (std::size_t strip = 0; strip < strips; ++strip) {
      for (std::size_t step = first; step < end; ++step) computed = std::max(computed, come[step * strips + strip]);
      computed += once;
    }
    computed += (each - once) * static_cast<double>(strips);
  }
  return computed;
}

// Simulates the single kernel of scattered sums, whose tiles run in waves. Two waves are in flight: one is stored, or
// waits for its partial sums, while the next is multiplied. A chunk is complete when its last wave is stored. A wave
// waits for the partial sums of the last chunk that covers at least half of its tiles; its other tiles do not wait.
// Shards depend on each other, so there are at least as many waves as ranks; several of them may be multiplied
// concurrently.
class ScatteredTimes {
 public:
  ScatteredTimes(std::int64_t ranks, std::int64_t chunks, const Runs& runs, const KernelSeconds& seconds)
      : chunks_(chunks), others_((ranks - 1) * chunks), all_(ranks * chunks), s_(seconds) {
    for (const Run& run : runs.all(static_cast<std::size_t>(ranks), chunks)) {
      const std::int64_t before = static_cast<std::int64_t>(run.step) * chunks;
      runs_.push_back({before + run.chunks.begin, before + run.chunks.end});
    }
    multiplied_at_once_ = std::max<std::int64_t>(1, up(s_.waves * static_cast<double>(ranks)));
    waves_ = std::max(ranks, multiplied_at_once_);
  }

  double of(Collective kind) {
    const double each = static_cast<double>(all_) / static_cast<double>(waves_);  // chunks per wave
    double multiplied = 0, last_stored = 0;
    for (std::int64_t wave = 0; wave < waves_; ++wave) {
      if (wave > 1) multiplied = std::max(multiplied, stored_[static_cast<std::size_t>(wave - 2)]);
      multiplied += multiplying(wave);
      const std::int64_t last = std::min(all_, up((static_cast<double>(wave) + 0.5) * each)) - 1;
      const double ready = last < chunks_ ? 0 : come(last - chunks_, multiplied);
      double stored = std::max(multiplied, ready);
      if (s_.storing > 0 && last < others_) stored = std::max(stored, std::max(last_stored, ready) + s_.storing * each);
      stored_.push_back(stored);
      last_stored = std::max(last_stored, stored);
    }
    if (others_ > 0) last_stored = stored_.back() = std::max(last_stored, come(others_ - 1, last_stored));
    if (kind == Collective::reduce_scatter) return last_stored;
    const auto others = static_cast<double>(all_ / chunks_ - 1);
    for (; next_ < runs_.size(); ++next_)
      copied_ = std::max(copied_, there(runs_[next_].end, 0)) + others * copying(runs_[next_]);
    return copied_ + s_.wait;
  }

 private:
  static std::int64_t up(double x) { return static_cast<std::int64_t>(std::ceil(x * (1 - 1e-9))); }
  double copying(const Piece& run) const { return s_.copy + s_.carrying * static_cast<double>(run.size()); }
  double multiplying(std::int64_t wave) const {
    const auto done = [&](std::int64_t waves) {
      return up(static_cast<double>(waves * multiplied_at_once_) / static_cast<double>(waves_));
    };
    return s_.each * static_cast<double>(all_) / static_cast<double>(multiplied_at_once_) *
           static_cast<double>(done(wave + 1) - done(wave));
  }
  // Returns when all chunks before `end` are stored; `current_s` is the time for the wave that is being multiplied.
  double there(std::int64_t end, double under_way) const {
    const std::int64_t wave = up(static_cast<double>(end * waves_) / static_cast<double>(all_)) - 1;
    return wave < static_cast<std::int64_t>(stored_.size()) ? stored_[static_cast<std::size_t>(wave)] : under_way;
  }
  // Returns when the partial sums of a chunk arrive from the next rank, which runs the same schedule.
  double come(std::int64_t chunk, double under_way) {
    if (s_.storing > 0) return there(chunk + 1, under_way) + s_.wait;
    for (; next_ < runs_.size() && runs_[next_].begin <= chunk; ++next_)
      copied_ = std::max(copied_, there(runs_[next_].end, under_way)) + copying(runs_[next_]);
    return copied_ + s_.wait;
  }

  std::int64_t chunks_, others_, all_, multiplied_at_once_ = 1, waves_ = 1;
  KernelSeconds s_;
  std::vector<Piece> runs_ = {};
  std::size_t next_ = 0;             // the next run to be copied
  double copied_ = 0;                // when the last copy ends
  std::vector<double> stored_ = {};  // when each wave is stored
};

}  // namespace

std::vector<Run> Runs::all(std::size_t ranks, std::int64_t chunks) const {
  std::vector<Run> out;
  for (std::size_t step = 0; step < ranks; ++step) {
    std::int64_t most = middle;
    if (step == 0) most = first;
    if (step > 0 && step + 2 == ranks) most = last;
    if (step + 1 == ranks) most = given;
    std::int64_t each = step == 0 && ranks > 1 ? 1 : most;
    for (std::int64_t at = 0; at < chunks; at = out.back().chunks.end) {
      out.push_back({step, {at, std::min(chunks, at + each)}});
      each = std::min(most, 2 * each);
    }
  }
  return out;
}

void set_words(ops::ScatteredRows& rows, const std::vector<Run>& runs) {
  for (std::size_t word = 0; word < runs.size(); ++word)
    for (std::int64_t j = runs[word].chunks.begin; j < runs[word].chunks.end; ++j) {
      const auto chunk = runs[word].step * static_cast<std::size_t>(rows.of_piece) + static_cast<std::size_t>(j);
      rows.shared[chunk] = static_cast<std::uint8_t>(chunk - word);
    }
}

std::vector<Sending> sending_order(std::size_t ranks, std::size_t strips, double waves) {
  std::vector<Sending> out;
  for (std::size_t step = 1; step < ranks; ++step)
    for (std::size_t strip = 0; strip < strips; ++strip) out.push_back({step, strip});
  std::stable_sort(out.begin(), out.end(), [&](const Sending& x, const Sending& y) {
    return std::pair(wave_of(x.step, waves), x.strip) < std::pair(wave_of(y.step, waves), y.strip);
  });
  return out;
}

double one_kernel_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const Runs& runs,
                    const KernelSeconds& seconds) {
  if (kind == Collective::all_gather)
    return gathered_s(static_cast<std::size_t>(ranks), static_cast<std::size_t>(chunks), seconds);
  return ScatteredTimes(ranks, chunks, runs, seconds).of(kind);
}

double chunked_s(Collective kind, std::int64_t ranks, std::int64_t chunks, const ChunkSeconds& s) {
  double computed = 0, copied = kind == Collective::all_gather ? s.wait : 0;
  if (kind == Collective::all_gather) {
    computed = s.own;
    for (std::int64_t step = 1; step + 1 < ranks; ++step) {
      copied += s.sending * static_cast<double>(chunks);
      computed = std::max(computed, copied) + s.own;
    }
    for (std::int64_t i = 0; i < chunks; ++i) {
      copied += s.sending;
      computed = std::max(computed, copied) + s.other;
    }
    return computed;
  }
  std::vector<double> come(static_cast<std::size_t>(chunks), 0), done = come;
  for (std::int64_t step = 0; step < ranks; ++step)
    for (std::size_t j = 0; j < come.size(); ++j) {
      done[j] = computed = std::max(computed, come[j]) + (step == 0 ? s.other : s.own);
      if (step + 1 == ranks) continue;
      copied = std::max(copied, computed) + s.sending;
      come[j] = copied + s.wait;
    }
  if (kind == Collective::reduce_scatter) return computed;
  for (const double sum : done) copied = std::max(copied, sum) + s.sending * static_cast<double>(ranks - 1);
  return std::max(computed, copied + s.wait);
}

}  // namespace ridge::ranks
