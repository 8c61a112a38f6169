# cmake --build build --target check
