// The linear cross-entropy for one instruction set; compiled once for each, with RR_KERNELS naming the table it defines.
//
// Some hundred rows at a time: logits, then their exponentials, then the three products that need those. The logits lie
// in panels, [panel][row][PANEL], as the tiles of the first product write them: so each later pass reads memory in
// order, which rows of [V] would not allow (they are pages apart). Exponentials are never divided by their sum; the rows
// of x and dx are. The wanted class's share of the sum is taken off its exponential before the products, whose sums would
// otherwise cancel where it is nearly all of it. Nothing depends on the number of threads: sums over classes are kept for each chunk of panels.
#include "cross_entropy.h"

#include <cmath>

#include "activations.h"
#include "classes.h"

namespace {

constexpr int64_t CHUNK = 8;  // panels that a thread takes at a time

struct Block {
  const CrossEntropyCall& call;
  int64_t first, rows;         // of x
  int64_t panels, chunks;
  const float* weight_by_class;  // W packed as [panel of V][D]
  const float* weight_by_depth;  // W packed as [panel of D][V]
  float* tiles;    // x, [tile][D][rows of the tile]
  float* scaled;   // x times `scale`, packed as [panel of D][rows]
  float* logits;   // [panel of V][rows][PANEL]
  float* maxima;   // [chunk][rows], then of all chunks in the first
  float* sums;     // [chunk][rows], likewise
  float* scale;    // [rows], the row's weight over its sum of exponentials

  int64_t tile_count() const { return (rows + TILE_ROWS - 1) / TILE_ROWS; }
  int64_t tile_start(int64_t tile) const { return tile * rows / tile_count(); }
  const float* x() const { return call.x + first * call.depth; }
  float* panel(int64_t index) const { return logits + index * rows * PANEL; }
  float& at_target(int64_t row) const {
    const int64_t target = call.targets[first + row];
    return panel(target / PANEL)[row * PANEL + target % PANEL];
  }
};

void pack_rows(const Block& b) {
  const int64_t depth = b.call.depth;
  parallel_ranges(b.tile_count(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t row = b.tile_start(tile);
      pack_tile({b.x() + row * depth, depth, 1}, b.tile_start(tile + 1) - row, depth, b.tiles + row * depth);
    }
  });
}

// The logits of a chunk of panels, and each row's largest.
RR_ROW void logits_of(const Block& b, int64_t chunk) {
  const int64_t depth = b.call.depth, last = (chunk + 1) * CHUNK < b.panels ? (chunk + 1) * CHUNK : b.panels;
  float* largest = scratch(SCRATCH_ROW, b.rows * LANES);
  for (int64_t i = 0; i < b.rows; ++i) store(largest + i * LANES, splat(-INFINITY), Full{});
  for (int64_t p = chunk * CHUNK; p < last; ++p) {
    float start[PANEL];
    start_logits(b.call.bias, b.call.classes, p * PANEL, PANEL, start);
    for (int64_t t = 0; t < b.tile_count(); ++t) {
      const int64_t row = b.tile_start(t), high = b.tile_start(t + 1) - row;
      float* to = b.panel(p) + row * PANEL;
      run_tile({b.tiles + row * depth, 1, high}, high, true, b.weight_by_class + p * PANEL * depth, depth, start, to,
               PANEL, PANEL, false);
      for (int64_t i = 0; i < high; ++i) {
        float* at = largest + (row + i) * LANES;
        const Vec both = larger(load(to + i * PANEL, Full{}), load(to + i * PANEL + LANES, Full{}));
        store(at, larger(both, load(at, Full{})), Full{});
      }
    }
  }
  for (int64_t i = 0; i < b.rows; ++i) b.maxima[chunk * b.rows + i] = largest_lane(load(largest + i * LANES, Full{}));
}

