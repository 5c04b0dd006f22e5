#include "fit_models/closed_form.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "ridge/base/normal_equations.h"
#include "ridge/base/portable_math.h"

namespace ridge::fit {
namespace {

using namespace ops;
using namespace ops::cuda;

constexpr double step = 0.01;             // step of a logarithm for numeric derivatives
constexpr double quadratic_up_to = 0.02;  // Huber loss: quadratic up to this error, linear above
constexpr double most_moved = 0.4;        // largest change of a logarithm per step
constexpr int most_steps = 25;
constexpr double spring = 3, machine_spring = 30000;
constexpr double enough = 2e-4;  // stops if a step gains less than this part of the loss

constexpr double DeviceNumbers::*machine_numbers[] = {&DeviceNumbers::clock_hz, &DeviceNumbers::busy_clock_hz,
                                                      &DeviceNumbers::memory_bytes_per_s,
                                                      &DeviceNumbers::l2_bytes_per_s};
constexpr std::size_t of_a_machine = std::size(machine_numbers);

// Parameter vector of a form: each bound's constants, then each machine's numbers.
std::size_t count_of(const Form& form) {
  return bound_count * named_constants.size() + form.devices.size() * of_a_machine;
}
double& number(Form& form, std::size_t i) {
  const std::size_t constants = bound_count * named_constants.size();
  if (i < constants)
    return form.model.constants[i / named_constants.size()].*named_constants[i % named_constants.size()].member;
  return form.devices[(i - constants) / of_a_machine].*machine_numbers[(i - constants) % of_a_machine];
}
double spring_of(std::size_t i) { return i < bound_count * named_constants.size() ? spring : machine_spring; }

std::vector<double> residuals(const std::vector<const Sample*>& some, const Form& form) {
  std::vector<double> out;
  out.reserve(some.size());
  for (const Sample* x : some) out.push_back(base::log(predicted(*x, form)) - x->log_measured);
  return out;
}

double loss_of(const std::vector<const Sample*>& some, const std::vector<double>& rest) {
  double sum = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const double far = std::abs(rest[i]);
    sum += some[i]->weight * (far < quadratic_up_to ? far * far / (2 * quadratic_up_to) + quadratic_up_to / 2 : far);
  }
  return sum;
}
double pull_of(Form form, Form begin) {
  double sum = 0;
  for (std::size_t i = 0; i < count_of(form); ++i) {
    const double moved = base::log(number(form, i) / number(begin, i));
    sum += spring_of(i) * moved * moved / 2;
  }
  return sum;
}

// Derivatives of all residuals. A sample has one bound and one device, so one pass changes the constants of all bounds
// together: derivatives are stored per constant, then per machine number.
struct Slopes {
  std::vector<std::vector<double>> along;  // [constant or machine number][sample]
};
Slopes slopes_of(const std::vector<const Sample*>& some, const Form& form, const std::vector<double>& rest) {
  const std::size_t kinds = named_constants.size() + of_a_machine;
  Slopes out{std::vector<std::vector<double>>(kinds)};
  const auto along = [&](std::size_t kind) {
    Form moved = form;
    if (kind < named_constants.size())
      for (ClosedFormConstants& c : moved.model.constants) c.*named_constants[kind].member *= base::exp(step);
    else
      for (DeviceNumbers& d : moved.devices) d.*machine_numbers[kind - named_constants.size()] *= base::exp(step);
    out.along[kind] = residuals(some, moved);
    for (std::size_t i = 0; i < some.size(); ++i) out.along[kind][i] = (out.along[kind][i] - rest[i]) / step;
  };
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::size_t worker = 0; worker < workers; ++worker)
    threads.emplace_back([&, worker] {
      for (std::size_t kind = worker; kind < kinds; kind += workers) along(kind);
    });
  for (std::thread& thread : threads) thread.join();
  return out;
}

// Returns the index in the parameter vector of a sample's derivative.
std::size_t place_of(const Sample& x, const Form& form, std::size_t kind) {
  const std::size_t constants = named_constants.size();
  if (kind >= constants)
    return bound_count * constants + static_cast<std::size_t>(x.device) * of_a_machine + kind - constants;
  const auto bound = classify_bound(x.work, form.devices[static_cast<std::size_t>(x.device)]);
  return static_cast<std::size_t>(bound) * constants + kind;
}

NormalEquations normal_of(const std::vector<const Sample*>& some, const Form& form, const Form& begin,
                          const std::vector<double>& rest, const Slopes& slopes) {
  const std::size_t n = count_of(form), kinds = slopes.along.size();
  NormalEquations out{std::vector<double>(n * n), std::vector<double>(n), n};
  std::vector<std::size_t> places(kinds);
  for (std::size_t i = 0; i < some.size(); ++i) {
    const double weight = some[i]->weight / std::max(std::abs(rest[i]), quadratic_up_to);
    for (std::size_t kind = 0; kind < kinds; ++kind) places[kind] = place_of(*some[i], form, kind);
    for (std::size_t a = 0; a < kinds; ++a) {
      const double slope = weight * slopes.along[a][i];
      if (slope == 0) continue;
      out.right[places[a]] -= slope * rest[i];
      for (std::size_t b = 0; b <= a; ++b) out.matrix[places[a] * n + places[b]] += slope * slopes.along[b][i];
    }
  }
  Form now = form, start = begin;
  for (std::size_t i = 0; i < n; ++i) {
    out.matrix[i * n + i] += spring_of(i);
    out.right[i] -= spring_of(i) * base::log(number(now, i) / number(start, i));
  }
  return out;
}

Form moved(Form form, const std::vector<double>& by) {
  for (std::size_t i = 0; i < by.size(); ++i) number(form, i) *= base::exp(std::clamp(by[i], -most_moved, most_moved));
  return form;
}

}  // namespace

double predicted(const Sample& x, const Form& form) {
  return predict_seconds(*x.config, x.work, x.split, form.devices[static_cast<std::size_t>(x.device)], form.model);
}

double error_of(const Samples& samples, const Form& form, int fold) {
  double sum = 0, weight = 0;
  for (const Sample& x : samples.all) {
    if (fold >= 0 && x.fold != fold) continue;
    sum += x.weight * std::abs(base::log(predicted(x, form)) - x.log_measured);
    weight += x.weight;
  }
  return weight > 0 ? sum / weight : 0;
}

Form fit_form(const Samples& samples, const Form& begin, int left_out) {
  std::vector<const Sample*> some;
  for (const Sample& x : samples.all)
    if (x.fold != left_out && x.weight > 0.2) some.push_back(&x);
  Form form = begin;
  std::vector<double> rest = residuals(some, form);
  double loss = loss_of(some, rest) + pull_of(form, begin);
  double damping = 1e-2;
  for (int i = 0; i < most_steps; ++i) {
    const NormalEquations normal = normal_of(some, form, begin, rest, slopes_of(some, form, rest));
    const double before = loss;
    for (int tries = 0; tries < 8; ++tries) {
      const Form tried = moved(form, solve(normal, damping));
      std::vector<double> tried_rest = residuals(some, tried);
      const double now = loss_of(some, tried_rest) + pull_of(tried, begin);
      if (now < loss) {
        form = tried;
        rest = std::move(tried_rest);
        loss = now;
        damping = std::max(1e-4, damping / 4);
        break;
      }
      damping *= 4;
    }
    if (before - loss < enough * before) break;
  }
  return form;
}

}  // namespace ridge::fit
