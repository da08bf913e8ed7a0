// What the kernels of a softmax over V classes share.
#pragma once

#include <cmath>

#include "gemm.h"

namespace {

constexpr int64_t MOST_ROWS = 32 * TILE_ROWS;  // of x at a time

// What the logits of `wide` classes from `first` on start from: the bias [V] or null, and for what fills the last panel
// up past the last class a logit that never has a probability.
RR_INLINE void start_logits(const float* bias, int64_t classes, int64_t first, int64_t wide, float* start) {
  for (int64_t n = 0, v = first; n < wide; ++n, ++v) start[n] = v >= classes ? -INFINITY : bias ? bias[v] : 0.0f;
}

}  // namespace
