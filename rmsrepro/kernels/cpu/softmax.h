// A row of scores into weights that sum up to one.
#pragma once

#include <cfloat>
#include <cmath>

#include "activations.h"

namespace {

RR_INLINE int64_t whole_vectors(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

// exp(x), where x is at most about 0; what is no number stays none.
RR_INLINE Vec weight_of(Vec x) {
  const Exponential e = split_exp(clamp(x, -87.0f, 87.0f));
  return x == x ? e.scale + e.scale * e.excess : x;
}

// Turn `count` scores, times `scale`, into weights; return the logarithm of the sum of their exponentials. There is room
// up to the next whole vector, which is overwritten.
RR_ROW float softmax(float* scores, int64_t count, float scale) {
  for (int64_t s = count; s < whole_vectors(count); ++s) scores[s] = -FLT_MAX;
  Vec top = splat(-FLT_MAX);
  for (int64_t s = 0; s < count; s += LANES) top = larger(load(scores + s, Full{}) * splat(scale), top);
  const float largest = largest_lane(top);
  const Vec most = splat(largest);
  Vec sum = {};
  for (int64_t s = 0; s < count; s += LANES) {
    const Vec weight = weight_of(load(scores + s, Full{}) * splat(scale) - most);
    sum += weight;
    store(scores + s, weight, Full{});
  }
  const float total = sum_lanes(sum);
  const Vec share = splat(1.0f / total);
  for (int64_t s = 0; s < count; s += LANES) store(scores + s, load(scores + s, Full{}) * share, Full{});
  return largest + std::log(total);
}

}  // namespace
