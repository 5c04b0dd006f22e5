#include "ridge/measure/ranks/route.h"

#include <algorithm>

namespace ridge::ranks {
namespace {

// True if the box is contiguous in the block's memory: it spans all axes after its first axis of more than one element.
bool is_dense(const Block& block, const Block& box) {
  bool several = false;
  for (std::size_t i = 0; i < box.size(); ++i) {
    if (several && box[i].size() != block[i].size()) return false;
    several = several || box[i].size() > 1;
  }
  return true;
}

std::string letters_in(const Mesh& mesh) {
  std::string out;
  for (const auto& axis : mesh.axes) out += axis.first;
  return out;
}

bool adds(const Move& move) { return move.kind == Collective::reduce_scatter || move.kind == Collective::all_reduce; }

}  // namespace

std::int64_t place_of(const Block& block, const Block& box) {
  std::int64_t out = 0;
  for (std::size_t i = 0; i < box.size(); ++i) out = out * block[i].size() + box[i].begin - block[i].begin;
  return out;
}

// The trailing axes that the box spans form one row with the axis before them; the axis before that one counts rows.
std::vector<BoxRows> rows_of(const Block& block, const Block& box, std::int64_t width) {
  if (words_in(box) == 0) return {};
  std::size_t outer = box.size();
  BoxRows one{.bytes = width};
  while (outer > 0) {
    --outer;
    one.bytes *= box[outer].size();
    if (box[outer].size() != block[outer].size()) break;
  }
  one.apart = one.bytes;
  if (outer > 0) {
    --outer;
    one.rows = box[outer].size();
    one.apart = width;
    for (std::size_t i = outer + 1; i < block.size(); ++i) one.apart *= block[i].size();
  }
  Block at = box;  // one element along each outer axis
  for (std::size_t i = 0; i < outer; ++i) at[i].end = at[i].begin + 1;
  std::vector<BoxRows> out;
  for (;;) {
    out.push_back(one);
    out.back().in_block = width * place_of(block, at);
    one.in_box += one.bytes * one.rows;
    std::size_t axis = outer;
    while (axis > 0 && ++at[axis - 1].begin == box[axis - 1].end) {
      at[axis - 1].begin = box[axis - 1].begin;
      --axis;
    }
    if (axis == 0) return out;
  }
}

Block both(const Block& a, const Block& b) {
  Block out;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t begin = std::max(a[i].begin, b[i].begin);
    out.push_back({begin, std::max(begin, std::min(a[i].end, b[i].end))});
  }
  return out;
}

std::vector<int> sharers(const Mesh& mesh, const std::string& over, std::int64_t device) {
  std::vector<int> out(static_cast<std::size_t>(mesh.size(over)));
  for (std::int64_t other = 0; other < mesh.devices(); ++other) {
    const bool shares = std::all_of(mesh.axes.begin(), mesh.axes.end(), [&](const auto& axis) {
      return over.find(axis.first) != std::string::npos ||
             mesh.place(other, axis.first) == mesh.place(device, axis.first);
    });
    if (shares) out[static_cast<std::size_t>(mesh.place(other, over))] = static_cast<int>(other);
  }
  return out;
}

Route::Route(const Move& move, Tensorial tensor, const Mesh& mesh, std::int64_t device)
    : move_(move),
      tensor_(std::move(tensor)),
      mesh_(mesh),
      device_(device),
      width_(bits(tensor_.dtype) / 8),
      adds_(ranks::adds(move)),
      before_(block_of(tensor_.extents, move.before, mesh, device)),
      after_(block_of(tensor_.extents, move.after, mesh, device)) {
  if (move.kind == Collective::all_reduce)
    meet();
  else
    list();
}

// Sets the ranks of an all-reduce and the words that this rank sends.
void Route::meet() {
  group_.resize(static_cast<std::size_t>(mesh_.size(move_.over)));
  for (std::int64_t other = 0; other < mesh_.devices(); ++other)
    if (owns(other, device_))
      group_[static_cast<std::size_t>(mesh_.place(other, move_.over))] = static_cast<int>(other);
  const auto n = static_cast<std::int64_t>(group_.size());
  const std::int64_t words = words_in(after_), each = (words + n - 1) / n, place = mesh_.place(device_, move_.over);
  const std::int64_t mine = std::min(words, (place + 1) * each) - std::min(words, place * each);
  words_sent_ = words - mine + (n - 1) * mine;  // its partial sums of the other slices, then the sums of its own slice
}

// True if `owner` sends to `reader`: their coordinates differ only along mesh axes over which data is exchanged.
bool Route::owns(std::int64_t owner, std::int64_t reader) const {
  const std::string cut = move_.kind == Collective::all_reduce ? "" : letters_of(move_.before);
  for (const char letter : letters_in(mesh_)) {
    const bool free = cut.find(letter) != std::string::npos || (adds_ && move_.over.find(letter) != std::string::npos);
    if (!free && mesh_.place(owner, letter) != mesh_.place(reader, letter)) return false;
  }
  return true;
}

void Route::add(std::vector<Parcel>& to, Parcel parcel) {
  if (words_in(parcel.box) == 0) return;
  parcel.staged = staging_bytes_;
  if (!parcel.dense) staging_bytes_ += bytes_of(parcel.box);
  to.push_back(std::move(parcel));
}

void Route::list() {
  for (std::int64_t other = 0; other < mesh_.devices(); ++other) {
    const auto addend = [&](std::int64_t owner) { return adds_ ? mesh_.place(owner, move_.over) : 0; };
    if (owns(other, device_)) {
      const Block box = both(after_, block_of(tensor_.extents, move_.before, mesh_, other));
      const bool direct = other != device_ && !adds_ && is_dense(after_, box);
      add(other == device_ ? own_ : in_, {other, addend(other), box, 0, direct});
    }
    if (other != device_ && owns(device_, other)) {
      const Block box = both(block_of(tensor_.extents, move_.after, mesh_, other), before_);
      add(out_, {other, addend(device_), box, 0, is_dense(before_, box)});
      words_sent_ += words_in(box);
    }
  }
}

}  // namespace ridge::ranks
