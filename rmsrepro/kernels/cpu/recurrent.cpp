// The recurrent layers for one instruction set; compiled once for each, with RR_KERNELS naming the table it defines.
#include "conditional_steps.h"
#include "gru.h"
#include "lstm.h"

#define RR_TEXT(x) #x
#define RR_NAME(x) RR_TEXT(x)

namespace {

void activate(const float* x, float* y, int64_t n, int32_t is_tanh) {
  each_vec(0, n, [&](int64_t j, auto lanes) RR_LAMBDA {
    const Vec value = load(x + j, lanes);
    store(y + j, is_tanh ? tanh(value) : sigmoid(value), lanes);
  });
}

int64_t packed_floats(int64_t rows, int64_t depth) { return panel_count(rows) * PANEL * depth; }

void pack(const float* weight, int64_t rows, int64_t depth, float* panels) {
  pack_panels_to(panels, weight, 1, depth, depth, rows);
}

}  // namespace

extern const RecurrentKernels RR_KERNELS;
const RecurrentKernels RR_KERNELS = {
    RR_NAME(RR_KERNELS), multiply,            packed_floats,        pack,
    activate,            forward_steps<Lstm>, backward_steps<Lstm>, forward_steps<Gru>,
    backward_steps<Gru>, conditional_forward, conditional_backward,
};
