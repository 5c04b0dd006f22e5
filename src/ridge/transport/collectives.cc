#include "ridge/transport/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ridge/base/check.h"
#include "ridge/base/dtype_set.h"
#include "ridge/transport/text_field.h"

namespace ridge::transport {
namespace {

constexpr std::int64_t block_elements = 1024;  // the accumulators of a block fit into the L1 cache

float to_accumulator(float x) { return x; }
float to_accumulator(Bf16 x) { return to_float(x); }
float to_accumulator(F16 x) { return to_float(x); }
std::int64_t to_accumulator(std::int32_t x) { return x; }
void store_rounded(float x, float& to) { to = x; }
void store_rounded(float x, Bf16& to) { to = to_bf16(x); }
void store_rounded(float x, F16& to) { to = to_f16(x); }
void store_rounded(std::int64_t x, std::int32_t& to) { to = static_cast<std::int32_t>(x); }

// A NaN operand gives NaN, for max and min as well.
template <class T> T combine_pair(ReduceOp op, T a, T b) {
  if (op == ReduceOp::sum) return a + b;
  if (a != a || b != b) return a + b;
  return op == ReduceOp::max ? std::max(a, b) : std::min(a, b);
}

template <class T> void reduce_block(const ReduceInputs& reduction, std::int64_t begin, std::int64_t count, T* out) {
  using AccumulatorType = decltype(to_accumulator(T{}));
  std::array<AccumulatorType, block_elements> sums;
  const auto input_at = [&](std::size_t a) { return reinterpret_cast<const T*>(reduction.inputs[a]) + begin; };
  for (std::int64_t i = 0; i < count; ++i) sums[i] = to_accumulator(input_at(0)[i]);
  for (std::size_t a = 1; a < reduction.inputs.size(); ++a) {
    const T* const from = input_at(a);
    for (std::int64_t i = 0; i < count; ++i) {
      AccumulatorType& sum = sums[i];
      sum = combine_pair(reduction.op, sum, to_accumulator(from[i]));
    }
  }
  for (std::int64_t i = 0; i < count; ++i) store_rounded(sums[i], out[begin + i]);
}

template <class T> void reduce_all(const ReduceInputs& reduction, std::int64_t elements, std::byte* out) {
  for (std::int64_t begin = 0; begin < elements; begin += block_elements)
    reduce_block<T>(reduction, begin, std::min(block_elements, elements - begin), reinterpret_cast<T*>(out));
}

struct ElementRange {
  std::int64_t begin = 0, end = 0;
};
ElementRange range_of_rank(std::int64_t elements, std::size_t parts, std::size_t part) {
  const auto n = static_cast<std::int64_t>(parts), i = static_cast<std::int64_t>(part);
  const std::int64_t each = (elements + n - 1) / n;
  return {std::min(elements, i * each), std::min(elements, (i + 1) * each)};
}

// Error in the form in which ranks send it.
struct ErrorRecord {
  int failed = 0, kind = 0;
  std::array<char, 1024> message{};
  std::array<char, 512> hint{};
};

}  // namespace

bool can_reduce(DType dtype) { return ReducedDTypes::contains(dtype); }

void reduce_elements(const ReduceInputs& reduction, std::int64_t elements, std::byte* out) {
  const bool is_reduced =
      ReducedDTypes::dispatch(reduction.dtype, [&]<class T>() { reduce_all<T>(reduction, elements, out); });
  RIDGE_CHECK(is_reduced, "the caller checks can_reduce() first");
}

Status all_reduce(Communicator& comm, std::span<const int> group, const ReduceSpec& spec, std::span<std::byte> data) {
  const std::int64_t width = dtype_bits(spec.dtype) / 8, elements = static_cast<std::int64_t>(data.size()) / width;
  const auto part = [&](std::size_t i) {
    const ElementRange s = range_of_rank(elements, group.size(), i);
    return data.subspan(s.begin * width, (s.end - s.begin) * width);
  };
  const std::size_t mine = std::find(group.begin(), group.end(), comm.rank()) - group.begin();
  const std::size_t length = part(mine).size();
  const std::span<std::byte> arrived = comm.scratch_buffer(group.size() * length);
  const auto from = [&](std::size_t i) { return arrived.subspan(i * length, length); };
  std::vector<SendRequest> sent;
  std::vector<ReceiveRequest> received;
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == mine) continue;
    sent.push_back({group[i], part(i)});
    received.push_back({group[i], from(i)});
  }
  RIDGE_TRY_STATUS(comm.exchange_messages(sent, received));
  ReduceInputs reduction{spec.dtype, spec.op, {}};
  for (std::size_t i = 0; i < group.size(); ++i)
    reduction.inputs.push_back(i == mine ? part(i).data() : from(i).data());
  reduce_elements(reduction, static_cast<std::int64_t>(length) / width, part(mine).data());
  sent.clear();
  received.clear();
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (i == mine) continue;
    sent.push_back({group[i], part(mine)});
    received.push_back({group[i], part(i)});
  }
  return comm.exchange_messages(sent, received);
}

