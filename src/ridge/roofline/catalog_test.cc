// Properties that hold on every machine of the catalog.
#include <gtest/gtest.h>

#include "ridge/machine/machine.h"
#include "ridge/roofline/prediction.h"

namespace ridge {
namespace {

// Returns a dtype that the machine multiplies.
DType find_matrix_dtype(const Machine& machine) {
  for (const Peak& peak : machine.peaks)
    if (peak.unit == ComputeUnit::matrix) return peak.dtype;
  return DType::f32;
}

TEST(Catalog, every_machine_gives_bounds_even_with_missing_numbers) {
  for (const std::string& name : catalog_names()) {
    const Machine machine = *find_machine(name);
    std::string text =
        "dims B = 64, D = 1024, F = 4*D\nx: T[B, D]   up: T[D, F]   down: T[F, D]\nu[B, F] = x * up\n"
        "h: T[B, F] = silu(u)\ny: T[B, D] = h * down";
    for (std::size_t at = text.find("T["); at != std::string::npos; at = text.find("T[", at + 1))
      text.replace(at, 1, ridge::dtype_name(find_matrix_dtype(machine)));
    const auto layer = parse(text);
    ASSERT_TRUE(layer.ok()) << layer.error().to_string();
    const auto e = explain(*layer, machine, {});
    ASSERT_TRUE(e.ok()) << name << ": " << e.error().to_string();
    for (const Prediction* p : {&e->ops[0], &e->ops[1], &e->ops[2], &e->total, &*e->fused}) {
      EXPECT_TRUE(p->time_lower_s && *p->time_lower_s > 0) << name << " " << p->work.name;
      EXPECT_TRUE(p->limiter.has_value()) << name << " " << p->work.name;
    }
    EXPECT_FALSE(e->total.thresholds.empty()) << name;
    EXPECT_EQ(e->total.missing.empty(), machine.pointwise_peak() != nullptr) << name;
  }
}

TEST(Catalog, every_machine_states_operations_per_multiply_add) {
  for (const std::string& name : catalog_names()) {
    const Machine machine = *find_machine(name);
    if (!machine.pointwise_peak()) continue;
    const auto found = machine.numbers.find("vector_multiply_add");
    ASSERT_NE(found, machine.numbers.end()) << name;
    EXPECT_TRUE(found->second.value == 1 || found->second.value == 2) << name;
  }
}

TEST(Catalog, every_machine_with_several_links_has_a_topology) {
  for (const std::string& name : catalog_names())
    for (const Link& link : find_machine(name)->links)
      EXPECT_TRUE(!link.count || link.topology) << name << " " << link.name;
}

}  // namespace
}  // namespace ridge
