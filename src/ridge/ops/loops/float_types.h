// Dispatch on the dtypes of a source and a result, once for each call.
#pragma once

#include "ridge/base/dtype_set.h"

namespace ridge::ops {
namespace {

// Calls f(From{}, To{}) with the storage types of two dtypes that are f32, bf16 or f16.
template <class F> void with_float_types(DType from, DType to, const F& f) {
  StoredFloats::dispatch(from, [&]<class From>() {
    const auto with_source = [&]<class To>() { f(From{}, To{}); };
    StoredFloats::dispatch(to, with_source);
  });
}

}  // namespace
}  // namespace ridge::ops
