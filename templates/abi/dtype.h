// The element types.  A new one is a row here and an element<> in templates/base/element.cuh.
#pragma once

namespace kda::abi {

enum class DType : int { f32 = 0, bf16 = 1, f16 = 2 };
enum class Index : int { i32 = 0, i64 = 1 };

struct DTypeRow {
  DType type;
  const char* name;
  int bytes;
};

constexpr DTypeRow dtypes[] = {
    {DType::f32, "f32", 4},
    {DType::bf16, "bf16", 2},
    {DType::f16, "f16", 2},
};

constexpr int bytes_of(DType type) { return dtypes[static_cast<int>(type)].bytes; }
constexpr int bytes_of(Index type) { return type == Index::i32 ? 4 : 8; }

}  // namespace kda::abi