// Dissemination barrier (Hensgen, Finkel, Manber, 1988): each step doubles the number of ranks known to have arrived.
Status barrier(Communicator& comm) {
  const int n = comm.size();
  std::byte token_out{}, token_in{};
  for (int step = 1; step < n; step *= 2) {
    const SendRequest sent{(comm.rank() + step) % n, {&token_out, 1}};
    const ReceiveRequest received{(comm.rank() + n - step) % n, {&token_in, 1}};
    RIDGE_TRY_STATUS(comm.exchange_messages({&sent, 1}, {&received, 1}));
  }
  return Done{};
}

Status broadcast(Communicator& comm, std::span<std::byte> data) {
  std::vector<SendRequest> sent;
  std::vector<ReceiveRequest> received;
  if (comm.rank() != 0) received.push_back({0, data});
  for (int r = 1; comm.rank() == 0 && r < comm.size(); ++r) sent.push_back({r, data});
  return comm.exchange_messages(sent, received);
}

Result<std::vector<std::vector<std::byte>>> gather_at_root(Communicator& comm, std::span<const std::byte> mine) {
  std::vector<std::vector<std::byte>> out;
  std::vector<SendRequest> sent;
  std::vector<ReceiveRequest> received;
  if (comm.rank() == 0) {
    out.assign(comm.size(), {mine.begin(), mine.end()});
    for (int r = 1; r < comm.size(); ++r) received.push_back({r, out[r]});
  } else {
    sent.push_back({0, mine});
  }
  RIDGE_TRY_STATUS(comm.exchange_messages(sent, received));
  return out;
}

Status all_reduce_max(Communicator& comm, std::int64_t& number) {
  RIDGE_TRY(all, gather_at_root(comm, std::as_bytes(std::span(&number, 1))));
  for (const auto& one : all) {
    std::int64_t value = 0;
    std::memcpy(&value, one.data(), sizeof value);
    number = std::max(number, value);
  }
  return broadcast(comm, std::as_writable_bytes(std::span(&number, 1)));
}

Status agree_on_status(Communicator& comm, const Status& mine) {
  ErrorRecord record;
  if (!mine) {
    record.failed = 1;
    record.kind = static_cast<int>(mine.error().kind);
    copy_truncated(mine.error().message, record.message);
    copy_truncated(mine.error().hint, record.hint);
  }
  RIDGE_TRY(all, gather_at_root(comm, std::as_bytes(std::span(&record, 1))));
  if (comm.rank() == 0) record.failed = 0;  // `all` contains rank 0's status, too
  for (std::size_t r = 0; r < all.size() && record.failed == 0; ++r) {
    std::memcpy(&record, all[r].data(), sizeof record);
    if (record.failed != 0) copy_truncated(fmt::format("rank {}: {}", r, read_text(record.message)), record.message);
  }
  RIDGE_TRY_STATUS(broadcast(comm, std::as_writable_bytes(std::span(&record, 1))));
  if (record.failed == 0) return Done{};
  const int kind = std::clamp(record.kind, static_cast<int>(ErrorKind::finding), static_cast<int>(ErrorKind::mismatch));
  const Error agreed{
      .kind = static_cast<ErrorKind>(kind), .message = read_text(record.message), .hint = read_text(record.hint)};
  comm.record_agreed_error(agreed);
  return agreed;
}

// Compares 64-bit FNV-1a hashes: ranks differ by mistake, not by malice.
Status check_same_on_all_ranks(Communicator& comm, std::span<const ComparedText> all) {
  std::vector<std::uint64_t> mine;
  for (const ComparedText& one : all) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : one.text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    mine.push_back(hash);
  }
  std::vector<std::uint64_t> first = mine;
  RIDGE_TRY_STATUS(broadcast(comm, std::as_writable_bytes(std::span(first))));
  Status same = Done{};
  for (std::size_t i = 0; i < all.size() && same.ok(); ++i)
    if (mine[i] != first[i])
      same = input_error(fmt::format("its {} differs from that of rank 0", all[i].name),
                         "start every rank with the same command, files and build");
  return agree_on_status(comm, same);
}

}  // namespace ridge::transport
