#include "ridge/tile/trace/simulator_state.h"

#include <algorithm>

namespace ridge::tile::trace {
namespace {

bool is_asynchronous(RecordedStepKind what) {
  return what == RecordedStepKind::copy || what == RecordedStepKind::multiply || what == RecordedStepKind::store;
}

}  // namespace

SimulatorState::SimulatorState(const RecordedProgram& p, unsigned seed)
    : program(p),
      random(seed),
      threads(p.threads.size()),
      barriers(p.barriers.size()),
      named(p.named_barriers.size()),
      cells(p.cells.size()),
      counters(p.counters.size()),
      groups(p.groups) {
  int blocks = 1;
  for (const RecordedThread& t : p.threads) {
    blocks = std::max(blocks, t.block + 1);
    if (t.group >= 0) ++groups[t.group].threads;
    for (const RecordedStep& s : t.steps)
      if (is_asynchronous(s.what)) total_operations += s.what == RecordedStepKind::store ? 2 : 1;
  }
  if (!VectorClock::fits_in(static_cast<int>(threads.size()), total_operations)) {
    report_error(
        "too long to check: " + std::to_string(total_operations) + " asynchronous operations, expected at most " +
        std::to_string((VectorClock::max_words - static_cast<int>(threads.size())) * 32) + "; check fewer stages");
    total_operations = 0;
  }
  const VectorClock c = empty_clock();
  const HappensBefore k{c, c, c, c};
  for (SimulatedThread& t : threads) t.known = k;
  for (std::size_t i = 0; i < barriers.size(); ++i) {
    barriers[i].missing_arrivals = p.barriers[i].arrivals;
    barriers[i].arriving = barriers[i].completed = k;
  }
  for (SimulatedNamedBarrier& b : named) b.arriving = b.completed = k;
  for (SimulatedCounter& x : counters) x.released = x.released_fences = x.all_adders = c;
  block_end.assign(blocks, c);
  running_threads.assign(blocks, 0);
  waits_to_start.assign((blocks + p.cluster - 1) / p.cluster, 0);
  for (const RecordedThread& t : p.threads) ++running_threads[t.block];
}

void SimulatorState::write_cell(int cell, const Access& access, const HappensBefore& known) {
  SimulatedCell& s = cells[cell];
  if (++s.writes > 1 && program.cells[cell].kind == CellKind::output)
    report_error(diagnose_double_store(*this, cell, s.writer, access));
  if (s.writer.step != nullptr && !s.writer.is_known_to(known.seen))
    report_error(diagnose_write(*this, cell, s.writer, access, known));
  else if (s.writer.step != nullptr && s.writer.operation < 0 && access.operation >= 0 &&
           !s.writer.is_known_to(known.fenced))
    report_error(diagnose_proxy_fence(*this, cell, s.writer, access));
  for (const Access& r : s.readers)
    if (!r.is_known_to(known.seen)) report_error(diagnose_write(*this, cell, r, access, known));
  s.readers.clear();
  s.writer = access;
  s.writer_knew = known.seen;
}

void SimulatorState::read_cell(int cell, const Access& access, const HappensBefore& known) {
  SimulatedCell& s = cells[cell];
  const bool registers = program.cells[cell].kind == CellKind::sums;  // ordered by mma_fence, not by a proxy fence
  const bool blind =
      !registers && access.operation >= 0 && s.writer.operation < 0 && !s.writer.is_known_to(known.fenced);
  const bool other = program.cells[cell].kind == CellKind::tile && s.writer.step != nullptr &&
                     (s.writer.step->item != access.step->item || s.writer.step->stage != access.step->stage);
  if (s.writer.step == nullptr || !s.writer.is_known_to(known.seen) || blind || other)
    report_error(diagnose_read(*this, cell, access, known));
  s.readers.push_back(access);
}

}  // namespace ridge::tile::trace
