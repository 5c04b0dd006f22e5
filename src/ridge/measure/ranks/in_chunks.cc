#include "ridge/measure/ranks/in_chunks.h"

#include <fmt/format.h>

#include <algorithm>

#include "ridge/base/text.h"
#include "ridge/distributed/collective.h"
#include "ridge/measure/device_machine.h"
#include "ridge/plan/soonest.h"
#include "ridge/transport/collectives.h"

namespace ridge::ranks {
namespace {

namespace cuda = ops::cuda;

constexpr std::int64_t most_chunks_of_piece = 8;
// CUDA names whole allocations to other processes, and small ones share one.
constexpr std::int64_t allocation_bytes = std::int64_t{2} << 20;

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
  addends.dtype = DType::f32;
  sum.name += "#sum";
  sum.dtype = result;
  sum.role = Role::output;
  all.result = static_cast<int>(program.tensors.size());
  program.tensors.push_back(std::move(sum));
  program.statements.push_back({.op = std::move(all), .text = program.statements.back().text, .span = {}});
}

}  // namespace

Result<SlotMemory> SlotMemory::make(const Part& part) {
  SlotMemory out;
  for (std::size_t s = 0; s < part.acts().slots.size(); ++s) {
    out.memory_.emplace_back();
    if (!part.lies_in_memory(static_cast<int>(s))) continue;
    const std::int64_t bytes = stored_bytes(part.acts().slots[s].dtype, words_in(part.block(static_cast<int>(s))));
    auto memory = cuda::Memory::make((bytes + allocation_bytes) / allocation_bytes * allocation_bytes);
    if (!memory) return memory.error();
    out.memory_.back() = *std::move(memory);
  }
  return out;
}

std::byte* SlotMemory::at(int slot) const {
  const auto& memory = memory_[static_cast<std::size_t>(slot)];
  return memory ? memory->data() : nullptr;
}

InChunks::InChunks(const ChunkedPair& pair, const Where& where, cuda::Queue copies)
    : pair_(pair),
      part_(&where.part),
      slots_(&where.slots),
      machine_(&where.machine),
      options_(&where.options),
      when_(where.when),
      ranks_(&where.ranks),
      reach_(&where.reach),
      told_(where.bell),
      summed_(where.bell + 1),
      read_(where.bell + 2),
      copies_(std::move(copies)) {
  pieces_ = row_pieces(part_->acts(), pair_, part_->device());
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (pieces_[p].rank == ranks_->rank())
      place_ = p;
    else
      others_.push_back(pieces_[p].rank);
}

Result<InChunks::Made> InChunks::make(const ChunkedPair& pair, const Where& where) {
  auto copies = cuda::Queue::make();
  if (!copies) return copies.error();
  std::unique_ptr<InChunks> out(new InChunks(pair, where, std::move(*copies)));
  auto times = out->choose();
  if (const Status there = transport::agree(where.ranks, times ? Status(Done{}) : times.error()); !there)
    return there.error();
  if (const Status told = transport::broadcast(where.ranks, std::as_writable_bytes(std::span(&*times, 1))); !told)
    return told.error();
  out->times_ = *times;
  if (times->chunks == 0) return Made{*times, nullptr};
  if (const Status built = transport::agree(where.ranks, out->build()); !built) return built.error();
  if (const Status shared = out->share(); !shared) return shared.error();
  return Made{*times, std::move(out)};
}

Status InChunks::share() {
  auto made = reach_->share(slots_->memory(shift().from));
  if (!made) return made.error();
  made_there_ = *std::move(made);
  if (pair_.kind != Collective::all_reduce) return Done{};
  auto sums = reach_->share(slots_->memory(shift().to));
  if (!sums) return sums.error();
  sums_there_ = *std::move(sums);
  return Done{};
}

std::int64_t InChunks::row_bytes() const {
  const Slot& slot = part_->acts().slots[static_cast<std::size_t>(between())];
  const Block block = part_->block(between());
  return block.front().size() == 0 ? 0 : words_in(block) / block.front().size() * bits(slot.dtype) / 8;
}

Program InChunks::program_of(std::int64_t rows, bool last) const {
  Program out = compute().program;
  set_rows(out, pair_.dim, rows);
  if (last) add_received(out, others_.size(), part_->acts().slots[static_cast<std::size_t>(shift().to)].dtype);
  return out;
}

