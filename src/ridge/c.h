/* Public C API. Functions return the exit code of the command line: 0, RIDGE_USAGE, RIDGE_INPUT or RIDGE_ABSENT; after
 * an error, ridge_last_error() describes what was expected, what was found and how to fix it. Every function may be
 * called from several threads. Strings are UTF-8 and NUL-terminated.
 *
 *   char* json = NULL;
 *   const ridge_dim dims[] = {{"B", 64}, {"D", 4096}, {"F", 14336}};
 *   if (ridge_explain_json("bf16[B, D] * bf16[D, F] -> bf16[B, F]", "h200", dims, 3, &json) != RIDGE_OK)
 *     fputs(ridge_last_error(), stderr);
 *   else
 *     puts(json), ridge_free(json);
 *
 * Link with ridge::c of find_package(ridge), or with the output of `pkg-config --cflags --libs ridge`. */
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

/* Increases by one when a function or struct below changes its meaning, but not when functions are added. */
#define RIDGE_C_ABI 1
RIDGE_API int ridge_c_abi(void);           /* RIDGE_C_ABI of the loaded library */
RIDGE_API const char* ridge_version(void); /* For example "0.1.0" */

enum { RIDGE_OK = 0, RIDGE_USAGE = 2, RIDGE_INPUT = 3, RIDGE_ABSENT = 4 };

/* Returns the message of this thread's last failed call, or "" if none failed. It has several lines with a caret for an
 * error in a program. The string is valid until the thread's next failed call. */
RIDGE_API const char* ridge_last_error(void);

/* A value of a dimension, at least 1. */
typedef struct {
  const char* name;
  int64_t value;
} ridge_dim;

/* Writes the output of `ridge explain --json` (docs/report.schema.json) to `*json`, which the caller frees with
 * ridge_free(); NULL after an error. `program` is program text, an einsum string or a file path; `on` is a machine of
 * the catalog, a .toml file, or "cpu" (also if NULL). */
RIDGE_API int ridge_explain_json(const char* program, const char* on, const ridge_dim* dims, size_t count, char** json);
RIDGE_API void ridge_free(void* text);

/* Element (i, j, ...) is at data + i*strides[0] + j*strides[1] + ..., in elements; if strides is NULL, the array is
 * row-major without gaps. dtype is "f32", "bf16", "f16", "int8" or "int32". */
typedef struct {
  void* data;
  const char* dtype;
  int32_t rank;
  const int64_t* shape;
  const int64_t* strides;
} ridge_array;

typedef struct {
  const char* name; /* Input or output of the program; if NULL, the one at this position */
  ridge_array array;
} ridge_named_array;

/* Runs a program on this CPU: reads every input and writes every output. The arrays determine the dimensions; `dims`
 * has those that no array determines. Plans are cached. threads = 0 uses every core. */
RIDGE_API int ridge_run(const char* program, const ridge_dim* dims, size_t dim_count, const ridge_named_array* inputs,
                        size_t input_count, const ridge_named_array* outputs, size_t output_count, int threads);

/* Computes d = a * b of matrices [m, k], [k, n], [m, n]: f32, bf16 or f16 with f32 sums, or int8 with int32 sums. a and
 * b may have any strides; d is row-major and must not overlap them. */
RIDGE_API int ridge_matmul(const ridge_array* a, const ridge_array* b, const ridge_array* d, int threads);

#ifdef __cplusplus
}
#endif
#endif
