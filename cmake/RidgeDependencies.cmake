# What the build needs, by find_package; the launcher's package list (./ridge) names the Debian packages that hold it.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
find_package(CLI11 REQUIRED)

# oneDNN is only ever loaded at run time, by `ridge bench`; its headers say how to talk to it. Without them bench says what to install.
find_path(RIDGE_ONEDNN_HEADERS oneapi/dnnl/dnnl.h)
