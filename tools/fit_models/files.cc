#include "fit_models/files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <sstream>

#include "fit_models/rewrite.h"
#include "ridge/base/file.h"
#include "ridge/run/device_machine.h"

namespace ridge::fit {
namespace {

using namespace ops;
using namespace ops::cuda;

std::string facts(const Samples& samples) {
  std::vector<std::string> devices, files;
  std::string day;
  int timings = 0;
  for (const Device& x : samples.devices) {
    devices.push_back(x.as_timed.device);
    files.push_back(x.files);
    day = std::max(day, x.as_timed.day);
    timings += x.timings;
  }
  return fmt::format("# tool: tools/fit_models\n# device: {}\n# day: {}\n# timings: {} in {}\n",
                     fmt::join(devices, ", "), day, timings, fmt::join(files, " "));
}

Status write_constants(const Made& made, const std::string& root) {
  std::size_t at = 0;
  const std::string path = root + "/data/models/product_constants.csv";
  const auto text = rewritten(path, facts(made.samples), [&](const std::string& line) {
    auto cells = cells_of(line);
    for (std::size_t bound = 0; bound < bound_count; ++bound)
      cells[3 + bound] = fmt::format("{:.4g}", made.form.model.constants[bound].*named_constants[at].member);
    ++at;
    return line_of(cells);
  });
  return text ? write_file(path, *text) : text.error();
}

Status write_trees(const Made& made, const std::string& root) {
  std::string out =
      "# Regression trees over properties of a plan (src/ridge/ops/product/time/correction.h): a factor on the closed "
      "form's time.\n# A tree's nodes are feature:edge:left:right, its leaves are added to the time's logarithm, "
      "in 0.0001.\n";
  out += facts(made.samples) + fmt::format("# menu: {:016x}\nwhat,nodes,leaves\n", kernel_configs_fingerprint());
  for (std::size_t f = 0; f < made.edges.size(); ++f) {
    std::vector<float> real;
    std::copy_if(made.edges[f].begin(), made.edges[f].end(), std::back_inserter(real),
                 [](float x) { return x < 1e30F; });
    out += fmt::format("edges,{},{:.7g}\n", feature_names[f], fmt::join(real, " "));
  }
  for (const RegressionTree& t : made.trees) {
    std::vector<std::string> nodes;
    for (std::size_t i = 0; i < t.feature.size(); ++i)
      nodes.push_back(fmt::format("{}:{}:{}:{}", t.feature[i], t.edge[i], t.left[i], t.right[i]));
    out += fmt::format("tree,{},{}\n", fmt::join(nodes, " "), fmt::join(t.leaf, " "));
  }
  return write_file(root + "/data/models/product_trees.csv", out);
}

// Returns the mean fraction of peak over the timed devices.
double mean(const Made& made, const std::function<double(const TimedDevice&, const DeviceNumbers&)>& share) {
  double sum = 0;
  for (std::size_t i = 0; i < made.form.devices.size(); ++i)
    sum += share(made.samples.devices[i].as_timed, made.form.devices[i]);
  return sum / static_cast<double>(made.form.devices.size());
}

// Returns the fraction of multiprocessors that clusters of `blocks` blocks can use, averaged over the queried devices.
double cluster_share(const Made& made, std::size_t blocks) {
  double sum = 0;
  int asked = 0;
  for (const Device& x : made.samples.devices) {
    const TimedDevice& t = x.as_timed;
    if (t.max_active_clusters.size() < blocks) continue;
    sum += static_cast<double>(t.max_active_clusters[blocks - 1]) * static_cast<double>(blocks) / t.multiprocessors;
    ++asked;
  }
  return asked > 0 ? sum / asked : 1;
}

double device_share(const Made& made, const std::string& name) {
  if (name == "clock")
    return mean(made, [](const TimedDevice& t, const DeviceNumbers& n) { return n.clock_hz / t.clock_hz; });
  if (name == "busy_clock")
    return mean(made, [](const TimedDevice& t, const DeviceNumbers& n) { return n.busy_clock_hz / t.clock_hz; });
  if (name == "memory")
    return mean(
        made, [](const TimedDevice& t, const DeviceNumbers& n) { return n.memory_bytes_per_s / t.memory_bytes_per_s; });
  if (name == "l2")
    return mean(made, [](const TimedDevice& t, const DeviceNumbers& n) {
      return n.l2_bytes_per_s / t.multiprocessors / t.clock_hz;
    });
  if (name == "launch") return mean(made, [](const TimedDevice&, const DeviceNumbers& n) { return n.launch_s; });
  return cluster_share(made, static_cast<std::size_t>(name.back() - '0'));  // "clusters_4"
}

Status write_devices(const Made& made, const std::string& root) {
  const std::string path = root + "/data/models/devices.csv";
  const auto text = rewritten(path, facts(made.samples), [&](const std::string& line) {
    auto cells = cells_of(line);
    cells[2] = fmt::format("{:.6g}", device_share(made, cells[0]));
    return line_of(cells);
  });
  return text ? write_file(path, *text) : text.error();
}

Status write_spread(const Made& made, const std::string& root) {
  std::vector<double> ratios = made.ratios;
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return fmt::format("{:.2f}", ratios[static_cast<std::size_t>(share * static_cast<double>(ratios.size()))]);
  };
  const std::string path = root + "/data/models/product_spread.csv";
  const auto text = rewritten(path, facts(made.samples), [&](const std::string& line) {
    auto cells = cells_of(line);
    cells[1] = at(0.05);
    cells[2] = at(0.5);
    cells[3] = at(0.95);
    return line_of(cells);
  });
  return text ? write_file(path, *text) : text.error();
}

// Replaces the fitted lines of [plan]; other lines stay.
Status write_machine(const Device& device, const DeviceNumbers& fitted, const std::string& root) {
  const auto machine = catalog_machine_name(device.as_timed.device);
  if (!machine)
    return input_error(fmt::format("the catalog has no machine file for '{}'", device.as_timed.device),
                       "write one: docs/machine_files.md");
  const std::string path = fmt::format("{}/machines/{}.toml", root, *machine);
  const auto text = read_file(path);
  if (!text) return text.error();
  const std::size_t plan = text->find("\n[plan]\n");
  if (plan == std::string::npos) return input_error(fmt::format("'{}' has no [plan]", path), "append the line [plan]");
  std::string out = text->substr(0, plan) + "\n[plan]\n";
  const std::pair<const char*, double> numbers[] = {{"clock_hz", fitted.clock_hz},
                                                    {"busy_clock_hz", fitted.busy_clock_hz},
                                                    {"memory_bytes_per_s", fitted.memory_bytes_per_s},
                                                    {"l2_bytes_per_s", fitted.l2_bytes_per_s}};
  for (const auto& [name, value] : numbers)
    out += fmt::format(
        "{} = {{ value = {:.4g}, unit = \"{}\", source = \"tools/fit_models, {} timings in {}\", read = {}, origin = "
        "\"measured\" }}\n",
        name, value, std::string_view(name).ends_with("_hz") ? "Hz" : "B/s", device.timings, device.files,
        device.as_timed.day);
  std::istringstream rest(text->substr(plan + 8));
  for (std::string line; std::getline(rest, line);)
    if (!line.empty() && std::none_of(std::begin(numbers), std::end(numbers), [&](const auto& number) {
          return line.starts_with(std::string(number.first) + " ");
        }))
      out += line + "\n";
  return write_file(path, out);
}

}  // namespace

double rounded(double x) {
  const std::string text = fmt::format("{:.4g}", x);
  double out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

Form rounded(Form form) {
  for (ClosedFormConstants& each : form.model.constants)
    for (const NamedConstant& x : named_constants) each.*x.member = rounded(each.*x.member);
  for (DeviceNumbers& x : form.devices)
    for (double* number : {&x.clock_hz, &x.busy_clock_hz, &x.memory_bytes_per_s, &x.l2_bytes_per_s})
      *number = rounded(*number);
  return form;
}

Status write_files(const Made& made, const std::string& root) {
  for (const auto& write : {write_constants, write_trees, write_devices, write_spread})
    if (const Status done = write(made, root); !done) return done;
  for (std::size_t i = 0; i < made.samples.devices.size(); ++i)
    if (const Status done = write_machine(made.samples.devices[i], made.form.devices[i], root); !done) return done;
  return Done{};
}

}  // namespace ridge::fit