// --- how many chunks

Result<ChunkSeconds> InChunks::seconds_of(std::int64_t chunks) const {
  const auto device = device_numbers_here();
  if (!device) return device.error();
  std::int64_t longest = 0;
  for (const RowPiece& piece : pieces_) longest = std::max(longest, piece.rows.size());
  const auto longest_chunk = cut_rows({0, longest}, chunks).front().size();
  const auto seconds = [&](std::int64_t rows, bool last) -> Result<double> {
    const auto planned = plan_part(program_of(rows, last), *options_);
    if (!planned) return planned.error();
    const auto predicted = forecast_s(*planned, *device);
    return predicted ? *predicted : Result<double>(input_error("a step that nobody predicts"));
  };
  const auto own = seconds(pair_.gathers() ? longest : longest_chunk, !pair_.gathers());
  const auto other = seconds(longest_chunk, false);
  if (!own) return own.error();
  if (!other) return other.error();
  return ChunkSeconds{.own = *own,
                      .other = *other,
                      .sending = static_cast<double>(longest_chunk * row_bytes()) / reach_->bytes_per_s(),
                      .wait = reach_->wait_s()};
}

Result<double> InChunks::in_turn_s() const {
  const auto device = device_numbers_here();
  if (!device) return device.error();
  const auto planned = plan_part(compute().program, *options_);
  if (!planned) return planned.error();
  const auto computing = forecast_s(*planned, *device);
  if (!computing) return input_error("a step that nobody predicts");
  const Slot& slot = part_->acts().slots[static_cast<std::size_t>(shift().from)];
  const auto transfer = transfer_of(shift().move, slot.extents, part_->device().mesh, Rational(bits(slot.dtype), 8));
  const auto library = transfer ? library_time(*machine_, *transfer) : std::nullopt;
  if (library) return *computing + *library;
  const auto n = static_cast<double>(pieces_.size()), passes = pair_.kind == Collective::all_reduce ? 2.0 : 1.0;
  const auto rows = static_cast<double>(pieces_.back().rows.end);
  return *computing + passes * (n - 1) / n * rows * static_cast<double>(row_bytes()) / reach_->bytes_per_s();
}

// No answer where a step has no forecast: then one act goes after the other.
Result<ChunkTimes> InChunks::choose() const {
  ChunkTimes out;
  const auto turn = in_turn_s();
  if (!turn || pieces_.back().rows.end == 0) return out;
  out.in_turn = *turn;
  for (std::int64_t chunks = 1; chunks <= most_chunks_of_piece; ++chunks) {
    const auto seconds = seconds_of(chunks);
    if (!seconds) return out;
    const double all = chunked_s(pair_.kind, static_cast<std::int64_t>(pieces_.size()), chunks, *seconds);
    if (out.in_chunks == 0 || all < out.in_chunks) {
      out.in_chunks = all;
      out.chunks = chunks;
    }
  }
  if (when_ == Chunks::where_faster && out.in_chunks >= out.in_turn) out.chunks = 0;
  return out;
}

// --- what is multiplied

// Where the tensors of a chunk's program lie: those with rows begin where the chunk does.
Result<std::vector<std::byte*>> InChunks::lent_to(const Program& program, const RowPiece& piece, bool last) const {
  std::vector<std::byte*> out;
  const auto offset = [&](const Tensor& tensor, std::int64_t begin) -> std::int64_t {
    if (tensor.axes.empty() || tensor.axes.front().dim != pair_.dim) return 0;
    std::int64_t elements = begin;
    for (std::size_t i = 1; i < tensor.axes.size(); ++i) {
      const auto extent = tensor.axes[i].named() ? program.bind({})->at(tensor.axes[i].dim) : tensor.axes[i].literal;
      elements *= extent;
    }
    return elements * bits(tensor.dtype) / 8;
  };
  const bool is_own = piece.rank == ranks_->rank();
  const std::int64_t within = piece.rows.begin - mine().rows.begin;
  for (std::size_t t = 0; t < compute().slots.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    const int slot = compute().slots[t];
    const bool before_it_moves = pair_.gathers() && is_own && slot == between();
    std::byte* const data = slots_->at(before_it_moves ? shift().from : slot);
    const bool is_stored = data != nullptr && tensor.role != Role::intermediate;
    out.push_back(is_stored ? data + offset(tensor, before_it_moves ? within : piece.rows.begin) : nullptr);
  }
  if (!last) return out;
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (p != place_) out.push_back(come_[p]->data() + within * row_bytes());
  const bool whole = pair_.kind == Collective::all_reduce;
  out.push_back(slots_->at(shift().to) + offset(program.tensors.back(), whole ? piece.rows.begin : within));
  return out;
}

