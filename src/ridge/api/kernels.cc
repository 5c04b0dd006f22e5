// Finds CUDA kernels of the planner by name, and their machine code.
#include <fmt/format.h>

#include <algorithm>

#include "ridge/api/facade.h"
#include "ridge/base/string_util.h"
#include "ridge/ops/product/machine_code.h"

namespace ridge::api {

Result<std::vector<KernelListEntry>> find_kernels(const std::string& name) {
  std::vector<KernelListEntry> found;
  std::vector<std::string> names;
  for (KernelListEntry& entry : list_kernels()) {
    names.push_back(entry.name);
    if (entry.name.find(name) != std::string::npos) found.push_back(std::move(entry));
  }
  if (!found.empty()) return found;
  const std::string suggestion = find_nearest(name, names);
  return input_error(fmt::format("no kernel is called '{}'", name),
                     suggestion.empty() ? "`ridge kernels` lists them" : fmt::format("did you mean {}?", suggestion));
}

Result<KernelCode> read_kernel_code(const std::string& name, CodeFormat format, DType dtype) {
  RIDGE_TRY(found, find_kernels(name));
  const auto exact_match =
      std::find_if(found.begin(), found.end(), [&](const KernelListEntry& e) { return e.name == name; });
  if (exact_match == found.end() && found.size() > 1)
    return usage_error(
        fmt::format("expected the full name of one kernel, found '{}', which {} names contain", name, found.size()),
        fmt::format("`ridge kernels {}` lists them", name));
  const KernelListEntry& entry = exact_match == found.end() ? found.front() : *exact_match;
  const bool sass = format == CodeFormat::sass;
  RIDGE_TRY(text, ops::cuda::extract_kernel_code(entry.config, dtype,
                                                 sass ? ops::cuda::AssemblyKind::sass : ops::cuda::AssemblyKind::ptx,
                                                 ops::cuda::toolkit_folders()));
  return KernelCode{entry, std::string(ridge::dtype_name(dtype)), sass ? "sass" : "ptx", std::move(text)};
}

}  // namespace ridge::api
