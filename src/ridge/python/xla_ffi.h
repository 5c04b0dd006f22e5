// Memory layout of XLA's foreign function interface, version 0.x: the part that the handlers of ridge.jax read. It is
// declared here because the module is built without JAX. XLA refuses handlers of another major version when they are
// registered, and python/tests/test_jax.py compares each offset with the header of the installed jaxlib.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ridge::python::xla {

constexpr int ffi_major = 0, ffi_minor = 3;     // Version whose layout is declared here
constexpr int execute_stage = 3;                // FrameStage in which the arrays may be read
constexpr int code_invalid = 3, code_full = 8;  // Error codes: invalid argument, resource exhausted
constexpr int element_int8 = 2, element_int32 = 4, element_f16 = 10, element_f32 = 11, element_bf16 = 16;
constexpr int element_int64 = 5;
constexpr int scalar_attribute = 3, string_attribute = 4, metadata_extension = 1;

// Every structure begins with its size in bytes and a list of extensions.
struct Extension {
  std::size_t struct_size;
  int type;
  Extension* next;
};
struct Header {
  std::size_t struct_size;
  Extension* extensions;
};

struct ApiVersion {
  Header header;
  int major_version, minor_version;
};
struct Metadata {
  std::size_t struct_size;
  ApiVersion api_version;
  std::uint32_t traits;
  std::int64_t state_type;
};
struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct Buffer {
  Header header;
  int dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dims;
};
// Arguments or results; each address is that of a Buffer.
struct BufferList {
  Header header;
  std::int64_t size;
  int* types;
  void** buffers;
};
struct ByteSpan {
  const char* data;
  std::size_t size;
};
struct Scalar {
  int dtype;
  void* value;
};
struct AttributeList {
  Header header;
  std::int64_t size;
  int* types;
  ByteSpan** names;
  void** values;
};

struct FfiError;
struct Context;
struct ErrorArgs {
  Header header;
  const char* message;
  int code;
};
struct ErrorMessageArgs {
  Header header;
  FfiError* error;
  const char* message;
  int code;  // written by XLA since version 0.4 of the interface
};
struct ErrorDestroyArgs {
  Header header;
  FfiError* error;
};
struct StreamArgs {
  Header header;
  Context* context;
  void* stream;
};
struct AllocateArgs {
  Header header;
  Context* context;
  std::size_t size, alignment;
  void* data;
};
struct FreeArgs {
  Header header;
  Context* context;
  std::size_t size;
  void* data;
};
struct DeviceArgs {
  Header header;
  Context* context;
  std::int32_t device;
};

using UnusedFunction = void (*)();
struct Api {
  Header header;
  ApiVersion version;
  const void* internal;
  FfiError* (*create_error)(ErrorArgs*);
  void (*read_error)(ErrorMessageArgs*);
  void (*destroy_error)(ErrorDestroyArgs*);
  UnusedFunction register_handler;
  FfiError* (*get_stream)(StreamArgs*);
  UnusedFunction register_type, get_context, set_state, get_state;
  FfiError* (*allocate)(AllocateArgs*);
  FfiError* (*free)(FreeArgs*);
  UnusedFunction schedule, count_threads, create_future, set_available, set_error, get_run;
  FfiError* (*get_device)(DeviceArgs*);
};

struct CallFrame {
  Header header;
  const Api* api;
  Context* context;
  int stage;
  BufferList args, results;
  AttributeList attributes;
};

using Handler = FfiError*(CallFrame*);

}  // namespace ridge::python::xla
