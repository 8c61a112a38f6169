// Catch2, version 2 or 3: the one include of every test.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
#else
#define CATCH_CONFIG_ENABLE_ALL_STRINGMAKERS
#include <catch2/catch.hpp>
#endif

namespace kda::test {

#if __has_include(<catch2/catch_test_macros.hpp>)
using Catch::Approx;
inline auto contains(const std::string& part) { return Catch::Matchers::ContainsSubstring(part); }
#else
using Catch::Detail::Approx;
inline auto contains(const std::string& part) { return Catch::Matchers::Contains(part); }
#endif

}  // namespace kda::test
