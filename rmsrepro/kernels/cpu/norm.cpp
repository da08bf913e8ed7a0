// The norms for one instruction set; compiled once for each, with RR_KERNELS naming the table that it defines.
#include "norm_backward.h"

#define RR_TEXT(x) #x
#define RR_NAME(x) RR_TEXT(x)

extern const NormKernels RR_KERNELS;
const NormKernels RR_KERNELS = {RR_NAME(RR_KERNELS), forward, backward};
