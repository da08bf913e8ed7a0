// Dropout for one instruction set; compiled once for each, with RR_KERNELS naming the table it defines.
//
// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") turns a counter into four words, and
// every half of a word decides one element. 16 counters make a block of 128 elements whose order is the same for
// vectors of any width, so that a seed means the same mask on every processor and with any number of threads.
#include "dropout.h"

#include "parallel.h"
#include "simd.h"

namespace {

constexpr int COUNTERS = 16, HALVES = 8, BLOCK = COUNTERS * HALVES;
constexpr int64_t WORTH_A_THREAD = 64;  // blocks that a thread should have at least

typedef int32_t Ints __attribute__((vector_size(LANES * 4)));

// The upper halves of the products of 32-bit numbers.
RR_INLINE Bits high_product(Bits x, uint32_t factor) {
#if defined(__AVX512F__)
  const __m512i f = _mm512_set1_epi32((int)factor), upper = _mm512_set1_epi64((int64_t)0xffffffff00000000u);
  const __m512i even = _mm512_mul_epu32((__m512i)x, f), odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)x, 32), f);
  return (Bits)_mm512_or_si512(_mm512_srli_epi64(even, 32), _mm512_and_si512(odd, upper));
#elif defined(__AVX2__)
  const __m256i f = _mm256_set1_epi32((int)factor);
  const __m256i even = _mm256_mul_epu32((__m256i)x, f), odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)x, 32), f);
  return (Bits)_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
#else
  Bits high;
  for (int lane = 0; lane < LANES; ++lane) high[lane] = (uint32_t)(((uint64_t)x[lane] * factor) >> 32);
  return high;
#endif
}

// Four random words for each of the counters, which differ in their first word.
RR_INLINE void philox(Bits first, uint32_t second, uint64_t key, Bits words[4]) {
  Bits a = first, b = Bits{} + second, c = {}, d = {};
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
    const Bits high_a = high_product(a, 0xd2511f53u), low_a = a * 0xd2511f53u;
    const Bits high_c = high_product(c, 0xcd9e8d57u), low_c = c * 0xcd9e8d57u;
    a = high_c ^ b ^ k0;
    b = low_c;
    c = high_a ^ d ^ k1;
    d = low_a;
  }
  words[0] = a, words[1] = b, words[2] = c, words[3] = d;
}

// What the elements of a block are multiplied by.
RR_INLINE void factors_of(const DropoutCall& call, int64_t block, float* factors) {
  const uint64_t counter = (uint64_t)block * COUNTERS;
  const Vec scale = splat(call.scale);
  const Ints dropped = Ints{} + (int32_t)call.dropped;
  auto put_factors = [&](float* to, Bits halves) RR_LAMBDA {
    store(to, (Vec)((Bits)scale & (Bits)((Ints)halves >= dropped)), Full{});
  };
  for (int first = 0; first < COUNTERS; first += LANES) {
    Bits words[4];
    philox(lane_numbers() + (uint32_t)(counter + (uint64_t)first), (uint32_t)(counter >> 32), call.seed, words);
    for (int word = 0; word < 4; ++word) {
      put_factors(factors + 2 * word * COUNTERS + first, words[word] & 0xffffu);
      put_factors(factors + (2 * word + 1) * COUNTERS + first, words[word] >> 16);
    }
  }
}

template <class T>
RR_ROW void drop(const DropoutCall& call, int64_t begin, int64_t end) {
  const T* x = (const T*)call.x;
  T* y = (T*)call.y;
  alignas(64) float factors[BLOCK];
  for (int64_t block = begin; block < end; ++block) {
    factors_of(call, block, factors);
    const int64_t first = block * BLOCK, left = call.n - first;
    each_vec(0, left < BLOCK ? left : BLOCK, [&](int64_t j, auto lanes) RR_LAMBDA {
      store(y + first + j, load(x + first + j, lanes) * load(factors + j, lanes), lanes);
    });
  }
}

void dropout(const DropoutCall& call) {
  parallel_ranges((call.n + BLOCK - 1) / BLOCK, WORTH_A_THREAD, [&](int64_t begin, int64_t end) {
    call.is_bfloat16 ? drop<bfloat16>(call, begin, end) : drop<float>(call, begin, end);
  });
}

}  // namespace

extern const DropoutKernels RR_KERNELS;
const DropoutKernels RR_KERNELS = {dropout};
