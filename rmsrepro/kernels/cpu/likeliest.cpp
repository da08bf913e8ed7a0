// The likeliest classes for one instruction set; compiled once for each, with RR_KERNELS naming the table it defines.
//
// A tile of rows meets some panels of classes at a time. Their logits stay in the first-level cache, where they are
// added to the row's sum of exponentials and offered to its candidates; they are never written to memory. A row meets
// the classes in their order whatever its neighbours and the number of threads, so neither changes a bit.
#include "likeliest.h"

#include <cfloat>
#include <cmath>

#include "activations.h"
#include "classes.h"
#include "product_bfloat16.h"

namespace {

constexpr int64_t MOST_PANELS = 8;        // that a tile meets at a time
constexpr int64_t CACHED_PANELS = 65536;  // floats of them, so that they stay in the second-level cache

// What is known of a row's softmax so far.
struct Softmax {
  double sum;  // of the exponentials, each over that of `most`
  float most;  // the largest logit
};

// Let the candidates of a row, which fall, have `value`; of equals the first stays.
RR_ROW void offer(const LikeliestCall& call, float* values, int64_t* ids, float value, int64_t id) {
  for (int64_t i = 0; i < call.forbidden_count; ++i)
    if (call.forbidden[i] == id) return;
  int64_t at = call.count - 1;
  for (; at > 0 && values[at - 1] < value; --at) {
    values[at] = values[at - 1];
    ids[at] = ids[at - 1];
  }
  values[at] = value;
  ids[at] = id;
}

// Let a row read its next `wide` logits, which are of the classes from `first` on.
RR_ROW void read_logits(const LikeliestCall& call, int64_t row, const float* logits, int64_t first, int64_t wide,
                        Softmax& softmax) {
  Vec top = splat(-FLT_MAX);
  for (int64_t j = 0; j < wide; j += LANES) top = larger(load(logits + j, Full{}), top);
  const float best = largest_lane(top);
  if (best > softmax.most) {
    softmax.sum *= std::exp((double)softmax.most - (double)best);
    softmax.most = best;
  }
  const Vec most = splat(softmax.most);
  Vec sum = {};
  for (int64_t j = 0; j < wide; j += LANES) {
    const Exponential e = split_exp(clamp(load(logits + j, Full{}) - most, -87.0f, 0.0f));
    sum += e.scale + e.scale * e.excess;
  }
  softmax.sum += sum_lanes(sum);

  float* values = call.log_probs + row * call.count;
  int64_t* ids = call.ids + row * call.count;
  const float& least = values[call.count - 1];
  if (best > least)
    for (int64_t j = 0; j < wide; j += LANES)
      if (any_above(load(logits + j, Full{}), splat(least)))
        for (int64_t n = j; n < j + LANES; ++n)
          if (logits[n] > least) offer(call, values, ids, logits[n], first + n);
  if (call.asked >= first && call.asked < first + wide) call.asked_log_probs[row] = logits[call.asked - first];
}

// How a tile of rows of x and a panel of the weight are multiplied: where they lie once packed, and by what.
struct Float32 {
  static int64_t size(int64_t depth) { return depth; }  // floats of memory that a packed row takes
  static void pack(const float* x, int64_t rows, int64_t depth, float* to) { pack_tile({x, depth, 1}, rows, depth, to); }
  static void run(const float* x, int64_t rows, const void* panels, int64_t panel, int64_t depth, const float* start,
                  float* logits, int64_t stride) {
    run_tile({x, 1, rows}, rows, true, (const float*)panels + panel * PANEL * depth, depth, start, logits, stride, PANEL,
             false);
  }
};

struct BFloat16 {
  static int64_t size(int64_t depth) { return pair_count(depth); }
  static void pack(const float* x, int64_t rows, int64_t depth, float* to) {
    pack_pairs(x, rows, rows, depth, (uint16_t*)to);
  }
  static void run(const float* x, int64_t rows, const void* panels, int64_t panel, int64_t depth, const float* start,
                  float* logits, int64_t stride) {
    const int64_t pairs = pair_count(depth);
    run_tile_bfloat16((const uint16_t*)x, rows, (const uint16_t*)panels + panel * PANEL * 2 * pairs, pairs, start, logits,
                      stride);
  }
};

// All classes for the rows from `first` on.
template <class Numbers>
RR_ROW void rows_of(const LikeliestCall& call, int64_t first, int64_t rows) {
  const int64_t depth = call.depth, panels = panel_count(call.classes);
  const int64_t fit = CACHED_PANELS / (PANEL * depth + 1), group = fit < 1 ? 1 : fit < MOST_PANELS ? fit : MOST_PANELS;
  const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
  auto start_of = [&](int64_t tile) { return tile * rows / tiles; };
  const int64_t size = Numbers::size(depth);
  float* x = scratch(SCRATCH_TILES, rows * size + 1);
  for (int64_t t = 0; t < tiles; ++t)
    Numbers::pack(call.x + (first + start_of(t)) * depth, start_of(t + 1) - start_of(t), depth, x + start_of(t) * size);
  Softmax softmax[MOST_ROWS];
  for (int64_t i = 0; i < rows; ++i) softmax[i] = {0.0, -FLT_MAX};
  for (int64_t i = first * call.count; i < (first + rows) * call.count; ++i) {
    call.log_probs[i] = -INFINITY;
    call.ids[i] = 0;
  }
  float logits[TILE_ROWS * MOST_PANELS * PANEL], start[MOST_PANELS * PANEL];
  for (int64_t p = 0; p < panels; p += group) {
    const int64_t wide = (panels - p < group ? panels - p : group) * PANEL;
    start_logits(call.bias, call.classes, p * PANEL, wide, start);
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = start_of(t), high = start_of(t + 1) - row;
      for (int64_t n = 0; n < wide; n += PANEL)
        Numbers::run(x + row * size, high, call.panels, p + n / PANEL, depth, start + n, logits + n,
                     MOST_PANELS * PANEL);
      for (int64_t i = 0; i < high; ++i)
        read_logits(call, first + row + i, logits + i * MOST_PANELS * PANEL, p * PANEL, wide, softmax[row + i]);
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    const double log_sum = std::log(softmax[i].sum), most = softmax[i].most;
    float* values = call.log_probs + (first + i) * call.count;
    for (int64_t n = 0; n < call.count; ++n) values[n] = (float)(values[n] - most - log_sum);
    float& asked = call.asked_log_probs[first + i];
    asked = (float)(asked - most - log_sum);
  }
}

void likeliest(const LikeliestCall& call) {
  parallel_ranges((call.rows + TILE_ROWS - 1) / TILE_ROWS, 1, [&](int64_t begin, int64_t end) {
    const int64_t last = end * TILE_ROWS < call.rows ? end * TILE_ROWS : call.rows;
    for (int64_t row = begin * TILE_ROWS; row < last; row += MOST_ROWS)
      (call.bfloat16 ? rows_of<BFloat16> : rows_of<Float32>)(call, row, last - row < MOST_ROWS ? last - row : MOST_ROWS);
  });
}

int64_t packed_bytes(int64_t classes, int64_t depth) {
  return panel_count(classes) * PANEL * 2 * pair_count(depth) * (int64_t)sizeof(uint16_t);
}

void pack(const float* weight, int64_t classes, int64_t depth, void* panels) {
  parallel_ranges(panel_count(classes), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * PANEL, wide = classes - first < PANEL ? classes - first : PANEL;
      pack_pairs(weight + first * depth, wide, PANEL, depth, (uint16_t*)panels + first * 2 * pair_count(depth));
    }
  });
}

}  // namespace

extern const LikeliestKernels RR_KERNELS;
const LikeliestKernels RR_KERNELS = {has_bfloat16_product, packed_bytes, pack, likeliest};
