# What every target shares: language, warnings, the flags that keep the bits, and two functions.
#
#   samestep_library(NAME DEPS a b ...)   all *.cc of this folder and its sub-folders but tests, fuzzers
#   samestep_tests(NAME DEPS a b ...)     NAME_test from *_test.cc; *_slow_test.cc go to NAME_slow_test
#
# A library is an INTERFACE target that carries its object files, so that each executable links every
# object of each library below it: registrations of kernels and subcommands are never dropped.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2" CACHE STRING "" FORCE)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(TBB REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(MPFR REQUIRED IMPORTED_TARGET mpfr)
if(SAMESTEP_TESTS)
  find_package(GTest REQUIRED)
endif()

# MPI: what mpicc stands for (MPI_C_COMPILER chooses; preset mpich). A cross build has none.
set(MPI_CXX_SKIP_MPICXX TRUE)
if(CMAKE_CROSSCOMPILING)
  set(MPI_C_FOUND FALSE)
elseif(NOT DEFINED SAMESTEP_MPI OR SAMESTEP_MPI)
  find_package(MPI COMPONENTS C QUIET)
endif()
option(SAMESTEP_MPI "Run over several processes (Open MPI or MPICH)" ${MPI_C_FOUND})
if(SAMESTEP_MPI AND NOT MPI_C_FOUND)
  message(FATAL_ERROR "SAMESTEP_MPI is ON, but no MPI was found: scripts/setup installs Open MPI, or set it to OFF")
elseif(NOT SAMESTEP_MPI)
  message(STATUS "Without MPI: runs are one process (scripts/setup installs Open MPI)")
endif()

add_library(samestep_flags INTERFACE)
target_compile_options(samestep_flags INTERFACE
  -Wall -Wextra -Werror -Wshadow -Wno-psabi
  -Wno-restrict       # false alarms of g++ 12 on std::string (its bug 105651)
  -Wno-dangling-reference  # false alarms of g++ 13 and 14 on functions that return views
  -Wno-stringop-overflow  # false alarms of g++ 12 at -O3 in {fmt}
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-warning-option>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>  # libstdc++ 12 within std::stable_sort
  -ffp-contract=off   # a fused multiply-add is written, never chosen by the compiler
  -fno-math-errno)    # sqrt as one instruction; changes no value
target_include_directories(samestep_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(samestep_flags INTERFACE Threads::Threads)
if(SAMESTEP_SANITIZE)
  target_compile_options(samestep_flags INTERFACE -fsanitize=${SAMESTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g)
  target_link_options(samestep_flags INTERFACE -fsanitize=${SAMESTEP_SANITIZE})
endif()

function(samestep_library name)
  cmake_parse_arguments(ARG "" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzzer|main)\\.cc$")
  foreach(pattern ${ARG_EXCLUDE})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE samestep_flags ${ARG_DEPS})
  if(sources)
    add_library(${name}_objects OBJECT ${sources})
    target_link_libraries(${name}_objects PRIVATE samestep_flags ${ARG_DEPS})
    target_sources(${name} INTERFACE $<TARGET_OBJECTS:${name}_objects>)
    add_dependencies(${name} ${name}_objects)
  endif()
endfunction()

function(samestep_tests name)
  if(NOT SAMESTEP_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB_RECURSE all CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  set(slow ${all})
  list(FILTER slow INCLUDE REGEX "_slow_test\\.cc$")
  set(fast ${all})
  list(FILTER fast EXCLUDE REGEX "_slow_test\\.cc$")
  foreach(kind fast slow)
    if(${kind})
      set(target ${name}_test)
      if("${kind}" STREQUAL "slow")
        set(target ${name}_slow_test)
      endif()
      add_executable(${target} ${${kind}})
      target_link_libraries(${target} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
      target_compile_definitions(${target} PRIVATE
        SAMESTEP_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data" SAMESTEP_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
        SAMESTEP_BINARY_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
      add_test(NAME ${target} COMMAND ${target})
      set_tests_properties(${target} PROPERTIES LABELS $<IF:$<STREQUAL:${kind},slow>,slow,unit> TIMEOUT 3600)
    endif()
  endforeach()
endfunction()

# A libFuzzer target for each *_fuzzer.cc of the folder.
function(samestep_fuzzers)
  if(NOT SAMESTEP_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  file(GLOB fuzzers CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_fuzzer.cc)
  foreach(source ${fuzzers})
    get_filename_component(target ${source} NAME_WE)
    add_executable(${target} ${source})
    target_link_libraries(${target} PRIVATE ${ARG_DEPS})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  endforeach()
endfunction()
