// exp, sigmoid and tanh of a vector, to about two units in the last place over the whole range of float.
#pragma once

#include "simd.h"

namespace {

// Limits a value; NaN stays NaN, which is why the limit stands first.
RR_INLINE Vec clamp(Vec x, float low, float high) {
#if defined(__AVX512F__)
  return (Vec)_mm512_min_ps((__m512)splat(high), _mm512_max_ps((__m512)splat(low), (__m512)x));
#elif defined(__AVX2__)
  return (Vec)_mm256_min_ps((__m256)splat(high), _mm256_max_ps((__m256)splat(low), (__m256)x));
#else
  x = x < splat(low) ? splat(low) : x;
  return x > splat(high) ? splat(high) : x;
#endif
}

struct Exponential {
  Vec scale;   // 2^n
  Vec excess;  // exp(r) - 1
};

// exp(x) = 2^n * exp(r) with |r| <= log(2) / 2; x within [-87, 88].
RR_INLINE Exponential split_exp(Vec x) {
  const Vec shift = splat(12582912.0f);  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  Vec n = x * splat(1.44269504088896341f) + shift;
  Bits power = ((Bits)n << 23) + 0x3f800000u;
  n = n - shift;
  // log(2) in two parts, the first short enough that n times it is exact.
  Vec r = x - n * splat(0.693145751953125f);
  r = r - n * splat(1.42860682030941723e-6f);
  // The Taylor series, whose first missing term is below 2^-25, in an order that leaves the terms independent.
  const Vec square = r * r;
  const Vec low = splat(1.0f / 6) * r + splat(0.5f), middle = splat(1.0f / 120) * r + splat(1.0f / 24);
  const Vec high = splat(1.0f / 5040) * r + splat(1.0f / 720);
  const Vec p = (high * square + middle) * square + low;
  return {(Vec)power, square * p + r};
}

RR_INLINE Vec sigmoid(Vec x) {
  Exponential e = split_exp(clamp(splat(0.0f) - x, -87.0f, 88.0f));
  return splat(1.0f) / (splat(1.0f) + (e.scale + e.scale * e.excess));
}

// tanh(x) = m / (m + 2) with m = exp(2 x) - 1, which keeps its precision near zero.
RR_INLINE Vec tanh(Vec x) {
  Exponential e = split_exp(clamp(x + x, -20.0f, 20.0f));
  Vec m = e.scale * e.excess + (e.scale - splat(1.0f));
  return m / (m + splat(2.0f));
}

}  // namespace
