// Error bounds. u = 2^-24 is f32's unit roundoff, v that of the dtype in which the result is stored.
//   contraction over K:  c*u*(|A||B|) + v*|C|, c = K + 2; for random data min(K + 2, 16*sqrt(K) + 16), since rounding
//                        errors of random sign grow like a random walk (Higham and Mary, SIAM J. Sci. Comput. 41, 2019)
//                        int8 * int8 is exact in int32; what becomes a float is rounded once more, what becomes int8
//                        stays within -128 and 127
//   pointwise:           carried through the expression: f moves by what f does at the ends of its argument's interval,
//                        and each operation adds 8 u of its own value (the kernels' functions stay within 4 ulp)
#include "ridge/measure/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "ridge/base/check.h"
#include "ridge/measure/share.h"
#include "ridge/plan/shape.h"

namespace ridge {
namespace {

constexpr double u = 0x1p-24;
constexpr double smallest = 0x1p-126;  // below it f32 and bf16 may lose digits, or a kernel may flush to 0

double roundoff(DType dtype) {
  if (info(dtype).integer) return 0;  // what they store are integers already
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : u;
}
double subnormal_error(DType dtype) { return info(dtype).integer ? 0 : dtype == DType::f16 ? 0x1p-25 : smallest; }
// From this size on a value rounds to infinity: the largest number and half a step.
double overflow(DType dtype) {
  return dtype == DType::f16 ? 65520.0 : dtype == DType::bf16 ? 0x1.FFp127 : 0x1.FFFFFFp127;
}

struct Uncertain {
  double value = 0, error = 0;
};

double apply(Function function, double x) {
  switch (function) {
    case Function::negate: return -x;
    case Function::exp: return std::exp(x);
    case Function::log: return std::log(x);
    case Function::cos: return std::cos(x);
    case Function::sin: return std::sin(x);
    case Function::gelu: return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Function::gelu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case Function::silu: return x / (1 + std::exp(-x));
    case Function::relu: return x > 0 ? x : x == x ? 0 : x;
    case Function::sigmoid: return 1 / (1 + std::exp(-x));
    case Function::tanh: return std::tanh(x);
    case Function::sqrt: return std::sqrt(x);
    case Function::rsqrt: return 1 / std::sqrt(x);
    case Function::abs: return std::fabs(x);
    default: RIDGE_CHECK(false, "a function of more than one argument");
  }
  return 0;
}

Uncertain rounded(double value, double error) { return {value, error + 8 * u * std::fabs(value) + smallest}; }

Uncertain unary(Function function, Uncertain x) {
  const double value = apply(function, x.value);
  const double above = std::fabs(apply(function, x.value + x.error) - value);
  const double below = std::fabs(apply(function, x.value - x.error) - value);
  // A step over the edge of a domain (sqrt below 0) says nothing: then the other side counts twice.
  const double moved = std::isnan(above) ? 2 * below : std::isnan(below) ? 2 * above : std::max(above, below);
  return rounded(value, std::isnan(moved) ? 0 : moved);
}

Uncertain select(Uncertain condition, Uncertain yes, Uncertain no) {
  const Uncertain& taken = condition.value != 0 ? yes : no;
  // An uncertain condition may choose either.
  return condition.error >= 1 ? Uncertain{taken.value, taken.error + std::fabs(yes.value - no.value)} : taken;
}

Uncertain call(Function function, const Uncertain& a, const Uncertain& b, const Uncertain& c) {
  switch (function) {
    case Function::add: return rounded(a.value + b.value, a.error + b.error);
    case Function::subtract: return rounded(a.value - b.value, a.error + b.error);
    case Function::multiply:
      return rounded(a.value * b.value,
                     std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
    case Function::divide: {
      const double value = a.value / b.value, least = std::max(std::fabs(b.value) - b.error, 0.0);
      return rounded(value, b.error == 0 && a.error == 0 ? 0 : (a.error + std::fabs(value) * b.error) / least);
    }
    case Function::max:
      return {std::isnan(a.value) || std::isnan(b.value) ? NAN : std::max(a.value, b.value),
              std::max(a.error, b.error)};
    case Function::min:
      return {std::isnan(a.value) || std::isnan(b.value) ? NAN : std::min(a.value, b.value),
              std::max(a.error, b.error)};
    case Function::less: {
      const bool close = std::fabs(a.value - b.value) < a.error + b.error;
      return {a.value < b.value ? 1.0 : 0.0, close ? 1.0 : 0.0};
    }
    case Function::where: return select(a, b, c);
    default: return unary(function, a);
  }
}

// Offsets of one operand: where a result's element begins, and how far each step of the sum moves.
std::int64_t offset(const Shape& operand, const Shape& result, std::int64_t index) {
  std::int64_t out = 0;
  for (const SizedAxis& axis : result) {
    const std::int64_t place = index / axis.stride % axis.extent;
    if (!axis.dim.empty()) out += place * along(operand, axis.dim).stride;
  }
  return out;
}

struct Summed {
  std::int64_t extent, left, right;  // strides in the two operands
};

std::vector<Summed> summed_axes(const Shape& left, const Shape& right, const Shape& result) {
  std::vector<Summed> out;
  for (const SizedAxis& axis : left)
    if (!axis.dim.empty() && !has(result, axis.dim))
      out.push_back({axis.extent, axis.stride, along(right, axis.dim).stride});
  return out;
}

// Calls step(left offset, right offset) for every point of the summed axes.
template <class Step> void walk(const std::vector<Summed>& axes, const Step& step) {
  std::int64_t points = 1;
  for (const Summed& axis : axes) points *= axis.extent;
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = point, left = 0, right = 0;
    for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
      left += rest % axis->extent * axis->left;
      right += rest % axis->extent * axis->right;
      rest /= axis->extent;
    }
    step(left, right);
  }
}

class Evaluation {
 public:
  Evaluation(const Oracle& oracle, const std::vector<std::int64_t>& indices) : oracle_(oracle), indices_(indices) {
    for (const Tensor& tensor : oracle.program.tensors) shapes_.push_back(shape(tensor, oracle.dims).value());
    out_.resize(indices.size());
  }

