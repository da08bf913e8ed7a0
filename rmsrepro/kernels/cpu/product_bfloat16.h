// C = A B in bfloat16 with sums in float: two neighbours in depth are multiplied at once where the processor can.
//
// B [depth][columns] lies as panels of pairs, [panel][pair][PANEL][2], A as tiles of pairs, [pair][rows][2]; an odd
// depth is filled up with zeros.
#pragma once

#include "gemm.h"

#if defined(__AVX512F__) && (defined(__clang__) || __GNUC__ >= 11)
#define RR_BFLOAT16_PRODUCT
#endif

namespace {

RR_INLINE int64_t pair_count(int64_t depth) { return (depth + 1) / 2; }

RR_INLINE uint16_t to_bfloat16(float value) { return narrow(splat(value))[0]; }

// Round rows of [depth] to bfloat16 and put them side by side, [pair][wide][2]; `rows` of them, the rest zeros.
RR_ROW void pack_pairs(const float* from, int64_t rows, int64_t wide, int64_t depth, uint16_t* to) {
  memset(to, 0, (size_t)(pair_count(depth) * wide * 2) * sizeof(uint16_t));
  for (int64_t block = 0; block < depth; block += 16)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = block; k < depth && k < block + 16; ++k)
        to[(k / 2 * wide + i) * 2 + k % 2] = to_bfloat16(from[i * depth + k]);
}

#ifdef RR_BFLOAT16_PRODUCT

inline bool has_bfloat16_product() { return __builtin_cpu_supports("avx512bf16"); }

// C [Rows][PANEL] = A B + bias over `pairs` pairs in depth.
template <int Rows>
__attribute__((noinline, target("avx512bf16"))) void tile_bfloat16(const uint16_t* a, const uint16_t* panel, int64_t pairs,
                                                                   const float* bias, float* c, int64_t c_stride) {
  __m512 sum[Rows][2];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < 2; ++j) sum[i][j] = _mm512_loadu_ps(bias + j * 16);
  for (int64_t pair = 0; pair < pairs; ++pair, a += 2 * Rows, panel += 2 * PANEL) {
    const __m512bh left = (__m512bh)_mm512_loadu_si512(panel), right = (__m512bh)_mm512_loadu_si512(panel + PANEL);
#pragma GCC unroll 12
    for (int i = 0; i < Rows; ++i) {
      int both;
      memcpy(&both, a + 2 * i, sizeof both);
      const __m512bh value = (__m512bh)_mm512_set1_epi32(both);
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], value, left);
      sum[i][1] = _mm512_dpbf16_ps(sum[i][1], value, right);
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < 2; ++j) _mm512_storeu_ps(c + i * c_stride + j * 16, sum[i][j]);
}

typedef void (*TileBFloat16)(const uint16_t*, const uint16_t*, int64_t, const float*, float*, int64_t);

template <int Rows>
RR_INLINE TileBFloat16 tile_bfloat16_of(int64_t rows) {
  if constexpr (Rows > 1)
    if (rows < Rows) return tile_bfloat16_of<Rows - 1>(rows);
  return tile_bfloat16<Rows>;
}

RR_INLINE void run_tile_bfloat16(const uint16_t* a, int64_t rows, const uint16_t* panel, int64_t pairs, const float* bias,
                                 float* c, int64_t c_stride) {
  tile_bfloat16_of<TILE_ROWS>(rows)(a, panel, pairs, bias, c, c_stride);
}

#else

inline bool has_bfloat16_product() { return false; }
inline void run_tile_bfloat16(const uint16_t*, int64_t, const uint16_t*, int64_t, const float*, float*, int64_t) {}

#endif

}  // namespace
