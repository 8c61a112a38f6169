// Integers by width, and the words every template uses.
#pragma once

#define KDA_DEVICE __device__ __forceinline__
#define KDA_CONSTEXPR __host__ __device__ constexpr

namespace kda {

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i64 = long long;

template <bool condition, class A, class B>
struct either_type {
  using type = A;
};
template <class A, class B>
struct either_type<false, A, B> {
  using type = B;
};
template <bool condition, class A, class B>
using either = typename either_type<condition, A, B>::type;

KDA_CONSTEXPR int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}
KDA_CONSTEXPR int ceil_div(int value, int divisor) { return (value + divisor - 1) / divisor; }
KDA_CONSTEXPR int smaller(int a, int b) { return a < b ? a : b; }
KDA_CONSTEXPR int greatest_common_divisor(int a, int b) {
  return b == 0 ? a : greatest_common_divisor(b, a % b);
}
KDA_CONSTEXPR int larger(int a, int b) { return a < b ? b : a; }

}  // namespace kda
