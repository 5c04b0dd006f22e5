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
    auto memory = shared_memory(bytes);
    if (!memory) return memory.error();
    out.memory_.back() = *std::move(memory);
  }
  return out;
}

std::byte* SlotMemory::at(int slot) const {
  const auto& memory = memory_[static_cast<std::size_t>(slot)];
  return memory ? memory->data() : nullptr;
}

InChunks::InChunks(const ChunkedPair& pair, const Where& where, Queues queues)
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
      queues_(std::move(queues)) {
  pieces_ = row_pieces(part_->acts(), pair_, part_->device());
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (pieces_[p].rank == ranks_->rank())
      place_ = p;
    else
      others_.push_back(pieces_[p].rank);
}

Result<InChunks::Queues> InChunks::Queues::make() {
  std::vector<cuda::Queue> all;
  while (all.size() < 5) {
    auto queue = cuda::Queue::make();
    if (!queue) return queue.error();
    all.push_back(std::move(*queue));
  }
  return Queues{std::move(all[0]), std::move(all[1]), std::move(all[2]), std::move(all[3]), std::move(all[4])};
}

Result<InChunks::Made> InChunks::make(const ChunkedPair& pair, const Where& where) {
  auto queues = Queues::make();
  if (!queues) return queues.error();
  std::unique_ptr<InChunks> out(new InChunks(pair, where, *std::move(queues)));
  auto times = out->choose();
  if (const Status there = transport::agree(where.ranks, times ? Status(Done{}) : times.error()); !there)
    return there.error();
  if (const Status told = transport::broadcast(where.ranks, std::as_writable_bytes(std::span(&*times, 1))); !told)
    return told.error();
  out->times_ = *times;
  if (times->chunks == 0) return Made{*times, nullptr};
  if (!pair.gathers())
    if (const Status there = transport::agree(where.ranks, out->make_room()); !there) return there.error();
  if (const Status shared = out->share(); !shared) return shared.error();
  if (const Status built = transport::agree(where.ranks, out->build()); !built) return built.error();
  return Made{*times, std::move(out)};
}

