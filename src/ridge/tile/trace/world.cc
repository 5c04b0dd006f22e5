#include "ridge/tile/trace/world.h"

#include <algorithm>

namespace ridge::tile::trace {
namespace {

bool is_asynchronous(Do what) { return what == Do::copy || what == Do::multiply || what == Do::store; }

}  // namespace

World::World(const Program& p, unsigned seed)
    : program(p),
      random(seed),
      threads(p.threads.size()),
      barriers(p.barriers.size()),
      named(p.named_barriers.size()),
      cells(p.cells.size()),
      counters(p.counters.size()),
      groups(p.groups) {
  int blocks = 1;
  for (const Thread& t : p.threads) {
    blocks = std::max(blocks, t.block + 1);
    if (t.group >= 0) ++groups[t.group].threads;
    for (const Step& s : t.steps)
      if (is_asynchronous(s.what)) total_operations += s.what == Do::store ? 2 : 1;
  }
  if (!Clock::fits(static_cast<int>(threads.size()), total_operations)) {
    say("too long to check: " + std::to_string(total_operations) + " asynchronous operations, expected at most " +
        std::to_string((Clock::most_words - static_cast<int>(threads.size())) * 32) + "; check fewer stages");
    total_operations = 0;
  }
  const Clock c = empty_clock();
  const Knowledge k{c, c, c, c};
  for (ThreadState& t : threads) t.knows = k;
  for (std::size_t i = 0; i < barriers.size(); ++i) {
    barriers[i].missing = p.barriers[i].arrivals;
    barriers[i].gathering = barriers[i].opened = k;
  }
  for (NamedState& b : named) b.gathering = b.opened = k;
  for (CounterState& x : counters) x.shown = x.shown_fenced = x.hidden = c;
  block_end.assign(blocks, c);
  block_threads.assign(blocks, 0);
  held_back.assign((blocks + p.cluster - 1) / p.cluster, 0);
  for (const Thread& t : p.threads) ++block_threads[t.block];
}

void World::write(int cell, const Access& access, const Knowledge& knows) {
  CellState& s = cells[cell];
  if (++s.writes > 1 && program.cells[cell].kind == Kind::output) say(blame_twice(*this, cell, s.writer, access));
  if (s.writer.step != nullptr && !s.writer.known_to(knows.seen))
    say(blame_write(*this, cell, s.writer, access, knows));
  else if (s.writer.step != nullptr && s.writer.operation < 0 && access.operation >= 0 &&
           !s.writer.known_to(knows.fenced))
    say(blame_blind(*this, cell, s.writer, access));
  for (const Access& r : s.readers)
    if (!r.known_to(knows.seen)) say(blame_write(*this, cell, r, access, knows));
  s.readers.clear();
  s.writer = access;
  s.writer_knew = knows.seen;
}

void World::read(int cell, const Access& access, const Knowledge& knows) {
  CellState& s = cells[cell];
  const bool registers = program.cells[cell].kind == Kind::sums;  // ordered by mma_fence, not by a proxy fence
  const bool blind = !registers && access.operation >= 0 && s.writer.operation < 0 && !s.writer.known_to(knows.fenced);
  const bool other = program.cells[cell].kind == Kind::tile && s.writer.step != nullptr &&
                     (s.writer.step->item != access.step->item || s.writer.step->stage != access.step->stage);
  if (s.writer.step == nullptr || !s.writer.known_to(knows.seen) || blind || other)
    say(blame_read(*this, cell, access, knows));
  s.readers.push_back(access);
}

}  // namespace ridge::tile::trace
