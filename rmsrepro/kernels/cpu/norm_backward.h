// Backward: with u = dy * gain and xhat = (x - mean) * r,
//
//   dx = r * (u - mean(u) - xhat * q),  q = f / k * sum_j u_j xhat_j,   dgain = sum_rows dy * xhat,   dbias = sum_rows dy
//
// mean(u) only where rows are centred, the term in q only in the first k columns, f = 1 with eps inside the root and
// (rms + eps) / rms outside it. Writing xhat where papers write x r^3 keeps huge and tiny rows in range.
//
// Each row is read twice, the second time from cache. The rows are cut into chunks that depend on the shape alone;
// a chunk adds its rows to its own dgain and dbias, and the chunks are added in order: the result does not depend on
// the number of threads or on which is first.
#pragma once

#include "norm_forward.h"

namespace {

constexpr int ROWS_TOGETHER = 2;  // rows that share one trip of gain, dgain and dbias through the registers

struct ChunkPlan {
  int64_t chunks, rows;  // rows per chunk
};

ChunkPlan plan_chunks(int64_t rows, int64_t n) {
  const int64_t elements = rows * n;
  int64_t wanted = elements / 16384, many = elements / 65536;
  if (wanted > 16) wanted = many > 16 ? many : 16;
  int64_t chunks = 1;
  while (chunks * 2 <= wanted && chunks < 128) chunks *= 2;
  const int64_t per_chunk = (rows + chunks - 1) / chunks;
  return {(rows + per_chunk - 1) / per_chunk, per_chunk};
}

struct RowTerms {
  float mean, r, mean_u, q;
};

// The sums over one row that its dx needs.
template <class T, bool Centre, bool Gain>
RR_ROW RowTerms row_terms(const T* x, const T* dy, const float* gain, const float* stat, const NormSpec& spec) {
  const float mean = Centre ? stat[0] : 0.0f, r = stat[Centre ? 1 : 0];
  const Vec shift = splat(mean), scale = splat(r);
  double sums[2];
  sum_row<2>(spec.n, sums, [&](int64_t j, auto lanes, Vec* s) RR_LAMBDA {
    Vec u = load(dy + j, lanes);
    if (Gain) u = u * load(gain + j, lanes);
    Vec xhat = load(x + j, lanes);
    if (Centre) xhat = xhat - shift;
    s[0] += u * (xhat * scale);
    if (Centre) s[1] += u;
  });
  double q = sums[0] / (double)spec.k;
  if (spec.eps_outside) {
    double unused, ms;
    moments<T, Centre>(x, spec, &unused, &ms);
    const double rms = __builtin_sqrt(ms);
    q = rms > 0.0 ? q * (rms + spec.eps) / rms : 0.0;
  }
  return {mean, r, Centre ? (float)(sums[1] / (double)spec.n) : 0.0f, (float)q};
}

// dx of `Rows` rows in the columns begin <= j < end, and their share of dgain and dbias.
template <class T, int Rows, bool Centre, bool Gain, bool Bias, bool Second>
RR_ROW void write_columns(int64_t begin, int64_t end, const T* const* xs, const T* const* dys, const T* const* dsums,
                          T* const* dxs, const RowTerms* terms, bool corrected, const float* gain, float* dgain,
                          float* dbias) {
  const T *x[Rows], *dy[Rows], *dsum[Rows];  // local copies, which no store can touch
  T* dx[Rows];
  Vec mean[Rows], r[Rows], mean_u[Rows], q[Rows];
  for (int i = 0; i < Rows; ++i) {
    x[i] = xs[i];
    dy[i] = dys[i];
    dsum[i] = dsums[i];
    dx[i] = dxs[i];
    mean[i] = splat(terms[i].mean);
    r[i] = splat(terms[i].r);
    mean_u[i] = splat(terms[i].mean_u);
    q[i] = splat(corrected ? terms[i].q : 0.0f);
  }
  each_vec(begin, end, [&](int64_t j, auto lanes) RR_LAMBDA {
    Vec g, gain_sum, bias_sum;
    if (Gain) {
      g = load(gain + j, lanes);
      gain_sum = load(dgain + j, lanes);
    }
    if (Bias) bias_sum = load(dbias + j, lanes);
    for (int i = 0; i < Rows; ++i) {
      Vec d = load(dy[i] + j, lanes), xhat = load(x[i] + j, lanes);
      if (Centre) xhat = xhat - mean[i];
      xhat = xhat * r[i];
      if (Gain) gain_sum += d * xhat;
      if (Bias) bias_sum += d;
      Vec u = Gain ? d * g : d;
      if (Centre) u = u - mean_u[i];
      Vec result = r[i] * (u - xhat * q[i]);
      if (Second) result = result + load(dsum[i] + j, lanes);
      store(dx[i] + j, result, lanes);
    }
    if (Gain) store(dgain + j, gain_sum, lanes);
    if (Bias) store(dbias + j, bias_sum, lanes);
  });
}

template <class T, int Rows, bool Centre, bool Gain, bool Bias, bool Second>
RR_INLINE void backward_block(const NormSpec& spec, const BackwardTensors& t, int64_t first, T* unwanted,
                              const float* gain, float* dgain, float* dbias) {
  const T *x[Rows], *dy[Rows], *dsum[Rows];
  T* dx[Rows];
  RowTerms terms[Rows];
  for (int i = 0; i < Rows; ++i) {
    const int64_t row = first + i;
    x[i] = (const T*)t.x + row * t.x_stride;
    dy[i] = (const T*)t.dy + row * t.dy_stride;
    dsum[i] = Second ? (const T*)t.dsum + row * t.dsum_stride : nullptr;
    dx[i] = t.dx ? (T*)t.dx + row * spec.n : unwanted;
    terms[i] = row_terms<T, Centre, Gain>(x[i], dy[i], gain, t.stat + row * (Centre ? 2 : 1), spec);
  }
  write_columns<T, Rows, Centre, Gain, Bias, Second>(0, spec.k, x, dy, dsum, dx, terms, true, gain, dgain, dbias);
  if (spec.k < spec.n)
    write_columns<T, Rows, Centre, Gain, Bias, Second>(spec.k, spec.n, x, dy, dsum, dx, terms, false, gain, dgain,
                                                       dbias);
}

// Add the chunks' partial sums [chunks][n] in order and round to the wanted type.
void finish_sum(const float* partials, int64_t chunks, int64_t row_stride, int64_t n, int32_t type, void* result) {
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA {
    Vec sum = load(partials + j, lanes);
    for (int64_t c = 1; c < chunks; ++c) sum += load(partials + c * row_stride + j, lanes);
    if (type == FLOAT32)
      store((float*)result + j, sum, lanes);
    else
      store((bfloat16*)result + j, sum, lanes);
  });
}

