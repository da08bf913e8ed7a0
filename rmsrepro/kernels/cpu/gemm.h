// C = A B with B packed: once for many calls in a time loop, or once for one large product.
//
// B [depth][columns] is stored as panels of PANEL columns, [panel][depth][PANEL], the last one filled up with zeros. A
// tile keeps Rows x PANEL sums in registers and adds over the depth in order, so that a row's result depends neither
// on its neighbours nor on the number of threads.
#pragma once

#include "parallel.h"
#include "recurrent.h"
#include "simd.h"
#include "transpose.h"

namespace {

constexpr int PANEL = 2 * LANES;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int TILE_ROWS = 12;  // 32 registers: 24 sums, 2 of B, and room for A
#else
constexpr int TILE_ROWS = 6;  // 16 registers
#endif
constexpr int64_t CACHED_TILE = 4096;  // floats of A that a tile reads where they lie; more are copied side by side
constexpr int64_t DEPTH_BLOCK = 1024;  // of a large product: 128 kB of a panel, half of the second-level cache
constexpr int64_t ROW_BLOCK = 10 * TILE_ROWS;

struct Matrix {
  const float* at;
  int64_t row, depth;                    // strides
  int64_t run = INT64_MAX, jump = 0;     // so many steps in depth are followed by a jump to where the next lie
};

RR_INLINE int64_t panel_count(int64_t columns) { return (columns + PANEL - 1) / PANEL; }

// Turn over a square of `count` rows by `deep` columns, filled up with zeros; `stride` from one row to the next.
RR_INLINE void load_transposed(Vec columns[LANES], const float* from, int64_t stride, int64_t count, int64_t deep) {
  for (int64_t i = 0; i < LANES; ++i)
    columns[i] = i >= count ? Vec{}
                 : deep >= LANES ? load(from + i * stride, Full{}) : load(from + i * stride, Part{(int)deep});
  transpose(columns);
}

// Turn `columns` rows [depth], PANEL of them or fewer, into a panel [depth][PANEL]; `stride` from one row to the next.
RR_ROW void pack_transposed_panel(float* to, const float* from, int64_t stride, int64_t depth, int64_t columns) {
  for (int64_t k = 0; k < depth; k += LANES)
    for (int64_t n = 0; n < PANEL; n += LANES) {
      Vec square[LANES];
      load_transposed(square, from + n * stride + k, stride, columns - n, depth - k);
      for (int64_t i = 0; i < LANES && i < depth - k; ++i) store(to + (k + i) * PANEL + n, square[i], Full{});
    }
}

// Pack B, whose element (k, n) lies at b[k * depth_stride + n * column_stride], to `packed`.
void pack_panels_to(float* packed, const float* b, int64_t depth_stride, int64_t column_stride, int64_t depth,
                    int64_t columns) {
  parallel_ranges(panel_count(columns), 65536 / (depth * PANEL + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * PANEL, wide = columns - first < PANEL ? columns - first : PANEL;
      const float* from = b + first * column_stride;
      float* to = packed + first * depth;
      if (depth_stride == 1) {
        pack_transposed_panel(to, from, column_stride, depth, wide);
        continue;
      }
      if (wide < PANEL) memset(to, 0, (size_t)(depth * PANEL) * sizeof(float));
      if (column_stride == 1) {
        for (int64_t k = 0; k < depth; ++k)
          each_vec(0, wide, [&](int64_t n, auto lanes) RR_LAMBDA {
            store(to + k * PANEL + n, load(from + k * depth_stride + n, lanes), lanes);
          });
        continue;
      }
      for (int64_t block = 0; block < depth; block += 16)  // a cache line of every column at a time
        for (int64_t n = 0; n < wide; ++n)
          for (int64_t k = block; k < depth && k < block + 16; ++k)
            to[k * PANEL + n] = from[k * depth_stride + n * column_stride];
    }
  });
}

