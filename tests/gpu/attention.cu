// Attention on a device against fp64 on the host: random heads, lengths, widths, masks and strides, inputs that are
// small whole numbers over eight, so that they are exact in bf16 and f16. Every element of o is compared; memory
// between and behind its rows must stay as it was.
#include <cmath>
#include <random>

#include "ridge/base/float16.h"
#include "ridge/measure/device_machine.h"
#include "ridge/ops/attention/cuda.h"
#include "support.h"

namespace ridge::gpu {
namespace {

using ops::AttentionProblem, ops::HeadsLayout;
namespace cuda = ops::cuda;

double number(DType dtype, std::uint16_t bits) {
  if (dtype == DType::bf16) return to_float(Bf16{bits});
  return to_float(F16{bits});
}
std::uint16_t bits_of(DType dtype, float x) { return dtype == DType::bf16 ? to_bf16(x).bits : to_f16(x).bits; }

class Case {
 public:
  explicit Case(unsigned seed) : random_(seed) {}

  // Rows that lie one behind the other or heads that do, with a gap here and there.
  HeadsLayout layout(std::int64_t heads, std::int64_t rows, std::int64_t width) {
    const std::int64_t gap = below(4) == 0 ? 8 * (1 + below(3)) : 0;
    if (below(2) == 0) {
      const std::int64_t row = heads * width + gap;
      return {rows * row + gap, width, row};
    }
    const std::int64_t row = width + gap;
    return {heads * rows * row, rows * row, row};
  }
  AttentionProblem problem() {
    AttentionProblem p;
    p.dtype = below(2) == 0 ? DType::bf16 : DType::f16;
    p.outer = 1 + below(2);
    p.key_heads = 1 + below(3);
    p.heads = p.key_heads * (1 + below(3));
    p.rows = below(4) == 0 ? 1 + below(8) : 1 + below(400);
    p.keys = below(3) == 0 ? p.rows : 1 + below(600);
    constexpr int widths[] = {64, 128, 256, 96, 192, 8, 80, 40, 136, 248};
    p.width = widths[below(10)];
    p.scale = below(2) == 0 ? 1 / std::sqrt(static_cast<double>(p.width)) : 0.01 * (1 + below(60));
    const int mask = below(4);
    if (mask == 1) p.high = 0;
    if (mask == 2) p.high = p.keys - p.rows;
    if (mask == 3) {
      p.high = below(40) - 10;
      p.low = p.high - below(200);
    }
    p.q = layout(p.heads, p.rows, p.width);
    p.k = layout(p.key_heads, p.keys, p.width);
    p.v = layout(p.key_heads, p.keys, p.width);
    p.o = layout(p.heads, p.rows, p.width);
    return p;
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  std::vector<std::uint16_t> filled(const AttentionProblem& p, const HeadsLayout& x, std::int64_t rows,
                                    std::int64_t heads, bool poisoned) {
    const std::size_t size =
        static_cast<std::size_t>((p.outer - 1) * x.outer + (heads - 1) * x.head + (rows - 1) * x.row + p.width) + 64;
    std::vector<std::uint16_t> out(size, 0x7fff);  // NaN wherever no element lies
    if (poisoned) return out;
    for (std::int64_t b = 0; b < p.outer; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t e = 0; e < p.width; ++e)
            out[static_cast<std::size_t>(b * x.outer + h * x.head + r * x.row + e)] =
                bits_of(p.dtype, static_cast<float>(below(33) - 16) / 8);
    return out;
  }

 private:
  std::mt19937 random_;
};

std::string text(const AttentionProblem& p) {
  char out[256];
  std::snprintf(
      out, sizeof out, "%s %lldx%lld heads on %lld, %lld rows, %lld keys, width %lld, scale %g, band %lld %lld",
      std::string(name(p.dtype)).c_str(), static_cast<long long>(p.outer), static_cast<long long>(p.heads),
      static_cast<long long>(p.key_heads), static_cast<long long>(p.rows), static_cast<long long>(p.keys),
      static_cast<long long>(p.width), p.scale, static_cast<long long>(p.low), static_cast<long long>(p.high));
  return out;
}

struct Places {
  std::vector<std::uint16_t> q, k, v, o, before;
  std::vector<float> lse;
};

// The worst error over what is allowed; 1e30 where something else is wrong.
double judge(const AttentionProblem& p, const Places& x) {
  const double unit = p.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
  const auto at = [](const HeadsLayout& l, std::int64_t b, std::int64_t h, std::int64_t r) {
    return static_cast<std::size_t>(b * l.outer + h * l.head + r * l.row);
  };
  double worst = 0;
  std::vector<bool> is_result(x.o.size());
  std::vector<double> weights(static_cast<std::size_t>(p.keys)), row(static_cast<std::size_t>(p.width)), size(row);
  for (std::int64_t b = 0; b < p.outer; ++b)
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t r = 0; r < p.rows; ++r) {
        const std::int64_t key_head = h / (p.heads / p.key_heads);
        double most = -INFINITY, sum = 0;
        for (std::int64_t t = 0; t < p.keys; ++t) {
          double s = 0;
          for (std::int64_t e = 0; e < p.width; ++e)
            s += number(p.dtype, x.q[at(p.q, b, h, r) + e]) * number(p.dtype, x.k[at(p.k, b, key_head, t) + e]);
          const bool seen = t - r >= p.low && t - r <= p.high;
          weights[t] = seen ? s * p.scale : -INFINITY;
          most = std::max(most, weights[t]);
        }
        for (double& w : weights) sum += w = std::exp(w - most);
        std::fill(row.begin(), row.end(), 0);
        std::fill(size.begin(), size.end(), 0);
        for (std::int64_t t = 0; t < p.keys; ++t)
          for (std::int64_t e = 0; e < p.width; ++e) {
            const double part = weights[t] / sum * number(p.dtype, x.v[at(p.v, b, key_head, t) + e]);
            row[e] += part;
            size[e] += std::fabs(part);
          }
        const float lse = x.lse[static_cast<std::size_t>((b * p.heads + h) * p.rows + r)];
        const double exact_lse = most + std::log(sum);
        if (most > -INFINITY && !(std::fabs(lse - exact_lse) <= 1e-4 * (1 + std::fabs(exact_lse)))) return 1e30;
        for (std::int64_t e = 0; e < p.width; ++e) {
          const std::size_t place = at(p.o, b, h, r) + static_cast<std::size_t>(e);
          is_result[place] = true;
          const double got = number(p.dtype, x.o[place]);
          if (std::isnan(row[e]) != std::isnan(got)) return 1e30;
          if (std::isnan(got)) continue;
          // weights and the result are rounded once, and sums of weights are not of the rounded ones
          const double allowed = 2 * unit * size[e] + unit * std::fabs(row[e]) + 1e-6;
          worst = std::max(worst, std::fabs(got - row[e]) / allowed);
        }
      }
  for (std::size_t i = 0; i < x.o.size(); ++i)
    if (!is_result[i] && x.o[i] != x.before[i]) return 1e30;
  return worst;
}

void put(const Memory& to, const std::vector<std::uint16_t>& from) {
  must(cudaMemcpy(to.data(), from.data(), from.size() * 2, cudaMemcpyHostToDevice), "copying to the device");
}

}  // namespace

int check_attention(int argc, char** argv) {
  const int cases = argc > 0 ? std::atoi(argv[0]) : 200;
  const auto device = device_numbers_here();
  if (!device) {
    std::fprintf(stderr, "%s", device.error().text().c_str());
    return 77;
  }
  Memory counters(cuda::counter_bytes);
  must(cudaMemset(counters.data(), 0, cuda::counter_bytes), "clearing counters");
  double worst = 0;
  int wrong = 0, refused = 0;
  for (int i = 0; i < cases; ++i) {
    Case drawn(static_cast<unsigned>(i));
    const AttentionProblem p = drawn.problem();
    if (cuda::refuse(p)) {
      ++refused;
      continue;
    }
    Places x{drawn.filled(p, p.q, p.rows, p.heads, false),
             drawn.filled(p, p.k, p.keys, p.key_heads, false),
             drawn.filled(p, p.v, p.keys, p.key_heads, false),
             drawn.filled(p, p.o, p.rows, p.heads, true),
             {},
             {}};
    x.before = x.o;
    x.lse.assign(static_cast<std::size_t>(p.outer * p.heads * p.rows), 0);
    const Memory q(x.q.size() * 2), k(x.k.size() * 2), v(x.v.size() * 2), o(x.o.size() * 2), lse(x.lse.size() * 4);
    put(q, x.q);
    put(k, x.k);
    put(v, x.v);
    put(o, x.o);
    const cuda::AttentionCall call{p, q.data(), k.data(), v.data(), o.data(), reinterpret_cast<float*>(lse.data())};
    cuda::AttentionPlan plan = cuda::choose(p, *device);
    const cuda::Workspace workspace{counters.data(), counters.size(), true};
    if (const auto trouble = cuda::launch(call, plan, workspace, nullptr)) {
      std::fprintf(stderr, "%s: %s\n", text(p).c_str(), trouble->c_str());
      return 2;
    }
    must(cudaDeviceSynchronize(), text(p).c_str());
    must(cudaMemcpy(x.o.data(), o.data(), x.o.size() * 2, cudaMemcpyDeviceToHost), "copying back");
    must(cudaMemcpy(x.lse.data(), lse.data(), x.lse.size() * 4, cudaMemcpyDeviceToHost), "copying back");
    const double off = judge(p, x);
    worst = std::max(worst, off);
    if (off <= 1) continue;
    if (++wrong <= 5) std::fprintf(stderr, "case %d, %s: %g of the allowed error\n", i, text(p).c_str(), off);
  }
  std::printf("attention: %d cases, %d refused, %d wrong, at most %.2f of the allowed error\n", cases, refused, wrong,
              worst);
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::gpu
