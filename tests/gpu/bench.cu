// Times products against cuBLASLt by the protocol of the measured tables: operands are slices of a pool of normal
// random numbers, rotated so that consecutive launches touch 256 MB or more (cold L2); R launches in one CUDA graph;
// ours, cuBLASLt's first heuristic and the best of its first eight take turns, so that clocks that fall under load fall
// for all; the figure is the median over rounds, the ratio the median of the rounds' ratios. Right before and after:
// 4096 elements against f64, all elements against cuBLASLt.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "cublaslt.h"
#include "values.h"

namespace ridge::gpu {
namespace {

using namespace kernels::cuda;

struct Shape {
  std::string op, dtype;
  std::int64_t m, n, k;
};

__global__ void fill_pool(void* data, std::size_t n, Stored stored, std::uint32_t seed) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < n;
       i += std::size_t{gridDim.x} * blockDim.x)
    put(stored, data, static_cast<std::int64_t>(i), value(Values::normal, i, seed));
}
struct Judged {
  unsigned sampled_wrong, loose, differing;  // loose: within the bound, yet further off than sums in f32 come by chance
  float worst;
};
// One block an element, picked by a hash.
__global__ void judge_samples(CublasLt::Shape s, Stored stored, const void* a, const void* b, const void* d,
                              Judged* j) {
  const std::uint32_t h = hashed(blockIdx.x, 5u), g = hashed(blockIdx.x, 11u);
  const std::int64_t r = h % s.m, c = g % s.n;
  double sum = 0, magnitude = 0;
  for (std::int64_t k = threadIdx.x; k < s.k; k += blockDim.x) {
    const double x = get(stored, a, s.a_transposed ? k * s.m + r : r * s.k + k) *
                     get(stored, b, s.b_transposed ? c * s.k + k : k * s.n + c);
    sum += x, magnitude += fabs(x);
  }
  __shared__ double sums[128], magnitudes[128];
  sums[threadIdx.x] = sum, magnitudes[threadIdx.x] = magnitude;
  __syncthreads();
  if (threadIdx.x != 0) return;
  sum = magnitude = 0;
  for (int i = 0; i < 128; ++i) sum += sums[i], magnitude += magnitudes[i];
  const double bound = 2.0 * static_cast<double>(s.k) * 0x1p-24 * magnitude,
               unit = stored == Stored::bf16 ? 0x1p-8 : 0x1p-11;
  const double error = fabs(get(stored, d, r * s.n + c) - sum) / (bound + unit * (fabs(sum) + bound));
  if (!(error <= 1)) atomicAdd(&j->sampled_wrong, 1);
  const double chance = unit * fabs(sum) + 0.5e-3 * sqrt(static_cast<double>(s.k));
  if (!(fabs(get(stored, d, r * s.n + c) - sum) <= chance)) atomicAdd(&j->loose, 1);
  if (error > j->worst) j->worst = static_cast<float>(error);
}
__global__ void judge_all(const void* d, const void* theirs, std::int64_t n, Stored stored, float slack, Judged* j) {
  const double unit = stored == Stored::bf16 ? 0x1p-7 : 0x1p-10;
  for (std::int64_t i = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const double x = get(stored, d, i), y = get(stored, theirs, i);
    if (!(fabs(x - y) <= unit * fabs(y) + slack)) atomicAdd(&j->differing, 1);
  }
}

struct Runner {
  std::string name;
  cudaGraphExec_t graph = nullptr;
  std::vector<double> us{};
  MatmulPlan plan{};
};

