#include "ridge/device/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "ridge/device/generated_kernel.h"

namespace ridge::device {
namespace {

namespace fs = std::filesystem;

struct NvrtcFunctions {
  int (*version)(int* major, int* minor) = nullptr;
  int (*create)(void** program, const char* text, const char* name, int headers, const char* const* texts,
                const char* const* names) = nullptr;
  int (*destroy)(void** program) = nullptr;
  int (*compile)(void* program, int count, const char* const* options) = nullptr;
  int (*log_size)(void* program, std::size_t* size) = nullptr;
  int (*log)(void* program, char* text) = nullptr;
  int (*code_size)(void* program, std::size_t* size) = nullptr;
  int (*code)(void* program, char* bytes) = nullptr;
  const char* (*describe)(int code) = nullptr;
};

struct NvrtcLibrary {
  NvrtcFunctions call;
  Result<NvrtcInfo> found = NvrtcInfo{};
};

// NVRTC opens its builtins library by bare name. The loader finds it only if it is already loaded, unless it is in a
// standard folder.
void load_builtins(const std::string& path) {
  std::error_code error;
  const fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) return;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().filename().string().starts_with("libnvrtc-builtins.so")) dlopen(at->path().c_str(), RTLD_NOW);
}

bool load_library(const std::string& path, NvrtcLibrary& to) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return false;
  load_builtins(path);
  const auto resolve = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  NvrtcFunctions& f = to.call;
  NvrtcInfo info{path, 0, 0};
  const bool is_complete = resolve(f.version, "nvrtcVersion") && resolve(f.create, "nvrtcCreateProgram") &&
                           resolve(f.destroy, "nvrtcDestroyProgram") && resolve(f.compile, "nvrtcCompileProgram") &&
                           resolve(f.log_size, "nvrtcGetProgramLogSize") && resolve(f.log, "nvrtcGetProgramLog") &&
                           resolve(f.code_size, "nvrtcGetCUBINSize") && resolve(f.code, "nvrtcGetCUBIN") &&
                           resolve(f.describe, "nvrtcGetErrorString") && f.version(&info.major, &info.minor) == 0 &&
                           info.major >= 12;
  if (is_complete) to.found = info;
  return is_complete;
}

// Returns folders that may hold the library: CUDA's, and those of wheels in every Python installation found.
std::vector<std::string> library_folders() {
  std::vector<std::string> out, pythons{"/usr/local/lib", "/usr/lib"};
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(name)) out.push_back(std::string(root) + "/lib64");
  out.emplace_back("/usr/local/cuda/lib64");
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* root = std::getenv(name)) pythons.insert(pythons.begin(), std::string(root) + "/lib");
  if (const char* home = std::getenv("HOME")) pythons.push_back(std::string(home) + "/.local/lib");
  std::error_code error;
  for (const std::string& root : pythons)
    for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
      if (!at->path().filename().string().starts_with("python3")) continue;
      for (const char* packages : {"site-packages", "dist-packages"})
        for (const char* wheel : {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"})
          out.push_back((at->path() / packages / wheel).string());
    }
  return out;
}

NvrtcLibrary search_library() {
  NvrtcLibrary out;
  const char* const requested = std::getenv("RIDGE_NVRTC");
  if (requested != nullptr && requested[0] != '\0') {
    const std::string path = requested;
    if (path == "off") {
      out.found = absent_error("NVRTC is turned off by RIDGE_NVRTC=off", "unset it");
    } else if (!load_library(path, out)) {
      out.found = absent_error(fmt::format("RIDGE_NVRTC names '{}', which is no NVRTC of version 12 or later", path),
                               "unset it to search the default folders");
    }
    return out;
  }
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"})
    if (load_library(name, out)) return out;
  for (const std::string& folder : library_folders())
    for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12"}) {
      const std::string path = folder + "/" + name;
      std::error_code error;
      if (fs::exists(path, error) && load_library(path, out)) return out;
    }
  out.found =
      absent_error("NVRTC was not found",
                   "`pip install nvidia-cuda-nvrtc`, or set RIDGE_NVRTC=/path/libnvrtc.so.13 to the CUDA toolkit's");
  return out;
}

const NvrtcLibrary& nvrtc_library() {
  static const NvrtcLibrary all = search_library();
  return all;
}

// NVRTC has no standard library; these are the parts of it that kernel sources use.
const std::vector<DeviceHeader>& included_headers() {
  static const std::vector<DeviceHeader> all = [] {
    std::vector<DeviceHeader> out = device_headers();
    out.push_back({"cstdint", "namespace std { using int64_t = long; }"});
    out.push_back({"cmath",
                   "namespace std {\n__device__ inline float sqrt(float x) { return sqrtf(x); }\n"
                   "__device__ inline float abs(float x) { return fabsf(x); }\n}"});
    return out;
  }();
  return all;
}

}  // namespace

const Result<NvrtcInfo>& find_nvrtc() { return nvrtc_library().found; }

std::string make_compile_key(const std::string& text) {
  std::string key = find_nvrtc() ? fmt::format("nvrtc {}.{}", find_nvrtc()->major, find_nvrtc()->minor) : "no compiler";
  key += fmt::format(" {}\n", fmt::join(nvrtc_options, " "));
  for (const DeviceHeader& header : included_headers()) key += header.text;
  return key + text;
}

Result<std::string> compile_to_cubin(const std::string& text) {
  const NvrtcLibrary& all = nvrtc_library();
  if (!all.found) return all.found.error();
  const NvrtcFunctions& call = all.call;
  std::vector<const char*> names, texts, options;
  for (const DeviceHeader& header : included_headers()) {  // Views of literals, which end in 0.
    names.push_back(header.name.data());
    texts.push_back(header.text.data());
  }
  for (const std::string_view option : nvrtc_options) options.push_back(option.data());
  void* program = nullptr;
  int code = call.create(&program, text.c_str(), "ridge_kernel.cu", static_cast<int>(names.size()), texts.data(),
                         names.data());
  if (code != 0) return absent_error(fmt::format("NVRTC refused a kernel: {}", call.describe(code)));
  code = call.compile(program, static_cast<int>(options.size()), options.data());
  std::string out;
  std::size_t size = 0;
  if (code == 0 && (code = call.code_size(program, &size)) == 0) {
    out.resize(size);
    code = call.code(program, out.data());
  }
  std::string log;
  if (code != 0 && call.log_size(program, &size) == 0) {
    log.resize(size);
    call.log(program, log.data());
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  }
  call.destroy(&program);
  if (code != 0)
    return absent_error(fmt::format("NVRTC {}.{} does not compile a kernel: {}\n{}", all.found->major, all.found->minor,
                                    call.describe(code), log));
  return out;
}

}  // namespace ridge::device
