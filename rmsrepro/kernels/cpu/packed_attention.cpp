// Packed attention for one instruction set; compiled once for each, with RR_KERNELS naming the table it defines.
//
// Sentences are short: a sequence's head fits into the first caches, where its products run on packed panels like any
// other. Scores are held for some queries at a time and computed again in the backward pass, so that memory grows with
// the number of rows alone. A head of a sequence is one thread's: no result depends on neighbours or threads.
#include "packed_attention.h"

#include <cmath>

#include "gemm.h"
#include "softmax.h"

namespace {

constexpr int64_t QUERY_BLOCK = 8 * TILE_ROWS;    // queries whose scores are held at once
constexpr int64_t WORTH_A_THREAD = 1 << 16;       // products of single numbers that a thread should have at least

// One head of one sequence.
struct Head {
  const PackedAttentionCall& call;
  int64_t query, queries, key, keys, first;  // rows, and the head's first feature

  Head(const PackedAttentionCall& call, int64_t index) : call(call), first(index % call.heads * call.width) {
    const int64_t sequence = index / call.heads;
    query = call.query_starts[sequence];
    queries = call.query_starts[sequence + 1] - query;
    key = call.key_starts[sequence];
    keys = call.key_starts[sequence + 1] - key;
  }

  int64_t size() const { return call.heads * call.width; }
  Matrix rows(const float* of, int64_t row, int64_t stride) const { return {of + row * stride + first, stride, 1}; }
  Matrix q() const { return rows(call.q, query, call.q_row); }
  Matrix k() const { return rows(call.k, key, call.k_row); }
  Matrix v() const { return rows(call.v, key, call.v_row); }
  Matrix dy() const { return rows(call.dy, query, size()); }
  SoftmaxStat* stats() const { return (SoftmaxStat*)call.stats + query * call.heads + first / call.width; }
  int64_t seen(int64_t n) const { return call.causal ? n + 1 : keys; }
  float scale() const { return 1.0f / std::sqrt((float)call.width); }
};

RR_INLINE int64_t panels_size(int64_t depth, int64_t columns) { return depth * panel_count(columns) * PANEL; }

// Pack M [rows][width] for products with M, whose rows are the depth; return the panels' end.
float* pack(float* to, Matrix m, int64_t rows, int64_t width) {
  pack_panels_to(to, m.at, m.row, 1, rows, width);
  return to + panels_size(rows, width);
}
// The same for products with the transpose of M.
float* pack_transposed(float* to, Matrix m, int64_t rows, int64_t width) {
  pack_panels_to(to, m.at, 1, m.row, width, rows);
  return to + panels_size(width, rows);
}

void clear(float* to, int64_t stride, int64_t rows, int64_t width) {
  for (int64_t i = 0; i < rows; ++i) memset(to + i * stride, 0, (size_t)width * sizeof(float));
}

RR_ROW void attend(const Head& h) {
  const int64_t width = h.call.width, size = h.size(), stride = whole_vectors(h.keys);
  float* y = h.call.y + h.query * size + h.first;
  if (h.keys == 0) return clear(y, size, h.queries, width);
  float* keys = scratch(SCRATCH_PANELS, panels_size(width, h.keys) + panels_size(h.keys, width));
  float* values = pack_transposed(keys, h.k(), h.keys, width);
  pack(values, h.v(), h.keys, width);
  float* scores = scratch(SCRATCH_LOGITS, QUERY_BLOCK * stride);
  for (int64_t begin = 0; begin < h.queries; begin += QUERY_BLOCK) {
    const int64_t end = begin + QUERY_BLOCK < h.queries ? begin + QUERY_BLOCK : h.queries, seen = h.seen(end - 1);
    const Matrix q = h.q();
    multiply_rows({q.at + begin * q.row, q.row, 1}, end - begin, keys, width, width, whole_vectors(seen), nullptr,
                  scores, stride, false);
    for (int64_t n = begin; n < end; ++n) {
      float* row = scores + (n - begin) * stride;
      h.stats()[n * h.call.heads] = softmax(row, h.seen(n), h.scale());
      for (int64_t s = whole_vectors(h.seen(n)); s < seen; s += LANES) store(row + s, Vec{}, Full{});
    }
    multiply_rows({scores, stride, 1}, end - begin, values, h.keys, seen, width, nullptr, y + begin * size, size,
                  false);
  }
}

// From scores and the gradients of weights, [stride] each, make a query's weights and the gradients of its scores, zero
// where it does not look.
RR_ROW void score_gradients(float* scores, float* gradients, int64_t count, int64_t stride, float scale,
                            SoftmaxStat stat) {
  const Vec most = splat(stat.largest), share = splat(1.0f / stat.sum);
  Vec total = {};
  for (int64_t s = 0; s < stride; s += LANES) {
    const int64_t left = count - s;
    Vec weight = {};
    if (left > 0) weight = weight_of((load(scores + s, Full{}) - most) * splat(scale)) * share;
    if (left < LANES) weight = keep(weight, Part{(int)(left > 0 ? left : 0)});
    store(scores + s, weight, Full{});
    total += weight * load(gradients + s, Full{});
  }
  const Vec mean = splat(sum_lanes(total));
  for (int64_t s = 0; s < stride; s += LANES)
    store(gradients + s, load(scores + s, Full{}) * (load(gradients + s, Full{}) - mean) * splat(scale), Full{});
}

RR_ROW void attend_backward(const Head& h) {
  const int64_t width = h.call.width, stride = whole_vectors(h.keys);
  const Matrix q = h.q(), dy = h.dy();
  float* dq = h.call.dq + (q.at - h.call.q);
  float* dk = h.call.dk + (h.k().at - h.call.k);
  float* dv = h.call.dv + (h.v().at - h.call.v);
  clear(dk, h.call.k_row, h.keys, width);
  clear(dv, h.call.v_row, h.keys, width);
  if (h.keys == 0) return clear(dq, q.row, h.queries, width);
  const int64_t block = h.queries < QUERY_BLOCK ? h.queries : QUERY_BLOCK;
  float* keys_by_width = scratch(SCRATCH_PANELS, 2 * panels_size(width, h.keys) + panels_size(h.keys, width) +
                                                     2 * panels_size(block, width));
  float* values_by_width = pack_transposed(keys_by_width, h.k(), h.keys, width);
  float* keys = pack_transposed(values_by_width, h.v(), h.keys, width);
  float* queries = pack(keys, h.k(), h.keys, width);
  float* scores = scratch(SCRATCH_LOGITS, 2 * block * stride);
  float* gradients = scores + block * stride;
  for (int64_t begin = 0; begin < h.queries; begin += QUERY_BLOCK) {
    const int64_t end = begin + block < h.queries ? begin + block : h.queries, rows = end - begin;
    const int64_t seen = h.seen(end - 1), wide = whole_vectors(seen);
    const Matrix some_q = {q.at + begin * q.row, q.row, 1}, some_dy = {dy.at + begin * dy.row, dy.row, 1};
    multiply_rows(some_q, rows, keys_by_width, width, width, wide, nullptr, scores, stride, false);
    multiply_rows(some_dy, rows, values_by_width, width, width, wide, nullptr, gradients, stride, false);
    for (int64_t n = 0; n < rows; ++n)
      score_gradients(scores + n * stride, gradients + n * stride, h.seen(begin + n), wide, h.scale(),
                      h.stats()[(begin + n) * h.call.heads]);
    multiply_rows({gradients, stride, 1}, rows, keys, h.keys, seen, width, nullptr, dq + begin * q.row, q.row, false);
    float* results = pack(queries, some_q, rows, width);
    multiply_rows({gradients, 1, stride}, seen, queries, rows, rows, width, nullptr, dk, h.call.k_row, true);
    pack(results, some_dy, rows, width);
    multiply_rows({scores, 1, stride}, seen, results, rows, rows, width, nullptr, dv, h.call.v_row, true);
  }
}

template <class Work>
void each_head(const PackedAttentionCall& call, const Work& work) {
  const int64_t queries = call.query_starts[call.sequences] - call.query_starts[0];
  const int64_t keys = call.key_starts[call.sequences] - call.key_starts[0], count = call.sequences * call.heads;
  const double mean = (double)queries * (double)keys / ((double)call.sequences * (double)call.sequences + 1.0);
  const int64_t grain = 1 + (int64_t)(WORTH_A_THREAD / (mean * (double)call.width + 1.0));
  parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) work(Head(call, index));
  });
}

void forward(const PackedAttentionCall& call) { each_head(call, attend); }
void backward(const PackedAttentionCall& call) { each_head(call, attend_backward); }

}  // namespace

extern const PackedAttentionKernels RR_KERNELS;
const PackedAttentionKernels RR_KERNELS = {forward, backward};
