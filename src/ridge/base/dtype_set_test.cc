#include "ridge/base/dtype_set.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ridge/base/result.h"

namespace ridge {
namespace {

using Names = std::vector<std::pair<DType, std::string>>;

// Names the storage type that a set chooses for each dtype; "" if it refuses the dtype.
template <class Set> Names chosen_types() {
  Names out;
  for (const DTypeInfo& info : dtypes) {
    std::string chosen;
    const bool is_member = Set::dispatch(info.dtype, [&]<class T>() {
      if (std::is_same_v<T, float>) chosen = "float";
      if (std::is_same_v<T, Bf16>) chosen = "Bf16";
      if (std::is_same_v<T, F16>) chosen = "F16";
      if (std::is_same_v<T, E4m3>) chosen = "E4m3";
      if (std::is_same_v<T, std::int32_t>) chosen = "int32";
      if (std::is_same_v<T, std::int8_t>) chosen = "int8";
    });
    EXPECT_EQ(is_member, Set::contains(info.dtype));
    EXPECT_EQ(is_member, !chosen.empty());
    if (is_member) out.emplace_back(info.dtype, chosen);
  }
  return out;
}

TEST(DTypeSet, ChoosesTheStorageTypeOfEachMemberAndNoneForOthers) {
  EXPECT_EQ(chosen_types<SixteenBitFloats>(), (Names{{DType::bf16, "Bf16"}, {DType::f16, "F16"}}));
  EXPECT_EQ(chosen_types<StoredFloats>(), (Names{{DType::f32, "float"}, {DType::bf16, "Bf16"}, {DType::f16, "F16"}}));
  EXPECT_EQ(chosen_types<StorageDTypes>(), (Names{{DType::f32, "float"},
                                                  {DType::tf32, "float"},
                                                  {DType::bf16, "Bf16"},
                                                  {DType::f16, "F16"},
                                                  {DType::e4m3, "E4m3"},
                                                  {DType::int32, "int32"},
                                                  {DType::int8, "int8"}}));
}

TEST(DTypeSet, RefusesADTypeThatIsNoMemberInASentence) {
  const auto bytes_of = [](DType dtype) {
    return SixteenBitFloats::dispatch_or_error("a", dtype, []<class T>() { return Result<std::size_t>(sizeof(T)); });
  };
  EXPECT_EQ(*bytes_of(DType::bf16), 2U);
  EXPECT_EQ(bytes_of(DType::e4m3).error(), input_error("a: expected bf16 or f16, found e4m3"));
  EXPECT_EQ(bytes_of(DType::int8).error(), input_error("a: expected bf16 or f16, found int8"));
  EXPECT_EQ(dtype_error<ReducedDTypes>("x", DType::tf32),
            input_error("x: expected f32, bf16, f16 or int32, found tf32"));
}

TEST(DTypeSet, RoundsAndReadsEachType) {
  EXPECT_EQ(round_to<Bf16>(1 + 0x1p-8F), to_bf16(1));
  EXPECT_EQ(round_to<F16>(1 + 0x1p-11F), to_f16(1));
  EXPECT_EQ(round_to<float>(1 + 0x1p-23F), 1 + 0x1p-23F);
  EXPECT_EQ(to_double(std::int32_t{16777217}), 16777217.0);
  EXPECT_EQ(to_double(to_e4m3(448)), 448.0);
}

}  // namespace
}  // namespace ridge
