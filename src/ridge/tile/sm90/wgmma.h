// wgmma: 128 threads multiply D[64, N] += A[64, k] * B[k, N], both operands in shared memory, the sums in N / 2
// registers of each thread; k is 32 bytes (base/operand_type.h), 16 elements of bf16. At N = 256 one instruction is
// 262,144 multiply-adds and keeps the tensor cores busy for 128 cycles; below N = 64 reading A limits it (16 cycles, at
// 128 bytes a cycle). PTX ISA 9.0, "wgmma". Each width needs its own asm statement, whose operand lists are generated
// by macros, undefined again below.
#pragma once

#include <type_traits>

#include "ridge/base/operand_type.h"
#include "ridge/tile/roles.h"
#include "ridge/tile/sm90/barrier.h"

namespace ridge::tile::sm90 {

TILE_FN void mma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
TILE_FN void mma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int left> TILE_FN void mma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(left) : "memory");
}

// Strides of swizzled tiles in descriptor units (16 bytes). A row is 128 bytes.
inline constexpr int row_units = swizzle_bytes / 16;

// Returns the distance of step `step` along k from the start of an operand of `rows` rows: if k is contiguous, each
// block of `rows` rows of 128 bytes has four steps of 32 bytes; otherwise a step is one row for each element of k.
template <class T, Major major> TILE_FN constexpr int step_units(int step, int rows) {
  constexpr int per_block = swizzle_bytes / wgmma_bytes;
  if constexpr (major == Major::k) return step / per_block * (rows * row_units) + step % per_block * (wgmma_bytes / 16);
  return step * (OperandType<T>::k * row_units);
}

// Returns the matrix descriptor of an operand (addresses in 16-byte units): 128-byte swizzle, a stride of 1024 bytes
// between groups of 8 rows, and `group_bytes`, the stride between groups of 128 bytes along the output (used only by
// operands that are contiguous along the output).
template <Major major> TILE_FN std::uint64_t make_descriptor(std::uint32_t address, int group_bytes) {
  const std::uint64_t across = major == Major::k ? 1 : static_cast<std::uint64_t>(group_bytes / 16);
  return 0x4000'0040'0000'0000ull | across << 16 | (address & 0x3ffff) >> 4;
}

// Operand lists of sums. C is RIDGE_FLOAT or RIDGE_INTEGER, the kind of register of a sum.
#define RIDGE_FLOAT(x) "+f"(x)
#define RIDGE_INTEGER(x) "+r"(x)
#define RIDGE_R4(C, i) C(d[i]), C(d[i + 1]), C(d[i + 2]), C(d[i + 3])
#define RIDGE_R8(C, i) RIDGE_R4(C, i), RIDGE_R4(C, i + 4)
#define RIDGE_R16(C, i) RIDGE_R8(C, i), RIDGE_R8(C, i + 8)
#define RIDGE_R32(C, i) RIDGE_R16(C, i), RIDGE_R16(C, i + 16)
#define RIDGE_R64(C, i) RIDGE_R32(C, i), RIDGE_R32(C, i + 32)
#define RIDGE_T10(t) ",%" #t "0,%" #t "1,%" #t "2,%" #t "3,%" #t "4,%" #t "5,%" #t "6,%" #t "7,%" #t "8,%" #t "9"
#define RIDGE_D4 "%0,%1,%2,%3"
#define RIDGE_D8 RIDGE_D4 ",%4,%5,%6,%7"
#define RIDGE_D10 RIDGE_D8 ",%8,%9"
#define RIDGE_D20 RIDGE_D10 RIDGE_T10(1)
#define RIDGE_D30 RIDGE_D20 RIDGE_T10(2)
#define RIDGE_D40 RIDGE_D30 RIDGE_T10(3)
#define RIDGE_D50 RIDGE_D40 RIDGE_T10(4)
#define RIDGE_D60 RIDGE_D50 RIDGE_T10(5)
#define RIDGE_D70 RIDGE_D60 RIDGE_T10(6)
#define RIDGE_D80 RIDGE_D70 RIDGE_T10(7)
#define RIDGE_D90 RIDGE_D80 RIDGE_T10(8)
#define RIDGE_D100 RIDGE_D90 RIDGE_T10(9)
#define RIDGE_D110 RIDGE_D100 RIDGE_T10(10)
#define RIDGE_D120 RIDGE_D110 RIDGE_T10(11)
#define RIDGE_D16 RIDGE_D10 ",%10,%11,%12,%13,%14,%15"
#define RIDGE_D24 RIDGE_D20 ",%20,%21,%22,%23"
#define RIDGE_D32 RIDGE_D30 ",%30,%31"
#define RIDGE_D48 RIDGE_D40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define RIDGE_D56 RIDGE_D50 ",%50,%51,%52,%53,%54,%55"
#define RIDGE_D64 RIDGE_D60 ",%60,%61,%62,%63"
#define RIDGE_D72 RIDGE_D70 ",%70,%71"
#define RIDGE_D88 RIDGE_D80 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define RIDGE_D96 RIDGE_D90 ",%90,%91,%92,%93,%94,%95"
#define RIDGE_D104 RIDGE_D100 ",%100,%101,%102,%103"
#define RIDGE_D112 RIDGE_D110 ",%110,%111"
#define RIDGE_D128 RIDGE_D120 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define RIDGE_ISSUE(N, TYPES, MAJORS, LIST, A, B, P, ...)                                                        \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #P ", 0; wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" LIST \
               "}, %" #A ", %" #B ", p, 1, 1" MAJORS "; }"                                                       \
               : __VA_ARGS__                                                                                     \
               : "l"(a), "l"(b), "r"(add), "n"(ta), "n"(tb))
