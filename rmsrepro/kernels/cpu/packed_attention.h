// Attention of the positions of sequences that lie one behind the other, without padding, as Python describes it.
#pragma once

#include <cstdint>

struct PackedAttentionCall {
  int64_t sequences, heads, width;  // B, H, d
  int64_t causal;                   // a query sees the keys up to its own place only; as many keys as queries then
  const int64_t* query_starts;      // [B + 1]: the first row of each sequence, and the end of the last
  const int64_t* key_starts;        // [B + 1], likewise
  // Rows [H][d], by the floats from one row to the next.
  const float *q, *k, *v;
  int64_t q_row, k_row, v_row;
  float* y;             // [N][H][d]
  float* stats;         // [N][H][2]: largest and sum of the softmax of each query's scores; backward reads them
  // The backward pass alone; the gradients lie by the strides of q, k and v.
  const float* dy;      // [N][H][d]
  float *dq, *dk, *dv;
};

struct PackedAttentionKernels {
  void (*forward)(const PackedAttentionCall&);
  void (*backward)(const PackedAttentionCall&);
};

extern const PackedAttentionKernels packed_attention_portable;
#ifdef RR_X86
extern const PackedAttentionKernels packed_attention_avx2;
extern const PackedAttentionKernels packed_attention_avx512;
#endif
