// A conditional GRU: h1 = GRU(x, h), c = attention(h1), h' = GRU(c, h1), forward and backward through all its steps.
//
// Shapes beside those of recurrent.h: S positions that are attended to, A units of the attention, C of the context.
#pragma once

#include "recurrent.h"

struct ConditionalCall {
  // The two cells share steps, batch, size, blocks, mask, h and dh. In h [2 T + 1][B][H] the state before step t lies
  // at 2 t, the one between the cells at 2 t + 1. Only the second has a dy.
  RecurrentCall first, second;
  int64_t positions, attention, context_size;
  int64_t beam;  // so many sequences side by side attend to the same memory, of B / beam rows; 1 for backward
  NormSpec query_norm;          // n = 0 where there is none
  const int64_t* lengths;       // [B / beam], positions of each memory, at most S
  const float* keys;            // [B / beam][S][A]
  const float* context;         // [B / beam][S][C]
  const float* score;           // [A]
  const float* query_weight;    // [A][H]
  const float* query_gain;      // [A]
  const float* query_bias;      // [A], added after the norm
  const float* context_weight;  // [n][C], the second cell's W
  const float* context_bias;    // [n] or null, added to W c before its norm
  float* contexts;              // [T][B][C]
  float* weights;               // [T][B][S]
  float* query;                 // [T][B][A], the projected h1 before its norm
  float* query_stat;            // [T][B][2] or null
  float* second_input;          // [T][B][n], W c; the second cell's input
  // The weights of first, query, context and second, packed before; or null. Forward only.
  const float *first_panels, *query_panels, *context_panels, *second_panels;
  // Backward.
  float* dcontexts;  // [T][B][C]: what arrives from outside on entry, all of it on return
  float* dkeys;      // [B][S][A] zeros
  float* dquery;     // [T][B][A]
  float* partials;   // [blocks][3 A] zeros: sums for query gain, query bias, score
};
