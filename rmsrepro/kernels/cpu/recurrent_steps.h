// What LSTM and GRU share: the walk through the steps, and the norms of a projection's row.
//
// Sequences do not depend on each other, so every thread takes some of them through all steps without waiting for
// the others: each step is one product with the packed recurrent weights and one pass over the rows while they are
// still in the cache.
#pragma once

#include "activations.h"
#include "gemm.h"
#include "recurrent.h"
#include "statistics.h"

namespace {

struct Rows {
  int64_t first, last;
};

RR_INLINE Rows rows_of_block(const RecurrentCall& call, int64_t block) {
  return {block * call.batch / call.blocks, (block + 1) * call.batch / call.blocks};
}

// The step that is taken as number `number`, and where its states lie in h and c.
struct Place {
  int64_t t, before, after;
};

RR_INLINE Place place_of(const RecurrentCall& call, int64_t number) {
  if (!call.reverse) return {number, number, number + 1};
  const int64_t t = call.steps - 1 - number;
  return {t, t + 1, t};
}

RR_INLINE bool counts(const RecurrentCall& call, int64_t row_of_step) {
  return call.mask == nullptr || call.mask[row_of_step] != 0;
}

RR_INLINE RowStat stat_of(const float* x, const NormSpec& norm) {
  if (norm.n == 0) return {0.0f, 1.0f};
  return norm.centre ? row_stat<float, true>(x, norm) : row_stat<float, false>(x, norm);
}

RR_INLINE void keep_stat(float* to, int64_t index, RowStat stat) {
  if (to == nullptr) return;
  to[2 * index] = stat.mean;
  to[2 * index + 1] = stat.r;
}

RR_INLINE RowStat kept_stat(const float* from, int64_t index) { return {from[2 * index], from[2 * index + 1]}; }

// A statistic in every lane.
struct Scale {
  Vec mean, r;
  explicit Scale(RowStat stat) : mean(splat(stat.mean)), r(splat(stat.r)) {}
  __attribute__((always_inline)) Vec operator()(Vec x) const { return (x - mean) * r; }
};

// The gradient through one norm: from du = dpre * gain to dx = r * (du - mean(du) - xhat * q).
RR_ROW void norm_backward(const NormSpec& norm, RowStat stat, const float* x, const float* dpre, const float* gain,
                          float* dx, float* dgain) {
  const Scale hat(stat);
  double sums[2];
  sum_row<2>(norm.n, sums, [&](int64_t j, auto lanes, Vec* s) RR_LAMBDA {
    const Vec u = load(dpre + j, lanes) * load(gain + j, lanes);
    s[0] += u * hat(load(x + j, lanes));
    s[1] += u;
  });
  double q = sums[0] / (double)norm.k;
  if (norm.eps_outside) {
    double mean, ms;
    norm.centre ? moments<float, true>(x, norm, &mean, &ms) : moments<float, false>(x, norm, &mean, &ms);
    const double rms = __builtin_sqrt(ms);
    q = rms > 0.0 ? q * (rms + norm.eps) / rms : 0.0;
  }
  const Vec mean_u = splat(norm.centre ? (float)(sums[1] / (double)norm.n) : 0.0f);
  auto write = [&](int64_t begin, int64_t end, Vec correction) RR_LAMBDA {
    each_vec(begin, end, [&](int64_t j, auto lanes) RR_LAMBDA {
      const Vec d = load(dpre + j, lanes), xhat = hat(load(x + j, lanes));
      store(dgain + j, load(dgain + j, lanes) + d * xhat, lanes);
      store(dx + j, hat.r * (d * load(gain + j, lanes) - mean_u - xhat * correction), lanes);
    });
  };
  write(0, norm.k, splat((float)q));
  if (norm.k < norm.n) write(norm.k, norm.n, splat(0.0f));
}

RR_INLINE void add_row(float* sum, const float* row, int64_t n) {
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA { store(sum + j, load(sum + j, lanes) + load(row + j, lanes), lanes); });
}

RR_INLINE void copy_row(float* to, const float* from, int64_t n) { memcpy(to, from, (size_t)n * sizeof(float)); }
RR_INLINE void clear_row(float* to, int64_t n) { memset(to, 0, (size_t)n * sizeof(float)); }

// The gradient dpre [n] through a projection's norms (those of `norms`, over `widths` columns each) to dx [n].
RR_INLINE void projection_backward(const NormSpec* norms, const int64_t* widths, const float* stat, int64_t row,
                                   const float* x, const float* dpre, const float* gain, float* dx, float* dgain) {
  int64_t first = 0;
  for (int group = 0; group < GROUPS; first += widths[group++]) {
    if (norms[group].n)
      norm_backward(norms[group], kept_stat(stat, row * GROUPS + group), x + first, dpre + first, gain + first,
                    dx + first, dgain + first);
    else if (widths[group] && dx + first != dpre + first)
      copy_row(dx + first, dpre + first, widths[group]);
  }
}

template <class Cell>
void forward_steps(const RecurrentCall& call) {
  const int64_t n = Cell::GATES * call.size, size = call.size, batch = call.batch;
  if (batch == 0) return;
  const float* panels = pack_panels(call.weight, 1, size, size, n);
  parallel_ranges(call.blocks, 1, [&](int64_t begin, int64_t end) {
    const Rows rows = {rows_of_block(call, begin).first, rows_of_block(call, end - 1).last};
    float* unsaved = call.hidden ? nullptr : scratch(SCRATCH_PARTIALS, (rows.last - rows.first) * n);
    for (int64_t number = 0; number < call.steps; ++number) {
      const Place at = place_of(call, number);
      float* hidden = call.hidden ? call.hidden + (at.t * batch + rows.first) * n : unsaved;
      const Matrix h = {call.h + (at.before * batch + rows.first) * size, size, 1};
      multiply_rows(h, rows.last - rows.first, panels, size, size, n, call.hidden_inner_bias, hidden, n, false);
      for (int64_t b = rows.first; b < rows.last; ++b)
        Cell::forward_row(call, at, b, hidden + (b - rows.first) * n);
    }
  });
}

template <class Cell>
void backward_steps(const RecurrentCall& call) {
  const int64_t n = Cell::GATES * call.size, size = call.size, batch = call.batch;
  if (batch == 0) return;
  const float* panels = pack_panels(call.weight, size, 1, n, size);
  parallel_ranges(call.blocks, 1, [&](int64_t begin, int64_t end) {
    const Rows all = {rows_of_block(call, begin).first, rows_of_block(call, end - 1).last};
    float* work = scratch(SCRATCH_ROW, 2 * n);
    for (int64_t number = call.steps - 1; number >= 0; --number) {
      const Place at = place_of(call, number);
      for (int64_t block = begin; block < end; ++block) {
        float* partials = call.partials + block * (4 * n + 2 * size);
        const Rows rows = rows_of_block(call, block);
        for (int64_t b = rows.first; b < rows.last; ++b) Cell::backward_row(call, at, b, partials, work);
      }
      const Matrix dhidden = {call.dhidden + (at.t * batch + all.first) * n, n, 1};
      multiply_rows(dhidden, all.last - all.first, panels, n, n, size, nullptr,
                    call.dh + all.first * size, size, true);
    }
  });
}

}  // namespace