// Instructions of int8 take no factors of 1 or -1. Their sums are int32 and wrap around.
#define RIDGE_WIDTH_OF_INTEGERS(N, LIST, A, B, P, TA, TB, ...)                                     \
  if constexpr (width == N)                                                                        \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #P ", 0; wgmma.mma_async.sync.aligned.m64n" #N \
                 "k32.s32.s8.s8 {" LIST "}, %" #A ", %" #B ", p; }"                                \
                 : __VA_ARGS__                                                                     \
                 : "l"(a), "l"(b), "r"(add));
#define RIDGE_WGMMA(N, TYPES, LIST, A, B, P, TA, TB, ...) \
  RIDGE_ISSUE(N, TYPES, ", %" #TA ", %" #TB, LIST, A, B, P, __VA_ARGS__)
// Instructions of 8- and 32-bit operands have no transpositions.
#define RIDGE_WGMMA_ALONG_K(N, TYPES, LIST, A, B, P, TA, TB, ...) RIDGE_ISSUE(N, TYPES, "", LIST, A, B, P, __VA_ARGS__)
// The variants with _HELD have A in four registers of each thread.
#define RIDGE_ISSUE_HELD(N, TYPES, MAJORS, LIST, A0, A1, A2, A3, B, P, ...)                                      \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #P ", 0; wgmma.mma_async.sync.aligned.m64n" #N TYPES " {" LIST \
               "}, {%" #A0 ",%" #A1 ",%" #A2 ",%" #A3 "}, %" #B ", p, 1, 1" MAJORS "; }"                         \
               : __VA_ARGS__                                                                                     \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
#define RIDGE_WGMMA_HELD(N, TYPES, ...)               \
  do {                                                \
    if constexpr (b_major == Major::k)                \
      RIDGE_ISSUE_HELD(N, TYPES, ", 0", __VA_ARGS__); \
    else                                              \
      RIDGE_ISSUE_HELD(N, TYPES, ", 1", __VA_ARGS__); \
  } while (false)
// Selects the instruction of an operand type: k and the types of sums and operands. The text of an asm statement must
// be a literal, so it cannot be a member of OperandType.
#define RIDGE_SIXTEEN_BITS(WGMMA, N, ...)       \
  if constexpr (std::is_same_v<T, Bf16>)        \
    WGMMA(N, "k16.f32.bf16.bf16", __VA_ARGS__); \
  else if constexpr (std::is_same_v<T, F16>)    \
  WGMMA(N, "k16.f32.f16.f16", __VA_ARGS__)
#define RIDGE_WIDTH(N, ...)                                                                               \
  if constexpr (width == N) {                                                                             \
    RIDGE_SIXTEEN_BITS(RIDGE_WGMMA, N, __VA_ARGS__);                                                      \
    else if constexpr (std::is_same_v<T, E4m3>) RIDGE_WGMMA_ALONG_K(N, "k32.f32.e4m3.e4m3", __VA_ARGS__); \
    else if constexpr (std::is_same_v<T, float>) RIDGE_WGMMA_ALONG_K(N, "k8.f32.tf32.tf32", __VA_ARGS__); \
    else static_assert(sizeof(T) == 0, "wgmma: expected an operand type with an instruction");            \
  }
#define RIDGE_WIDTH_HELD(N, ...)                                   \
  if constexpr (width == N) {                                      \
    RIDGE_SIXTEEN_BITS(RIDGE_WGMMA_HELD, N, __VA_ARGS__);          \
    else RIDGE_ISSUE_HELD(N, "k8.f32.tf32.tf32", "", __VA_ARGS__); \
  }

// Applies WIDTH to the numbers, operand lists and positions of each width.
// clang-format off
#define RIDGE_FOR_EACH_WIDTH(WIDTH, C)                                                                                \
  WIDTH(8, RIDGE_D4, 4, 5, 6, 7, 8, RIDGE_R4(C, 0))                                                                   \
  WIDTH(16, RIDGE_D8, 8, 9, 10, 11, 12, RIDGE_R8(C, 0))                                                               \
  WIDTH(32, RIDGE_D16, 16, 17, 18, 19, 20, RIDGE_R16(C, 0))                                                           \
  WIDTH(48, RIDGE_D24, 24, 25, 26, 27, 28, RIDGE_R16(C, 0), RIDGE_R8(C, 16))                                          \
  WIDTH(64, RIDGE_D32, 32, 33, 34, 35, 36, RIDGE_R32(C, 0))                                                           \
  WIDTH(80, RIDGE_D40, 40, 41, 42, 43, 44, RIDGE_R32(C, 0), RIDGE_R8(C, 32))                                          \
  WIDTH(96, RIDGE_D48, 48, 49, 50, 51, 52, RIDGE_R32(C, 0), RIDGE_R16(C, 32))                                         \
  WIDTH(112, RIDGE_D56, 56, 57, 58, 59, 60, RIDGE_R32(C, 0), RIDGE_R16(C, 32), RIDGE_R8(C, 48))                       \
  WIDTH(128, RIDGE_D64, 64, 65, 66, 67, 68, RIDGE_R64(C, 0))                                                          \
  WIDTH(144, RIDGE_D72, 72, 73, 74, 75, 76, RIDGE_R64(C, 0), RIDGE_R8(C, 64))                                         \
  WIDTH(160, RIDGE_D80, 80, 81, 82, 83, 84, RIDGE_R64(C, 0), RIDGE_R16(C, 64))                                        \
  WIDTH(176, RIDGE_D88, 88, 89, 90, 91, 92, RIDGE_R64(C, 0), RIDGE_R16(C, 64), RIDGE_R8(C, 80))                       \
  WIDTH(192, RIDGE_D96, 96, 97, 98, 99, 100, RIDGE_R64(C, 0), RIDGE_R32(C, 64))                                       \
  WIDTH(208, RIDGE_D104, 104, 105, 106, 107, 108, RIDGE_R64(C, 0), RIDGE_R32(C, 64), RIDGE_R8(C, 96))                 \
  WIDTH(224, RIDGE_D112, 112, 113, 114, 115, 116, RIDGE_R64(C, 0), RIDGE_R32(C, 64), RIDGE_R16(C, 96))                \
  WIDTH(240, RIDGE_D120, 120, 121, 122, 123, 124, RIDGE_R64(C, 0), RIDGE_R32(C, 64), RIDGE_R16(C, 96),                \
        RIDGE_R8(C, 112))                                                                                             \
  WIDTH(256, RIDGE_D128, 128, 129, 130, 131, 132, RIDGE_R64(C, 0), RIDGE_R64(C, 64))
// clang-format on

// Issues D[64, width] += A[64, k] * B[k, width]; if add == 0, D is overwritten. `Sum` is float, or int32 for int8.
template <int width, class T, Major a_major, Major b_major, class Sum>
TILE_FN void mma_64(Sum* d, std::uint64_t a, std::uint64_t b, int add) {
  static_assert((width % 16 == 0 && width <= 256) || width == 8, "wgmma: a width of 8, or a multiple of 16 up to 256");
  static_assert(OperandType<T>::bytes == 2 || (a_major == Major::k && b_major == Major::k),
                "wgmma: operands of 8 or 32 bits must be contiguous along k");
  static_assert(std::is_same_v<Sum, typename OperandType<T>::Sum>, "wgmma: expected sums of the operands' type");
  [[maybe_unused]] constexpr int ta = a_major == Major::mn, tb = b_major == Major::mn;
  if constexpr (std::is_same_v<T, std::int8_t>) {
    RIDGE_FOR_EACH_WIDTH(RIDGE_WIDTH_OF_INTEGERS, RIDGE_INTEGER)
  } else {
    RIDGE_FOR_EACH_WIDTH(RIDGE_WIDTH, RIDGE_FLOAT)
  }
}

// Issues D[64, width] += A[64, k] * B[k, width] with A in registers and B of 16 bits contiguous along n or k, or of
// tf32 along k. Of 16 bits a[0] and a[1] are columns 0 … 7 of rows r and r + 8, a[2] and a[3] columns 8 … 15, where r
// and the pair of columns are those of the thread's sums. Of tf32 column lane % 4 and the same + 4 take their place.
template <int width, class T, Major b_major = Major::mn>
TILE_FN void mma_64_registers(float* d, const std::uint32_t* a, std::uint64_t b, int add) {
  static_assert((width % 32 == 0 && width != 224) || width == 8 || width == 16,
                "wgmma: a left operand in registers has a width of 8, 16, 32, 64, 96, 128, 160, 192 or 256");
  static_assert(OperandType<T>::bytes == 2 || OperandType<T>::bytes == 4,
                "wgmma: a left operand in registers has 16 or 32 bits");
  // clang-format off
  RIDGE_WIDTH_HELD(8, RIDGE_D4, 4, 5, 6, 7, 8, 9, RIDGE_R4(RIDGE_FLOAT, 0))
  RIDGE_WIDTH_HELD(16, RIDGE_D8, 8, 9, 10, 11, 12, 13, RIDGE_R8(RIDGE_FLOAT, 0))
  RIDGE_WIDTH_HELD(32, RIDGE_D16, 16, 17, 18, 19, 20, 21, RIDGE_R16(RIDGE_FLOAT, 0))
  RIDGE_WIDTH_HELD(64, RIDGE_D32, 32, 33, 34, 35, 36, 37, RIDGE_R32(RIDGE_FLOAT, 0))
  RIDGE_WIDTH_HELD(96, RIDGE_D48, 48, 49, 50, 51, 52, 53, RIDGE_R32(RIDGE_FLOAT, 0), RIDGE_R16(RIDGE_FLOAT, 32))
  RIDGE_WIDTH_HELD(128, RIDGE_D64, 64, 65, 66, 67, 68, 69, RIDGE_R64(RIDGE_FLOAT, 0))
  RIDGE_WIDTH_HELD(160, RIDGE_D80, 80, 81, 82, 83, 84, 85, RIDGE_R64(RIDGE_FLOAT, 0), RIDGE_R16(RIDGE_FLOAT, 64))
  RIDGE_WIDTH_HELD(192, RIDGE_D96, 96, 97, 98, 99, 100, 101, RIDGE_R64(RIDGE_FLOAT, 0), RIDGE_R32(RIDGE_FLOAT, 64))
  RIDGE_WIDTH_HELD(256, RIDGE_D128, 128, 129, 130, 131, 132, 133, RIDGE_R64(RIDGE_FLOAT, 0), RIDGE_R64(RIDGE_FLOAT, 64))
  // clang-format on
}

#undef RIDGE_FLOAT
#undef RIDGE_INTEGER
#undef RIDGE_R4
#undef RIDGE_R8
#undef RIDGE_R16
#undef RIDGE_R32
#undef RIDGE_R64
#undef RIDGE_T10
#undef RIDGE_D4
#undef RIDGE_D8
#undef RIDGE_D10
#undef RIDGE_D20
#undef RIDGE_D30
#undef RIDGE_D40
#undef RIDGE_D50
#undef RIDGE_D60
#undef RIDGE_D70
#undef RIDGE_D80
#undef RIDGE_D90
#undef RIDGE_D100
#undef RIDGE_D110
#undef RIDGE_D120
#undef RIDGE_D16
#undef RIDGE_D24
#undef RIDGE_D32
#undef RIDGE_D48
#undef RIDGE_D56
#undef RIDGE_D64
#undef RIDGE_D72
#undef RIDGE_D88
#undef RIDGE_D96
#undef RIDGE_D104
#undef RIDGE_D112
#undef RIDGE_D128
#undef RIDGE_WGMMA
#undef RIDGE_WIDTH
#undef RIDGE_ISSUE_HELD
#undef RIDGE_WGMMA_HELD
#undef RIDGE_SIXTEEN_BITS
#undef RIDGE_ISSUE
#undef RIDGE_WGMMA_ALONG_K
#undef RIDGE_WIDTH_HELD
#undef RIDGE_WIDTH_OF_INTEGERS
#undef RIDGE_FOR_EACH_WIDTH

}  // namespace ridge::tile::sm90
