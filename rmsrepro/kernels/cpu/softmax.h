// A row of scores into weights that sum up to one.
#pragma once

#include <cfloat>

#include "activations.h"

namespace {

RR_INLINE int64_t whole_vectors(int64_t count) { return (count + LANES - 1) / LANES * LANES; }

// exp(x), where x is at most 0; what is no number stays none.
RR_INLINE Vec weight_of(Vec x) {
  const Exponential e = split_exp(clamp(x, -87.0f, 0.0f));
  return x == x ? e.scale + e.scale * e.excess : x;
}

// The largest score of a row, and the sum of the exponentials of all scores' distances to it times the scale.
struct SoftmaxStat {
  float largest, sum;
};

// Turn `count` scores, times `scale`, into weights. There is room up to the next whole vector, which is filled with
// zeros: the smallest weight there would be no normal number once it is shared, and those are slow. The scale follows the
// subtraction: a fused multiply-subtract would take the largest score's rounded product from its exact one.
RR_ROW SoftmaxStat softmax(float* scores, int64_t count, float scale) {
  const int64_t whole = count / LANES * LANES;
  const Part rest = {(int)(count - whole)};
  Vec top = splat(-FLT_MAX);
  for (int64_t s = 0; s < whole; s += LANES) top = larger(load(scores + s, Full{}), top);
  const Vec last = rest.count ? load(scores + whole, rest) : Vec{};
  if (rest.count) top = larger(fill(last, rest, -FLT_MAX), top);
  const float largest = largest_lane(top);
  const Vec most = splat(largest), factor = splat(scale);
  Vec sum = {}, last_weight = {};
  for (int64_t s = 0; s < whole; s += LANES) {
    const Vec weight = weight_of((load(scores + s, Full{}) - most) * factor);
    sum += weight;
    store(scores + s, weight, Full{});
  }
  if (rest.count) sum += last_weight = keep(weight_of((last - most) * factor), rest);
  const float total = sum_lanes(sum);
  const Vec share = splat(1.0f / total);
  for (int64_t s = 0; s < whole; s += LANES) store(scores + s, load(scores + s, Full{}) * share, Full{});
  if (rest.count) store(scores + whole, last_weight * share, Full{});
  return {largest, total};
}

}  // namespace
