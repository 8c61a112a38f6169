# cmake -D LIBRARY=libkda.so -D NM=nm -D READELF=readelf -D LIST=abi.txt -P abi.cmake
# What the library exports is what abi.txt lists: a name that is gone or changed breaks programs, a
# new one is a promise.  Beside that, its SONAME, that it opens CUDA's libraries only when run, and
# that no static variable has a guard, which would be shut for ever in a child of fork().
execute_process(COMMAND ${NM} -D --defined-only --demangle --format=posix ${LIBRARY}
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE " [A-Za-z] [0-9a-f]*( [0-9a-f]+)?\n" "\n" symbols "${symbols}")
string(STRIP "${symbols}" symbols)
string(REPLACE "[abi:cxx11]" "" symbols "${symbols}")
string(REPLACE "\n" ";" symbols "${symbols}")
list(SORT symbols)
list(REMOVE_DUPLICATES symbols)  # complete and base-object destructors print alike

file(STRINGS "${LIST}" listed REGEX "^[^#]")
set(added ${symbols})
list(REMOVE_ITEM added ${listed})
set(gone ${listed})
list(REMOVE_ITEM gone ${symbols})
if(added OR gone)
  list(JOIN added "\n  + " added)
  list(JOIN gone "\n  - " gone)
  message(FATAL_ERROR "${LIBRARY} and tests/consumer/abi.txt differ:\n  + ${added}\n  - ${gone}")
endif()

execute_process(COMMAND ${READELF} -dW ${LIBRARY} OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
if(NOT dynamic MATCHES "SONAME[^\n]*\\[libkda\\.so\\.[0-9]+\\]")
  message(FATAL_ERROR "${LIBRARY} has no SONAME libkda.so.<major>:\n${dynamic}")
endif()
if(dynamic MATCHES "NEEDED[^\n]*lib(cuda|nvrtc|cudart)")
  message(FATAL_ERROR "${LIBRARY} links a CUDA library:\n${dynamic}")
endif()

# But the registry's of forks, which is made at load.
execute_process(COMMAND ${NM} --demangle ${LIBRARY} OUTPUT_VARIABLE all COMMAND_ERROR_IS_FATAL ANY)
if(NOT all MATCHES "guard variable for kda::base::[^\n]*registry")
  message(FATAL_ERROR "${LIBRARY} does not show its guards: ${NM} says nothing of the registry's")
endif()
string(REGEX MATCHALL "guard variable for kda::[^\n]*" guards "${all}")
list(FILTER guards EXCLUDE REGEX "kda::base::.anonymous namespace.::registry")
if(guards)
  list(JOIN guards "\n  " guards)
  message(FATAL_ERROR "${LIBRARY}: base::Lazy in place of a static variable that is made at its first "
    "use:\n  ${guards}")
endif()
