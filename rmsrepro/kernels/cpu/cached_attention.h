// Attention of single queries to keys and values that lie where they were computed, as Python describes it.
#pragma once

#include <cstdint>

struct CachedAttentionCall {
  int64_t queries, heads, width, steps;  // N, H, d, S
  const float* query;                    // [N][H][d]
  const float* const* cache;             // [S]: for each position rows of keys [H][d] and values [H][d], side by side
  const int64_t* strides;                // [S]: floats from one row of a position to its next
  const int64_t* starts;                 // [S]: the number of each position's first row
  const int64_t* rows;                   // the number of each query's row at each position, by these two strides
  int64_t rows_by_query, rows_by_step;
  const int64_t* counts;  // [N]: how many positions each query sees, from 1 to S; or null: all
  float* y;               // [N][H][d]
};

struct CachedAttentionKernels {
  void (*cached_attention)(const CachedAttentionCall&);
};

extern const CachedAttentionKernels cached_attention_portable;
#ifdef RR_X86
extern const CachedAttentionKernels cached_attention_avx2;
extern const CachedAttentionKernels cached_attention_avx512;
#endif
