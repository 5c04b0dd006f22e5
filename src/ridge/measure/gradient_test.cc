// A GEGLU layer's gradients against finite differences of its forward, both by the fp64 reference, and against kernels.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ridge/measure/reference.h"
#include "ridge/measure/run.h"
#include "ridge/program/load.h"

namespace ridge {
namespace {

// A program's tensors as f64 values rounded to f32, filled statement by statement.
class EvaluatedProgram {
 public:
  EvaluatedProgram(Program program, const Bindings& dims) : program_(std::move(program)), dims_(dims) {
    for (const Tensor& tensor : program_.tensors)
      values_.emplace_back(static_cast<std::size_t>(count_elements(make_shape(tensor, dims_).value())));
  }
  std::vector<float>& of(const std::string& name) {
    for (std::size_t i = 0; i < values_.size(); ++i)
      if (program_.tensors[i].name == name) return values_[i];
    ADD_FAILURE() << name;
    return values_[0];
  }
  void run() {
    for (const Statement& statement : program_.statements) {
      const std::vector<double> all = exact(statement);
      std::copy(all.begin(), all.end(), values_[statement.result()].begin());
    }
  }
  // Returns the last result from the inputs, without rounding.
  std::vector<double> last() {
    kernel_statements_.clear();
    for (std::size_t s = 0; s < program_.statements.size(); ++s) kernel_statements_.push_back(static_cast<int>(s));
    return exact(program_.statements.back());
  }

 private:
  std::vector<double> exact(const Statement& statement) {
    Reference reference{program_, dims_, {}};
    reference.kernel_statements = kernel_statements_;
    for (std::vector<float>& v : values_)
      reference.tensors.push_back(
          {DType::f32, static_cast<std::int64_t>(v.size()), reinterpret_cast<std::byte*>(v.data())});
    std::vector<std::int64_t> indices(values_[statement.result()].size());
    for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
    std::vector<double> out;
    for (const Expected& e : reference.evaluate_elements(statement, indices)) out.push_back(e.value);
    return out;
  }

  Program program_;
  Bindings dims_;
  std::vector<std::vector<float>> values_;
  std::vector<int> kernel_statements_;
};

Program example(const std::string& name) {
  return load_program(std::string(RIDGE_SOURCE_DIR) + "/examples/" + name, DType::f32).value().program;
}

TEST(GegluBackward, MatchesFiniteDifferencesOfTheForward) {
  const Bindings dims{{"N", 3}, {"D", 5}, {"F", 4}};
  EvaluatedProgram forward(example("geglu.ridge"), dims), backward(example("geglu_backward.ridge"), dims);
  unsigned seed = 1;
  for (const char* name : {"x", "up", "gate", "bu", "bg", "r"})
    for (float& v : backward.of(name)) v = static_cast<float>((seed = seed * 1664525 + 1013904223) >> 8) * 0x1p-23F - 1;
  for (const char* name : {"x", "up", "gate", "bu", "bg"}) forward.of(name) = backward.of(name);
  backward.run();
  const auto loss = [&] {
    double sum = 0;
    const std::vector<double> y = forward.last();
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * backward.of("r")[i];
    return sum;
  };
  constexpr float step = 0x1p-10F;
  for (const auto& [name, gradient] :
       {std::pair("x", "dx"), {"up", "dup"}, {"gate", "dgate"}, {"bu", "dbu"}, {"bg", "dbg"}})
    for (std::size_t i = 0; i < forward.of(name).size(); ++i) {
      float& v = forward.of(name)[i];
      const float original = v;
      v = original + step;
      const float above = v;
      const double more = loss();
      v = original - step;
      const double slope = (more - loss()) / (static_cast<double>(above) - static_cast<double>(v));
      v = original;
      EXPECT_NEAR(backward.of(gradient)[i], slope, 5e-6) << gradient << " " << i;
    }
}

TEST(GegluBackward, RunsInFewKernels) {
  const Program program = example("geglu_backward.ridge");
  for (const Bindings& dims : {Bindings{{"N", 33}, {"D", 20}}, Bindings{{"N", 1}, {"D", 7}}}) {
    const auto explanation = explain(program, *find_machine("h100"), dims).value();
    const Measurement m = run_program(program, explanation, {}).value();
    EXPECT_FALSE(m.mismatch) << m.mismatch->to_string();
    ASSERT_GE(m.result_names.size(), 1u);
    EXPECT_EQ(m.result_names[0], (std::vector<std::string>{"u", "g", "z", "du", "dg"}));
  }
}

}  // namespace
}  // namespace ridge