// Turn the logits of a chunk into exponentials of their distance to the row's largest, and add those up.
RR_ROW void exponentials_of(const Block& b, int64_t chunk, bool keep) {
  const int64_t last = (chunk + 1) * CHUNK < b.panels ? (chunk + 1) * CHUNK : b.panels;
  float* sums = scratch(SCRATCH_ROW, b.rows * LANES);
  memset(sums, 0, (size_t)(b.rows * LANES) * sizeof(float));
  for (int64_t p = chunk * CHUNK; p < last; ++p) {
    float* row = b.panel(p);
    for (int64_t i = 0; i < b.rows; ++i, row += PANEL) {
      const Vec top = splat(b.maxima[i]);
      Vec sum = load(sums + i * LANES, Full{});
      for (int j = 0; j < PANEL; j += LANES) {
        const Exponential e = split_exp(clamp(load(row + j, Full{}) - top, -87.0f, 0.0f));
        const Vec value = e.scale + e.scale * e.excess;
        if (keep) store(row + j, value, Full{});
        sum += value;
      }
      store(sums + i * LANES, sum, Full{});
    }
  }
  for (int64_t i = 0; i < b.rows; ++i) b.sums[chunk * b.rows + i] = sum_lanes(load(sums + i * LANES, Full{}));
}

// Find each row's largest logit of all chunks; the losses still lack the logarithm of the sum.
void begin_losses(const Block& b) {
  for (int64_t chunk = 1; chunk < b.chunks; ++chunk)
    for (int64_t i = 0; i < b.rows; ++i) {
      const float other = b.maxima[chunk * b.rows + i];
      if (other > b.maxima[i]) b.maxima[i] = other;
    }
  for (int64_t i = 0; i < b.rows; ++i) b.call.losses[b.first + i] = b.maxima[i] - b.call.wanted * b.at_target(i);
}

// Complete the losses, and turn exponentials into gradients by the logits, but for the scale of each row.
void end_losses(const Block& b) {
  for (int64_t i = 0; i < b.rows; ++i) {
    double sum = 0.0;
    for (int64_t chunk = 0; chunk < b.chunks; ++chunk) sum += b.sums[chunk * b.rows + i];
    b.call.losses[b.first + i] += (float)std::log(sum);
    b.scale[i] = (float)((b.call.row_weights ? b.call.row_weights[b.first + i] : 1.0f) / sum);
    b.at_target(i) = (float)(b.at_target(i) - b.call.wanted * sum);
  }
}

// dx of some tiles: the gradients by the logits times W, then the scale of each row.
RR_ROW void input_gradient(const Block& b, int64_t begin, int64_t end) {
  const int64_t depth = b.call.depth, classes = b.call.classes, group = 2 * CHUNK;
  float* dx = b.call.dx + b.first * depth;
  for (int64_t p = 0; p < b.panels; p += group) {
    const int64_t first = p * PANEL, deep = classes - first < group * PANEL ? classes - first : group * PANEL;
    for (int64_t column = 0; column < depth; column += PANEL) {
      const int64_t wide = depth - column < PANEL ? depth - column : PANEL;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = b.tile_start(t), high = b.tile_start(t + 1) - row;
        const Matrix a = {b.panel(p) + row * PANEL, PANEL, 1, PANEL, (b.rows - 1) * PANEL};
        run_tile(a, high, false, b.weight_by_depth + column * classes + first * PANEL, deep, nullptr,
                 dx + row * depth + column, depth, wide, p > 0);
      }
    }
  }
  for (int64_t i = b.tile_start(begin); i < b.tile_start(end); ++i) {
    const Vec scale = splat(b.scale[i]);
    each_vec(0, depth, [&](int64_t j, auto lanes) RR_LAMBDA {
      float* at = dx + i * depth + j;
      store(at, load(at, lanes) * scale, lanes);
    });
  }
}