template <class T, bool Centre, bool Gain, bool Bias, bool Second>
void backward_rows(const NormSpec& spec, const BackwardTensors& t, const float* gain) {
  const int64_t n = spec.n, padded = (n + 15) / 16 * 16;
  const int64_t sums = (Gain ? 1 : 0) + (Bias ? 1 : 0);
  const ChunkPlan plan = plan_chunks(t.rows, n);
  float* partials = scratch(SCRATCH_PARTIALS, plan.chunks * sums * padded + 1);
  parallel_ranges(plan.chunks, 1, [&](int64_t begin, int64_t end) {
    T* unwanted = t.dx ? nullptr : (T*)scratch(SCRATCH_ROW, n);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      float* dgain = partials + chunk * sums * padded;
      float* dbias = dgain + (Gain ? padded : 0);
      memset(dgain, 0, (size_t)(sums * padded) * sizeof(float));
      int64_t row = chunk * plan.rows;
      const int64_t last = t.rows - row < plan.rows ? t.rows : row + plan.rows;
      const int64_t together = t.dx ? ROWS_TOGETHER : 1;  // one scratch row serves one row at a time
      for (; together > 1 && row + ROWS_TOGETHER <= last; row += ROWS_TOGETHER)
        backward_block<T, ROWS_TOGETHER, Centre, Gain, Bias, Second>(spec, t, row, unwanted, gain, dgain, dbias);
      for (; row < last; ++row)
        backward_block<T, 1, Centre, Gain, Bias, Second>(spec, t, row, unwanted, gain, dgain, dbias);
    }
  });
  if (Gain && t.dgain) finish_sum(partials, plan.chunks, sums * padded, n, spec.gain_type, t.dgain);
  if (Bias && t.dbias)
    finish_sum(partials + (Gain ? padded : 0), plan.chunks, sums * padded, n, spec.bias_type, t.dbias);
}

template <class T, bool Centre, bool Second>
void backward_typed(const NormSpec& spec, const BackwardTensors& t) {
  const float* gain = as_floats(t.gain, spec.gain_type, spec.gain_offset, spec.n, SCRATCH_GAIN);
  if (gain && t.dbias) return backward_rows<T, Centre, true, true, Second>(spec, t, gain);
  if (gain) return backward_rows<T, Centre, true, false, Second>(spec, t, gain);
  if (t.dbias) return backward_rows<T, Centre, false, true, Second>(spec, t, gain);
  backward_rows<T, Centre, false, false, Second>(spec, t, gain);
}

template <class T>
void backward_kind(const NormSpec& spec, const BackwardTensors& t) {
  if (t.dsum)
    spec.centre ? backward_typed<T, true, true>(spec, t) : backward_typed<T, false, true>(spec, t);
  else
    spec.centre ? backward_typed<T, true, false>(spec, t) : backward_typed<T, false, false>(spec, t);
}

void backward(const NormSpec& spec, const BackwardTensors& t) {
  if (spec.n == 0) return;
  if (t.rows == 0) {
    const int64_t sizes[] = {4, 2};  // bytes of a FLOAT32, of a BFLOAT16
    if (t.dgain) memset(t.dgain, 0, (size_t)(spec.n * sizes[spec.gain_type]));
    if (t.dbias) memset(t.dbias, 0, (size_t)(spec.n * sizes[spec.bias_type]));
    return;
  }
  spec.row_type == FLOAT32 ? backward_kind<float>(spec, t) : backward_kind<bfloat16>(spec, t);
}

}  // namespace
