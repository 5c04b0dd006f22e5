// Step 4: operations on the sums before they are stored. y = relu(x*w + bias) as a product and a pass writes D, reads
// it and writes it again; with an epilogue the sums are not written to memory. The kernel definition does not change:
// the epilogue belongs to the output view.
#include <algorithm>

#include "ridge/ops/product/cpu.h"
#include "ridge/ops/product/trace.h"
#include "tutorial.h"

using namespace ridge::ops;
using tutorial::Index;

int main() {
  constexpr Index m = 256, n = 512, k = 64;
  const std::vector<float> x = tutorial::filled(m * k, 1), w = tutorial::filled(n * k, 2),
                           bias = tutorial::filled(n, 3);
  std::vector<float> y(m * n, -1);
  MatmulCall call;
  call.problem = {1, m, n, k, {ridge::DType::f32, k, 1}, {ridge::DType::f32, 1, k}, {ridge::DType::f32, n, 1}};
  call.a = x.data();
  call.b = w.data();
  call.d = y.data();
  call.epilogue.activation = EpilogueActivation::relu;
  call.epilogue.bias = {.data = bias.data(), .row_stride = 0, .col_stride = 1};  // the same for every row

  // Tiles of 128 x 128. The separate pass reads D and the bias and writes y.
  const MatmulTraffic product = count_tile_traffic(call.problem, {}),
                      fused = count_tile_traffic(call.problem, {}, call.epilogue);
  const Index pass = 4 * (m * n + n + m * n);
  std::printf("product, then a pass  %5.2f MB + %4.2f MB, %5.2f FLOP/B\n", tutorial::mb(product.global_bytes()),
              tutorial::mb(pass),
              static_cast<double>(product.flops) / static_cast<double>(product.global_bytes() + pass));
  std::printf("product with epilogue %5.2f MB            %5.2f FLOP/B   (of it the bias %.4f MB)\n",
              tutorial::mb(fused.global_bytes()),
              static_cast<double>(fused.flops) / static_cast<double>(fused.global_bytes()),
              tutorial::mb(fused.bias.global_bytes));
  bool right = fused.d == product.d && fused.global_bytes() == product.global_bytes() + fused.bias.global_bytes &&
               fused.bias.global_bytes == 4 * n * (m / 128);

  if (const auto refusal = unsupported_reason(call)) {
    std::printf("%s\n", refusal.text().c_str());
    return 1;
  }
  matmul(call);
  const std::vector<float> sums = tutorial::plain_product(x, w, m, n, k);
  for (Index i = 0; i < m * n; ++i) right &= y[i] == std::max(sums[i] + bias[i % n], 0.0F);
  return tutorial::ends(right);
}
