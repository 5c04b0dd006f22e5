#include "ridge/ops/product/epilogue.h"

#include <utility>

#include "ridge/base/dtype_set.h"
#include "ridge/ops/product/layout.h"
#include "ridge/pool/isa.h"

namespace ridge::ops {

bool is_store_only(const MatmulEpilogue& e) {
  return e.alpha == 1 && e.activation == EpilogueActivation::none && !e.scale.data && !e.bias.data && !e.gate.data &&
         !e.addend.data;
}

bool adds_rounded_sum(const MatmulCall& call) {
  MatmulEpilogue rest = call.epilogue;
  rest.addend = {};
  const EpilogueOperand& addend = call.epilogue.addend;
  const MatrixLayout& d = call.problem.d;
  return call.epilogue.may_round_sum && call.epilogue.beta == 1 && is_store_only(rest) && addend.data == call.d &&
         addend.dtype == d.dtype && addend.row_stride == d.row_stride && addend.col_stride == d.col_stride &&
         (call.problem.batch <= 1 || addend.batch_stride == d.batch_stride);
}

Reason validate_epilogue(const MatmulEpilogue& e) {
  for (const auto& [what, x] :
       {std::pair{"scale", &e.scale}, {"bias", &e.bias}, {"gate", &e.gate}, {"addend", &e.addend}})
    if (x->data && !StoredFloats::contains(x->dtype))
      return std::string(what) + ": expected bf16, f16 or f32, found " + std::string(dtype_name(x->dtype));
  return {};
}

MatmulEpilogue transpose_epilogue(MatmulEpilogue e) {
  for (EpilogueOperand* x : {&e.scale, &e.bias, &e.gate, &e.addend}) std::swap(x->row_stride, x->col_stride);
  return e;
}

MatmulCall transpose_call(const MatmulCall& x) {
  MatmulCall y = x;
  y.problem = transpose_problem(x.problem);
  std::swap(y.a, y.b);
  y.epilogue = transpose_epilogue(x.epilogue);
  return y;
}

tile::Epilogue to_tile_epilogue(const MatmulEpilogue& e, DType d) {
  const auto operand = [](const EpilogueOperand& x) {
    return tile::EpilogueInput{x.data, tile::to_storage_format(x.dtype), x.row_stride, x.col_stride, x.batch_stride};
  };
  return {tile::to_storage_format(d), e.activation,    e.alpha,         e.beta,
          operand(e.scale),           operand(e.bias), operand(e.gate), operand(e.addend)};
}

void apply_epilogue(const tile::EpilogueTile& x) {
  pool::select_for_isa(plain::apply_epilogue, avx2::apply_epilogue, avx512::apply_epilogue)(x);
}

}  // namespace ridge::ops
