// Parses quantize: a tensor, a format and, for e4m3, the block. The format is the result's dtype.
//   q[N, D] = quantize(x, mxfp4)      q[N, D] = quantize(x, e4m3, block = 128)
#include <fmt/format.h>

#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::program {
namespace {

constexpr const char* formats = "e4m3 with block = 128, mxfp8, mxfp4 or nvfp4";
constexpr const char* quantize_example = "write quantize(x, e4m3, block = 128) or quantize(x, mxfp4)";

}  // namespace

bool Parser::parse_quantize_arguments(Routine& out, const Token& keyword) {
  if (peek().kind != TokenKind::name)
    return report_error(keyword.span,
                        fmt::format("expected a tensor and a format in quantize, found {}", quote_token(peek())),
                        quantize_example);
  if (parse_tensor_name() < 0) return false;
  if (!expect_symbol(",", "',' and a format", quantize_example)) return false;
  const Token format = peek();
  const auto dtype = format.kind == TokenKind::name ? parse_dtype(format.text) : std::nullopt;
  if (!dtype || (*dtype != DType::e4m3 && !is_block_scaled(*dtype)))
    return report_error(format.span, fmt::format("expected a format with block scales, found {}", quote_token(format)),
                        fmt::format("{}; without scales it is a result with that dtype, y: e4m3[N] = x", formats));
  consume_token();
  out.format = *dtype == DType::e4m3 ? DType::e4m3_128 : *dtype;
  return parse_quantize_block(*dtype, format);
}

bool Parser::parse_quantize_block(DType format, const Token& at) {
  const bool needed = format == DType::e4m3;
  if (!peek().is_symbol(",")) {
    if (!needed) return true;
    return report_error(at.span, "expected a block after e4m3, found none",
                        "block = 128; mxfp8 is e4m3 in blocks of 32, and without scales it is y: e4m3[N] = x");
  }
  consume_token();
  const Token option = peek();
  if (option.kind != TokenKind::name || option.text != "block" || !peek(1).is_symbol("="))
    return report_error(option.span, fmt::format("expected block = 128, found {}", quote_token(option)),
                        quantize_example);
  if (!needed)
    return report_error(option.span,
                        fmt::format("{} has blocks of {} already", dtype_name(format), dtype_info(format).block),
                        "leave the block out");
  consume_token();
  consume_token();
  const Token number = peek();
  std::int64_t block = 0;
  if (!parse_positive_integer(block, "the block")) return false;
  const int supported_block = dtype_info(DType::e4m3_128).block;
  if (block == supported_block) return true;
  return report_error(number.span, fmt::format("expected a block of {}, found {}", supported_block, block),
                      "mxfp8 is e4m3 in blocks of 32 with scales of 8 bits");
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
