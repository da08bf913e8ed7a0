// The GRU: h' = (1 - z) n + z h and n = tanh(x_n + r h_n), with the reset gate behind the state's projection.
#pragma once

#include "recurrent_steps.h"

namespace {

struct Gru {
  static constexpr int GATES = 3;

  static __attribute__((noinline)) void forward_row(const RecurrentCall& call, Place at, int64_t b, const float* hidden) {
    const int64_t size = call.size, n = GATES * size, row = at.t * call.batch + b;
    const float* h_before = call.h + (at.before * call.batch + b) * size;
    float* h = call.h + (at.after * call.batch + b) * size;
    if (!counts(call, row)) return copy_row(h, h_before, size);
    const float* input = call.input + row * n;
    RowStat input_stat[GROUPS], hidden_stat[GROUPS];
    for (int group = 0; group < GROUPS; ++group) {
      input_stat[group] = stat_of(input + group * 2 * size, call.input_norm[group]);
      hidden_stat[group] = stat_of(hidden + group * 2 * size, call.hidden_norm[group]);
      keep_stat(call.input_stat, row * GROUPS + group, input_stat[group]);
      keep_stat(call.hidden_stat, row * GROUPS + group, hidden_stat[group]);
    }
    const Scale x_gates(input_stat[0]), x_candidate(input_stat[1]);
    const Scale h_gates(hidden_stat[0]), h_candidate(hidden_stat[1]);
    float* gates = call.gates ? call.gates + row * n : nullptr;
    auto from_input = [&](const Scale& hat, int64_t j, auto lanes) RR_LAMBDA {
      return hat(load(input + j, lanes)) * load(call.input_gain + j, lanes) + load(call.bias + j, lanes);
    };
    auto from_hidden = [&](const Scale& hat, int64_t j, auto lanes) RR_LAMBDA {
      return hat(load(hidden + j, lanes)) * load(call.hidden_gain + j, lanes);
    };
    each_vec(0, size, [&](int64_t j, auto lanes) RR_LAMBDA {
      const Vec r = sigmoid(from_input(x_gates, j, lanes) + from_hidden(h_gates, j, lanes));
      const Vec z = sigmoid(from_input(x_gates, size + j, lanes) + from_hidden(h_gates, size + j, lanes));
      const Vec h_n = from_hidden(h_candidate, 2 * size + j, lanes) + load(call.candidate_bias + j, lanes);
      const Vec candidate = tanh(from_input(x_candidate, 2 * size + j, lanes) + r * h_n);
      store(h + j, candidate + z * (load(h_before + j, lanes) - candidate), lanes);
      if (gates == nullptr) return;
      store(gates + j, r, lanes);
      store(gates + size + j, z, lanes);
      store(gates + 2 * size + j, candidate, lanes);
    });
  }

  static __attribute__((noinline)) void backward_row(const RecurrentCall& call, Place at, int64_t b, float* partials, float* work) {
    const int64_t size = call.size, n = GATES * size, row = at.t * call.batch + b;
    float *dh = call.dh + b * size, *dinput = call.dinput + row * n, *dhidden = call.dhidden + row * n;
    if (call.dy) add_row(dh, call.dy + row * size, size);
    if (!counts(call, row)) {
      clear_row(dinput, n);
      clear_row(dhidden, n);
      return;
    }
    const float *gates = call.gates + row * n, *hidden = call.hidden + row * n;
    const float* h_before = call.h + (at.before * call.batch + b) * size;
    float *dinput_gain = partials, *dhidden_gain = partials + n, *dbias = partials + 2 * n, *dhidden_bias = partials + 3 * n;
    float *from_x = work, *from_h = work + n;
    const Scale h_candidate(kept_stat(call.hidden_stat, row * GROUPS + 1));
    const Vec one = splat(1.0f);
    each_vec(0, size, [&](int64_t j, auto lanes) RR_LAMBDA {
      const Vec r = load(gates + j, lanes), z = load(gates + size + j, lanes), candidate = load(gates + 2 * size + j, lanes);
      const Vec d = load(dh + j, lanes), before = load(h_before + j, lanes);
      const Vec h_n = h_candidate(load(hidden + 2 * size + j, lanes)) * load(call.hidden_gain + 2 * size + j, lanes) +
                      load(call.candidate_bias + j, lanes);
      const Vec dn = d * (one - z) * (one - candidate * candidate);
      const Vec dr = dn * h_n * r * (one - r), dz = d * (before - candidate) * z * (one - z);
      store(from_x + j, dr, lanes);
      store(from_x + size + j, dz, lanes);
      store(from_x + 2 * size + j, dn, lanes);
      store(from_h + j, dr, lanes);
      store(from_h + size + j, dz, lanes);
      store(from_h + 2 * size + j, dn * r, lanes);
      store(dh + j, d * z, lanes);
    });
    add_row(dbias, from_x, n);
    add_row(dhidden_bias + 2 * size, from_h + 2 * size, size);
    const int64_t widths[GROUPS] = {2 * size, size};
    projection_backward(call.hidden_norm, widths, call.hidden_stat, row, hidden, from_h, call.hidden_gain, dhidden,
                        dhidden_gain);
    projection_backward(call.input_norm, widths, call.input_stat, row, call.input + row * n, from_x, call.input_gain,
                        dinput, dinput_gain);
  }
};

}  // namespace
