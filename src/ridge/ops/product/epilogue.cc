#include "ridge/ops/product/epilogue.h"

#include <utility>

#include "ridge/ops/product/layout.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

bool is_plain(const MatmulEpilogue& e) {
  return e.alpha == 1 && e.activation == Activation::none && !e.scale.data && !e.bias.data && !e.gate.data &&
         !e.addend.data;
}

bool adds_rounded(const MatmulCall& call) {
  MatmulEpilogue rest = call.epilogue;
  rest.addend = {};
  const EpilogueOperand& addend = call.epilogue.addend;
  const MatrixLayout& d = call.problem.d;
  return call.epilogue.may_round_sum && call.epilogue.beta == 1 && is_plain(rest) && addend.data == call.d &&
         addend.dtype == d.dtype && addend.row_stride == d.row_stride && addend.col_stride == d.col_stride &&
         (call.problem.batch <= 1 || addend.batch_stride == d.batch_stride);
}

std::optional<std::string> refuse_epilogue(const MatmulEpilogue& e) {
  for (const auto& [what, x] :
       {std::pair{"scale", &e.scale}, {"bias", &e.bias}, {"gate", &e.gate}, {"addend", &e.addend}})
    if (x->data && x->dtype != DType::f32 && x->dtype != DType::bf16 && x->dtype != DType::f16)
      return std::string(what) + ": expected bf16, f16 or f32, found " + std::string(name(x->dtype));
  return std::nullopt;
}

MatmulEpilogue exchanged(MatmulEpilogue e) {
  for (EpilogueOperand* x : {&e.scale, &e.bias, &e.gate, &e.addend}) std::swap(x->row_stride, x->col_stride);
  return e;
}

MatmulCall exchanged(const MatmulCall& x) {
  MatmulCall y = x;
  y.problem = transposed(x.problem);
  std::swap(y.a, y.b);
  y.epilogue = exchanged(x.epilogue);
  return y;
}

tile::Finish finish_of(const MatmulEpilogue& e, DType d) {
  const auto operand = [](const EpilogueOperand& x) {
    return tile::Operand{x.data, stored(x.dtype), x.row_stride, x.col_stride, x.batch_stride};
  };
  return {stored(d),        e.activation,    e.alpha,         e.beta,
          operand(e.scale), operand(e.bias), operand(e.gate), operand(e.addend)};
}

void finish(const tile::Finishing& x) { tile::cpu::body_for_isa(plain::finish, avx2::finish, avx512::finish)(x); }

}  // namespace ridge::ops
