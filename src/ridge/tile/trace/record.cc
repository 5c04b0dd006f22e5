#include "ridge/tile/trace/record.h"

namespace ridge::tile::trace {
std::string Scribe::in_block(int block, const std::string& name) const {
  return blocks_ > 1 ? "block " + std::to_string(block) + " " + name : name;
}

void Scribe::add_slot(int block, int slot, int gives_back) {
  const std::string name = in_block(block, "slot " + std::to_string(slot));
  barriers_[{block, slot, 0}] = program.barrier(name + " full", 1, block);
  barriers_[{block, slot, 1}] = program.barrier(name + " empty", gives_back, block);
}

int Scribe::tile_cell(int block, int slot, std::ptrdiff_t tile, Part part) {
  auto& parts = tiles_[{block, slot, tile}];
  if (const auto found = parts.find(part); found != parts.end()) return found->second;
  const char letter = letters_.try_emplace(tile, static_cast<char>('a' + letters_.size())).first->second;
  std::string name = in_block(block, "slot " + std::to_string(slot) + " tile " + letter);
  if (part.first > 0) name += " from row " + std::to_string(part.first);
  return parts[part] = program.cell(name, Kind::tile, block);
}

std::vector<int> Scribe::tile_cells(int block, int slot, std::ptrdiff_t tile, int rows) {
  std::vector<int> cells;
  int filled = 0;
  for (const auto& [part, cell] : tiles_[{block, slot, tile}]) {
    cells.push_back(cell);
    if (part.first == filled) filled += part.count;
  }
  if (filled < rows && program.fault.empty()) {
    program.fault = program.kernel + ": a multiply reads " + std::to_string(rows) + " rows of a tile of which " +
                    std::to_string(filled) + " are loaded; missing: at.load of the other rows";
  }
  return cells;
}

std::vector<int> Scribe::all_tile_cells(int block) const {
  std::vector<int> cells;
  for (const auto& [where, parts] : tiles_)
    if (std::get<0>(where) == block)
      for (const auto& [part, cell] : parts) cells.push_back(cell);
  return cells;
}

int Scribe::named_barrier(int block, const std::string& name) {
  const auto [found, is_new] =
      named_barriers_.try_emplace(in_block(block, name), static_cast<int>(program.named_barriers.size()));
  if (is_new) program.named_barriers.push_back(in_block(block, "barrier " + name));
  return found->second;
}

int Scribe::shared_cell(const std::string& name, Kind kind, int block) {
  const auto [found, is_new] = cells_.try_emplace(name, 0);
  if (is_new) found->second = program.cell(name, kind, block);
  return found->second;
}

int Scribe::counter(const std::string& name) {
  const auto [found, is_new] = counters_.try_emplace(name, 0);
  if (is_new) {
    found->second = program.counter(name);
    program.counters.back().returns = true;
  }
  return found->second;
}

int Scribe::talk(Talk talk) {
  program.talks.push_back(std::move(talk));
  return static_cast<int>(program.talks.size()) - 1;
}

}  // namespace ridge::tile::trace