void scale_rows(const Block& b) {
  const int64_t depth = b.call.depth;
  parallel_ranges(panel_count(depth), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t column = panel * PANEL, wide = depth - column < PANEL ? depth - column : PANEL;
      for (int64_t i = 0; i < b.rows; ++i) {
        float* to = b.scaled + (panel * b.rows + i) * PANEL;
        if (wide < PANEL) memset(to, 0, PANEL * sizeof(float));
        each_vec(0, wide, [&](int64_t j, auto lanes) RR_LAMBDA {
          store(to + j, load(b.x() + i * depth + column + j, lanes) * splat(b.scale[i]), lanes);
        });
      }
    }
  });
}

// The gradients of a panel's rows of W, and of the bias.
RR_ROW void weight_gradient(const Block& b, int64_t p) {
  const int64_t depth = b.call.depth, v = p * PANEL;
  const int64_t classes = b.call.classes - v < PANEL ? b.call.classes - v : PANEL;
  const int64_t tiles = (classes + TILE_ROWS - 1) / TILE_ROWS;
  for (int64_t column = 0; b.call.dweight && column < depth; column += PANEL)
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = t * classes / tiles, high = (t + 1) * classes / tiles - row;
      run_tile({b.panel(p) + row, 1, PANEL}, high, true, b.scaled + column * b.rows, b.rows, nullptr,
               b.call.dweight + (v + row) * depth + column, depth, depth - column < PANEL ? depth - column : PANEL,
               true);
    }
  if (!b.call.dbias) return;
  float total[PANEL];
  for (int j = 0; j < PANEL; j += LANES) {
    Vec sum = {};
    for (int64_t i = 0; i < b.rows; ++i) sum += load(b.panel(p) + i * PANEL + j, Full{}) * splat(b.scale[i]);
    store(total + j, sum, Full{});
  }
  for (int64_t n = 0; n < classes; ++n) b.call.dbias[v + n] += total[n];
}

void linear_cross_entropy(const CrossEntropyCall& call) {
  if (call.rows == 0) return;
  const int64_t panels = panel_count(call.classes), chunks = (panels + CHUNK - 1) / CHUNK;
  const int64_t blocks = (call.rows + MOST_ROWS - 1) / MOST_ROWS, most = (call.rows + blocks - 1) / blocks;
  const bool to_weights = call.dweight || call.dbias, keep = call.dx || to_weights;
  float* logits = scratch(SCRATCH_LOGITS, panels * PANEL * most + (2 * chunks + 1) * most);
  float* maxima = logits + panels * PANEL * most;
  float* rows = scratch(SCRATCH_TILES, (call.depth + panel_count(call.depth) * PANEL) * most);
  Block b = {call, 0, 0, panels, chunks,
             pack_panels(call.weight, 1, call.depth, call.depth, call.classes),
             call.dx ? pack_panels(call.weight, call.depth, 1, call.classes, call.depth, SCRATCH_SECOND_PANELS) : nullptr,
             rows + panel_count(call.depth) * PANEL * most, rows, logits, maxima, maxima + chunks * most,
             maxima + 2 * chunks * most};
  for (int64_t block = 0; block < blocks; ++block) {
    b.first = block * call.rows / blocks;
    b.rows = (block + 1) * call.rows / blocks - b.first;
    pack_rows(b);
    parallel_ranges(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) logits_of(b, chunk);
    });
    begin_losses(b);
    parallel_ranges(chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t chunk = begin; chunk < end; ++chunk) exponentials_of(b, chunk, keep);
    });
    end_losses(b);
    if (call.dx)
      parallel_ranges(b.tile_count(), 1, [&](int64_t begin, int64_t end) { input_gradient(b, begin, end); });
    if (!to_weights) continue;
    scale_rows(b);
    parallel_ranges(panels, CHUNK, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) weight_gradient(b, panel);
    });
  }
}

}  // namespace

extern const CrossEntropyKernels RR_KERNELS;
const CrossEntropyKernels RR_KERNELS = {linear_cross_entropy};
