// A library that is loaded at run time, so that Ridge links no vendor library. It stays loaded until the process ends.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

namespace ridge {

class DynamicLibrary {
 public:
  struct Symbol {
    void* address;
    template <class F> operator F*() const { return reinterpret_cast<F*>(address); }
  };

  // Loads the first of the named files that the loader finds.
  explicit DynamicLibrary(const std::vector<std::string>& files, int visibility = RTLD_LOCAL) {
    for (const std::string& file : files)
      if (handle_ == nullptr) handle_ = dlopen(file.c_str(), RTLD_NOW | visibility);
  }
  bool is_loaded() const { return handle_ != nullptr; }
  // Returns the symbol, or null, which is remembered as missing unless it is optional.
  Symbol find(const char* name, bool is_optional = false) {
    void* const address = handle_ == nullptr ? nullptr : dlsym(handle_, name);
    if (address == nullptr && !is_optional && missing_.empty()) missing_ = name;
    return {address};
  }
  const std::string& missing() const { return missing_; }  // First missing symbol, or empty

 private:
  void* handle_ = nullptr;
  std::string missing_ = {};
};

}  // namespace ridge
