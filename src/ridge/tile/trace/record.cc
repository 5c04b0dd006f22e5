#include "ridge/tile/trace/record.h"

namespace ridge::tile::trace {
std::string SymbolTable::block_prefixed(int block, const std::string& name) const {
  return blocks_ > 1 ? "block " + std::to_string(block) + " " + name : name;
}

void SymbolTable::add_slot_barriers(int block, int slot, const std::string& name, int arrivals, int releases) {
  const std::string prefixed = block_prefixed(block, name);
  barriers_[{block, slot, 0}] = program.add_barrier(prefixed + " full", arrivals, block);
  barriers_[{block, slot, 1}] = program.add_barrier(prefixed + " empty", releases, block);
}

int SymbolTable::tile_cell(int block, int slot, std::ptrdiff_t tile, LoadedRows part) {
  auto& parts = tiles_[{block, slot, tile}];
  if (const auto found = parts.find(part); found != parts.end()) return found->second;
  const char letter = letters_.try_emplace(tile, static_cast<char>('a' + letters_.size())).first->second;
  std::string name = block_prefixed(block, "slot " + std::to_string(slot) + " tile " + letter);
  if (part.first > 0) name += " from row " + std::to_string(part.first);
  return parts[part] = program.add_cell(name, CellKind::tile, block);
}

std::vector<int> SymbolTable::tile_cells(int block, int slot, std::ptrdiff_t tile, int rows) {
  std::vector<int> cells;
  int filled = 0;
  for (const auto& [part, cell] : tiles_[{block, slot, tile}]) {
    cells.push_back(cell);
    if (part.first == filled) filled += part.count;
  }
  if (filled < rows && program.error.empty()) {
    program.error = program.kernel + ": a multiply reads " + std::to_string(rows) + " rows of a tile of which " +
                    std::to_string(filled) + " are loaded; missing: at.load of the other rows";
  }
  return cells;
}

std::vector<int> SymbolTable::all_tile_cells(int block) const {
  std::vector<int> cells;
  for (const auto& [where, parts] : tiles_)
    if (std::get<0>(where) == block)
      for (const auto& [part, cell] : parts) cells.push_back(cell);
  return cells;
}

int SymbolTable::named_barrier(int block, const std::string& name) {
  const auto [found, is_new] =
      named_barriers_.try_emplace(block_prefixed(block, name), static_cast<int>(program.named_barriers.size()));
  if (is_new) program.named_barriers.push_back(block_prefixed(block, "barrier " + name));
  return found->second;
}

int SymbolTable::find_or_add_cell(const std::string& name, CellKind kind, int block) {
  const auto [found, is_new] = cells_.try_emplace(name, 0);
  if (is_new) found->second = program.add_cell(name, kind, block);
  return found->second;
}

int SymbolTable::find_or_add_counter(const std::string& name) {
  const auto [found, is_new] = counters_.try_emplace(name, 0);
  if (is_new) {
    found->second = program.add_counter(name);
    program.counters.back().returns_to_zero = true;
  }
  return found->second;
}

int SymbolTable::add_stream(StepStream stream_step) {
  program.streams.push_back(std::move(stream_step));
  return static_cast<int>(program.streams.size()) - 1;
}

}  // namespace ridge::tile::trace
