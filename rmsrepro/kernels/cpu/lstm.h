// The LSTM: c' = f c + i g and h' = o tanh(norm(c')), with (i f g o) from norm(W x) + norm(U h) + bias.
#pragma once

#include "recurrent_steps.h"

namespace {

struct Lstm {
  static constexpr int GATES = 4;

  static __attribute__((noinline)) void forward_row(const RecurrentCall& call, Place at, int64_t b, const float* hidden) {
    const int64_t size = call.size, n = GATES * size, row = at.t * call.batch + b;
    const float* h_before = call.h + (at.before * call.batch + b) * size;
    const float* c_before = call.c + (at.before * call.batch + b) * size;
    float* h = call.h + (at.after * call.batch + b) * size;
    float* c = call.c + (at.after * call.batch + b) * size;
    if (!counts(call, row)) {
      copy_row(h, h_before, size);
      copy_row(c, c_before, size);
      return;
    }
    const float* input = call.input + row * n;
    const RowStat input_stat = stat_of(input, call.input_norm[0]), hidden_stat = stat_of(hidden, call.hidden_norm[0]);
    keep_stat(call.input_stat, row * GROUPS, input_stat);
    keep_stat(call.hidden_stat, row * GROUPS, hidden_stat);
    const Scale x_hat(input_stat), h_hat(hidden_stat);
    float* gates = call.gates ? call.gates + row * n : scratch(SCRATCH_ROW, n);
    auto before_activation = [&](int64_t j, auto lanes) RR_LAMBDA {
      return x_hat(load(input + j, lanes)) * load(call.input_gain + j, lanes) +
             (h_hat(load(hidden + j, lanes)) * load(call.hidden_gain + j, lanes) + load(call.bias + j, lanes));
    };
    const bool normed = call.cell_norm.n != 0;
    each_vec(0, size, [&](int64_t j, auto lanes) RR_LAMBDA {
      const Vec i = sigmoid(before_activation(j, lanes)), f = sigmoid(before_activation(size + j, lanes));
      const Vec g = tanh(before_activation(2 * size + j, lanes)), o = sigmoid(before_activation(3 * size + j, lanes));
      const Vec value = f * load(c_before + j, lanes) + i * g;
      store(c + j, value, lanes);
      store(gates + j, i, lanes);
      store(gates + size + j, f, lanes);
      store(gates + 2 * size + j, g, lanes);
      store(gates + 3 * size + j, o, lanes);
      if (!normed) store(h + j, o * tanh(value), lanes);
    });
    if (!normed) return;
    const RowStat cell_stat = stat_of(c, call.cell_norm);
    keep_stat(call.cell_stat, row, cell_stat);
    const Scale c_hat(cell_stat);
    each_vec(0, size, [&](int64_t j, auto lanes) RR_LAMBDA {
      const Vec out = c_hat(load(c + j, lanes)) * load(call.cell_gain + j, lanes) + load(call.cell_shift + j, lanes);
      store(h + j, load(gates + 3 * size + j, lanes) * tanh(out), lanes);
    });
  }

  static __attribute__((noinline)) void backward_row(const RecurrentCall& call, Place at, int64_t b, float* partials, float* work) {
    const int64_t size = call.size, n = GATES * size, row = at.t * call.batch + b;
    float *dh = call.dh + b * size, *dc = call.dc + b * size;
    float *dinput = call.dinput + row * n, *dhidden = call.dhidden + row * n;
    if (call.dy) add_row(dh, call.dy + row * size, size);
    if (!counts(call, row)) {
      clear_row(dinput, n);
      clear_row(dhidden, n);
      return;
    }
    const float *gates = call.gates + row * n, *c = call.c + (at.after * call.batch + b) * size;
    const float* c_before = call.c + (at.before * call.batch + b) * size;
    float *dinput_gain = partials, *dhidden_gain = partials + n, *dbias = partials + 2 * n;
    float *dcell_gain = partials + 4 * n, *dcell_shift = dcell_gain + size;
    float *dpre = work, *dout = work + n, *dcell = work + n + size;
    const bool normed = call.cell_norm.n != 0;
    const Scale c_hat(normed ? kept_stat(call.cell_stat, row) : RowStat{0.0f, 1.0f});
    const Vec one = splat(1.0f);
    // The output: h = o tanh(out), out = norm(c).
    each_vec(0, size, [&](int64_t j, auto lanes) RR_LAMBDA {
      Vec out = load(c + j, lanes);
      if (normed) out = c_hat(out) * load(call.cell_gain + j, lanes) + load(call.cell_shift + j, lanes);
      const Vec o = load(gates + 3 * size + j, lanes), d = load(dh + j, lanes), activation = tanh(out);
      store(dpre + 3 * size + j, d * activation * o * (one - o), lanes);
      store(dout + j, d * o * (one - activation * activation), lanes);
    });
    if (normed) {
      add_row(dcell_shift, dout, size);
      norm_backward(call.cell_norm, kept_stat(call.cell_stat, row), c, dout, call.cell_gain, dcell, dcell_gain);
    } else {
      dcell = dout;
    }
    each_vec(0, size, [&](int64_t j, auto lanes) RR_LAMBDA {
      const Vec i = load(gates + j, lanes), f = load(gates + size + j, lanes), g = load(gates + 2 * size + j, lanes);
      const Vec d = load(dc + j, lanes) + load(dcell + j, lanes);
      store(dpre + j, d * g * i * (one - i), lanes);
      store(dpre + size + j, d * load(c_before + j, lanes) * f * (one - f), lanes);
      store(dpre + 2 * size + j, d * i * (one - g * g), lanes);
      store(dc + j, d * f, lanes);
    });
    add_row(dbias, dpre, n);
    const int64_t widths[GROUPS] = {n, 0};
    projection_backward(call.hidden_norm, widths, call.hidden_stat, row, call.hidden + row * n, dpre, call.hidden_gain,
                        dhidden, dhidden_gain);
    if (dinput != dhidden)
      projection_backward(call.input_norm, widths, call.input_stat, row, call.input + row * n, dpre, call.input_gain,
                          dinput, dinput_gain);
    clear_row(dh, size);
  }
};

}  // namespace
