// The likeliest of V classes under the softmax of a linear map, as Python describes it.
#pragma once

#include <cstdint>

struct LikeliestCall {
  int64_t rows, depth, classes;  // N, D, V
  const float* x;                // [N][D]
  const void* panels;            // the weight [V][D], packed: as recurrent.h has it, or in bfloat16
  const float* bias;             // [V] or null
  int64_t count;                 // n from 1 on: how many classes of each row are wanted
  int64_t forbidden_count;
  const int64_t* forbidden;  // classes that are never among them
  int64_t asked;             // a class whose log-probability is wanted in any case
  float* log_probs;          // [N][n], falling; -inf and class 0 where no class is left
  int64_t* ids;              // [N][n]
  float* asked_log_probs;    // [N]
  int64_t bfloat16;          // the product is of numbers rounded to bfloat16, its sums are float
};

struct LikeliestKernels {
  bool (*has_bfloat16_product)();
  // Round a weight [V][D] to bfloat16 and pack it; and the memory that this takes.
  int64_t (*packed_bytes)(int64_t classes, int64_t depth);
  void (*pack)(const float* weight, int64_t classes, int64_t depth, void* panels);
  void (*likeliest)(const LikeliestCall&);
};

extern const LikeliestKernels likeliest_portable;
#ifdef RR_X86
extern const LikeliestKernels likeliest_avx2;
extern const LikeliestKernels likeliest_avx512;
#endif
