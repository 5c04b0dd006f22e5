#include "ridge/roofline/memory.h"

#include <gtest/gtest.h>

#include "ridge/roofline/prediction.h"
#include "ridge/roofline/testing/test_machine.h"

namespace ridge {
namespace {

Machine make_memory_machine(double capacity) {
  Machine machine = testing::make_test_machine({{DType::bf16, 64}, {DType::int8, 64}}, 16, 8);
  machine.memory[0].capacity = testing::make_number(capacity);
  machine.links.push_back({.name = "ici", .bandwidth = testing::make_number(1)});
  return machine;
}

MemoryUse memory(const std::string& text, const Bindings& given, double capacity) {
  const auto e = explain(parse(text).value(), make_memory_machine(capacity), given);
  EXPECT_TRUE(e.ok()) << (e.ok() ? "" : e.error().to_string());
  return *e->memory;
}

const std::string mlp =
    "dims D = 10, F = 40\nx: bf16[B, D]   up: bf16[D, F]   down: bf16[F, D]\nu[B, F] = x * up\n"
    "h[B, F] = gelu(u)\ny: bf16[B, D] = h * down";

TEST(MemoryUse, holds_inputs_throughout_and_results_until_they_are_read) {
  const MemoryUse m = memory(mlp, {{"B", 3}}, 1e6);
  EXPECT_EQ(m.peak_statement, "h");  // u and h are live together; at y, h and y
  EXPECT_EQ(m.peak_bytes, 2 * (3 * 10 + 400 + 400 + 3 * 40 + 3 * 40));
  EXPECT_EQ(m.parameter_count, 800);
  EXPECT_EQ(m.parameter_bytes, 1600);
  EXPECT_EQ(m.batch_dims, std::vector<std::string>{"B"});
  EXPECT_EQ(m.min_chips, 1);
}

TEST(MemoryUse, reports_the_largest_size_that_fits) {
  const MemoryUse m = memory(mlp, {{"B", 3}}, 100000);
  const auto of = [&](const std::string& dim) {
    for (const Threshold& t : m.capacity_thresholds)
      if (t.dim == dim) return t;
    return Threshold{};
  };
  EXPECT_EQ(of("B").exact, "(100000 - (4*D*F))/(2*D + 4*F)");
  EXPECT_EQ(of("B").value, 546);  // 98400/180
  EXPECT_LE(*memory(mlp, {{"B", 546}}, 100000).peak_bytes, 100000);
  EXPECT_GT(*memory(mlp, {{"B", 547}}, 100000).peak_bytes, 100000);
  for (const char* dim : {"D", "F"}) {
    Bindings most{{"B", 3}};
    most[dim] = *of(dim).value;
    EXPECT_LE(*memory(mlp, most, 100000).peak_bytes, 100000);
    ++most[dim];
    EXPECT_GT(*memory(mlp, most, 100000).peak_bytes, 100000);
  }
}

TEST(MemoryUse, searches_for_the_largest_size_if_it_occurs_squared) {
  const std::string square = "dims M = N\nx: bf16[N, M]\ny: bf16[N, M] = cos(x)";
  const MemoryUse m = memory(square, {{"N", 3}}, 10000);
  ASSERT_EQ(m.capacity_thresholds.size(), 2u);
  EXPECT_EQ(m.capacity_thresholds[0].dim, "M");
  EXPECT_EQ(m.capacity_thresholds[0].value, 833);  // 4*3*833
  EXPECT_EQ(m.capacity_thresholds[1].value, 50);   // 4*50*50
  EXPECT_TRUE(m.capacity_thresholds[1].numerical);
}

TEST(MemoryUse, reports_the_number_of_chips_if_one_is_too_small) {
  const MemoryUse m = memory(mlp, {{"B", 3}}, 1000);
  EXPECT_EQ(m.min_chips, 3);  // 2140 B
  EXPECT_EQ(m.capacity_thresholds.back().dim, "B");
  EXPECT_EQ(m.capacity_thresholds.back().relation, Relation::never);  // the weights alone are 1600 B
}

TEST(MemoryUse, counts_every_copy_on_a_mesh) {
  const MemoryUse m =
      memory("mesh X = 2, Y = 8, Z = 2\na: int8[I_XY, J]\ny: int8[I_XY, J] = a", {{"I", 128}, {"J", 2048}}, 1e9);
  EXPECT_EQ(m.tensors[0].device_bytes, 16384);
  EXPECT_EQ(m.tensors[0].all_bytes, 524288);
  EXPECT_EQ(m.tensors[0].copies, 2);
}

TEST(MemoryUse, includes_the_whole_gathered_weight) {
  const MemoryUse m = memory("mesh X = 64\nw: bf16[D_X, F]   x: bf16[B_X, D]\ng[D, F] = w\ny: bf16[B_X, F] = x * g",
                             {{"B", 64}, {"D", 64}, {"F", 100}}, 1e9);
  EXPECT_EQ(m.peak_statement, "y");
  EXPECT_EQ(m.peak_bytes, 2 * (100 + 64 + 64 * 100 + 100));
}

// Cached keys and values have T but no token dimension of the input. The experts of a router lack it, too, but are
// weights.
TEST(MemoryUse, does_not_count_cached_keys_and_values_as_parameters) {
  const MemoryUse cached = memory(
      "dims S = 2, T = 40, G = 3, R = 2, E = 5, D = 7\nx: bf16[S, D]   wq: bf16[D, G, R, E]\n"
      "keys: bf16[T, G, E]   values: bf16[T, G, E]\nq[S, G, R, E] = x * wq\ns[G, R, S, T] = q * keys\n"
      "p[G, R, S, T] = softmax(s over T)\no: bf16[S, G, R, E] = p * values",
      {}, 1e6);
  EXPECT_EQ(cached.parameter_count, 7 * 3 * 2 * 5);
  EXPECT_EQ(cached.batch_dims, (std::vector<std::string>{"S", "T"}));
  const MemoryUse experts = memory(
      "dims B = 2, D = 7, E = 4, F = 5\nx: bf16[B, D]   choose: bf16[D, E]   w: bf16[E, D, F]\n"
      "s[B, E] = x * choose\np[B, E] = softmax(s over E)\nz[B, E, F] = x * w\ny: bf16[B, F] = p * z",
      {}, 1e6);
  EXPECT_EQ(experts.parameter_count, 7 * 4 + 4 * 7 * 5);
}

// u and h stay inside the kernel, so inputs and y are live; with u and h in one kernel, only u is not stored.
TEST(MemoryUse, intermediates_inside_a_kernel_take_no_memory) {
  const Program program = parse(mlp).value();
  const Bindings given{{"B", 3}};
  const auto e = explain(program, make_memory_machine(1e6), given);
  const double inputs = 2 * (3 * 10 + 400 + 400);
  const MemoryUse all = analyze_memory(program, *e, given, {{0, 1, 2}});
  EXPECT_EQ(all.peak_bytes, inputs + 2 * 3 * 10);
  const MemoryUse two = analyze_memory(program, *e, given, {{0, 1}, {2}});
  EXPECT_EQ(two.peak_bytes, inputs + 2 * (3 * 40 + 3 * 10));
  EXPECT_EQ(two.peak_statement, "y");
  EXPECT_EQ(analyze_memory(program, *e, given, {{0}, {1}, {2}}).peak_bytes, e->memory->peak_bytes);
}

constexpr const char* adam =
    "w: f32[P]  m: f32[P]  v: f32[P]  g: bf16[P]\nm2: f32[P] = 0.9 * m + 0.1 * g\n"
    "v2: f32[P] = 0.999 * v + 0.001 * g * g\nw2: f32[P] = w - 0.001 * m2 / (sqrt(v2) + 1e-8)\nwb: bf16[P] = w2";

std::string in_place(std::string text) {
  for (const char* name : {"m", "v", "w"}) {
    const std::string result = std::string(name) + "2: f32[P]";
    text.replace(text.find(result), result.size(), result + " replaces " + name);
  }
  return text;
}

// Searches for the largest size that fits count no pairs of masks, which may take too long.
TEST(MemoryUse, largest_sizes_do_not_depend_on_masks) {
  const Program program = parse(
                              "dims S = 2048, T = S, H = 16, E = 128\n"
                              "q: bf16[S, H, E]   k: bf16[T, H, E]   v: bf16[T, H, E]\ns[S, H, T] = q * k\n"
                              "p[S, H, T] = softmax(where(index(T) <= index(S), s, -inf) over T)\n"
                              "o: bf16[S, H, E] = p * v")
                              .value();
  const auto largest = [&](std::int64_t size) {
    const auto e = explain(program, *find_machine("h100"), {{"S", size}}, DimensionSplit{"T", 4});
    for (const Threshold& t : e->memory->capacity_thresholds)
      if (t.dim == "S") return t.value.value_or(-1);
    return std::int64_t{-1};
  };
  EXPECT_GT(largest(2048), 60'000);
  EXPECT_EQ(largest(2048), largest(1024));
}

TEST(MemoryUse, of_a_result_that_replaces_an_input_is_not_counted_twice) {
  const MemoryUse stated = memory(in_place(adam), {{"P", 100}}, 1e6), silent = memory(adam, {{"P", 100}}, 1e6);
  EXPECT_EQ(stated.peak_bytes, 100 * (12 + 2 + 2));
  EXPECT_TRUE(stated.possible_replacements.empty());
  EXPECT_EQ(silent.peak_bytes, 100 * (24 + 2 + 2));
  EXPECT_EQ(silent.replaced_peak_bytes, stated.peak_bytes);
  std::string pairs;
  for (const auto& each : silent.possible_replacements) pairs += each.result + " for " + each.input + ", ";
  EXPECT_EQ(pairs, "m2 for m, v2 for v, w2 for w, ");
  EXPECT_EQ(memory(in_place(adam), {{"P", 1}}, 1600).capacity_thresholds.front().value, 100);
}

// A later reader, another dtype, other axes, a reduction over the input and an intermediate.
TEST(MemoryUse, cannot_replace_an_input_that_is_needed) {
  for (const char* text :
       {"x: f32[N]\ny: f32[N] = x + 1\nz: bf16[N] = x * y", "x: f32[N]\ny: bf16[N] = x + 1",
        "x: f32[N]  w: f32[M]\ny: f32[N, M] = x + w", "x: f32[N, M]\ny: f32[N, M] = x - sum(x over M)",
        "x: f32[N]\nu[N] = x + 1\ny: bf16[N] = u * 2"}) {
    const std::string sizes =
        std::string("dims N = 10") + (std::string(text).find("M]") != std::string::npos ? ", M = 10\n" : "\n");
    const MemoryUse m = memory(sizes + text, {}, 1e6);
    EXPECT_TRUE(m.possible_replacements.empty()) << text;
    EXPECT_EQ(m.replaced_peak_bytes, std::nullopt) << text;
  }
}

TEST(MemoryUse, of_rows_added_to_a_cache_is_that_of_the_cache) {
  const MemoryUse m =
      memory("cache c: bf16[T, E]  x: bf16[N, E]  i: int32[N]\ny: bf16[T, E] replaces c = scatter(x, i over T)",
             {{"T", 1000}, {"E", 8}, {"N", 2}}, 1e6);
  EXPECT_EQ(m.peak_bytes, 2 * 1000 * 8 + 2 * 2 * 8 + 4 * 2);
}

// Parameters of all layers, activations of one.
TEST(MemoryUse, of_layers_holds_parameters_and_caches_of_each) {
  const Program program = parse(
                              "w: bf16[D, D2]  keys: bf16[T, E]  values: bf16[T, E]  wq: bf16[D2, E]  x: bf16[S, D]\n"
                              "u[S, D2] = x * w\nq[S, E] = u * wq\ns[S, T] = q * keys\np[S, T] = softmax(s over T)\n"
                              "o: bf16[S, E] = p * values")
                              .value();
  const Bindings sizes{{"D", 16}, {"D2", 32}, {"T", 100}, {"E", 8}, {"S", 4}};
  const auto e = explain(program, make_memory_machine(60000), sizes);
  const double kept = 2 * (16 * 32 + 32 * 8 + 2 * 100 * 8);
  const MemoryUse ten = analyze_memory(program, *e, sizes, {}, 10);
  EXPECT_EQ(*ten.peak_bytes, *e->memory->peak_bytes + 9 * kept);
  EXPECT_EQ(ten.min_chips, 1);
  const auto most = std::find_if(ten.capacity_thresholds.begin(), ten.capacity_thresholds.end(),
                                 [](const Threshold& t) { return t.dim == "T"; });
  ASSERT_NE(most, ten.capacity_thresholds.end());
  const auto held = [&](std::int64_t t) {
    Bindings other = sizes;
    other["T"] = t;
    return *analyze_memory(program, *explain(program, make_memory_machine(60000), other), other, {}, 10).peak_bytes;
  };
  EXPECT_LE(held(*most->value), 60000);
  EXPECT_GT(held(*most->value + 1), 60000);
}

}  // namespace
}  // namespace ridge
