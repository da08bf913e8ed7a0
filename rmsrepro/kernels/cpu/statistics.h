// The statistic of one row.
#pragma once

#include <cfloat>

#include "norm.h"
#include "simd.h"

namespace {

struct RowStat {
  float mean, r;
};

RR_INLINE float to_float(float value) { return value; }
RR_INLINE float to_float(bfloat16 value) {
  uint32_t bits = (uint32_t)value.bits << 16;
  float result;
  memcpy(&result, &bits, sizeof result);
  return result;
}

// Mean and mean square in double: for rows whose squares leave the range of float.
template <class T>
RR_ROW void exact_moments(const T* x, int64_t n, int64_t k, bool centre, double* mean, double* ms) {
  double sum = 0.0, squares = 0.0;
  if (centre)
    for (int64_t j = 0; j < n; ++j) sum += to_float(x[j]);
  *mean = sum / (double)n;
  for (int64_t j = 0; j < k; ++j) squares += (to_float(x[j]) - *mean) * (to_float(x[j]) - *mean);
  *ms = squares / (double)k;
}

// Mean (zero unless Centre) and mean square of the first k elements about it.
template <class T, bool Centre>
RR_ROW void moments(const T* x, const NormSpec& spec, double* mean, double* ms) {
  double sum = 0.0, squares;
  if (Centre) sum_row<1>(spec.n, &sum, [&](int64_t j, auto lanes, Vec* s) RR_LAMBDA { s[0] += load(x + j, lanes); });
  *mean = sum / (double)spec.n;
  Vec shift = splat((float)*mean);
  sum_row<1>(spec.k, &squares, [&](int64_t j, auto lanes, Vec* s) RR_LAMBDA {
    Vec a = load(x + j, lanes);
    if (Centre) a = keep(a - shift, lanes);
    s[0] += a * a;
  });
  *ms = squares / (double)spec.k;
  // Squares above the largest float or below the normal ones (which eps does not always hide) are taken again.
  bool in_range = squares < FLT_MAX && (squares > 1e-24 || spec.eps * (double)spec.k > 1e-16);
  if (!in_range) exact_moments(x, spec.n, spec.k, Centre, mean, ms);
}

template <class T, bool Centre>
RR_INLINE RowStat row_stat(const T* x, const NormSpec& spec) {
  double mean, ms;
  moments<T, Centre>(x, spec, &mean, &ms);
  double r = spec.eps_outside ? 1.0 / (__builtin_sqrt(ms) + spec.eps) : 1.0 / __builtin_sqrt(ms + spec.eps);
  return {(float)mean, (float)r};
}

}  // namespace
