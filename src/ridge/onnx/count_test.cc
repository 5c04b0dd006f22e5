#include "ridge/onnx/count.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ridge/onnx/testing/model_writer.h"
#include "ridge/program/program.h"

namespace ridge::onnx {
namespace {

using namespace testing;

// Counts a model of one operator; operand i is named "a", "b", … and has the shape and type given.
struct Operand {
  std::vector<std::string> shape;
  int type = 1;
};

Result<ModelCounts> count_one(const std::string& op, const std::vector<Operand>& operands,
                              const std::string& attributes = {}, const Bindings& sizes = {},
                              const std::vector<std::string>& constants = {}) {
  ModelParts parts;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    names.emplace_back(1, static_cast<char>('a' + i));
    parts.inputs.push_back(write_value(names.back(), operands[i].type, operands[i].shape));
  }
  for (std::size_t i = 0; i < constants.size(); ++i) {
    names.push_back(fmt::format("c{}", i));
    parts.initializers.push_back(constants[i]);
  }
  parts.nodes.push_back(write_node(op, names, {"y"}, attributes));
  parts.outputs.push_back(write_bytes(1, "y"));  // Without a shape
  const std::string content = write_model(parts);
  const auto model = parse_model(content);
  return model ? count_model(*model, sizes) : Result<ModelCounts>(model.error());
}

OperatorWork only_row(const Result<ModelCounts>& counts) {
  EXPECT_TRUE(counts.ok()) << (counts ? "" : counts.error().message);
  if (!counts) return {};
  EXPECT_EQ(counts->operators.size(), 1u);
  return counts->operators.empty() ? OperatorWork{} : counts->operators.front();
}

// Compares FLOPs and bytes with those of a program in the notation.
void expect_counts_of(const OperatorWork& work, const std::string& program) {
  const auto parsed = parse(program);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  const auto explained = explain(*parsed, *find_machine("h200"), {}, {}, Thresholds::skipped);
  ASSERT_TRUE(explained.ok()) << explained.error().to_string();
  EXPECT_EQ(static_cast<std::int64_t>(work.flops), static_cast<std::int64_t>(*explained->total.flops)) << program;
  EXPECT_EQ(static_cast<std::int64_t>(work.bytes_in + work.bytes_out),
            static_cast<std::int64_t>(*explained->total.bytes))
      << program;
}

TEST(OnnxCounts, EqualThoseOfTheNotation) {
  expect_counts_of(only_row(count_one("MatMul", {{{"5", "7"}}, {{"7", "11"}}})),
                   "a: f32[5, 7]  b: f32[7, 11]\ny: f32[5, 11] = a * b");
  expect_counts_of(only_row(count_one("MatMul", {{{"3", "5", "7"}, 10}, {{"3", "7", "11"}, 10}})),
                   "a: f16[3, 5, 7]  b: f16[3, 7, 11]\ny: f16[3, 5, 11] = a * b");
  expect_counts_of(only_row(count_one("Add", {{{"3", "5"}}, {{"5"}}})),
                   "a: f32[3, 5]  b: f32[5]\ny: f32[3, 5] = a + b");
  expect_counts_of(only_row(count_one("Softmax", {{{"3", "5"}}})), "a: f32[3, 5]\ny: f32[3, 5] = softmax(a over 5)");
  expect_counts_of(only_row(count_one("ReduceSum", {{{"3", "5"}}}, write_integer_attribute("keepdims", 0), {},
                                      {write_tensor("c0", 7, {1}, {1})})),
                   "a: f32[3, 5]\ny: f32[3] = sum(a over 5)");
  const std::string strides =
      write_integers_attribute("strides", {2, 2}) + write_integers_attribute("pads", {1, 1, 1, 1});
  expect_counts_of(only_row(count_one("Conv", {{{"2", "4", "9", "11"}}, {{"8", "4", "3", "5"}}}, strides)),
                   "a: f32[2, 4, 9, 11]  b: f32[8, 4, 3, 5]\ny: f32[2, 8, 5, 5] = conv(a, b, stride = 2, padding = 1)");
  expect_counts_of(only_row(count_one("Conv", {{{"2", "4", "8", "8"}}, {{"8", "4", "1", "1"}}},
                                      write_integers_attribute("strides", {2, 2}))),
                   "a: f32[2, 4, 8, 8]  b: f32[8, 4, 1, 1]\ny: f32[2, 8, 4, 4] = conv(a, b, stride = 2)");
  expect_counts_of(only_row(count_one("Conv", {{{"2", "6", "8", "8"}}, {{"6", "1", "3", "3"}}},
                                      write_integer_attribute("group", 6))),
                   "a: f32[2, 6, 8, 8]  b: f32[6, 1, 3, 3]\ny: f32[2, 6, 6, 6] = conv(a, b, groups = 6)");
  expect_counts_of(only_row(count_one("ConvTranspose", {{{"2", "6", "5", "5"}}, {{"6", "3", "4", "4"}}}, strides)),
                   "a: f32[2, 6, 5, 5]  b: f32[6, 3, 4, 4]\n"
                   "y: f32[2, 3, 10, 10] = conv_transpose(a, b, stride = 2, padding = 1)");
  expect_counts_of(only_row(count_one("MaxPool", {{{"2", "3", "8", "10"}}},
                                      strides + write_integers_attribute("kernel_shape", {3, 3}))),
                   "dims H = 8, W = 10\na: f32[2, 3, H, W]\n"
                   "y: f32[2, 3, 4, 5] = max_pool(a over H, W, window = 3, stride = 2, padding = 1)");
}

TEST(OnnxCounts, CountEinsumOfTwoOperandsAsAProduct) {
  const OperatorWork work = only_row(count_one("Einsum", {{{"2", "3", "5", "7"}}, {{"2", "11", "5", "7"}}},
                                               write_text_attribute("equation", "bshd, bthd -> bhst")));
  EXPECT_EQ(static_cast<std::int64_t>(work.flops), 2 * 2 * 3 * 5 * 7 * 11);
  EXPECT_EQ(static_cast<std::int64_t>(work.bytes_out), 4 * 2 * 5 * 3 * 11);
  EXPECT_TRUE(work.contraction);
  const OperatorWork implied =
      only_row(count_one("Einsum", {{{"3", "5"}}, {{"5", "7"}}}, write_text_attribute("equation", "ij,jk")));
  EXPECT_EQ(static_cast<std::int64_t>(implied.bytes_out), 4 * 3 * 7);
}

TEST(OnnxCounts, CountRecurrentLayersByTheirProducts) {
  // 6 steps of 2 sequences: x [10] and h [8] times weights of 4 gates, in two directions.
  const OperatorWork work = only_row(count_one("LSTM", {{{"6", "2", "10"}}, {{"2", "32", "10"}}, {{"2", "32", "8"}}}));
  EXPECT_EQ(static_cast<std::int64_t>(work.flops), 2 * 6 * 2 * 2 * 32 * (10 + 8));
  EXPECT_EQ(static_cast<std::int64_t>(work.bytes_out), 4 * 6 * 2 * 2 * 8);
}

TEST(OnnxCounts, CountHalfOfCausalAttention) {
  const std::vector<Operand> operands{
      {{"2", "4", "16", "8"}, 16}, {{"2", "2", "16", "8"}, 16}, {{"2", "2", "16", "6"}, 16}};
  const OperatorWork all = only_row(count_one("Attention", operands));
  EXPECT_EQ(static_cast<std::int64_t>(all.flops), 2 * 2 * 4 * 16 * 16 * (8 + 6));
  const OperatorWork causal = only_row(count_one("Attention", operands, write_integer_attribute("is_causal", 1)));
  EXPECT_EQ(static_cast<std::int64_t>(causal.flops), 2 * 2 * 4 * (16 * 17 / 2) * (8 + 6));
  EXPECT_EQ(causal.math, DType::bf16);
}

TEST(OnnxCounts, ReadOnlyGatheredRows) {
  const OperatorWork work = only_row(count_one("Gather", {{{"1000", "64"}}, {{"3"}, 7}}));
  EXPECT_EQ(static_cast<std::int64_t>(work.bytes_in), 3 * 64 * 4 + 3 * 8);
  EXPECT_EQ(static_cast<std::int64_t>(work.bytes_out), 3 * 64 * 4);
  EXPECT_EQ(static_cast<std::int64_t>(work.flops), 0);
}

TEST(OnnxCounts, UseSizesOfTheCommandLine) {
  const OperatorWork work = only_row(count_one("Relu", {{{"batch", "8"}}}, {}, {{"batch", 3}}));
  EXPECT_EQ(static_cast<std::int64_t>(work.flops), 24);
  const auto open = count_one("Relu", {{{"batch", "8"}}});
  ASSERT_FALSE(open.ok());
  EXPECT_EQ(open.error().message, "expected a value of batch, because the file has none");
  EXPECT_EQ(open.error().hint, "-d batch=8");
  const auto wrong = count_one("Relu", {{{"batch", "8"}}}, {}, {{"bacth", 3}});
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().message, "expected sizes of batch, found bacth");
  EXPECT_EQ(wrong.error().hint, "did you mean batch?");
}

