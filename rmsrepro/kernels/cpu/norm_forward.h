// Forward: the statistic of a few rows, then their output while they are still in the first-level cache.
#pragma once

#include "parallel.h"
#include "statistics.h"

namespace {

constexpr int64_t FORWARD_GRAIN = 16384;  // elements below which a second thread costs more than it saves
constexpr int64_t CACHED_ELEMENTS = 4096;  // elements of x that are read again from the first-level cache

template <class T, bool Centre, bool Gain, bool Bias>
RR_ROW void write_row(const T* x, T* y, int64_t n, RowStat stat, const float* gain, const float* bias) {
  Vec r = splat(stat.r), mean = splat(stat.mean);
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA {
    Vec a = load(x + j, lanes);
    if (Centre) a = a - mean;
    a = a * r;
    if (Gain) a = a * load(gain + j, lanes);
    if (Bias) a = a + load(bias + j, lanes);
    store(y + j, a, lanes);
  });
}

template <class T>
RR_ROW void add_rows(const T* x, const T* residual, T* sum, int64_t n) {
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA {
    store(sum + j, load(x + j, lanes) + load(residual + j, lanes), lanes);
  });
}

template <class T, bool Centre, bool Gain, bool Bias>
void forward_rows(const NormSpec& spec, const ForwardTensors& t, const float* gain, const float* bias) {
  const int64_t n = spec.n, stats = Centre ? 2 : 1;
  // A few short rows at once: the roots and divisions of one row overlap with the sums of the next.
  constexpr int MAX_ROWS = 8;
  const int64_t together = n >= CACHED_ELEMENTS ? 1 : n <= CACHED_ELEMENTS / MAX_ROWS ? MAX_ROWS : CACHED_ELEMENTS / n;
  parallel_ranges(t.rows, FORWARD_GRAIN / n + 1, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += together) {
      const int64_t last = end - first < together ? end : first + together;
      RowStat stat[MAX_ROWS];
      const T* x = (const T*)t.x + first * t.x_stride;
      int64_t stride = t.x_stride;
      if (t.residual) {
        T* sum = (T*)t.sum + first * n;
        for (int64_t i = first; i < last; ++i)
          add_rows((const T*)t.x + i * t.x_stride, (const T*)t.residual + i * t.residual_stride, (T*)t.sum + i * n, n);
        x = sum;
        stride = n;
      }
      for (int64_t i = first; i < last; ++i) {
        RowStat s = row_stat<T, Centre>(x + (i - first) * stride, spec);
        stat[i - first] = s;
        if (Centre) t.stat[i * stats] = s.mean;
        t.stat[i * stats + stats - 1] = s.r;
      }
      for (int64_t i = first; i < last; ++i)
        write_row<T, Centre, Gain, Bias>(x + (i - first) * stride, (T*)t.y + i * n, n, stat[i - first], gain, bias);
    }
  });
}

// Give `p` [n] plus `offset` as floats: itself where nothing is to be done, else a copy in scratch memory.
const float* as_floats(const void* p, int32_t type, double offset, int64_t n, int slot) {
  if (p == nullptr || (type == FLOAT32 && offset == 0.0)) return (const float*)p;
  float* copy = scratch(slot, n);
  const Vec add = splat((float)offset);
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA {
    Vec value = type == FLOAT32 ? load((const float*)p + j, lanes) : load((const bfloat16*)p + j, lanes);
    store(copy + j, value + add, lanes);
  });
  return copy;
}

template <class T, bool Centre>
void forward_typed(const NormSpec& spec, const ForwardTensors& t) {
  const float* gain = as_floats(t.gain, spec.gain_type, spec.gain_offset, spec.n, SCRATCH_GAIN);
  const float* bias = as_floats(t.bias, spec.bias_type, 0.0, spec.n, SCRATCH_BIAS);
  if (gain && bias) return forward_rows<T, Centre, true, true>(spec, t, gain, bias);
  if (gain) return forward_rows<T, Centre, true, false>(spec, t, gain, bias);
  if (bias) return forward_rows<T, Centre, false, true>(spec, t, gain, bias);
  forward_rows<T, Centre, false, false>(spec, t, gain, bias);
}

void forward(const NormSpec& spec, const ForwardTensors& t) {
  if (t.rows == 0 || spec.n == 0) return;
  if (spec.row_type == FLOAT32)
    spec.centre ? forward_typed<float, true>(spec, t) : forward_typed<float, false>(spec, t);
  else
    spec.centre ? forward_typed<bfloat16, true>(spec, t) : forward_typed<bfloat16, false>(spec, t);
}

}  // namespace
