// Dropout whose mask is computed again instead of kept, as Python describes it.
#pragma once

#include <cstdint>

struct DropoutCall {
  int64_t n;
  int64_t is_bfloat16;  // x and y are bfloat16, else float
  const void* x;        // [n]
  void* y;              // [n], may be x
  uint64_t seed;        // which mask; an element's fate depends on it and on the element's place alone
  int64_t dropped;      // of 65,536 elements
  float scale;          // what is kept is multiplied by this
};

struct DropoutKernels {
  void (*dropout)(const DropoutCall&);
};

extern const DropoutKernels dropout_portable;
#ifdef RR_X86
extern const DropoutKernels dropout_avx2;
extern const DropoutKernels dropout_avx512;
#endif