// Exporters compute shapes: Reshape(x, Concat(Gather(Shape(x), 0), -1)).
TEST(OnnxCounts, FollowArithmeticOfShapes) {
  ModelParts parts;
  parts.inputs = {write_value("x", 1, {"batch", "4", "6"})};
  parts.outputs = {write_value("y", 1, {})};
  parts.initializers = {write_tensor("zero", 7, {}, {0}), write_tensor("rest", 7, {1}, {-1}),
                        write_tensor("axes", 7, {1}, {0}), write_tensor("w", 1, {24, 5})};
  parts.nodes = {write_node("Shape", {"x"}, {"s"}),
                 write_node("Gather", {"s", "zero"}, {"b"}),
                 write_node("Unsqueeze", {"b", "axes"}, {"b1"}),
                 write_node("Concat", {"b1", "rest"}, {"to"}, write_integer_attribute("axis", 0)),
                 write_node("Reshape", {"x", "to"}, {"flat"}),
                 write_node("MatMul", {"flat", "w"}, {"h"}),
                 write_node("MatMul", {"flat", "w"}, {"h2"}),
                 write_node("Add", {"h", "h2"}, {"y"})};
  const std::string content = write_model(parts);
  const auto model = parse_model(content);
  ASSERT_TRUE(model.ok());
  const auto counts = count_model(*model, {{"batch", 3}});
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  ASSERT_EQ(counts->operators.size(), 2u);
  EXPECT_EQ(counts->operators[0].name, "MatMul 3x24 * 24x5");
  EXPECT_EQ(counts->operators[0].calls, 2);
  EXPECT_EQ(static_cast<std::int64_t>(counts->operators[0].flops), 2 * 3 * 24 * 5);
  EXPECT_EQ(counts->views, 5);
  EXPECT_EQ(static_cast<std::int64_t>(counts->parameter_count), 24 * 5);
  // At Add: parameters 480 B and 3 x 8 B, x 288 B, h, h2 and y 60 B each.
  EXPECT_EQ(static_cast<std::int64_t>(counts->peak_bytes), 480 + 24 + 288 + 180);
  EXPECT_EQ(counts->peak_operator, "Add");
}

