// Cached attention for one instruction set; compiled once for each, with RR_KERNELS naming the table it defines.
//
// A query reads the rows that are its own, wherever they lie: nothing is gathered or copied first. It meets them in the
// order of their positions whatever its neighbours and the number of threads, so neither changes a bit.
#include "cached_attention.h"

#include <cmath>

#include "parallel.h"
#include "softmax.h"

namespace {

constexpr int64_t WORTH_A_THREAD = 16384;  // elements of keys that a thread should read at least

// One query; `seen` and `scores` are memory to work in, of S elements and, for the scores, up to a whole vector.
RR_ROW void attend(const CachedAttentionCall& call, int64_t n, const float** seen, float* scores) {
  const int64_t width = call.width, size = call.heads * width, count = call.counts ? call.counts[n] : call.steps;
  const int64_t* rows = call.rows + n * call.rows_by_query;
  for (int64_t s = 0; s < count; ++s)
    seen[s] = call.cache[s] + (rows[s * call.rows_by_step] - call.starts[s]) * call.strides[s];
  const float scale = 1.0f / std::sqrt((float)width);
  for (int64_t first = 0; first < size; first += width) {
    const float* query = call.query + n * size + first;
    for (int64_t s = 0; s < count; ++s) {
      const float* key = seen[s] + first;
      Vec sum = {};
      each_vec(0, width, [&](int64_t j, auto lanes) RR_LAMBDA { sum += load(query + j, lanes) * load(key + j, lanes); });
      scores[s] = sum_lanes(sum);
    }
    softmax(scores, count, scale);
    float* y = call.y + n * size + first;
    each_vec(0, width, [&](int64_t j, auto lanes) RR_LAMBDA {
      Vec sum = {};
      for (int64_t s = 0; s < count; ++s) sum += splat(scores[s]) * load(seen[s] + size + first + j, lanes);
      store(y + j, sum, lanes);
    });
  }
}

void cached_attention(const CachedAttentionCall& call) {
  const int64_t grain = 1 + WORTH_A_THREAD / (call.steps * call.heads * call.width + 1);
  parallel_ranges(call.queries, grain, [&](int64_t begin, int64_t end) {
    const int64_t pointers = (call.steps * (int64_t)sizeof(float*) + 63) / 64 * 16;  // in floats, whole cache lines
    float* work = scratch(SCRATCH_ROW, pointers + call.steps + LANES);
    for (int64_t n = begin; n < end; ++n) attend(call, n, (const float**)work, work + pointers);
  });
}

}  // namespace

extern const CachedAttentionKernels RR_KERNELS;
const CachedAttentionKernels RR_KERNELS = {cached_attention};