// The same into memory that this thread keeps: to touch fresh pages would cost more than the copy. Good until the next
// call with the same slot.
[[maybe_unused]] const float* pack_panels(const float* b, int64_t depth_stride, int64_t column_stride, int64_t depth,
                                          int64_t columns, int slot = SCRATCH_PANELS) {
  float* packed = scratch(slot, panel_count(columns) * PANEL * depth);
  pack_panels_to(packed, b, depth_stride, column_stride, depth, columns);
  return packed;
}

// Copy `rows` rows of A side by side, [depth][rows].
RR_ROW void pack_tile(Matrix a, int64_t rows, int64_t depth, float* packed) {
  if (a.row == 1) {
    for (int64_t k = 0; k < depth; ++k)
      each_vec(0, rows, [&](int64_t i, auto lanes) RR_LAMBDA {
        store(packed + k * rows + i, load(a.at + k * a.depth + i, lanes), lanes);
      });
    return;
  }
  if (a.depth == 1) {
    for (int64_t k = 0; k < depth; k += LANES)
      for (int64_t i = 0; i < rows; i += LANES) {
        Vec square[LANES];
        load_transposed(square, a.at + i * a.row + k, a.row, rows - i, depth - k);
        for (int64_t j = 0; j < LANES && j < depth - k; ++j) {
          float* to = packed + (k + j) * rows + i;
          rows - i < LANES ? store(to, square[j], Part{(int)(rows - i)}) : store(to, square[j], Full{});
        }
      }
    return;
  }
  for (int64_t block = 0; block < depth; block += 16)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = block; k < depth && k < block + 16; ++k)
        packed[k * rows + i] = a.at[i * a.row + k * a.depth];
}

// `SideBySide`: a.row = 1; otherwise a.depth = 1.
template <int Rows, int Vectors, bool SideBySide>
RR_ROW void tile(Matrix a, const float* panel, int64_t depth, const float* bias, float* c, int64_t c_stride, bool add) {
  const int64_t next_row = SideBySide ? 1 : a.row, next = SideBySide ? a.depth : 1;
  Vec sum[Rows][Vectors];
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i) {
    const float* start = add ? c + i * c_stride : bias;
    for (int j = 0; j < Vectors; ++j) sum[i][j] = start ? load(start + j * LANES, Full{}) : Vec{};
  }
  for (int64_t left = depth; left > 0; left -= a.run, a.at += a.jump) {
    const float* end = panel + (left < a.run ? left : a.run) * PANEL;
    for (; panel < end; panel += PANEL) {
      Vec b[Vectors];
      for (int j = 0; j < Vectors; ++j) b[j] = load(panel + j * LANES, Full{});
#pragma GCC unroll 12
      for (int i = 0; i < Rows; ++i) {
        const Vec value = splat(a.at[i * next_row]);
        for (int j = 0; j < Vectors; ++j) sum[i][j] += value * b[j];
      }
      a.at += next;
    }
  }
#pragma GCC unroll 12
  for (int i = 0; i < Rows; ++i)
    for (int j = 0; j < Vectors; ++j) store(c + i * c_stride + j * LANES, sum[i][j], Full{});
}

typedef void (*Tile)(Matrix, const float*, int64_t, const float*, float*, int64_t, bool);

template <int Rows, int Vectors>
RR_INLINE Tile tile_of(int64_t rows, bool side_by_side) {
  if constexpr (Rows > 1)
    if (rows < Rows) return tile_of<Rows - 1, Vectors>(rows, side_by_side);
  return side_by_side ? tile<Rows, Vectors, true> : tile<Rows, Vectors, false>;
}

