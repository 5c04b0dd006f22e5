// Reads the wire format of Protocol Buffers: a message is a sequence of fields, each a number, a wire type and a value.
// Format: protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace ridge::onnx {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t value = 0;      // Value of a varint, fixed64 or fixed32
  std::string_view bytes = {};  // Content of a field of type bytes; points into the message
};

// Reads the fields of a message in order. It never reads beyond the message and needs no memory.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message), size_(message.size()) {}
  // Reads the next field. Returns false at the end, and at a field that is malformed or cut off.
  bool read_next(WireField& field);
  // True if the message is malformed or cut off.
  bool has_failed() const { return has_failed_; }
  std::size_t position() const { return size_ - rest_.size(); }  // Bytes read so far

 private:
  bool read_varint(std::uint64_t& value);
  bool read_fixed(int bytes, std::uint64_t& value);
  bool read_value(WireField& field);

  std::string_view rest_;
  std::size_t size_;
  bool has_failed_ = false;
};

// Appends the numbers of a repeated field, which is packed or one number, until `limit` are in `out`. Returns false if
// the packed bytes are malformed.
bool append_integers(const WireField& field, std::size_t limit, std::vector<std::int64_t>& out);
bool append_floats(const WireField& field, std::size_t limit, std::vector<double>& out);
bool append_doubles(const WireField& field, std::size_t limit, std::vector<double>& out);

// Returns the float or double with these bits.
double to_float(std::uint64_t bits);
double to_double(std::uint64_t bits);

}  // namespace ridge::onnx
