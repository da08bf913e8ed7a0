// A linear map to V classes and its cross-entropy, with all gradients, as Python describes it.
#pragma once

#include <cstdint>

struct CrossEntropyCall {
  int64_t rows, depth, classes;  // N, D, V
  const float* x;                // [N][D]
  const float* weight;           // [V][D]
  const float* bias;             // [V] or null
  const int64_t* targets;        // [N], each below V
  const float* row_weights;      // [N] or null: what a row's gradients are multiplied by
  float wanted;                  // the share of the target distribution that the wanted class has more than others
  float* losses;                 // [N]: log of the sum of exponentials, less `wanted` times the wanted class's logit
  // Gradients of the weighted sum of the losses, each null where it is not asked for.
  float* dx;       // [N][D]
  float* dweight;  // [V][D], zeros on entry
  float* dbias;    // [V], zeros on entry
};

struct CrossEntropyKernels {
  void (*linear_cross_entropy)(const CrossEntropyCall&);
};

extern const CrossEntropyKernels cross_entropy_portable;
#ifdef RR_X86
extern const CrossEntropyKernels cross_entropy_avx2;
extern const CrossEntropyKernels cross_entropy_avx512;
#endif