double median(std::vector<double> x) {
  if (x.empty()) return NAN;
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

struct Options {
  std::string shapes, out;
  int rounds = 9;
  std::int64_t least_m = 0, most_m = 1 << 30;
  bool candidates = false, early = false;
  int from = 0, every = 1;
};

class Session {
 public:
  explicit Session(const Options& o)
      : o_(o),
        pool_(std::size_t{6} << 30),
        outputs_(std::size_t{3} << 30),
        workspace_(std::size_t{1} << 30),
        theirs_(std::size_t{64} << 20),
        small_(4096) {
    must(cudaStreamCreate(&stream_), "creating a stream");
    must(cudaEventCreate(&start_), "creating an event"), must(cudaEventCreate(&stop_), "creating an event");
    must(cudaMemset(workspace_.data(), 0, counter_bytes), "preparing the workspace");
    out_ = std::fopen(o.out.c_str(), "w");
    if (!out_) std::fprintf(stderr, "bench: cannot write %s\n", o.out.c_str()), std::exit(2);
  }

  bool shape(const Shape& s) {
    const DType dtype = s.dtype == "bf16" ? DType::bf16 : DType::f16;
    if (dtype != filled_)
      fill_pool<<<4096, 256, 0, stream_>>>(pool_.data(), pool_.size() / 2, stored(dtype), 1), filled_ = dtype;
    const CublasLt::Shape x{s.m, s.n, s.k, s.op == "tn", s.op == "linear", dtype};
    const auto up = [](std::int64_t bytes) { return static_cast<std::size_t>(bytes + 1023) / 1024 * 1024; };
    na_ = up(s.m * s.k * 2), nb_ = up(s.n * s.k * 2), nd_ = up(s.m * s.n * 2);
    if (na_ + nb_ > pool_.size() || nd_ * 2 > outputs_.size()) {
      std::printf("%s,%s,%ld,%ld,%ld: passed over, larger than the pool\n", s.op.c_str(), s.dtype.c_str(), s.m, s.n,
                  s.k);
      return true;
    }
    sets_ = std::max<std::size_t>(1, std::min({(std::size_t{256} << 20) / (na_ + nb_ + nd_) + 1,
                                               pool_.size() / (na_ + nb_), outputs_.size() / nd_, std::size_t{512}}));
    const double estimate =
        std::max(2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) / 7e14,
                 static_cast<double>(na_ + nb_ + nd_) / 4e12) +
        3e-6;
    launches_ = static_cast<int>(std::max(std::min(2e-3 / estimate, 256.0), 2.0));
    if (launches_ < static_cast<int>(sets_) && launches_ < 64) launches_ = std::min(static_cast<int>(sets_), 64);
    lt_.prepare(x, theirs_.size());
    call_ = call(x);
    const MatmulPlan plan = choose(call_, workspace_.size(), multiprocessors());
    Judged before = judged(x, plan);
    std::vector<Runner> all = baselines();
    Runner ours = ours_of(plan);
    if (ours.graph) all.push_back(ours);
    std::vector<Runner> others;
    if (o_.candidates) others = candidates(plan);
    double warmed = 0;  // to the clock that the power limit leaves
    while (warmed < 40e3)
      for (Runner& r : all) warmed += once(r) * launches_;
    for (Runner& r : all) r.us.resize(static_cast<std::size_t>(o_.rounds));
    for (int i = 0; i < o_.rounds; ++i)
      for (std::size_t j = 0; j < all.size(); ++j) {  // each is first in turn
        Runner& r = all[(j + static_cast<std::size_t>(i)) % all.size()];
        r.us[static_cast<std::size_t>(i)] = once(r);
      }
    std::sort(others.begin(), others.end(), [](const Runner& p, const Runner& q) { return p.us[0] < q.us[0]; });
    for (std::size_t i = 0; i < others.size() && i < 4; ++i)  // the best again, among the others
      for (int k = 0; k < 3; ++k) others[i].us.push_back(once(others[i]));
    const Judged after = judged(x, plan);
    report(s, plan, all, others, before, after);
    for (Runner& r : all) cudaGraphExecDestroy(r.graph);
    for (Runner& r : others) cudaGraphExecDestroy(r.graph);
    return before.sampled_wrong + before.differing + after.sampled_wrong + after.differing == 0;
  }

  void summary() {
    for (const auto& [name, low, high] : {std::tuple{"M <= 128", 0l, 128l},
                                          {"128 < M < 512", 129l, 511l},
                                          {"512 <= M < 2048", 512l, 2047l},
                                          {"M >= 2048", 2048l, 1l << 40},
                                          {"M >= 512", 512l, 1l << 40},
                                          {"all", 0l, 1l << 40}}) {
      double sum = 0, least = 1e9, first = 0, error = 0;
      int n = 0;
      for (const Figure& f : figures_)
        if (f.m >= low && f.m <= high)
          sum += std::log(f.ratio), first += std::log(f.first), least = std::min(least, f.ratio), error += f.error, ++n;
      if (n)
        std::printf(
            "%-16s %4d rows: geometric mean %.4f against best of 8, %.4f against the first, least %.3f; prediction off "
            "by %.1f %%\n",
            name, n, std::exp(sum / n), std::exp(first / n), least, 100 * error / n);
    }
    std::fclose(out_);
  }
  std::size_t baseline_version() const { return lt_.version(); }

 private:
  struct Figure {
    std::int64_t m;
    double ratio, first, error;
  };

  MatmulCall call(const CublasLt::Shape& x) const {
    MatmulCall c;
    c.problem = {1,
                 x.m,
                 x.n,
                 x.k,
                 {x.dtype, x.a_transposed ? 1 : x.k, x.a_transposed ? x.m : 1, 0},
                 {x.dtype, x.b_transposed ? 1 : x.n, x.b_transposed ? x.k : 1, 0},
                 {x.dtype, x.n, 1, 0}};
    c.a = pool_.data(), c.b = pool_.data() + na_, c.d = outputs_.data();
    c.constant_b = o_.early;
    return c;
  }
  Judged judged(const CublasLt::Shape& x, const MatmulPlan& plan) {
    char* const theirs = outputs_.data() + nd_;
    must(cudaMemsetAsync(outputs_.data(), 0xff, nd_, stream_), "poisoning D");
    must(cudaMemsetAsync(small_.data(), 0, 2 * sizeof(Judged), stream_), "clearing");
    MatmulCall c = call_;
    if (const auto refusal = launch(c, plan, {workspace_.data(), workspace_.size(), true}, stream_))
      std::printf("refused: %s\n", refusal->c_str());
    Judged* const j = reinterpret_cast<Judged*>(small_.data());
    judge_samples<<<4096, 128, 0, stream_>>>(x, stored(x.dtype), c.a, c.b, c.d, j);
    if (lt_.found > 0 && lt_.run(0, c.a, c.b, theirs, theirs_.data(), stream_)) {
      judge_samples<<<4096, 128, 0, stream_>>>(x, stored(x.dtype), c.a, c.b, theirs, j + 1);
      judge_all<<<2048, 256, 0, stream_>>>(c.d, theirs, x.m * x.n, stored(x.dtype),
                                           1e-3f * sqrtf(static_cast<float>(x.k)), j);
    }
    Judged result[2];
    must(cudaMemcpyAsync(&result, j, sizeof result, cudaMemcpyDeviceToHost, stream_), "reading the verdict");
    must(cudaStreamSynchronize(stream_), "a product");
    result[0].sampled_wrong += result[0].loose;
    if (result[1].loose > 0) result[0].differing = 0;  // theirs is the less exact: it adds pieces of k in D's format
    return result[0];
  }
  Runner captured(const std::string& name, const std::function<bool(char*, char*, char*)>& go) {
    Runner r{name};
    must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capturing");
    bool good = true;
    for (int i = 0; i < launches_ && good; ++i) {
      const std::size_t set = static_cast<std::size_t>(i) % sets_;
      char* const a = pool_.data() + set * (na_ + nb_);
      good = go(a, a + na_, outputs_.data() + set * nd_);
    }
    cudaGraph_t graph = nullptr;
    must(cudaStreamEndCapture(stream_, &graph), "capturing");
    if (good) must(cudaGraphInstantiate(&r.graph, graph, 0), "instantiating a graph");
    cudaGraphDestroy(graph);
    return r;
  }
  double once(const Runner& r) {
    must(cudaEventRecord(start_, stream_), "timing"), must(cudaGraphLaunch(r.graph, stream_), "replaying");
    must(cudaEventRecord(stop_, stream_), "timing"), must(cudaEventSynchronize(stop_), r.name.c_str());
    float ms = 0;
    must(cudaEventElapsedTime(&ms, start_, stop_), "timing");
    return ms * 1e3 / launches_;
  }
  // cuBLASLt's first heuristic, and the best of its first eight if that is another.
  std::vector<Runner> baselines() {
    std::vector<Runner> all;
    for (int i = 0; i < lt_.found; ++i) {
      Runner r = captured("lt" + std::to_string(i),
                          [&](char* a, char* b, char* d) { return lt_.run(i, a, b, d, theirs_.data(), stream_); });
      if (!r.graph) continue;
      once(r);
      for (int k = 0; k < 3; ++k) r.us.push_back(once(r));
      all.push_back(r);
    }
    if (all.empty()) return all;
    std::size_t best = 0;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (median(all[i].us) < median(all[best].us)) best = i;
    for (std::size_t i = 1; i < all.size(); ++i)
      if (i != best) cudaGraphExecDestroy(all[i].graph);
    std::vector<Runner> kept{all[0]};
    if (best != 0) kept.push_back(all[best]);
    for (Runner& r : kept) r.us.clear();
    return kept;
  }
  Runner ours_of(const MatmulPlan& plan) {
    Runner r =
        captured("row " + std::to_string(plan.row) + "/" + std::to_string(plan.pieces), [&](char* a, char* b, char* d) {
          MatmulCall c = call_;
          c.a = a, c.b = b, c.d = d;
          Workspace w{workspace_.data(), workspace_.size(), true};
          w.cycles = reinterpret_cast<long long*>(small_.data() + 1024);
          return !launch(c, plan, w, stream_);
        });
    r.plan = plan;
    return r;
  }
  // Every row that the model does not find twice as slow as its choice, once: what the choice loses.
  std::vector<Runner> candidates(const MatmulPlan& chosen) {
    std::vector<Runner> all;
    for (int row = 0; row < static_cast<int>(kernels::sm90_menu.size()); ++row)
      for (const int pieces : {1, 2, 3, 4, 5, 6, 8, 12, 16}) {
        const auto plan = planned(call_, workspace_.size(), multiprocessors(), row, pieces);
        if (!plan || plan->cycles > 1.35 * chosen.cycles) continue;
        Runner r = ours_of(*plan);
        if (!r.graph) continue;
        once(r);
        r.us.push_back(once(r));
        all.push_back(r);
      }
    return all;
  }
  void report(const Shape& s, const MatmulPlan& plan, const std::vector<Runner>& all, const std::vector<Runner>& others,
              const Judged& before, const Judged& after) {
    const Runner& ours = all.back();
    const bool compared = all.size() > 1;
    const Runner& theirs = all[all.size() > 2 ? 1 : 0];
    std::vector<double> ratios, firsts;
    for (int i = 0; i < o_.rounds && compared; ++i)
      ratios.push_back(theirs.us[static_cast<std::size_t>(i)] / ours.us[static_cast<std::size_t>(i)]),
          firsts.push_back(all[0].us[static_cast<std::size_t>(i)] / ours.us[static_cast<std::size_t>(i)]);
    const double us = median(ours.us), ratio = median(ratios), error = std::fabs(plan.predicted_s * 1e6 / us - 1);
    if (compared) figures_.push_back({s.m, ratio, median(firsts), error});
    long long cycles = 0;
    must(cudaMemcpy(&cycles, small_.data() + 1024, 8, cudaMemcpyDeviceToHost), "reading cycles");
    const auto [low, high] = std::minmax_element(ours.us.begin(), ours.us.end());
    const bool right = before.sampled_wrong + before.differing + after.sampled_wrong + after.differing == 0;
    std::fprintf(out_,
                 "{\"op\":\"%s\",\"dtype\":\"%s\",\"m\":%ld,\"n\":%ld,\"k\":%ld,\"us_first\":%.3f,\"us_best\":%.3f,"
                 "\"best\":\"%s\",\"us\":%.3f,\"us_min\":%.3f,\"us_max\":%.3f,\"ratio\":%.4f,\"row\":%d,\"pieces\":%d,"
                 "\"copies\":%d,\"us_predicted\":%.2f,\"cycles\":%lld,\"right\":%s,\"worst\":%.3f",
                 s.op.c_str(), s.dtype.c_str(), s.m, s.n, s.k, compared ? median(all[0].us) : NAN,
                 compared ? median(theirs.us) : NAN, theirs.name.c_str(), us, *low, *high, ratio, plan.row, plan.pieces,
                 plan.copy_a + 2 * plan.copy_b, plan.predicted_s * 1e6, cycles, right ? "true" : "false",
                 std::max(before.worst, after.worst));
    if (!others.empty()) {
      std::fprintf(out_, ",\"candidates\":[");
      for (std::size_t i = 0; i < others.size(); ++i)
        std::fprintf(out_, "%s[%d,%d,%.2f,%.2f]", i ? "," : "", others[i].plan.row, others[i].plan.pieces,
                     median(others[i].us), others[i].plan.predicted_s * 1e6);
      std::fprintf(out_, "]");
    }
    std::fprintf(out_, "}\n");
    std::fflush(out_);
    const auto& c = kernels::sm90_menu[static_cast<std::size_t>(std::max(plan.row, 0))];
    std::printf(
        "%s %s %ldx%ldx%ld: first %.2f best %.2f ours %.2f us, ratio %.3f, predicted %.2f, row %d %dx%d%s/%d%s%s",
        s.op.c_str(), s.dtype.c_str(), s.m, s.n, s.k, compared ? median(all[0].us) : NAN,
        compared ? median(theirs.us) : NAN, us, ratio, plan.predicted_s * 1e6, plan.row, c.m, c.n,
        c.swap ? " swap" : "", plan.pieces, plan.copy_a || plan.copy_b ? " copies" : "", right ? "" : " WRONG");
    if (!right)
      std::printf(" [%u %u before, %u %u after]", before.sampled_wrong, before.differing, after.sampled_wrong,
                  after.differing);
    if (!others.empty())
      std::printf("; best row %d/%d %.2f", others[0].plan.row, others[0].plan.pieces, median(others[0].us));
    std::printf("\n");
  }

  Options o_;
  Memory pool_, outputs_, workspace_, theirs_, small_;
  CublasLt lt_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  std::FILE* out_ = nullptr;
  DType filled_ = DType::f32;
  std::size_t na_ = 0, nb_ = 0, nd_ = 0, sets_ = 1;
  int launches_ = 1;
  MatmulCall call_;
  std::vector<Figure> figures_;
};

}  // namespace

