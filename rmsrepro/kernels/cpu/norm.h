// What the row norms are asked to do. Rows are n elements, adjacent in memory; strides are in elements.
//
//   y = (x - mean) * r * (gain + gain_offset) + bias,   r = 1 / sqrt(ms + eps)  or  1 / (sqrt(ms) + eps)
//
// with mean = 0 unless `centre`, and ms the mean square of the first k (centred) elements.
#pragma once

#include <cstdint>

enum DType : int32_t { FLOAT32 = 0, BFLOAT16 = 1 };

struct NormSpec {
  int64_t n, k;
  double eps, gain_offset;
  int32_t centre, eps_outside;
  int32_t row_type, gain_type, bias_type;  // DType of x and everything shaped like it; of gain; of bias
};

struct ForwardTensors {
  int64_t rows;
  const void* x;
  int64_t x_stride;
  const void* residual;  // null, or added to x before the norm
  int64_t residual_stride;
  const void* gain;  // null: one
  const void* bias;  // null: zero
  void* y;           // contiguous
  void* sum;         // contiguous x + residual, where there is a residual
  float* stat;       // [rows][1 + centre]: (mean,) r
};

struct BackwardTensors {
  int64_t rows;
  const void* dy;
  int64_t dy_stride;  // 0: one upstream row for all
  const void* dsum;   // null, or a second gradient that arrives at x
  int64_t dsum_stride;
  const void* x;  // the normalised input (the sum, where there was a residual)
  int64_t x_stride;
  const void* gain;
  const float* stat;
  void* dx;     // contiguous, or null when nobody wants it
  void* dgain;  // of gain's type, or null
  void* dbias;  // of bias's type, or null
};

struct NormKernels {
  const char* name;
  void (*forward)(const NormSpec&, const ForwardTensors&);
  void (*backward)(const NormSpec&, const BackwardTensors&);
};

extern const NormKernels norm_portable;
#ifdef RR_X86
extern const NormKernels norm_avx2;
extern const NormKernels norm_avx512;
#endif