  std::vector<Expected> of(const Contraction& c) {
    const Array &left = array(c.left), &right = array(c.right);
    const Shape& result = shape_of(c.result);
    const std::vector<Summed> axes = summed_axes(shape_of(c.left), shape_of(c.right), result);
    double k = 1;
    for (const Summed& axis : axes) k *= static_cast<double>(axis.extent);
    const double worst = k + 2, random = 16 * std::sqrt(k) + 16;
    const bool integers = left.dtype == DType::int8 && right.dtype == DType::int8;
    const double growth = integers ? 0 : (oracle_.random_data ? std::min(worst, random) : worst) * u;
    const DType stored_as = array(c.result).dtype;
    blocks([&](std::size_t begin, std::size_t end) {
      std::vector<std::int64_t> left_at, right_at;
      for (std::size_t i = begin; i < end; ++i) {
        left_at.push_back(offset(shape_of(c.left), result, indices_[i]));
        right_at.push_back(offset(shape_of(c.right), result, indices_[i]));
      }
      // The sum's index runs outside, so that neighbouring samples share what is in the cache.
      walk(axes, [&](std::int64_t l, std::int64_t r) {
        for (std::size_t i = begin; i < end; ++i) {
          const double product = read(left, left_at[i - begin] + l) * read(right, right_at[i - begin] + r);
          out_[i].value += product;
          out_[i].scale += std::fabs(product);
        }
      });
      for (std::size_t i = begin; i < end; ++i) {
        if (stored_as == DType::int8) out_[i].value = std::clamp(out_[i].value, -128.0, 127.0);
        const double converted = integers && !info(stored_as).integer ? u * std::fabs(out_[i].value) : 0;
        out_[i].bound = growth * out_[i].scale + converted + stored(c.result, out_[i].value);
      }
    });
    return std::move(out_);
  }

  std::vector<Expected> of(const Pointwise& p) {
    const Shape& result = shape_of(p.result);
    blocks([&](std::size_t begin, std::size_t end) {
      std::vector<Uncertain> values(p.nodes.size());
      for (std::size_t i = begin; i < end; ++i) {
        for (std::size_t n = 0; n < p.nodes.size(); ++n) values[n] = value(p.nodes[n], values, result, indices_[i]);
        const Uncertain& last = values.back();
        out_[i] = {last.value, 0, last.error + stored(p.result, std::fabs(last.value) + last.error)};
      }
    });
    return std::move(out_);
  }

 private:
  Uncertain value(const Node& node, const std::vector<Uncertain>& values, const Shape& result,
                  std::int64_t index) const {
    if (node.kind == Node::Kind::tensor)
      return {read(array(node.tensor), offset(shape_of(node.tensor), result, index)), 0};
    if (node.kind == Node::Kind::number) return {node.number, u * std::fabs(node.number)};
    Uncertain in[3];
    for (std::size_t i = 0; i < node.arguments.size() && i < 3; ++i)
      in[i] = values[static_cast<std::size_t>(node.arguments[i])];
    Uncertain out = call(node.function, in[0], in[1], in[2]);
    for (int i = 1; i < node.repeat; ++i) out = call(node.function, out, {}, {});
    return out;
  }

