// A square of as many vectors as a vector has lanes, turned over in registers.
#pragma once

#include "simd.h"

namespace {

#if defined(__clang__)
#define RR_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
typedef int32_t Order __attribute__((vector_size(LANES * 4)));
#define RR_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Order{__VA_ARGS__})
#endif

// The lower halves of two vectors, one lane from either in turn, and their upper halves.
#if defined(__AVX512F__)
RR_INLINE Vec zip_lower(Vec a, Vec b) {
  return RR_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
RR_INLINE Vec zip_upper(Vec a, Vec b) {
  return RR_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#elif defined(__AVX2__)
RR_INLINE Vec zip_lower(Vec a, Vec b) { return RR_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
RR_INLINE Vec zip_upper(Vec a, Vec b) { return RR_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#else
RR_INLINE Vec zip_lower(Vec a, Vec b) { return RR_SHUFFLE(a, b, 0, 4, 1, 5); }
RR_INLINE Vec zip_upper(Vec a, Vec b) { return RR_SHUFFLE(a, b, 2, 6, 3, 7); }
#endif

RR_INLINE void transpose(Vec rows[LANES]) {
#pragma GCC unroll 4
  for (int stage = 1; stage < LANES; stage *= 2) {
    Vec zipped[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES / 2; ++i) {
      zipped[2 * i] = zip_lower(rows[i], rows[i + LANES / 2]);
      zipped[2 * i + 1] = zip_upper(rows[i], rows[i + LANES / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; ++i) rows[i] = zipped[i];
  }
}

}  // namespace