Status InChunks::add_chunk(std::vector<Chunk>& to, const RowPiece& piece, bool last) {
  if (piece.rows.size() == 0) return Done{};
  const Program program = program_of(piece.rows.size(), last);
  auto planned = plan_part(program, *options_);
  if (!planned) return planned.error();
  const auto lent = lent_to(program, piece, last);
  if (!lent) return lent.error();
  auto steps = DeviceSteps::make_in(*lent, *std::move(planned), {.stored = options_->tune.stored});
  if (!steps) return steps.error();
  to.push_back({piece.rank, piece.rows, *std::move(steps)});
  return Done{};
}

Status InChunks::build() {
  come_.resize(pieces_.size());
  for (std::size_t p = 0; p < pieces_.size() && !pair_.gathers(); ++p) {
    if (p == place_) continue;
    auto memory = cuda::Memory::make(mine().rows.size() * row_bytes());
    if (!memory) return memory.error();
    come_[p] = *std::move(memory);
  }
  for (std::size_t d = 1; d < pieces_.size(); ++d) {
    const RowPiece& piece = pieces_[(place_ + d) % pieces_.size()];
    for (const Piece& rows : cut_rows(piece.rows, times_.chunks))
      if (const Status added = add_chunk(theirs_, {piece.rank, rows}, false); !added) return added;
  }
  for (const Piece& rows : cut_rows(mine().rows, pair_.gathers() ? 1 : times_.chunks))
    if (const Status added = add_chunk(own_, {mine().rank, rows}, !pair_.gathers()); !added) return added;
  if (pair_.gathers()) return Done{};
  std::vector<std::byte*> lent;
  for (const int slot : compute().slots) lent.push_back(slots_->at(slot));
  auto planned = plan_part(compute().program, *options_);
  if (!planned) return planned.error();
  auto steps = DeviceSteps::make_in(lent, *std::move(planned), {.stored = options_->tune.stored});
  if (!steps) return steps.error();
  whole_ = *std::move(steps);
  return Done{};
}

// --- what is queued

Status InChunks::queue(const cuda::Queue& queue) const { return pair_.gathers() ? gather(queue) : scatter(queue); }

Status InChunks::queue_computing(const cuda::Queue& queue) const {
  for (const auto* chunks : {&theirs_, &own_})
    for (const Chunk& chunk : *chunks)
      if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  return Done{};
}

Status InChunks::complete(const cuda::Queue& queue) const {
  if (!pair_.gathers()) return whole_->queue_on(queue);
  std::byte* const there = slots_->at(shift().to) + mine().rows.begin * row_bytes();
  return queue.copy(there, slots_->at(shift().from), mine().rows.size() * row_bytes());
}

// Nobody begins to write again what another one still reads.
Status InChunks::part_in_peace(const cuda::Queue& queue) const {
  if (const Status told = reach_->ring(copies_, read_, others_); !told) return told;
  if (const Status heard = reach_->hear(copies_, read_, others_); !heard) return heard;
  return queue.follow(copies_);
}

Status InChunks::gather(const cuda::Queue& queue) const {
  if (const Status told = reach_->ring(queue, told_, others_); !told) return told;
  if (const Status after = copies_.follow(queue); !after) return after;
  for (const Chunk& chunk : own_)
    if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  if (const Status all = reach_->hear(copies_, told_, others_); !all) return all;
  for (const Chunk& chunk : theirs_) {
    const auto whose =
        std::find_if(pieces_.begin(), pieces_.end(), [&](const RowPiece& p) { return p.rank == chunk.rank; });
    const std::int64_t within = (chunk.rows.begin - whose->rows.begin) * row_bytes();
    std::byte* const to = slots_->at(shift().to) + chunk.rows.begin * row_bytes();
    const std::byte* const from = made_there_[static_cast<std::size_t>(chunk.rank)] + within;
    if (const Status copied = copies_.copy(to, from, chunk.rows.size() * row_bytes()); !copied) return copied;
    if (const Status after = queue.follow(copies_); !after) return after;
    if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  }
  return part_in_peace(queue);
}

