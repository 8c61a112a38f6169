// The enums of kda.h are those of kda.hpp, value by value.
#pragma once

#include <cstdint>

#include "kda/kda.h"
#include "kda/kda.hpp"
#include "kda/log.hpp"

namespace kda::api {

// The last enumerator, as kda.h has it: what a caller may pass is 0..this.
template <class Enum>
constexpr std::int32_t last_of = -1;
template <>
inline constexpr std::int32_t last_of<DType> = KDA_F16;
template <>
inline constexpr std::int32_t last_of<Index> = KDA_I64;
template <>
inline constexpr std::int32_t last_of<Gate> = KDA_GATE_LOGSIGMOID;
template <>
inline constexpr std::int32_t last_of<StateLayout> = KDA_STATE_VALUE_FIRST;
template <>
inline constexpr std::int32_t last_of<Effort> = KDA_MEASURE;
template <>
inline constexpr std::int32_t last_of<CacheMode> = KDA_CACHE_READ_WRITE;
template <>
inline constexpr std::int32_t last_of<LogLevel> = KDA_LOG_OFF;

constexpr bool same(auto cpp, auto c) {
  return static_cast<std::int32_t>(cpp) == static_cast<std::int32_t>(c);
}
static_assert(same(DType::f32, KDA_F32) && same(DType::bf16, KDA_BF16) &&
              same(DType::f16, KDA_F16));
static_assert(same(Index::i32, KDA_I32) && same(Index::i64, KDA_I64));
static_assert(same(Gate::log_decay, KDA_GATE_LOG_DECAY) &&
              same(Gate::softplus, KDA_GATE_SOFTPLUS) && same(Gate::bounded, KDA_GATE_BOUNDED) &&
              same(Gate::logsigmoid, KDA_GATE_LOGSIGMOID));
static_assert(same(StateLayout::key_first, KDA_STATE_KEY_FIRST) &&
              same(StateLayout::value_first, KDA_STATE_VALUE_FIRST));
static_assert(same(Effort::wisdom_only, KDA_WISDOM_ONLY) && same(Effort::estimate, KDA_ESTIMATE) &&
              same(Effort::measure, KDA_MEASURE));
static_assert(same(CacheMode::by_environment, KDA_CACHE_BY_ENVIRONMENT) &&
              same(CacheMode::off, KDA_CACHE_OFF) &&
              same(CacheMode::read_only, KDA_CACHE_READ_ONLY) &&
              same(CacheMode::read_write, KDA_CACHE_READ_WRITE));
static_assert(same(LogLevel::trace, KDA_LOG_TRACE) && same(LogLevel::debug, KDA_LOG_DEBUG) &&
              same(LogLevel::info, KDA_LOG_INFO) && same(LogLevel::warn, KDA_LOG_WARN) &&
              same(LogLevel::error, KDA_LOG_ERROR) && same(LogLevel::off, KDA_LOG_OFF));
static_assert(same(Code::ok, KDA_OK) && same(Code::invalid_argument, KDA_INVALID_ARGUMENT) &&
              same(Code::invalid_problem, KDA_INVALID_PROBLEM) &&
              same(Code::unsupported, KDA_UNSUPPORTED) && same(Code::no_wisdom, KDA_NO_WISDOM) &&
              same(Code::compile_failed, KDA_COMPILE_FAILED) &&
              same(Code::device_error, KDA_DEVICE_ERROR));

}  // namespace kda::api