  double stored(int tensor, double value) const {
    const DType dtype = array(tensor).dtype;
    return roundoff(dtype) * std::fabs(value) + subnormal_error(dtype);
  }
  const Array& array(int tensor) const { return oracle_.tensors[static_cast<std::size_t>(tensor)]; }
  const Shape& shape_of(int tensor) const { return shapes_[static_cast<std::size_t>(tensor)]; }

  template <class Work> void blocks(const Work& work) const {
    share(static_cast<std::int64_t>(indices_.size()), 1024, oracle_.threads, [&](std::int64_t begin, std::int64_t end) {
      work(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    });
  }

  const Oracle& oracle_;
  const std::vector<std::int64_t>& indices_;
  std::vector<Shape> shapes_;
  std::vector<Expected> out_;
};

std::uint64_t mixed(std::uint64_t x) {
  x = (x + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// |got - expected|; 0 where both are the same, infinite where one of them is no finite number and the other differs. A
// finite value that the dtype cannot hold is expected as an infinity; near that edge, within the bound, either is
// right.
double difference(double got, const Expected& expected, DType dtype) {
  if (got == expected.value || (std::isnan(got) && std::isnan(expected.value))) return 0;
  if (!std::isfinite(expected.value)) return INFINITY;
  // f32 sums that overflow on the way are infinite or NaN whatever the exact sum.
  if (!std::isfinite(got) && expected.scale >= overflow(DType::f32)) return 0;
  const double size = std::fabs(expected.value), edge = overflow(dtype);
  if (std::isinf(got) && std::signbit(got) == std::signbit(expected.value) && size + expected.bound >= edge) return 0;
  if (!std::isfinite(got) || size - expected.bound >= edge) return INFINITY;
  return std::fabs(got - expected.value);
}

// Of the values that the dtype holds.
double root_mean_square(const std::vector<Expected>& expected, DType dtype) {
  double squares = 0, count = 0;
  for (const Expected& e : expected)
    if (std::fabs(e.value) < overflow(dtype)) {
      squares += e.value * e.value;
      ++count;
    }
  return std::sqrt(squares / std::max(count, 1.0));
}

}  // namespace

std::vector<Expected> Oracle::evaluate(const Statement& statement, const std::vector<std::int64_t>& indices) const {
  return std::visit([&](const auto& op) { return Evaluation(*this, indices).of(op); }, statement.op);
}

std::vector<std::int64_t> sample(const std::vector<std::int64_t>& extents, std::int64_t wanted, std::uint64_t seed) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) elements *= extent;
  std::vector<std::int64_t> out;
  if (elements <= wanted) {
    for (std::int64_t i = 0; i < elements; ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t i = 0; i < wanted; ++i) {
    const auto edge = [&](std::int64_t j) {
      return static_cast<std::int64_t>(static_cast<__int128>(elements) * j / wanted);
    };
    const std::int64_t begin = edge(i), stretch = edge(i + 1) - begin;
    const std::uint64_t hash = mixed(mixed(seed) + static_cast<std::uint64_t>(i));
    out.push_back(begin + static_cast<std::int64_t>(hash % static_cast<std::uint64_t>(stretch)));
  }
  for (std::size_t corner = 0; corner < std::size_t{1} << std::min<std::size_t>(extents.size(), 6); ++corner) {
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      index = index * extents[axis] + (axis < 6 && (corner >> axis & 1) ? extents[axis] - 1 : 0);
    out.push_back(index);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Comparison compare(const Array& result, const std::vector<std::int64_t>& indices,
                   const std::vector<Expected>& expected) {
  const double rms = root_mean_square(expected, result.dtype);
  Comparison out;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const double off = difference(read(result, indices[i]), expected[i], result.dtype);
    if (off == 0) continue;
    const double scale = expected[i].scale > 0 ? expected[i].scale : std::max(std::fabs(expected[i].value), rms);
    const double error = std::isfinite(off) ? off / scale : INFINITY;
    out.max_rel_error = std::max(out.max_rel_error, std::isnan(error) ? INFINITY : error);
    if (out.first_wrong < 0 && !(std::isfinite(off) && off <= expected[i].bound))
      out.first_wrong = static_cast<std::int64_t>(i);
  }
  return out;
}

}  // namespace ridge
