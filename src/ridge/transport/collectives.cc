#include "ridge/transport/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ridge/base/check.h"
#include "ridge/base/float16.h"

namespace ridge::transport {
namespace {

constexpr std::int64_t strip = 1024;  // elements; their accumulators fit into the L1 cache

float widened(float x) { return x; }
float widened(Bf16 x) { return to_float(x); }
float widened(F16 x) { return to_float(x); }
std::int64_t widened(std::int32_t x) { return x; }
void narrow(float x, float& to) { to = x; }
void narrow(float x, Bf16& to) { to = to_bf16(x); }
void narrow(float x, F16& to) { to = to_f16(x); }
void narrow(std::int64_t x, std::int32_t& to) { to = static_cast<std::int32_t>(x); }

// A NaN operand gives NaN, for max and min as well.
template <class T> T combined(Reduction how, T a, T b) {
  if (how == Reduction::sum) return a + b;
  if (a != a || b != b) return a + b;
  return how == Reduction::max ? std::max(a, b) : std::min(a, b);
}

template <class T> void add_strip(const Addends& addends, std::int64_t begin, std::int64_t count, T* out) {
  using Wide = decltype(widened(T{}));
  std::array<Wide, strip> sums;
  const auto at = [&](std::size_t a) { return reinterpret_cast<const T*>(addends.each[a]) + begin; };
  for (std::int64_t i = 0; i < count; ++i) sums[static_cast<std::size_t>(i)] = widened(at(0)[i]);
  for (std::size_t a = 1; a < addends.each.size(); ++a) {
    const T* const from = at(a);
    for (std::int64_t i = 0; i < count; ++i) {
      Wide& sum = sums[static_cast<std::size_t>(i)];
      sum = combined(addends.how, sum, widened(from[i]));
    }
  }
  for (std::int64_t i = 0; i < count; ++i) narrow(sums[static_cast<std::size_t>(i)], out[begin + i]);
}

template <class T> void add_all(const Addends& addends, std::int64_t elements, std::byte* out) {
  for (std::int64_t begin = 0; begin < elements; begin += strip)
    add_strip<T>(addends, begin, std::min(strip, elements - begin), reinterpret_cast<T*>(out));
}

struct Stretch {
  std::int64_t begin = 0, end = 0;
};
Stretch stretch(std::int64_t elements, std::size_t parts, std::size_t part) {
  const auto n = static_cast<std::int64_t>(parts), i = static_cast<std::int64_t>(part);
  const std::int64_t each = (elements + n - 1) / n;
  return {std::min(elements, i * each), std::min(elements, (i + 1) * each)};
}

// Error in the form in which ranks send it.
struct Told {
  int failed = 0, kind = 0;
  std::array<char, 1024> message{};
  std::array<char, 512> hint{};
};

template <std::size_t n> void tell(const std::string& text, std::array<char, n>& to) {
  std::memcpy(to.data(), text.data(), std::min(text.size(), n - 1));
}
template <std::size_t n> std::string told(const std::array<char, n>& from) {
  return {from.data(), strnlen(from.data(), n)};
}

}  // namespace

bool adds(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::int32;
}

void add_up(const Addends& addends, std::int64_t elements, std::byte* out) {
  switch (addends.dtype) {
    case DType::f32: return add_all<float>(addends, elements, out);
    case DType::bf16: return add_all<Bf16>(addends, elements, out);
    case DType::f16: return add_all<F16>(addends, elements, out);
    case DType::int32: return add_all<std::int32_t>(addends, elements, out);
    default: break;
  }
  RIDGE_CHECK(false, "the caller checks can_reduce() first");
}

Status all_reduce(Ranks& ranks, std::span<const int> group, const AllReduce& what, std::span<std::byte> data) {
  const std::int64_t width = bits(what.dtype) / 8, elements = static_cast<std::int64_t>(data.size()) / width;
  const auto part = [&](std::size_t i) {
    const Stretch s = stretch(elements, group.size(), i);
    return data.subspan(static_cast<std::size_t>(s.begin * width), static_cast<std::size_t>((s.end - s.begin) * width));
  };
  const auto mine = static_cast<std::size_t>(std::find(group.begin(), group.end(), ranks.rank()) - group.begin());
  const std::size_t length = part(mine).size();
  const std::span<std::byte> come = ranks.scratch(group.size() * length);
  const auto from = [&](std::size_t i) { return come.subspan(i * length, length); };
  std::vector<Sent> sent;
  std::vector<Received> received;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == mine) continue;
    sent.push_back({group[i], part(i)});
    received.push_back({group[i], from(i)});
  }
  if (const Status done = ranks.exchange(sent, received); !done) return done;
  Addends addends{what.dtype, what.how, {}};
  for (std::size_t i = 0; i < group.size(); ++i) addends.each.push_back(i == mine ? part(i).data() : from(i).data());
  add_up(addends, static_cast<std::int64_t>(length) / width, part(mine).data());
  sent.clear();
  received.clear();
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == mine) continue;
    sent.push_back({group[i], part(mine)});
    received.push_back({group[i], part(i)});
  }
  return ranks.exchange(sent, received);
}

