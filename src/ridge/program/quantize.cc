// What quantize takes and makes: a tensor, a format, and for e4m3 its block. The format is the result's dtype.
//   q[N, D] = quantize(x, mxfp4)      q[N, D] = quantize(x, e4m3, block = 128)
#include <fmt/format.h>

#include "ridge/program/axes.h"
#include "ridge/program/parser.h"

namespace ridge::notation {
namespace {

constexpr const char* formats = "e4m3 with block = 128, mxfp8, mxfp4 or nvfp4";
constexpr const char* example = "write quantize(x, e4m3, block = 128) or quantize(x, mxfp4)";

}  // namespace

bool Parser::quantized(Routine& out, const Token& word) {
  if (peek().kind != TokenKind::name)
    return fail(word.span, fmt::format("expected a tensor and a format in quantize, found {}", quoted(peek())),
                example);
  if (tensor() < 0) return false;
  if (!expect(",", "',' and a format", example)) return false;
  const Token format = peek();
  const auto dtype = format.kind == TokenKind::name ? dtype_from(format.text) : std::nullopt;
  if (!dtype || (*dtype != DType::e4m3 && !is_scaled(*dtype)))
    return fail(format.span, fmt::format("expected a format with block scales, found {}", quoted(format)),
                fmt::format("{}; without scales it is a result with that dtype, y: e4m3[N] = x", formats));
  take();
  out.format = *dtype == DType::e4m3 ? DType::e4m3_128 : *dtype;
  return quantized_block(*dtype, format);
}

bool Parser::quantized_block(DType format, const Token& at) {
  const bool needed = format == DType::e4m3;
  if (!peek().is(",")) {
    if (!needed) return true;
    return fail(at.span, "expected a block behind e4m3, found none",
                "block = 128; mxfp8 is e4m3 in blocks of 32, and without scales it is y: e4m3[N] = x");
  }
  take();
  const Token option = peek();
  if (option.kind != TokenKind::name || option.text != "block" || !peek(1).is("="))
    return fail(option.span, fmt::format("expected block = 128, found {}", quoted(option)), example);
  if (!needed)
    return fail(option.span, fmt::format("{} has blocks of {} already", name(format), info(format).block),
                "leave the block out");
  take();
  take();
  const Token number = peek();
  std::int64_t block = 0;
  if (!whole_number(block, "the block")) return false;
  const int there = info(DType::e4m3_128).block;
  if (block == there) return true;
  return fail(number.span, fmt::format("expected a block of {}, found {}", there, block),
              "mxfp8 is e4m3 in blocks of 32 with scales of 8 bits");
}

// Blocks lie along the last dimension of the result, which is the argument's.
bool Parser::quantize_agrees(const Routine& routine, const Mention& result) {
  const Operand x = operand(0);
  const Tensor& from = program_.tensors[static_cast<std::size_t>(x.tensor)];
  if (info(from.dtype).integer || is_scaled(from.dtype))
    return fail(x.span,
                fmt::format("expected floating point without scales in quantize, found '{}', which is {}", from.name,
                            name(from.dtype)),
                "quantize what it was made of");
  if (result.dtype && *result.dtype != routine.format)
    return fail(result.span,
                fmt::format("quantize makes {} here, '{}' is declared {}", name(routine.format), result.name,
                            name(*result.dtype)),
                fmt::format("leave the dtype out, or write {}", name(routine.format)));
  if (!keeps_axes(routine, result)) return false;
  if (!result.axes.empty() && result.axes.back() == x.axes.back()) return true;
  return fail(result.span,
              fmt::format("blocks lie along {}, the last dimension of {}{}, and not along the result's",
                          x.axes.empty() ? "nothing" : described(x.axes.back()), x.called, text(x.axes)),
              "give the result the same last dimension");
}

}  // namespace ridge::notation
