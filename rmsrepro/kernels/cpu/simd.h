// A short vector of float lanes, as wide as the instruction set this file is compiled for.
//
// Written with the vector extensions of gcc and clang, so that one source serves AVX-512, AVX2, and (with four
// lanes) NEON, SSE2 or plain scalar code. Only the ends of rows, where fewer lanes are left, need intrinsics.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define RR_INLINE static inline __attribute__((always_inline))
// Once per row or block: a call costs nothing there, and inlined copies would only make the library large.
#define RR_ROW static __attribute__((noinline))
#define RR_LAMBDA __attribute__((always_inline))

namespace {  // every instruction set keeps its own copy: nothing here may be merged by the linker

#if defined(__AVX512F__)
constexpr int LANES = 16;
#elif defined(__AVX2__)
constexpr int LANES = 8;
#else
constexpr int LANES = 4;
#endif

typedef float Vec __attribute__((vector_size(LANES * 4)));
typedef float LooseVec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((vector_size(LANES * 4)));
typedef uint16_t Halves __attribute__((vector_size(LANES * 2)));
typedef uint16_t LooseHalves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

struct bfloat16 {
  uint16_t bits;
};

// How many lanes of a vector are in use: all of them, or the `count` that a row has left.
struct Full {};
struct Part {
  int count;
};

RR_INLINE Vec splat(float value) { return value - Vec{}; }

RR_INLINE Vec widen(Halves halves) { return (Vec)(__builtin_convertvector(halves, Bits) << 16); }

RR_INLINE Halves narrow(Vec value) {  // to nearest, ties to even; NaN stays a (quiet) NaN
  Bits bits = (Bits)value;
  Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  Bits not_a_number = (Bits)(value != value);
  return __builtin_convertvector((not_a_number & 0x7fc0u) | (~not_a_number & rounded), Halves);
}

RR_INLINE Vec load(const float* p, Full) { return *(const LooseVec*)p; }
RR_INLINE Vec load(const bfloat16* p, Full) { return widen(*(const LooseHalves*)p); }
RR_INLINE void store(float* p, Vec value, Full) { *(LooseVec*)p = value; }
RR_INLINE void store(bfloat16* p, Vec value, Full) { *(LooseHalves*)p = narrow(value); }

#if defined(__AVX512F__)

RR_INLINE __mmask16 mask_of(Part lanes) { return (__mmask16)((1u << lanes.count) - 1u); }
RR_INLINE Vec load(const float* p, Part lanes) { return (Vec)_mm512_maskz_loadu_ps(mask_of(lanes), p); }
RR_INLINE void store(float* p, Vec value, Part lanes) { _mm512_mask_storeu_ps(p, mask_of(lanes), (__m512)value); }
RR_INLINE Vec load(const bfloat16* p, Part lanes) {
  return widen((Halves)_mm256_maskz_loadu_epi16(mask_of(lanes), p));
}
RR_INLINE void store(bfloat16* p, Vec value, Part lanes) {
  _mm256_mask_storeu_epi16(p, mask_of(lanes), (__m256i)narrow(value));
}

#else

#if defined(__AVX2__)
RR_INLINE __m256i mask_of(Part lanes) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(lanes.count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
RR_INLINE Vec load(const float* p, Part lanes) { return (Vec)_mm256_maskload_ps(p, mask_of(lanes)); }
RR_INLINE void store(float* p, Vec value, Part lanes) { _mm256_maskstore_ps(p, mask_of(lanes), (__m256)value); }
#else
RR_INLINE Vec load(const float* p, Part lanes) {
  Vec value = {};
  for (int i = 0; i < lanes.count; ++i) value[i] = p[i];
  return value;
}
RR_INLINE void store(float* p, Vec value, Part lanes) {
  for (int i = 0; i < lanes.count; ++i) p[i] = value[i];
}
#endif

RR_INLINE Vec load(const bfloat16* p, Part lanes) {
  Halves halves = {};
  for (int i = 0; i < lanes.count; ++i) halves[i] = p[i].bits;
  return widen(halves);
}
RR_INLINE void store(bfloat16* p, Vec value, Part lanes) {
  Halves halves = narrow(value);
  for (int i = 0; i < lanes.count; ++i) p[i].bits = halves[i];
}

#endif

// Past the caches, to an address that is a multiple of the vector's size; fence_streams() must follow the last one.
#if defined(__AVX512F__)
RR_INLINE void stream(float* p, Vec value) { _mm512_stream_ps(p, (__m512)value); }
RR_INLINE void stream(bfloat16* p, Vec value) { _mm256_stream_si256((__m256i*)p, (__m256i)narrow(value)); }
RR_INLINE void fence_streams() { _mm_sfence(); }
#elif defined(__AVX2__)
RR_INLINE void stream(float* p, Vec value) { _mm256_stream_ps(p, (__m256)value); }
RR_INLINE void stream(bfloat16* p, Vec value) { _mm_stream_si128((__m128i*)p, (__m128i)narrow(value)); }
RR_INLINE void fence_streams() { _mm_sfence(); }
#else
template <class T>
RR_INLINE void stream(T* p, Vec value) {
  store(p, value, Full{});
}
RR_INLINE void fence_streams() {}
#endif

template <bool Streamed, class T>
RR_INLINE void put(T* p, Vec value, Full lanes) {
  Streamed ? stream(p, value) : store(p, value, lanes);
}
template <bool Streamed, class T>
RR_INLINE void put(T* p, Vec value, Part lanes) {
  store(p, value, lanes);
}

// Say whether an output is better written past the caches: reading it into them first would cost a third of the
// traffic, and it is too large to be found there when it is read next.
constexpr int64_t STREAM_BYTES = 8 << 20;
template <class T>
RR_INLINE bool worth_streaming(const T* p, int64_t rows, int64_t n) {
  const int64_t vector_bytes = LANES * (int64_t)sizeof(T);
  return rows * n * (int64_t)sizeof(T) >= STREAM_BYTES && n % LANES == 0 && (uintptr_t)p % vector_bytes == 0;
}

RR_INLINE Vec larger(Vec a, Vec b) { return a > b ? a : b; }

// Say whether any lane of v exceeds its bound.
RR_INLINE bool any_above(Vec v, Vec bound) {
#if defined(__AVX512F__)
  return _mm512_cmp_ps_mask((__m512)v, (__m512)bound, _CMP_GT_OQ) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps(_mm256_cmp_ps((__m256)v, (__m256)bound, _CMP_GT_OQ)) != 0;
#else
  bool any = false;
  for (int lane = 0; lane < LANES; ++lane) any |= v[lane] > bound[lane];
  return any;
#endif
}

// Built once and read from memory: made lane by lane, such a vector costs more than what it is for.
alignas(64) constexpr uint32_t LANE_NUMBERS[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
RR_INLINE Bits lane_numbers() { return *(const Bits*)LANE_NUMBERS; }

// All bits of the lanes in use, none of the others.
RR_INLINE Bits in_use(Part lanes) { return (Bits)(lane_numbers() < (uint32_t)lanes.count); }
// Set the unused lanes to a value, or to zero.
RR_INLINE Vec fill(Vec value, Part lanes, float unused) { return in_use(lanes) ? value : splat(unused); }
RR_INLINE Vec keep(Vec value, Full) { return value; }
RR_INLINE Vec keep(Vec value, Part lanes) { return (Vec)((Bits)value & in_use(lanes)); }

// Add all lanes, pairwise and in a fixed order.
typedef float Floats4 __attribute__((vector_size(16)));
typedef float Floats8 __attribute__((vector_size(32)));
RR_INLINE float sum_lanes(Floats4 v) { return (v[0] + v[2]) + (v[1] + v[3]); }
#if defined(__AVX2__)
RR_INLINE float sum_lanes(Floats8 v) {
  return sum_lanes((Floats4)_mm256_castps256_ps128(v) + (Floats4)_mm256_extractf128_ps(v, 1));
}
#endif
#if defined(__AVX512F__)
RR_INLINE float sum_lanes(Vec v) {
  return sum_lanes((Floats8)_mm512_castps512_ps256(v) + (Floats8)_mm512_extractf32x8_ps(v, 1));
}
#endif

RR_INLINE float largest_lane(Floats4 v) {
  const float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
  return a > b ? a : b;
}
#if defined(__AVX2__)
RR_INLINE float largest_lane(Floats8 v) {
  const Floats4 a = (Floats4)_mm256_castps256_ps128(v), b = (Floats4)_mm256_extractf128_ps(v, 1);
  return largest_lane(a > b ? a : b);
}
#endif
#if defined(__AVX512F__)
RR_INLINE float largest_lane(Vec v) {
  const Floats8 a = (Floats8)_mm512_castps512_ps256(v), b = (Floats8)_mm512_extractf32x8_ps(v, 1);
  return largest_lane(a > b ? a : b);
}
#endif

// Call body(j, lanes) for vectors that cover the columns begin <= j < end.
template <class Body>
RR_INLINE void each_vec(int64_t begin, int64_t end, Body body) {
  int64_t j = begin;
  for (; j + 2 * LANES <= end; j += 2 * LANES) {
    body(j, Full{});
    body(j + LANES, Full{});
  }
  for (; j + LANES <= end; j += LANES) body(j, Full{});
  if (j < end) body(j, Part{(int)(end - j)});
}

constexpr int64_t SUM_BLOCK = 4096;  // columns added in float before the sum moves to double

// Sum term(j, lanes) over 0 <= j < n for `Count` terms at once: add(j, lanes, sums) adds to sums[0..Count).
//
// Four independent vectors per term hide the latency of the additions and keep every partial sum short.
template <int Count, class Add>
RR_INLINE void sum_row(int64_t n, double* totals, Add add) {
  for (int c = 0; c < Count; ++c) totals[c] = 0.0;
  for (int64_t begin = 0; begin < n; begin += SUM_BLOCK) {
    int64_t end = n - begin < SUM_BLOCK ? n : begin + SUM_BLOCK;
    Vec s0[Count] = {}, s1[Count] = {}, s2[Count] = {}, s3[Count] = {};
    int64_t j = begin;
    for (; j + 4 * LANES <= end; j += 4 * LANES) {
      add(j, Full{}, s0);
      add(j + LANES, Full{}, s1);
      add(j + 2 * LANES, Full{}, s2);
      add(j + 3 * LANES, Full{}, s3);
    }
    each_vec(j, end, [&](int64_t i, auto lanes) RR_LAMBDA { add(i, lanes, s0); });
    for (int c = 0; c < Count; ++c) totals[c] += sum_lanes((s0[c] + s1[c]) + (s2[c] + s3[c]));
  }
}

}  // namespace