// Dissemination barrier (Hensgen, Finkel, Manber, 1988): each step doubles the number of ranks known to have arrived.
Status barrier(Ranks& ranks) {
  const int n = ranks.size();
  std::byte here{}, there{};
  for (int step = 1; step < n; step *= 2) {
    const Sent sent{(ranks.rank() + step) % n, {&here, 1}};
    const Received received{(ranks.rank() + n - step) % n, {&there, 1}};
    if (const Status done = ranks.exchange({&sent, 1}, {&received, 1}); !done) return done;
  }
  return Done{};
}

Status broadcast(Ranks& ranks, std::span<std::byte> data) {
  std::vector<Sent> sent;
  std::vector<Received> received;
  if (ranks.rank() != 0) received.push_back({0, data});
  for (int r = 1; ranks.rank() == 0 && r < ranks.size(); ++r) sent.push_back({r, data});
  return ranks.exchange(sent, received);
}

Result<std::vector<std::vector<std::byte>>> gather(Ranks& ranks, std::span<const std::byte> mine) {
  std::vector<std::vector<std::byte>> out;
  std::vector<Sent> sent;
  std::vector<Received> received;
  if (ranks.rank() == 0) {
    out.assign(static_cast<std::size_t>(ranks.size()), {mine.begin(), mine.end()});
    for (int r = 1; r < ranks.size(); ++r) received.push_back({r, out[static_cast<std::size_t>(r)]});
  } else {
    sent.push_back({0, mine});
  }
  if (const Status done = ranks.exchange(sent, received); !done) return done.error();
  return out;
}

Status largest(Ranks& ranks, std::int64_t& number) {
  const auto all = gather(ranks, std::as_bytes(std::span(&number, 1)));
  if (!all) return all.error();
  for (const auto& one : *all) {
    std::int64_t its = 0;
    std::memcpy(&its, one.data(), sizeof its);
    number = std::max(number, its);
  }
  return broadcast(ranks, std::as_writable_bytes(std::span(&number, 1)));
}

Status agree(Ranks& ranks, const Status& mine) {
  Told told_here;
  if (!mine) {
    told_here.failed = 1;
    told_here.kind = static_cast<int>(mine.error().kind);
    tell(mine.error().message, told_here.message);
    tell(mine.error().hint, told_here.hint);
  }
  const auto all = gather(ranks, std::as_bytes(std::span(&told_here, 1)));
  if (!all) return all.error();
  if (ranks.rank() == 0) told_here.failed = 0;  // `all` contains rank 0's status, too
  for (std::size_t r = 0; r < all->size() && told_here.failed == 0; ++r) {
    std::memcpy(&told_here, (*all)[r].data(), sizeof told_here);
    if (told_here.failed != 0) tell(fmt::format("rank {}: {}", r, told(told_here.message)), told_here.message);
  }
  if (const Status done = broadcast(ranks, std::as_writable_bytes(std::span(&told_here, 1))); !done) return done;
  if (told_here.failed == 0) return Done{};
  const int kind =
      std::clamp(told_here.kind, static_cast<int>(ErrorKind::finding), static_cast<int>(ErrorKind::mismatch));
  const Error all_agree{
      .kind = static_cast<ErrorKind>(kind), .message = told(told_here.message), .hint = told(told_here.hint)};
  ranks.note_agreed(all_agree);
  return all_agree;
}

// Compares 64-bit FNV-1a hashes: ranks differ by mistake, not by malice.
Status agree_same(Ranks& ranks, std::span<const Same> all) {
  std::vector<std::uint64_t> mine;
  for (const Same& one : all) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : one.text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    mine.push_back(hash);
  }
  std::vector<std::uint64_t> first = mine;
  if (const Status told = broadcast(ranks, std::as_writable_bytes(std::span(first))); !told) return told;
  Status same = Done{};
  for (std::size_t i = 0; i < all.size() && same.ok(); ++i)
    if (mine[i] != first[i])
      same = input_error(fmt::format("its {} differs from that of rank 0", all[i].what),
                         "start every rank with the same command, files and build");
  return agree(ranks, same);
}

}  // namespace ridge::transport
