# sandbroker_options carries language level, warnings and sanitizers; every target of the
# project links it. sandbroker_library and sandbroker_test are the two ways to add one.
add_library(sandbroker_options INTERFACE)
target_compile_features(sandbroker_options INTERFACE cxx_std_20)
# GCC 12 pairs the frame allocator of an inlined Asio coroutine with the wrong delete and warns.
target_compile_options(sandbroker_options INTERFACE -Wall -Wextra -Werror -Wno-mismatched-new-delete)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105651: at -O3 it sees overlapping copies inside std::string where there are none.
  target_compile_options(sandbroker_options INTERFACE $<$<CONFIG:Release>:-Wno-restrict>)
endif()
target_include_directories(sandbroker_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_definitions(sandbroker_options INTERFACE
  SANDBROKER_VERSION="${PROJECT_VERSION}"
  BOOST_ASIO_SEPARATE_COMPILATION BOOST_ASIO_NO_DEPRECATED BOOST_BEAST_SEPARATE_COMPILATION)
if(SANDBROKER_SANITIZE)
  target_compile_options(sandbroker_options INTERFACE
    -fsanitize=${SANDBROKER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(sandbroker_options INTERFACE -fsanitize=${SANDBROKER_SANITIZE})
  target_compile_definitions(sandbroker_options INTERFACE SANDBROKER_SANITIZED=1)
  if(SANDBROKER_SANITIZE MATCHES "thread")
    # Asio under GCC uses fences that TSan does not model.
    target_compile_options(sandbroker_options INTERFACE -Wno-tsan)
  endif()
endif()

# sandbroker_library(NAME [NO_HEADER_CHECKS] SRCS a.cc ... DEPS target ...): static library
# sandbroker_NAME with the alias sandbroker::NAME. The headers beside its sources need no mention;
# NO_HEADER_CHECKS: another library of the same folder checks them.
function(sandbroker_library name)
  cmake_parse_arguments(ARG "NO_HEADER_CHECKS" "" "SRCS;DEPS" ${ARGN})
  add_library(sandbroker_${name} STATIC ${ARG_SRCS})
  add_library(sandbroker::${name} ALIAS sandbroker_${name})
  # Our warnings and include paths end at the install: they are no business of who links us.
  target_link_libraries(sandbroker_${name} PUBLIC $<BUILD_INTERFACE:sandbroker_options> ${ARG_DEPS})
  if(NOT ARG_NO_HEADER_CHECKS)
    sandbroker_check_headers(sandbroker_${name} ${ARG_SRCS})
  endif()
endfunction()

# sandbroker_fail_points(NAME): the library's fail points (lib/base/fail_point.h) are built in where
# the option of that name is on.
function(sandbroker_fail_points name)
  if(SANDBROKER_FAIL_POINTS)
    target_compile_definitions(sandbroker_${name} PRIVATE SANDBROKER_FAIL_POINTS=1)
  endif()
endfunction()

# Each header beside a source of the library is compiled alone, with the library's include paths.
function(sandbroker_check_headers target)
  if(NOT SANDBROKER_BUILD_TESTS OR SANDBROKER_SANITIZE)
    return()
  endif()
  set(patterns "")
  foreach(source IN LISTS ARGN)
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND patterns ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.h)
  endforeach()
  list(REMOVE_DUPLICATES patterns)
  file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${patterns})
  set(sources "")
  foreach(header IN LISTS headers)
    string(REPLACE "/" "_" stem ${header})
    set(source ${CMAKE_BINARY_DIR}/header_checks/${stem}.cc)
    file(CONFIGURE OUTPUT ${source} CONTENT "#include \"${header}\"  // twice: guard works\n#include \"${header}\"\n" @ONLY)
    list(APPEND sources ${source})
  endforeach()
  if(sources)
    add_library(${target}_headers OBJECT ${sources})
    target_link_libraries(${target}_headers PRIVATE ${target})
    # Nothing runs them: the quickest code will do.
    target_compile_options(${target}_headers PRIVATE -O0 -g0)
  endif()
endfunction()

# tests_LABEL builds all tests of a tier.
set(SANDBROKER_TIERS unit model component e2e fault thread_safety fuzz)
if(SANDBROKER_BUILD_TESTS)
  foreach(tier IN LISTS SANDBROKER_TIERS)
    add_custom_target(tests_${tier})
  endforeach()
endif()

# sandbroker_test(NAME SRCS ... DEPS ... LABEL unit|model|component|e2e|fault|thread_safety|fuzz [TIMEOUT s])
function(sandbroker_test name)
  if(NOT SANDBROKER_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  if(NOT ARG_LABEL IN_LIST SANDBROKER_TIERS)
    message(FATAL_ERROR "${name}: no tier is called ${ARG_LABEL}")
  endif()
  add_executable(${name} ${ARG_SRCS})
  add_dependencies(tests_${ARG_LABEL} ${name})
  target_link_libraries(${name} PRIVATE sandbroker_options ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} DISCOVERY_TIMEOUT 60)
endfunction()