TEST(OnnxCounts, InlineFunctionsWithTheirAttributes) {
  const std::string reference = write_bytes(5, write_bytes(1, "perm") + write_bytes(21, "order"));
  const std::string body = write_bytes(1, "Swap") + write_bytes(4, "in") + write_bytes(5, "out") +
                           write_bytes(7, write_node("Transpose", {"in"}, {"t"}, reference)) +
                           write_bytes(7, write_node("Relu", {"t"}, {"out"})) + write_bytes(10, "my.domain");
  ModelParts parts;
  parts.inputs = {write_value("x", 1, {"2", "3", "4"})};
  parts.outputs = {write_value("y", 1, {})};
  parts.nodes = {write_node("Swap", {"x"}, {"y"}, write_integers_attribute("order", {2, 0, 1}), "my.domain")};
  parts.functions = {body};
  const std::string content = write_model(parts);
  const auto model = parse_model(content);
  ASSERT_TRUE(model.ok());
  const auto counts = count_model(*model, {});
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  ASSERT_EQ(counts->operators.size(), 2u);
  EXPECT_EQ(counts->operators[0].name, "Transpose 4x2x3");
  EXPECT_EQ(counts->operators[1].name, "Relu 4x2x3");
}

TEST(OnnxCounts, CountUnknownOperatorsByTheirBytes) {
  ModelParts parts;
  parts.inputs = {write_value("x", 1, {"2", "3"})};
  parts.outputs = {write_value("y", 1, {"2", "5"})};
  parts.nodes = {write_node("Foo", {"x"}, {"y"}, {}, "com.example")};
  const std::string content = write_model(parts);
  const auto counts = count_model(*parse_model(content), {});
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  ASSERT_EQ(counts->unknown.size(), 1u);
  EXPECT_EQ(counts->unknown[0].name, "com.example.Foo");
  EXPECT_EQ(static_cast<std::int64_t>(counts->unknown[0].bytes), 24 + 40);
  parts.nodes.push_back(write_node("Foo", {"y"}, {"z"}, {}, "com.example"));
  const std::string without_shape = write_model(parts);
  const auto refused = count_model(*parse_model(without_shape), {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message,
            "Foo: expected a known operator, or a shape of its result 'z' in the file, found neither");
}

// Attention of this domain takes x, weights and a bias; packed queries, keys and values are no operands of the other
// one.
TEST(OnnxCounts, CountOtherVariantsOfOperatorsByTheirBytes) {
  for (const char* op : {"Attention", "GroupQueryAttention"}) {
    ModelParts parts;
    parts.inputs = {write_value("x", 1, {"2", "3", "8"})};
    parts.outputs = {write_value("y", 1, {"2", "3", "8"})};
    parts.nodes = {write_node(op, {"x"}, {"y"}, {}, "com.microsoft")};
    const std::string content = write_model(parts);
    const auto counts = count_model(*parse_model(content), {});
    ASSERT_TRUE(counts.ok()) << counts.error().message;
    ASSERT_EQ(counts->unknown.size(), 1u) << op;
    EXPECT_EQ(counts->unknown[0].name, std::string("com.microsoft.") + op);
    EXPECT_EQ(static_cast<std::int64_t>(counts->unknown[0].bytes), 2 * 2 * 3 * 8 * 4) << op;
  }
}

// Returns an attribute with a graph of nodes, initializers, inputs and outputs.
std::string write_graph_attribute(std::string_view name, const ModelParts& parts) {
  return write_bytes(5, write_bytes(1, name) + write_bytes(6, write_graph(parts)));
}

// Loop of x[2, 8] = MatMul(x, w), which also returns each x; the body reads w of the model.
ModelParts loop_of_products(const std::vector<std::string>& trips, const std::string& condition_node) {
  ModelParts body;
  body.inputs = {write_value("i", 7, {}), write_value("go", 9, {}), write_value("h", 1, {"2", "8"})};
  body.nodes = {condition_node, write_node("MatMul", {"h", "w"}, {"p"}), write_node("Relu", {"p"}, {"next"})};
  body.outputs = {write_bytes(1, "again"), write_bytes(1, "next"), write_bytes(1, "p")};
  ModelParts parts;
  parts.inputs = {write_value("x", 1, {"2", "8"}), write_value("n", 7, {})};
  parts.outputs = {write_bytes(1, "y"), write_bytes(1, "all")};
  parts.initializers = {write_tensor("w", 1, {8, 8})};
  parts.initializers.insert(parts.initializers.end(), trips.begin(), trips.end());
  parts.nodes = {
      write_node("Loop", {trips.empty() ? "n" : "trips", "", "x"}, {"y", "all"}, write_graph_attribute("body", body)),
      write_node("Relu", {"all"}, {"last"})};
  return parts;
}

Result<ModelCounts> count_parts(const ModelParts& parts, const Bindings& sizes = {}) {
  const std::string content = write_model(parts);
  const auto model = parse_model(content);
  return model ? count_model(*model, sizes) : Result<ModelCounts>(model.error());
}

const std::string same_condition = write_node("Identity", {"go"}, {"again"});

TEST(OnnxBodies, OfLoopsCountAsOftenAsTheyRun) {
  const auto counts = count_parts(loop_of_products({write_tensor("trips", 7, {}, {5})}, same_condition));
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  ASSERT_EQ(counts->operators.size(), 3u);
  EXPECT_EQ(counts->operators[0].name, "MatMul 2x8 * 8x8");
  EXPECT_EQ(counts->operators[0].calls, 5);
  EXPECT_EQ(static_cast<std::int64_t>(counts->operators[0].flops), 2 * 2 * 8 * 8);
  EXPECT_EQ(counts->operators[1].calls, 5);
  EXPECT_EQ(counts->operators[2].name, "Relu 5x2x8");  // The slices of all runs
  EXPECT_EQ(counts->unknown.size(), 0u);
  EXPECT_EQ(static_cast<std::int64_t>(counts->parameter_bytes), 4 * 64 + 8);
}

TEST(OnnxBodies, OfLoopsWhoseRunsDependOnDataAreRefused) {
  const auto counts = count_parts(loop_of_products({}, same_condition));
  ASSERT_FALSE(counts.ok());
  EXPECT_EQ(counts.error().message,
            "Loop: expected a number of runs that the file determines, found one that depends on data");
  const auto condition =
      count_parts(loop_of_products({write_tensor("trips", 7, {}, {5})}, write_node("Foo", {"h"}, {"again"})));
  ASSERT_FALSE(condition.ok());
  EXPECT_EQ(condition.error().message,
            "Foo: expected a known operator, or a shape of its result 'again' in the file, found neither");
  ModelParts declared =
      loop_of_products({}, same_condition);  // With the shapes of its results it is an unknown operator
  declared.values = {write_value("y", 1, {"2", "8"}), write_value("all", 1, {"7", "2", "8"})};
  declared.outputs = {write_value("y", 1, {"2", "8"})};
  const auto unknown = count_parts(declared);
  ASSERT_TRUE(unknown.ok()) << unknown.error().message;
  ASSERT_EQ(unknown->unknown.size(), 1u);
  EXPECT_EQ(unknown->unknown[0].name, "Loop");
  EXPECT_EQ(static_cast<std::int64_t>(unknown->unknown[0].bytes), 8 + 64 + 64 + 7 * 64);
  EXPECT_EQ(unknown->operators.size(), 2u);
}

// A cache grows by a row in each run: 3, 4 and 5 rows.
TEST(OnnxBodies, OfLoopsMayChangeTheirSizes) {
  ModelParts body;
  body.inputs = {write_value("i", 7, {}), write_value("go", 9, {}), write_value("cache", 1, {"rows", "4"})};
  body.nodes = {same_condition, write_node("Concat", {"cache", "row"}, {"longer"}, write_integer_attribute("axis", 0)),
                write_node("MatMul", {"longer", "w"}, {"p"})};
  body.outputs = {write_bytes(1, "again"), write_bytes(1, "longer")};
  ModelParts parts;
  parts.inputs = {write_value("x", 1, {"2", "4"}), write_value("row", 1, {"1", "4"})};
  parts.outputs = {write_bytes(1, "y")};
  parts.initializers = {write_tensor("w", 1, {4, 4}), write_tensor("trips", 7, {}, {3})};
  parts.nodes = {write_node("Loop", {"trips", "", "x"}, {"y"}, write_graph_attribute("body", body))};
  const auto counts = count_parts(parts);
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  std::int64_t flops = 0;
  for (const OperatorWork& each : counts->operators) flops += each.calls * static_cast<std::int64_t>(each.flops);
  EXPECT_EQ(flops, 2 * (3 + 4 + 5) * 4 * 4);
  parts.initializers.back() = write_tensor("trips", 7, {}, {1000});
  EXPECT_EQ(count_parts(parts).error().message,
            "Loop: expected at most 256 runs whose sizes or values differ, found 1000");
}

TEST(OnnxBodies, OfIfAreThoseOfTheConditionOfTheFile) {
  ModelParts then_branch, else_branch;
  then_branch.nodes = {write_node("MatMul", {"x", "w"}, {"t"})};
  then_branch.outputs = {write_bytes(1, "t")};
  else_branch.nodes = {write_node("Relu", {"x"}, {"e"})};
  else_branch.outputs = {write_bytes(1, "e")};
  const std::string branches =
      write_graph_attribute("then_branch", then_branch) + write_graph_attribute("else_branch", else_branch);
  ModelParts parts;
  parts.inputs = {write_value("x", 1, {"2", "8"}), write_value("flag", 9, {})};
  parts.outputs = {write_bytes(1, "y")};
  parts.initializers = {write_tensor("w", 1, {8, 3}), write_tensor("two", 7, {}, {2}),
                        write_tensor("zero", 7, {}, {0})};
  parts.nodes = {write_node("Shape", {"x"}, {"s"}), write_node("Gather", {"s", "zero"}, {"rows"}),
                 write_node("Equal", {"rows", "two"}, {"is_two"}), write_node("If", {"is_two"}, {"y"}, branches),
                 write_node("Relu", {"y"}, {"z"})};
  const auto counts = count_parts(parts);
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  ASSERT_EQ(counts->operators.size(), 2u);
  EXPECT_EQ(counts->operators[0].name, "MatMul 2x8 * 8x3");
  EXPECT_EQ(counts->operators[1].name, "Relu 2x3");
  parts.nodes[3] = write_node("If", {"flag"}, {"y"}, branches);
  EXPECT_EQ(count_parts(parts).error().message,
            "If: expected a condition that the file determines, found one that depends on data");
}

TEST(OnnxBodies, OfScanCountForEachElement) {
  ModelParts body;
  body.inputs = {write_value("h", 1, {"3"}), write_value("e", 1, {"3"})};
  body.nodes = {write_node("Add", {"h", "e"}, {"sum"}), write_node("Relu", {"sum"}, {"out"})};
  body.outputs = {write_bytes(1, "sum"), write_bytes(1, "out")};
  ModelParts parts;
  parts.inputs = {write_value("start", 1, {"3"}), write_value("x", 1, {"3", "steps"})};
  parts.outputs = {write_bytes(1, "end"), write_bytes(1, "all")};
  parts.nodes = {write_node("Scan", {"start", "x"}, {"end", "all"},
                            write_graph_attribute("body", body) + write_integer_attribute("num_scan_inputs", 1) +
                                write_integers_attribute("scan_input_axes", {1}) +
                                write_integers_attribute("scan_output_axes", {-1})),
                 write_node("Neg", {"all"}, {"z"})};
  const auto counts = count_parts(parts, {{"steps", 9}});
  ASSERT_TRUE(counts.ok()) << counts.error().message;
  ASSERT_EQ(counts->operators.size(), 3u);
  EXPECT_EQ(counts->operators[0].name, "Add 3");
  EXPECT_EQ(counts->operators[0].calls, 9);
  EXPECT_EQ(counts->operators[1].calls, 9);
  EXPECT_EQ(counts->operators[2].name, "Neg 3x9");
}

TEST(OnnxBodies, AreNestedAtMost16Levels) {
  ModelParts inner;
  for (int depth = 0; depth < 20; ++depth) {
    ModelParts outer;
    outer.nodes = {write_node("If", {"c"}, {"y"}, write_graph_attribute("then_branch", inner))};
    inner = outer;
  }
  EXPECT_EQ(count_parts(inner).error().message, "expected bodies of operators nested at most 16 levels, found more");
}

void expect_error(const Result<ModelCounts>& counts, const std::string& message) {
  ASSERT_FALSE(counts.ok());
  EXPECT_EQ(counts.error().message, message);
}

TEST(OnnxCounts, RejectOperandsThatDoNotFit) {
  expect_error(count_one("MatMul", {{{"5", "7"}}, {{"8", "11"}}}),
               "MatMul: expected equal sizes to sum over, found 7 in 5x7 and 8 in 8x11");
  expect_error(count_one("Add", {{{"3", "5"}}, {{"4"}}}), "Add: expected shapes that broadcast, found 3x5 and 4");
  expect_error(count_one("Conv", {{{"2", "4", "8", "8"}}, {{"8", "3", "3", "3"}}}),
               "Conv: expected 3 * groups = 4 channels, found 1 groups");
  expect_error(count_one("Relu", {{{"9223372036854775807"}}}),
               "'a': expected sizes from 0 to 2^48 in the result, found 9223372036854775807");
  expect_error(count_one("Relu", {{{"281474976710656", "281474976710656"}}}),
               "'a': expected a result of at most 2^62 bytes, found 281474976710656x281474976710656");
  expect_error(count_one("Reshape", {{{"4", "6"}}, {{"2"}, 7}}),
               "Reshape: expected input 1 'b' to be a constant, because the result's shape depends on it");
  expect_error(count_one("Softmax", {}), "Softmax: expected an input 0, found none");
}

TEST(OnnxModel, RejectsDamagedFiles) {
  const auto error_of = [](const std::string& content) { return parse_model(content).error().message; };
  EXPECT_EQ(error_of(""), "expected an ONNX model with a graph, found none");
  EXPECT_EQ(error_of("\x3a\x05x"),
            "expected a message of type ModelProto, found malformed or missing bytes after its byte 2");
  EXPECT_EQ(error_of(write_bytes(7, "\x0a\x7f")),
            "expected a message of type GraphProto, found malformed or missing bytes after its byte 2");
  EXPECT_EQ(error_of(std::string(12, '\xff')),
            "expected a message of type ModelProto, found malformed or missing bytes after its byte 10");
}

}  // namespace
}  // namespace ridge::onnx
