# cmake --build build --target check: format and tidy over the tree, then the tests that guard its
# shape (labels `tree` and `templates`).  .ci/run does the same.
file(GLOB_RECURSE KDA_FORMATTED CONFIGURE_DEPENDS
  include/*.hpp src/*.hpp src/*.cpp templates/*.h templates/*.cuh templates/*.cu
  tests/*.hpp tests/*.cpp tools/*.hpp tools/*.cpp)
