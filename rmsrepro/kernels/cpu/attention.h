// Additive attention of one query over the positions of one sequence: weights = softmax_s(score . tanh(key_s + query)).
#pragma once

#include "activations.h"

namespace {

RR_ROW void softmax_row(float* x, int64_t n) {
  float highest = x[0];
  for (int64_t j = 1; j < n; ++j) highest = x[j] > highest ? x[j] : highest;
  const Vec shift = splat(highest);
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA {
    const Exponential e = split_exp(clamp(load(x + j, lanes) - shift, -87.0f, 0.0f));
    store(x + j, e.scale + e.scale * e.excess, lanes);
  });
  double total;
  sum_row<1>(n, &total, [&](int64_t j, auto lanes, Vec* sum) RR_LAMBDA { sum[0] += load(x + j, lanes); });
  const Vec scale = splat((float)(1.0 / total));
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA { store(x + j, load(x + j, lanes) * scale, lanes); });
}

// Fill weights [length] and attended [width], the weighted sum of context [length][width]; keys [length][size].
RR_ROW void attend_row(const float* keys, const float* context, int64_t length, int64_t size, int64_t width,
                       const float* score, const float* query, float* weights, float* attended) {
  for (int64_t s = 0; s < length; ++s) {
    const float* key = keys + s * size;
    double total;
    sum_row<1>(size, &total, [&](int64_t j, auto lanes, Vec* sum) RR_LAMBDA {
      sum[0] += load(score + j, lanes) * tanh(load(key + j, lanes) + load(query + j, lanes));
    });
    weights[s] = (float)total;
  }
  if (length > 0) softmax_row(weights, length);
  each_vec(0, width, [&](int64_t j, auto lanes) RR_LAMBDA {
    Vec sum = {};
    for (int64_t s = 0; s < length; ++s) sum += splat(weights[s]) * load(context + s * width + j, lanes);
    store(attended + j, sum, lanes);
  });
}

// From dattended [width] fill dquery [size], and add to dkeys [length][size] and dscore [size]. The context's own
// gradient is left to one product after all steps. `work` has room for `length` numbers.
RR_ROW void attend_row_backward(const float* keys, const float* context, int64_t length, int64_t size, int64_t width,
                                const float* score, const float* query, const float* weights, const float* dattended,
                                float* work, float* dkeys, float* dquery, float* dscore) {
  double mean = 0.0;
  for (int64_t s = 0; s < length; ++s) {
    double dot;
    sum_row<1>(width, &dot, [&](int64_t j, auto lanes, Vec* sum) RR_LAMBDA {
      sum[0] += load(dattended + j, lanes) * load(context + s * width + j, lanes);
    });
    work[s] = (float)dot;
    mean += (double)weights[s] * dot;
  }
  for (int64_t s = 0; s < length; ++s) work[s] = weights[s] * (work[s] - (float)mean);
  const Vec one = splat(1.0f);
  // Computing tanh again costs less than keeping [T][B][S][A] of it in memory and reading it back.
  each_vec(0, size, [&](int64_t j, auto lanes) RR_LAMBDA {
    const Vec v = load(score + j, lanes), q = load(query + j, lanes);
    Vec from_query = {}, from_score = load(dscore + j, lanes);
    for (int64_t s = 0; s < length; ++s) {
      const Vec y = tanh(load(keys + s * size + j, lanes) + q), d = splat(work[s]);
      const Vec g = d * v * (one - y * y);
      from_score += d * y;
      from_query += g;
      store(dkeys + s * size + j, load(dkeys + s * size + j, lanes) + g, lanes);
    }
    store(dquery + j, from_query, lanes);
    store(dscore + j, from_score, lanes);
  });
}

}  // namespace