// Run a tile at the right edge of C, where it is wider than what is left.
RR_ROW void edge_tile(Tile run, Matrix a, int64_t rows, const float* panel, int64_t depth, const float* bias, float* c,
                      int64_t c_stride, int64_t wide, bool add) {
  const size_t bytes = (size_t)wide * sizeof(float);
  float part[TILE_ROWS * PANEL] = {}, bias_part[PANEL] = {};
  if (bias) memcpy(bias_part, bias, bytes);
  if (add)
    for (int64_t i = 0; i < rows; ++i) memcpy(part + i * PANEL, c + i * c_stride, bytes);
  run(a, panel, depth, bias ? bias_part : nullptr, part, PANEL, add);
  for (int64_t i = 0; i < rows; ++i) memcpy(c + i * c_stride, part + i * PANEL, bytes);
}

// Run a tile that writes `wide` columns, PANEL of them or fewer.
RR_INLINE void run_tile(Matrix a, int64_t rows, bool side_by_side, const float* panel, int64_t depth, const float* bias,
                        float* c, int64_t c_stride, int64_t wide, bool add) {
  const Tile run = wide > LANES ? tile_of<TILE_ROWS, 2>(rows, side_by_side) : tile_of<TILE_ROWS, 1>(rows, side_by_side);
  if (wide == PANEL || wide == LANES)
    run(a, panel, depth, bias, c, c_stride, add);
  else
    edge_tile(run, a, rows, panel, depth, bias, c, c_stride, wide, add);
}

// C [rows][columns] = A [rows][depth] B, added to C when `add`, else to `bias` [columns] where there is one; `panels`
// is the packed B, `panel_depth` what one panel of it holds.
[[maybe_unused]] void multiply_rows(Matrix a, int64_t rows, const float* panels, int64_t panel_depth, int64_t depth,
                                    int64_t columns, const float* bias, float* c, int64_t c_stride, bool add) {
  const int64_t tiles = (rows + TILE_ROWS - 1) / TILE_ROWS;
  auto first_of = [&](int64_t i) { return i * rows / tiles; };
  const bool copy = a.depth != 1 || depth * (rows < TILE_ROWS ? rows : TILE_ROWS) > CACHED_TILE;
  float* copied = copy ? scratch(SCRATCH_TILES, rows * depth) : nullptr;
  if (copy)
    for (int64_t i = 0; i < tiles; ++i)
      pack_tile({a.at + first_of(i) * a.row, a.row, a.depth}, first_of(i + 1) - first_of(i), depth,
                copied + first_of(i) * depth);
  for (int64_t column = 0; column < columns; column += PANEL) {
    const float* panel = panels + column * panel_depth;
    const float* start = bias ? bias + column : nullptr;
    const int64_t wide = columns - column < PANEL ? columns - column : PANEL;
    for (int64_t i = 0; i < tiles; ++i) {
      const int64_t row = first_of(i), high = first_of(i + 1) - row;
      const Matrix part = copy ? Matrix{copied + row * depth, 1, high} : Matrix{a.at + row * a.row, a.row, 1};
      run_tile(part, high, copy, panel, depth, start, c + row * c_stride + column, c_stride, wide, add);
    }
  }
}

// A product of any size; the rows of C are shared out among the threads.
[[maybe_unused]] void multiply(const Product& p) {
  if (p.rows == 0 || p.columns == 0) return;
  const float* panels = p.panels ? p.panels : pack_panels(p.b, p.b_depth, p.b_column, p.depth, p.columns);
  const int64_t pairs = (p.rows + 2 * ROW_BLOCK - 1) / (2 * ROW_BLOCK), blocks = p.rows > 1 ? 2 * pairs : 1;
  parallel_ranges(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * p.rows / blocks, rows = (block + 1) * p.rows / blocks - first;
      for (int64_t k = 0; k == 0 || k < p.depth; k += DEPTH_BLOCK) {
        const int64_t depth = p.depth - k < DEPTH_BLOCK ? p.depth - k : DEPTH_BLOCK;
        const Matrix a = {p.a + first * p.a_row + k * p.a_depth, p.a_row, p.a_depth};
        multiply_rows(a, rows, panels + k * PANEL, p.depth, depth, p.columns, p.bias, p.c + first * p.columns,
                      p.columns, k > 0);
      }
    }
  });
}

}  // namespace
