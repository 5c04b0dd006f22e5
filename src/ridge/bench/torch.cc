#include "ridge/bench/matmul_library.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "ridge/bench/dynamic_library.h"

namespace ridge {
namespace {

constexpr auto install_hint = "pip install torch, into the Python whose python3 is first on PATH";

// Prints what an embedded interpreter needs to match python3 and its virtual environment, one line each: the shared
// library, the home of the standard library, the search path.
constexpr auto python_query =
    "python3 -c \"import os, sys, sysconfig as s; "
    "print(os.path.join(s.get_config_var('LIBDIR'), s.get_config_var('INSTSONAME'))); "
    "print(sys.base_prefix); print(sys.path)\" 2>/dev/null";

// Products write to `out` where PyTorch allows it. int8 weights use PyTorch's own kernel if layout and dtypes allow it,
// else they are widened first. An unsupported product is None.
constexpr auto python_source = R"python(
import ctypes, torch
about = f'PyTorch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})'
torch.set_num_threads(threads)
torch.set_grad_enabled(False)
kinds = {'f32': torch.float32, 'bf16': torch.bfloat16, 'f16': torch.float16, 'int8': torch.int8, 'int32': torch.int32}

def matrix(address, dtype, rows, columns, row_stride, column_stride):
    bytes = rows * columns * torch.empty((), dtype=kinds[dtype]).element_size()
    flat = torch.frombuffer((ctypes.c_char * bytes).from_address(address), dtype=kinds[dtype])
    return flat.as_strided((rows, columns), (row_stride, column_stride))

def product(a, b, d):
    if a.dtype == b.dtype == torch.int8:
        return lambda: torch._int_mm(a, b, out=d)
    if a.dtype != d.dtype:
        return None
    if b.dtype == a.dtype:
        return lambda: torch.mm(a, b, out=d)
    weights, ones = b.t(), torch.ones(b.shape[1], dtype=a.dtype)
    whole = all(x % 32 == 0 for x in weights.shape)  # others end PyTorch 2.13 by a signal
    if a.dtype == torch.bfloat16 and weights.is_contiguous() and a.is_contiguous() and whole:
        return lambda: d.copy_(torch._weight_int8pack_mm(a, weights, ones))
    return lambda: torch.mm(a, b.to(a.dtype), out=d)

def bind(*of):
    try:
        call = product(*(matrix(*x) for x in of))
        if call:
            call()
        return call
    except RuntimeError:
        return None
)python";

// Functions of Python's stable interface; every object is opaque.
struct PythonApi : DynamicLibrary {
  using DynamicLibrary::DynamicLibrary;
  void (*initialize)(int) = find("Py_InitializeEx");
  int (*run)(const char*) = find("PyRun_SimpleString");
  void* (*add_module)(const char*) = find("PyImport_AddModule");
  void* (*attribute)(void*, const char*) = find("PyObject_GetAttrString");
  void* (*build_value)(const char*, ...) = find("Py_BuildValue");
  void* (*call)(void*, void*) = find("PyObject_CallObject");
  const char* (*text)(void*, std::ptrdiff_t*) = find("PyUnicode_AsUTF8AndSize");
  void (*release)(void*) = find("Py_DecRef");
  void (*forget_error)() = find("PyErr_Clear");
  void* none = find("_Py_NoneStruct");
};

class TorchLibrary : public MatmulLibrary {
 public:
  explicit TorchLibrary(const PythonApi& python)
      : python_(python), bind_(python_.attribute(python_.add_module("__main__"), "bind")) {}

  std::function<void()> bind(const ops::MatmulProblem& p, const void* a, const void* b, void* d) override {
    if (p.batch != 1) return {};
    const auto matrix = [&](const void* data, const ops::MatrixLayout& l, std::int64_t rows, std::int64_t columns) {
      return python_.build_value("(KsLLLL)", reinterpret_cast<unsigned long long>(data),
                                 std::string(dtype_name(l.dtype)).c_str(), static_cast<long long>(rows),
                                 static_cast<long long>(columns), static_cast<long long>(l.row_stride),
                                 static_cast<long long>(l.col_stride));
    };
    void* operands = python_.build_value("(NNN)", matrix(a, p.a, p.size.m, p.size.k),
                                         matrix(b, p.b, p.size.k, p.size.n), matrix(d, p.d, p.size.m, p.size.n));
    void* bound = python_.call(bind_, operands);
    python_.release(operands);
    if (!bound) python_.forget_error();
    if (!bound || bound == python_.none) return {};
    const std::shared_ptr<void> owned(bound, python_.release);
    return [this, owned] { python_.release(python_.call(owned.get(), nullptr)); };
  }

  std::string describe() const override {
    void* about = python_.attribute(python_.add_module("__main__"), "about");
    return about ? python_.text(about, nullptr) : "PyTorch";
  }

 private:
  PythonApi python_;
  void* bind_;
};

std::vector<std::string> read_command_lines(const char* command) {
  std::vector<std::string> lines{""};
  std::FILE* pipe = popen(command, "r");
  if (!pipe) return {};
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe))
    if (c == '\n')
      lines.emplace_back();
    else
      lines.back() += static_cast<char>(c);
  return pclose(pipe) == 0 ? lines : std::vector<std::string>{};
}

}  // namespace

Result<std::unique_ptr<MatmulLibrary>> load_torch(int threads) {
  const std::vector<std::string> python_lines = read_command_lines(python_query);
  if (python_lines.size() < 3) return absent_error("expected python3 on PATH, found none that runs", install_hint);
  const PythonApi python({python_lines[0].c_str()}, RTLD_GLOBAL);
  if (!python.missing().empty())
    return absent_error(fmt::format("expected the shared library of python3, {}, found none", python_lines[0]),
                        "apt-get install libpython3-dev");
  setenv("PYTHONHOME", python_lines[1].c_str(), 1);
  python.initialize(0);
  const std::string start =
      fmt::format("import sys; sys.stderr = None; sys.path[:] = {}; threads = {}\n", python_lines[2], threads) +
      python_source;
  if (python.run(start.c_str()) != 0) return absent_error("python3 finds no torch that it can import", install_hint);
  return std::unique_ptr<MatmulLibrary>(std::make_unique<TorchLibrary>(python));
}

}  // namespace ridge
