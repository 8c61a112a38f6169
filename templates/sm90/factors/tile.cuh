// A chunk of one value head, as groups take them.
#pragma once

#include "abi/tensors.h"
#include "base/varlen.cuh"
#include "sm90/factors/group.cuh"

namespace kda {

struct Tile {
  i64 begin = 0;  // its sequence's first token in the pack
  i64 first = 0;  // its first token, within the sequence
  i64 slot = 0;
  int n = 0;
  int head = 0;
  int rows = 0;  // tokens that exist; 0: no such chunk

  KDA_DEVICE i64 origin(const abi::Tensor& tensor, int h) const {
    return offset_of<shape.varlen>(tensor, n, begin, h) + first * tensor.token;
  }
  KDA_DEVICE int qk_head() const { return head / shape.group; }

  // Elements to its first token's rows.
  KDA_DEVICE i64 q_origin(const abi::Inputs& in) const { return origin(in.q, qk_head()); }
  KDA_DEVICE i64 k_origin(const abi::Inputs& in) const { return origin(in.k, qk_head()); }
  KDA_DEVICE i64 g_origin(const abi::Inputs& in) const { return origin(in.g, head); }
  KDA_DEVICE i64 beta_origin(const abi::Inputs& in) const { return origin(in.beta, head); }
};

// Chunk `number` of a sequence of which `tokens` go by chunks; no rows: it has fewer.
KDA_DEVICE Tile tile_of(int n, int head, i64 begin, i64 tokens, int number) {
  Tile tile;
  tile.n = n;
  tile.head = head;
  tile.begin = begin;
  tile.first = static_cast<i64>(number) * chunk;
  tile.slot = first_slot(begin, n, chunk) + number;
  const i64 left = tokens - tile.first;
  tile.rows = left <= 0 ? 0 : static_cast<int>(left < chunk ? left : chunk);
  return tile;
}

}  // namespace kda
