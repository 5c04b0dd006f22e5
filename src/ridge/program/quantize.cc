// Parses quantize: a tensor, a format and, for the elements e4m3, int4 and u4, the block. The format is the result's
// dtype.
//   q[N, D] = quantize(x, mxfp4)      q[N, D] = quantize(x, int4, block = 128)      q[N, D] = quantize(x, int4_128)
#include <fmt/format.h>

#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

constexpr const char* formats = "e4m3 with block = 128, int4 or u4 with block = 32, 64 or 128, mxfp8, mxfp4 or nvfp4";
constexpr const char* quantize_example = "write quantize(x, e4m3, block = 128) or quantize(x, mxfp4)";

// Returns the formats that have an element and a block in their names: int4_32, int4_64 and int4_128 for int4.
std::vector<DType> formats_with_element(std::string_view element) {
  std::vector<DType> out;
  for (const DTypeInfo& info : dtypes)
    if (info.name == fmt::format("{}_{}", element, info.block)) out.push_back(info.dtype);
  return out;
}

// Returns the blocks of these formats as a phrase: 32, 64 or 128.
std::string list_blocks(const std::vector<DType>& of) {
  std::string out;
  for (const DType& each : of) {
    if (!out.empty()) out += &each == &of.back() ? " or " : ", ";
    out += std::to_string(dtype_info(each).block);
  }
  return out;
}

}  // namespace

bool Parser::parse_quantize_arguments(Routine& out, const Token& keyword) {
  if (peek().kind != TokenKind::name)
    return report_error(keyword.span,
                        fmt::format("expected a tensor and a format in quantize, found {}", quote_token(peek())),
                        quantize_example);
  if (parse_tensor_name() < 0) return false;
  if (!expect_symbol(",", "',' and a format", quantize_example)) return false;
  const Token format = peek();
  const bool is_name = format.kind == TokenKind::name;
  const auto dtype = is_name ? parse_dtype(format.text) : std::nullopt;
  if (dtype && is_block_scaled(*dtype)) {
    consume_token();
    out.format = *dtype;
    return reject_quantize_block(*dtype);
  }
  // fp8 is another spelling of e4m3; u4 is no dtype.
  const std::string_view element = dtype ? dtype_name(*dtype) : format.text;
  const std::vector<DType> candidates = is_name ? formats_with_element(element) : std::vector<DType>{};
  if (candidates.empty())
    return report_error(format.span, fmt::format("expected a format with block scales, found {}", quote_token(format)),
                        fmt::format("{}; without scales it is a result with that dtype, y: e4m3[N] = x", formats));
  consume_token();
  return parse_quantize_block(out, format, candidates);
}

bool Parser::parse_quantize_block(Routine& out, const Token& element, const std::vector<DType>& candidates) {
  const std::string blocks = list_blocks(candidates);
  const bool is_e4m3 = candidates.front() == DType::e4m3_128;
  if (!peek().is_symbol(","))
    return report_error(element.span, fmt::format("expected a block after {}, found none", element.text),
                        is_e4m3 ? "block = 128; mxfp8 is e4m3 in blocks of 32, and without scales it is y: e4m3[N] = x"
                                : fmt::format("block = {}", blocks));
  consume_token();
  const Token option = peek();
  if (!is_block_option())
    return report_error(option.span, fmt::format("expected block = {}, found {}", blocks, quote_token(option)),
                        fmt::format("write quantize(x, {}, block = {}) or quantize(x, mxfp4)", element.text,
                                    dtype_info(candidates.back()).block));
  consume_token();
  consume_token();
  const Token number = peek();
  std::int64_t block = 0;
  if (!parse_positive_integer(block, "the block")) return false;
  for (const DType each : candidates)
    if (dtype_info(each).block == block) {
      out.format = each;
      return true;
    }
  return report_error(number.span, fmt::format("expected a block of {}, found {}", blocks, block),
                      is_e4m3 ? "mxfp8 is e4m3 in blocks of 32 with scales of 8 bits"
                              : fmt::format("nvfp4 has blocks of 16; write quantize(x, {}, block = {})", element.text,
                                            dtype_info(candidates.back()).block));
}

// A format with a block in its definition takes no other.
bool Parser::reject_quantize_block(DType format) {
  if (!peek().is_symbol(",")) return true;
  consume_token();
  const Token option = peek();
  if (!is_block_option())
    return report_error(option.span,
                        fmt::format("expected ')' after {}, found {}", dtype_name(format), quote_token(option)),
                        quantize_example);
  return report_error(option.span,
                      fmt::format("{} has blocks of {} already", dtype_name(format), dtype_info(format).block),
                      "leave the block out");
}

bool Parser::is_block_option() const {
  return peek().kind == TokenKind::name && peek().text == "block" && peek(1).is_symbol("=");
}

// Blocks are along the last dimension, which must be the same in argument and result.
bool Parser::check_quantize(const Routine& routine, const TensorRef& result) {
  const ParsedOperand x = operand_at_node(0);
  const Tensor& from = program_.tensors[x.tensor];
  if (dtype_info(from.dtype).is_integer || is_block_scaled(from.dtype))
    return report_error(x.span,
                        fmt::format("expected floating point without scales in quantize, found '{}', which is {}",
                                    from.name, dtype_name(from.dtype)),
                        "quantize the tensor that it was computed from");
  if (result.dtype && *result.dtype != routine.format)
    return report_error(result.span,
                        fmt::format("quantize produces {} here, '{}' is declared {}", dtype_name(routine.format),
                                    result.name, dtype_name(*result.dtype)),
                        fmt::format("leave the dtype out, or write {}", dtype_name(routine.format)));
  if (!check_same_axes(routine, result)) return false;
  if (!result.axes.empty() && result.axes.back() == x.axes.back()) return true;
  return report_error(
      result.span,
      fmt::format("blocks are along {}, the last dimension of {}{}, not along the result's last dimension",
                  x.axes.empty() ? "nothing" : describe_axis(x.axes.back()), x.description, format_axes(x.axes)),
      "give the result the same last dimension");
}

}  // namespace ridge::program