// What the others made of a chunk of this one's piece; of those before it in the ring they came to it first.
Status InChunks::receive(std::size_t chunk) const {
  const Piece& rows = own_[chunk].rows;
  const std::int64_t within = (rows.begin - mine().rows.begin) * row_bytes();
  for (std::size_t d = 1; d < pieces_.size(); ++d) {
    const int other = behind(d).rank;
    if (const Status told = reach_->hear(copies_, told_, {other}); !told) return told;
    const std::byte* const from = made_there_[static_cast<std::size_t>(other)] + rows.begin * row_bytes();
    std::byte* const to = come_[(place_ + pieces_.size() - d) % pieces_.size()]->data() + within;
    if (const Status copied = copies_.copy(to, from, rows.size() * row_bytes()); !copied) return copied;
  }
  return Done{};
}

// Of an all-reduce: the others' chunks, as they have them.
Status InChunks::take_sums() const {
  std::size_t most = 0;
  std::vector<std::vector<Piece>> chunks;
  for (std::size_t d = 1; d < pieces_.size(); ++d) {
    chunks.push_back(cut_rows(behind(d).rows, times_.chunks));
    most = std::max(most, chunks.back().size());
  }
  for (std::size_t j = 0; j < most; ++j)
    for (std::size_t d = 1; d < pieces_.size(); ++d) {
      if (j >= chunks[d - 1].size()) continue;
      const int other = behind(d).rank;
      const Piece rows = chunks[d - 1][j];
      if (const Status told = reach_->hear(copies_, summed_, {other}); !told) return told;
      std::byte* const to = slots_->at(shift().to) + rows.begin * row_bytes();
      const std::byte* const from = sums_there_[static_cast<std::size_t>(other)] + rows.begin * row_bytes();
      if (const Status copied = copies_.copy(to, from, rows.size() * row_bytes()); !copied) return copied;
    }
  return Done{};
}

Status InChunks::scatter(const cuda::Queue& queue) const {
  if (const Status after = copies_.follow(queue); !after) return after;
  for (const Chunk& chunk : theirs_) {
    if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
    if (const Status told = reach_->ring(queue, told_, {chunk.rank}); !told) return told;
  }
  for (std::size_t j = 0; j < own_.size(); ++j) {
    if (const Status come = receive(j); !come) return come;
    if (const Status after = queue.follow(copies_); !after) return after;
    if (const Status queued = own_[j].steps->queue_on(queue); !queued) return queued;
    if (pair_.kind != Collective::all_reduce) continue;
    if (const Status told = reach_->ring(queue, summed_, others_); !told) return told;
  }
  if (pair_.kind == Collective::all_reduce)
    if (const Status taken = take_sums(); !taken) return taken;
  return part_in_peace(queue);
}

std::string text(const Acts& acts, const ChunkedPair& pair, const ChunkTimes& times) {
  const auto& shift = std::get<Shift>(acts.acts[pair.shift]);
  const auto& compute = std::get<Compute>(acts.acts[pair.compute]);
  const Statement& last = compute.program.statements.back();
  std::string result = compute.program.tensors[static_cast<std::size_t>(last.result())].name;
  result = result.substr(0, result.find('#'));
  const std::string both = fmt::format("{} beside {} over {}", result, name(pair.kind), shift.move.over);
  const std::string turn = engineering(times.in_turn, "s");
  if (times.chunks == 0) return fmt::format("{}: {} predicted in turn", both, turn);
  return fmt::format("{}: {} predicted in {} chunk{} of each piece along {}, {} in turn", both,
                     engineering(times.in_chunks, "s"), times.chunks, times.chunks == 1 ? "" : "s", pair.dim, turn);
}

}  // namespace ridge::ranks
