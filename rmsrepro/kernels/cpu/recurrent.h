// One recurrent layer in one direction, forward and backward through all its steps, as Python describes it.
//
// Shapes: T steps, B sequences, H units, G gates (LSTM 4: i f g o; GRU 3: r z n), n = G * H. A projection's norms are
// taken over groups of gates: all four for an LSTM, (r, z) and (n) for a GRU; `norm[group].n` is 0 where there is none.
#pragma once

#include <cstdint>

#include "norm.h"

constexpr int GROUPS = 2;

struct RecurrentCall {
  int64_t steps, batch, size;
  int64_t blocks;   // the sequences are cut into so many parts, each with its own partial sums
  int64_t reverse;  // run from the last step to the first
  NormSpec input_norm[GROUPS], hidden_norm[GROUPS], cell_norm;
  const float* weight;            // [n][H], the recurrent weights U
  const uint8_t* mask;            // [T][B], zero where the state is carried; or null
  const float* input;             // [T][B][n], W x
  const float* input_gain;        // [n]
  const float* hidden_gain;       // [n]
  const float* hidden_inner_bias; // [n] or null, added to U h before its norm
  const float* bias;              // [n], added after the norms
  const float* candidate_bias;    // GRU [H]: added to the candidate's U h after its norm
  const float* cell_gain;         // LSTM [H]
  const float* cell_shift;        // LSTM [H]
  float* h;                       // [T + 1][B][H]: the initial state, then (or, reversed, before it) those of the steps
  float* c;                       // LSTM, like h
  // Kept for backward; null when there will be none.
  float* hidden;       // [T][B][n], U h
  float* gates;        // [T][B][n], after their activations
  float* input_stat;   // [T][B][GROUPS][2]: mean, r
  float* hidden_stat;  // [T][B][GROUPS][2]
  float* cell_stat;    // [T][B][2]
  // Backward.
  const float* dy;  // [T][B][H] or null
  float* dh;        // [B][H]: of the last state on entry, of the initial one on return
  float* dc;        // LSTM, like dh
  float* dinput;    // [T][B][n]
  float* dhidden;   // [T][B][n]; may be dinput for an LSTM without norms of its projections
  float* partials;  // [blocks][4 n + 2 H] zeros: sums for input gain, hidden gain, bias, hidden bias, cell gain, shift
};

// C [rows][columns] = A B + bias, the elements of A and B at any strides.
struct Product {
  int64_t rows, depth, columns;
  const float* a;
  int64_t a_row, a_depth;  // strides
  const float* b;
  int64_t b_depth, b_column;
  const float* bias;  // [columns] or null
  float* c;
  const float* panels;  // B packed before, or null
};

struct ConditionalCall;

struct RecurrentKernels {
  const char* name;
  void (*multiply)(const Product&);
  // Pack a weight [rows][depth], whose transpose is a product's B, once for many calls; and the memory that this takes.
  int64_t (*packed_floats)(int64_t rows, int64_t depth);
  void (*pack)(const float* weight, int64_t rows, int64_t depth, float* panels);
  void (*activate)(const float* x, float* y, int64_t n, int32_t is_tanh);
  void (*lstm_forward)(const RecurrentCall&);
  void (*lstm_backward)(const RecurrentCall&);
  void (*gru_forward)(const RecurrentCall&);
  void (*gru_backward)(const RecurrentCall&);
  void (*conditional_gru_forward)(const ConditionalCall&);
  void (*conditional_gru_backward)(const ConditionalCall&);
};

extern const RecurrentKernels recurrent_portable;
#ifdef RR_X86
extern const RecurrentKernels recurrent_avx2;
extern const RecurrentKernels recurrent_avx512;
#endif
