#include "ridge/onnx/wire.h"

#include <bit>

namespace ridge::onnx {
namespace {

constexpr int bits_of_group = 7;    // A byte of a varint has 7 bits of the number
constexpr int bits_of_number = 64;  // A varint has at most ten bytes

// Removes a varint from the front of `rest`. Returns false if it is cut off or has more than 64 bits.
bool remove_varint(std::string_view& rest, std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < bits_of_number; shift += bits_of_group) {
    if (rest.empty()) return false;
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Appends the numbers of `bytes` bytes each, which `convert` decodes.
template <class Convert>
bool append_fixed(const WireField& field, int bytes, std::size_t limit, std::vector<double>& out, Convert convert) {
  if (field.type != WireType::bytes) {
    if (out.size() < limit) out.push_back(convert(field.value));
    return field.type == (bytes == 4 ? WireType::fixed32 : WireType::fixed64);
  }
  if (field.bytes.size() % static_cast<std::size_t>(bytes) != 0) return false;
  for (std::size_t at = 0; at < field.bytes.size() && out.size() < limit; at += static_cast<std::size_t>(bytes)) {
    std::uint64_t bits = 0;
    for (int i = bytes - 1; i >= 0; --i)
      bits = bits << 8 | static_cast<unsigned char>(field.bytes[at + static_cast<std::size_t>(i)]);
    out.push_back(convert(bits));
  }
  return true;
}

}  // namespace

double to_float(std::uint64_t bits) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}
double to_double(std::uint64_t bits) { return std::bit_cast<double>(bits); }

bool WireReader::read_varint(std::uint64_t& value) { return remove_varint(rest_, value); }

bool WireReader::read_fixed(int bytes, std::uint64_t& value) {
  if (rest_.size() < static_cast<std::size_t>(bytes)) return false;
  value = 0;
  for (int i = bytes - 1; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(rest_[static_cast<std::size_t>(i)]);
  rest_.remove_prefix(static_cast<std::size_t>(bytes));
  return true;
}

bool WireReader::read_value(WireField& field) {
  switch (field.type) {
    case WireType::varint: return read_varint(field.value);
    case WireType::fixed64: return read_fixed(8, field.value);
    case WireType::fixed32: return read_fixed(4, field.value);
    case WireType::bytes: break;
    default: return false;  // Groups are obsolete, and ONNX has none
  }
  std::uint64_t size = 0;
  if (!read_varint(size) || size > rest_.size()) return false;
  field.bytes = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return true;
}

bool WireReader::read_next(WireField& field) {
  if (rest_.empty() || has_failed_) return false;
  field = {};
  std::uint64_t tag = 0;
  has_failed_ = !read_varint(tag) || tag >> 3 == 0 || tag >> 3 >= std::uint64_t{1} << 29;
  if (has_failed_) return false;
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.type = static_cast<WireType>(tag & 7);
  has_failed_ = !read_value(field);
  return !has_failed_;
}

bool append_integers(const WireField& field, std::size_t limit, std::vector<std::int64_t>& out) {
  if (field.type == WireType::varint) {
    if (out.size() < limit) out.push_back(static_cast<std::int64_t>(field.value));
    return true;
  }
  if (field.type != WireType::bytes) return false;
  for (std::string_view rest = field.bytes; !rest.empty() && out.size() < limit;) {
    std::uint64_t value = 0;
    if (!remove_varint(rest, value)) return false;
    out.push_back(static_cast<std::int64_t>(value));
  }
  return true;
}

bool append_floats(const WireField& field, std::size_t limit, std::vector<double>& out) {
  return append_fixed(field, 4, limit, out, to_float);
}
bool append_doubles(const WireField& field, std::size_t limit, std::vector<double>& out) {
  return append_fixed(field, 8, limit, out, to_double);
}

}  // namespace ridge::onnx
