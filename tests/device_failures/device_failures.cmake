# Tests of failed calls to a device, without a device: recorded_device.cc and recorded_kernels.cc define the functions of
# the .cu files, or of cuda_absent.cc. The linker takes those of the library only if they are not defined here.
file(GLOB device_failures_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/device_failures/*.cc)
add_executable(device_failures_test ${device_failures_sources})
target_link_libraries(device_failures_test PRIVATE ridge_room_bench ridge GTest::gtest GTest::gtest_main Threads::Threads)
target_compile_options(device_failures_test PRIVATE ${ridge_warnings} ${ridge_light_options})
ridge_use_precompiled(device_failures_test ridge_common_test)
add_test(NAME device_failures COMMAND device_failures_test)
set_tests_properties(device_failures PROPERTIES LABELS fast FAIL_REGULAR_EXPRESSION "Running 0 tests")