// bench SHAPES.csv OUT.jsonl [least-m=N] [most-m=N] [rounds=N] [candidates] [early] [every=N] [from=N]
int bench(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "bench: expected SHAPES.csv OUT.jsonl\n"), 2;
  Options o;
  o.shapes = argv[0], o.out = argv[1];
  for (int i = 2; i < argc; ++i) {
    const std::string s = argv[i];
    const auto number = [&] { return std::atoi(s.c_str() + s.find('=') + 1); };
    if (s.starts_with("least-m="))
      o.least_m = number();
    else if (s.starts_with("most-m="))
      o.most_m = number();
    else if (s.starts_with("rounds="))
      o.rounds = number();
    else if (s.starts_with("every="))
      o.every = number();
    else if (s.starts_with("from="))
      o.from = number();
    else if (s == "candidates")
      o.candidates = true;
    else if (s == "early")
      o.early = true;
    else
      return std::fprintf(stderr, "bench: unknown option %s\n", s.c_str()), 2;
  }
  std::ifstream file(o.shapes);
  std::vector<Shape> shapes;
  int passed = 0, line_number = 0;
  for (std::string line; std::getline(file, line);) {
    std::stringstream s(line);
    std::string m, n, k;
    Shape x;
    std::getline(s, x.op, ','), std::getline(s, x.dtype, ','), std::getline(s, m, ','), std::getline(s, n, ','),
        std::getline(s, k, ',');
    if (x.op == "op" || line.empty()) continue;
    x.m = std::atoll(m.c_str()), x.n = std::atoll(n.c_str()), x.k = std::atoll(k.c_str());
    if (x.m < o.least_m || x.m > o.most_m) continue;
    if (line_number++ % o.every != o.from) continue;
    if (x.dtype != "bf16" && x.dtype != "f16")
      ++passed;
    else
      shapes.push_back(x);
  }
  std::stable_sort(shapes.begin(), shapes.end(), [](const Shape& p, const Shape& q) { return p.dtype < q.dtype; });
  Session session(o);
  int wrong = 0;
  for (const Shape& s : shapes) wrong += !session.shape(s), std::fflush(stdout);
  session.summary();
  std::printf("%zu rows, %d wrong, %d passed over (neither bf16 nor f16); cuBLASLt %zu\n", shapes.size(), wrong, passed,
              session.baseline_version());
  return wrong == 0 ? 0 : 1;
}

}  // namespace ridge::gpu
