#include "ridge/plan/ending.h"

#include <vector>

#include "ridge/kernels/any_place.h"
#include "ridge/kernels/fused_cuda.h"

namespace ridge {

// On an H200, 2026-11-22, in ps an element of the result: a pointwise kernel takes 1.1 to 1.7, and 2.3 us more. Inside
// the product's kernel relu takes 6.4, a bias 8.3, gelu and a bias 9.6, a residual 12.1, and a tile 20 us at least,
// since its sums go through shared memory once more and are taken from there in turns. f32 products have no tiles; an
// ending costs them nothing that shows. The gated layer's own ending is hidden where everything has x's format, and
// takes 12 where not; rows of no multiple of 8 cost it as much, and each of two products by itself half of that.
std::optional<std::string> slow_ending(const kernels::FusedMatmul& fused) {
  namespace cuda = kernels::cuda;
  const std::vector<void*> data(fused.chain.tensors.size() + 3, kernels::any_place());
  const cuda::FusedCall call = cuda::fused_call(fused, data);
  if (const auto* gated = std::get_if<cuda::GatedCall>(&call)) {
    const bool biases = gated->bu != nullptr || gated->bg != nullptr;
    if (gated->out == gated->dtype && (!biases || gated->bias == gated->dtype)) return std::nullopt;
    return "the device gates results and biases of another dtype than x's faster in a kernel of its own";
  }
  return std::nullopt;
}

}  // namespace ridge
