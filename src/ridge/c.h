/* Ridge for C and for every language that calls C. What a function returns is the command line's exit code: 0, or
 * RIDGE_USAGE, RIDGE_INPUT, RIDGE_ABSENT with ridge_last_error() saying what was expected, what was found and the cure.
 * Every function may be called from several threads. Texts are UTF-8 and end with a NUL.
 *
 *   char* json = NULL;
 *   const ridge_dim dims[] = {{"B", 64}, {"D", 4096}, {"F", 14336}};
 *   if (ridge_explain_json("bf16[B, D] * bf16[D, F] -> bf16[B, F]", "h200", dims, 3, &json) != RIDGE_OK)
 *     fputs(ridge_last_error(), stderr);
 *   else
 *     puts(json), ridge_free(json);
 *
 * Link with ridge::c of find_package(ridge), or with what `pkg-config --cflags --libs ridge` prints. */
#ifndef RIDGE_C_H
#define RIDGE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define RIDGE_API __attribute__((visibility("default")))
#else
#define RIDGE_API
#endif

/* Grows by one when a function or struct below changes its meaning; new functions alone do not change it. */
#define RIDGE_C_ABI 1
RIDGE_API int ridge_c_abi(void);           /* of the library that was loaded */
RIDGE_API const char* ridge_version(void); /* "0.1.0" */

enum { RIDGE_OK = 0, RIDGE_USAGE = 2, RIDGE_INPUT = 3, RIDGE_ABSENT = 4 };

/* What the last call of this thread that failed said, several lines with a caret where a program is at fault; "" before
 * one did. Stays until the thread's next call that fails. */
RIDGE_API const char* ridge_last_error(void);

/* A value of a dimension, at least 1. */
typedef struct {
  const char* name;
  int64_t value;
} ridge_dim;

/* What `ridge explain --json` prints of a program (docs/report.schema.json): the text itself, an einsum string or a
 * file's path; `on` is a machine of the catalog, a .toml file, or "cpu" (NULL: the same). `*json` is then to be freed
 * with ridge_free(); NULL after an error. */
RIDGE_API int ridge_explain_json(const char* program, const char* on, const ridge_dim* dims, size_t count, char** json);
RIDGE_API void ridge_free(void* text);

/* Element (i, j, ...) lies at data + i*strides[0] + j*strides[1] + ..., in elements; strides NULL: row-major without
 * gaps. dtype is "f32", "bf16", "f16", "int8" or "int32". */
typedef struct {
  void* data;
  const char* dtype;
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides;
} ridge_array;

typedef struct {
  const char* name; /* of the program's input or output; NULL: the one at this place */
  ridge_array array;
} ridge_named_array;

/* Runs a program on this CPU: reads every input, writes every output. Dimensions have their values from the arrays;
 * `dims` says those that no array has. Plans of programs that ran before are kept. threads = 0: every core. */
RIDGE_API int ridge_run(const char* program, const ridge_dim* dims, size_t dim_count, const ridge_named_array* inputs,
                        size_t input_count, const ridge_named_array* outputs, size_t output_count, int threads);

/* d = a * b of matrices [m, k], [k, n], [m, n]: f32, bf16 or f16 with sums in f32, or int8 with sums in int32. Any
 * strides of a and b; d row-major, apart from both. */
RIDGE_API int ridge_matmul(const ridge_array* a, const ridge_array* b, const ridge_array* d, int threads);

#ifdef __cplusplus
}
#endif
#endif