Status InChunks::share() {
  auto there = reach_->share(pair_.gathers() ? slots_->memory(shift().from) : *come_);
  if (!there) return there.error();
  there_ = *std::move(there);
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
  const double sending = static_cast<double>(longest_chunk * row_bytes()) / reach_->bytes_per_s();
  return ChunkSeconds{.own = *own,
                      .other = pair_.gathers() ? *other : std::max(*other, sending),
                      .sending = sending,
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
  for (std::int64_t chunks = 1; chunks <= most_chunks_of_piece; chunks *= 2) {
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
  const auto reader =
      std::find_if(pieces_.begin(), pieces_.end(), [&](const RowPiece& p) { return p.rank == piece.rank; });
  const std::int64_t within = piece.rows.begin - mine().rows.begin;
  for (std::size_t t = 0; t < compute().slots.size(); ++t) {
    const Tensor& tensor = program.tensors[t];
    const int slot = compute().slots[t];
    const bool before_it_moves = pair_.gathers() && is_own && slot == between();
    if (!pair_.gathers() && !is_own && slot == between()) {  // the product stores where its sums are wanted
      const std::int64_t segment = static_cast<std::int64_t>(place_) * reader->rows.size() + piece.rows.begin;
      out.push_back(there_[static_cast<std::size_t>(piece.rank)] + (segment - reader->rows.begin) * row_bytes());
      continue;
    }
    std::byte* const data = slots_->at(before_it_moves ? shift().from : slot);
    const bool is_stored = data != nullptr && tensor.role != Role::intermediate;
    out.push_back(is_stored ? data + offset(tensor, before_it_moves ? within : piece.rows.begin) : nullptr);
  }
  if (!last) return out;
  for (std::size_t p = 0; p < pieces_.size(); ++p)
    if (p != place_)
      out.push_back(come_->data() + (static_cast<std::int64_t>(p) * mine().rows.size() + within) * row_bytes());
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

// A segment for what each rank makes of this one's piece. Nobody has read it yet, so that all may write.
Status InChunks::make_room() {
  const std::int64_t bytes = static_cast<std::int64_t>(pieces_.size()) * mine().rows.size() * row_bytes();
  auto memory = shared_memory(bytes);
  if (!memory) return memory.error();
  come_ = *std::move(memory);
  return Done{};
}

Status InChunks::build() {
  for (std::size_t d = 1; d < pieces_.size(); ++d) {
    const RowPiece& piece = pieces_[(place_ + d) % pieces_.size()];
    for (const Piece& rows : cut_rows(piece.rows, times_.chunks))
      if (const Status added = add_chunk(theirs_, {piece.rank, rows}, false); !added) return added;
  }
  for (const Piece& rows : cut_rows(mine().rows, pair_.gathers() ? 1 : times_.chunks))
    if (const Status added = add_chunk(own_, {mine().rank, rows}, !pair_.gathers()); !added) return added;
  if (pair_.gathers()) return Done{};
  for (const Status& done : {reach_->ring(queues_.bells, read_, others_), queues_.bells.wait()})
    if (!done) return done;
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

Status InChunks::fork(const cuda::Queue& queue) const {
  for (const cuda::Queue* one : {&queues_.second, &queues_.bells, &queues_.heard, &queues_.copies, &queues_.sums})
    if (const Status after = one->follow(queue); !after) return after;
  return Done{};
}

Status InChunks::join(const cuda::Queue& queue) const {
  for (const cuda::Queue* one : {&queues_.second, &queues_.bells, &queues_.heard, &queues_.copies, &queues_.sums})
    if (const Status after = queue.follow(*one); !after) return after;
  return Done{};
}

// Beside what comes behind on that queue.
Status InChunks::tell(const cuda::Queue& after, std::size_t bell, const std::vector<int>& others) const {
  if (const Status there = queues_.bells.follow(after); !there) return there;
  return reach_->ring(queues_.bells, bell, others);
}

Status InChunks::gather(const cuda::Queue& queue) const {
  if (const Status forked = fork(queue); !forked) return forked;
  if (const Status told = reach_->ring(queues_.copies, told_, others_); !told) return told;
  for (const Chunk& chunk : own_)
    if (const Status queued = chunk.steps->queue_on(queue); !queued) return queued;
  if (const Status all = reach_->hear(queues_.copies, told_, others_); !all) return all;
  for (std::size_t j = 0; j < theirs_.size(); ++j) {
    const Chunk& chunk = theirs_[j];
    const auto is_whose = [&](const RowPiece& piece) { return piece.rank == chunk.rank; };
    const auto whose = std::find_if(pieces_.begin(), pieces_.end(), is_whose);
    const std::int64_t within = (chunk.rows.begin - whose->rows.begin) * row_bytes();
    std::byte* const to = slots_->at(shift().to) + chunk.rows.begin * row_bytes();
    const std::byte* const from = there_[static_cast<std::size_t>(chunk.rank)] + within;
    if (const Status copied = queues_.copies.copy(to, from, chunk.rows.size() * row_bytes()); !copied) return copied;
    const cuda::Queue& turn = by_turns(queue, j + 1);
    if (const Status after = turn.follow(queues_.copies); !after) return after;
    if (const Status queued = chunk.steps->queue_on(turn); !queued) return queued;
  }
  // Nobody begins to write again what another one still reads: by now that is over.
  if (const Status told = tell(queues_.copies, read_, others_); !told) return told;
  if (const Status heard = reach_->hear(queues_.bells, read_, others_); !heard) return heard;
  return join(queue);
}

// Of an all-reduce: the others' chunks, as they have them; on two queues by turns, so that one copy begins while
// another ends.
Status InChunks::take_sums() const {
  std::size_t most = 0, turn = 0;
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
      if (const Status told = reach_->hear(queues_.heard, summed_, {other}); !told) return told;
      const cuda::Queue& on = turn++ % 2 == 0 ? queues_.copies : queues_.sums;
      if (const Status after = on.follow(queues_.heard); !after) return after;
      std::byte* const to = slots_->at(shift().to) + rows.begin * row_bytes();
      const std::byte* const from = sums_there_[static_cast<std::size_t>(other)] + rows.begin * row_bytes();
      if (const Status copied = on.copy(to, from, rows.size() * row_bytes()); !copied) return copied;
    }
  return Done{};
}

// That the others have read what came the last time was told at its end, and is heard at the next one's beginning: by
// then it is long over.
Status InChunks::scatter(const cuda::Queue& queue) const {
  if (const Status over = reach_->hear(queue, read_, others_); !over) return over;
  if (const Status forked = fork(queue); !forked) return forked;
  std::size_t turn = 0;
  for (const Chunk& chunk : theirs_) {
    const cuda::Queue& on = by_turns(queue, turn++);
    if (const Status queued = chunk.steps->queue_on(on); !queued) return queued;
    if (const Status told = tell(on, told_, {chunk.rank}); !told) return told;
  }
  for (const Chunk& chunk : own_) {
    const cuda::Queue& on = by_turns(queue, turn++);
    if (const Status come = reach_->hear(queues_.heard, told_, others_); !come) return come;
    if (const Status after = on.follow(queues_.heard); !after) return after;
    if (const Status queued = chunk.steps->queue_on(on); !queued) return queued;
    if (pair_.kind != Collective::all_reduce) continue;
    if (const Status told = tell(on, summed_, others_); !told) return told;
  }
  if (pair_.kind == Collective::all_reduce)
    if (const Status taken = take_sums(); !taken) return taken;
  if (const Status joined = join(queue); !joined) return joined;
  return reach_->ring(queue, read_, others_);
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
