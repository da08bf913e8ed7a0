// The walk through the steps of a conditional GRU; as in recurrent_steps.h, every thread takes some sequences all the way.
#pragma once

#include "attention.h"
#include "conditional_gru.h"
#include "gru.h"

namespace {

RR_INLINE Place first_place(int64_t t) { return {t, 2 * t, 2 * t + 1}; }
RR_INLINE Place second_place(int64_t t) { return {t, 2 * t + 1, 2 * t + 2}; }

// The query as it meets the keys: normalised, with gain and bias.
RR_INLINE void finish_query(const ConditionalCall& call, const float* raw, RowStat stat, float* query) {
  const Scale hat(stat);
  each_vec(0, call.attention, [&](int64_t j, auto lanes) RR_LAMBDA {
    const Vec gain = load(call.query_gain + j, lanes);
    store(query + j, hat(load(raw + j, lanes)) * gain + load(call.query_bias + j, lanes), lanes);
  });
}

RR_ROW void attention_forward_row(const ConditionalCall& call, int64_t t, int64_t b, float* work) {
  const int64_t row = t * call.first.batch + b, size = call.attention, width = call.context_size;
  float *weights = call.weights + row * call.positions, *attended = call.contexts + row * width;
  const int64_t memory = b / call.beam, length = counts(call.first, row) ? call.lengths[memory] : 0;
  clear_row(weights + length, call.positions - length);
  if (length == 0) return clear_row(attended, width);
  const float* raw = call.query + row * size;
  const RowStat stat = stat_of(raw, call.query_norm);
  keep_stat(call.query_stat, row, stat);
  finish_query(call, raw, stat, work);
  attend_row(call.keys + memory * call.positions * size, call.context + memory * call.positions * width, length, size,
             width, call.score, work, weights, attended);
}

RR_ROW void attention_backward_row(const ConditionalCall& call, int64_t t, int64_t b, float* partials, float* work) {
  const int64_t row = t * call.first.batch + b, size = call.attention, width = call.context_size;
  float *dcontext = call.dcontexts + row * width, *dquery = call.dquery + row * size;
  const int64_t length = counts(call.first, row) ? call.lengths[b] : 0;
  if (length == 0) {
    clear_row(dcontext, width);
    return clear_row(dquery, size);
  }
  const float* raw = call.query + row * size;
  float *query = work, *from_query = work + size, *by_position = work + 2 * size;
  const RowStat stat = kept_stat(call.query_stat, row);
  finish_query(call, raw, stat, query);
  attend_row_backward(call.keys + b * call.positions * size, call.context + b * call.positions * width, length, size,
                      width, call.score, query, call.weights + row * call.positions, dcontext, by_position,
                      call.dkeys + b * call.positions * size, from_query, partials + 2 * size);
  add_row(partials + size, from_query, size);
  if (call.query_norm.n)
    norm_backward(call.query_norm, stat, raw, from_query, call.query_gain, dquery, partials);
  else
    copy_row(dquery, from_query, size);
}

void conditional_forward(const ConditionalCall& call) {
  const RecurrentCall &first = call.first, &second = call.second;
  const int64_t size = first.size, n = Gru::GATES * size, batch = first.batch;
  const int64_t attention = call.attention, width = call.context_size;
  if (batch == 0) return;
  auto packed = [](const float* before, const float* weight, int64_t rows, int64_t depth, int slot) {
    return before ? before : pack_panels(weight, 1, depth, depth, rows, slot);
  };
  const float* first_panels = packed(call.first_panels, first.weight, n, size, SCRATCH_PANELS);
  const float* query_panels = packed(call.query_panels, call.query_weight, attention, size, SCRATCH_QUERY_PANELS);
  const float* context_panels = packed(call.context_panels, call.context_weight, n, width, SCRATCH_CONTEXT_PANELS);
  const float* second_panels = packed(call.second_panels, second.weight, n, size, SCRATCH_SECOND_PANELS);
  parallel_ranges(first.blocks, 1, [&](int64_t begin, int64_t end) {
    const Rows rows = {rows_of_block(first, begin).first, rows_of_block(first, end - 1).last};
    const int64_t count = rows.last - rows.first;
    float* work = scratch(SCRATCH_ROW, attention);
    for (int64_t t = 0; t < first.steps; ++t) {
      const int64_t base = t * batch + rows.first;
      auto project = [&](const float* x, int64_t depth, const float* panels, int64_t columns, const float* bias, float* y) {
        multiply_rows({x, depth, 1}, count, panels, depth, depth, columns, bias, y, columns, false);
      };
      const float* before = first.h + (2 * t * batch + rows.first) * size;
      const float* between = first.h + ((2 * t + 1) * batch + rows.first) * size;
      project(before, size, first_panels, n, first.hidden_inner_bias, first.hidden + base * n);
      for (int64_t b = rows.first; b < rows.last; ++b)
        Gru::forward_row(first, first_place(t), b, first.hidden + (t * batch + b) * n);
      project(between, size, query_panels, attention, nullptr, call.query + base * attention);
      for (int64_t b = rows.first; b < rows.last; ++b) attention_forward_row(call, t, b, work);
      project(call.contexts + base * width, width, context_panels, n, call.context_bias, call.second_input + base * n);
      project(between, size, second_panels, n, second.hidden_inner_bias, second.hidden + base * n);
      for (int64_t b = rows.first; b < rows.last; ++b)
        Gru::forward_row(second, second_place(t), b, second.hidden + (t * batch + b) * n);
    }
  });
}

void conditional_backward(const ConditionalCall& call) {
  const RecurrentCall &first = call.first, &second = call.second;
  const int64_t size = first.size, n = Gru::GATES * size, batch = first.batch;
  const int64_t attention = call.attention, width = call.context_size, sums = 4 * n + 2 * size;
  if (batch == 0) return;
  const float* first_panels = pack_panels(first.weight, size, 1, n, size);
  const float* query_panels = pack_panels(call.query_weight, size, 1, attention, size, SCRATCH_QUERY_PANELS);
  const float* context_panels = pack_panels(call.context_weight, width, 1, n, width, SCRATCH_CONTEXT_PANELS);
  const float* second_panels = pack_panels(second.weight, size, 1, n, size, SCRATCH_SECOND_PANELS);
  parallel_ranges(first.blocks, 1, [&](int64_t begin, int64_t end) {
    const Rows all = {rows_of_block(first, begin).first, rows_of_block(first, end - 1).last};
    const int64_t room = 2 * attention + call.positions;
    float* work = scratch(SCRATCH_ROW, room > 2 * n ? room : 2 * n);
    for (int64_t t = first.steps - 1; t >= 0; --t) {
      const int64_t base = t * batch + all.first;
      // Gradients dy [rows][depth] go back through a projection and are added to dx [rows][columns].
      auto project = [&](const float* dy, int64_t depth, const float* panels, int64_t columns, float* dx) {
        multiply_rows({dy + base * depth, depth, 1}, all.last - all.first, panels, depth, depth, columns, nullptr, dx,
                      columns, true);
      };
      auto each_row = [&](auto body) {
        for (int64_t block = begin; block < end; ++block) {
          const Rows rows = rows_of_block(first, block);
          for (int64_t b = rows.first; b < rows.last; ++b) body(block, b);
        }
      };
      float* dh = first.dh + all.first * size;
      each_row([&](int64_t block, int64_t b) {
        Gru::backward_row(second, second_place(t), b, second.partials + block * sums, work);
      });
      project(second.dhidden, n, second_panels, size, dh);
      project(second.dinput, n, context_panels, width, call.dcontexts + base * width);
      each_row([&](int64_t block, int64_t b) {
        attention_backward_row(call, t, b, call.partials + block * 3 * attention, work);
      });
      project(call.dquery, attention, query_panels, size, dh);
      each_row([&](int64_t block, int64_t b) {
        Gru::backward_row(first, first_place(t), b, first.partials + block * sums, work);
      });
      project(first.dhidden, n, first_panels, size, dh);
    }
  });
}

}  // namespace
