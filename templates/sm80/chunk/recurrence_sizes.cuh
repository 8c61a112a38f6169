// What the recurrence is specialised on, and the tiles that it meets.
#pragma once

#include "abi/chunk.h"
#include "abi/shape.h"
#include "step/state.cuh"
#include "tile/operand.cuh"
#include "tile/shared.cuh"

#ifndef KDA_SHAPE
#define KDA_SHAPE \
  {}
#define KDA_TUNING \
  {}
#endif

namespace kda {

constexpr abi::Shape shape = KDA_SHAPE;
constexpr abi::chunk::Tuning tune = KDA_TUNING;

constexpr abi::DType type = shape.qkv_type;
constexpr int chunk = tune.chunk;
constexpr int threads = tune.threads;
constexpr int key_warps = tune.key_warps;
constexpr int value_warps = larger(threads / 32 / key_warps, 1);
constexpr int keys16 = round_up(shape.key_dim, 16);
constexpr int own_keys = abi::chunk::keys_of_warp(shape, tune);
constexpr int values = shape.value_dim;
constexpr int columns = abi::chunk::block_columns(shape, tune);  // V columns a block
constexpr int tiles = columns / 16 / value_warps;                // of 16, a warp
constexpr int chunk_tiles = chunk / 8;
constexpr int parts = abi::chunk::factor_parts(shape);
constexpr abi::chunk::Image image = abi::chunk::image(shape, chunk);
constexpr float writer_scale = abi::chunk::writer_scale(shape);

static_assert(threads >= 32 * key_warps, "key_warps want 32 threads each");
static_assert(tiles == 1 || tiles == 2, "a warp holds 16 or 32 columns: threads too few");
static_assert(abi::chunk::shares_keys(shape, tune), "each of key_warps must have key channels");

template <abi::DType type>
using ProductOf = tile::Operand<type, 3, (key_warps > 1)>;
using Product = ProductOf<type>;
using Factor = tile::Shared<type, chunk, keys16>;                              // Kd, Qd
using Writer = tile::Shared<type, chunk, keys16, tile::Reads::down_columns>;   // Ak
using Square = tile::Shared<type, chunk, chunk>;                               // Aq
using Values = tile::Shared<type, chunk, columns, tile::Reads::down_columns>;  // v
static_assert(Factor::bytes == Writer::bytes);
static_assert(Factor::width == abi::chunk::factor_keys(shape));

using State = step::State<shape, tiles, own_keys>;
using Accumulators = float[tiles][chunk_tiles][4];  // [V, C]

// A thread's warp: its first V column of the block's, and its first key channel.
KDA_DEVICE int warp_column() { return static_cast<int>(threadIdx.x) / 32 / key_warps * 16 * tiles; }
KDA_DEVICE int warp_key() { return static_cast<int>(threadIdx.x) / 32 % key_warps * own_keys; }

// Of the warp's channels those of its k-th 16: from which a place is to be made, and how far from
// there they are.  All lie one XOR from one place (tile::Place) where they are a power of two.
constexpr bool one_place = (own_keys & (own_keys - 1)) == 0 || key_warps == 1;
KDA_DEVICE int place_key(int k) { return warp_key() + (one_place ? 0 : k * 16); }
KDA_DEVICE constexpr int keys_from_place(int k) { return one_place ? k * 16 : 0; }

}  // namespace kda
