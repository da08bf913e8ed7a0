// What Python calls: plain C functions on addresses, and the choice of the instruction set.
#include <cstdlib>
#include <cstring>
#ifdef __linux__
#include <sys/mman.h>
#endif

#include "cached_attention.h"
#include "cross_entropy.h"
#include "dropout.h"
#include "likeliest.h"
#include "norm.h"
#include "packed_attention.h"
#include "parallel.h"
#include "recurrent.h"

#define RR_EXPORT extern "C" __attribute__((visibility("default")))

ParallelFor torch_parallel = nullptr;

namespace {

struct Scratch {
  float* memory[SCRATCH_SLOTS] = {};
  int64_t floats[SCRATCH_SLOTS] = {};
  ~Scratch() {
    for (float* p : memory) free(p);
  }
};

// All kernels as compiled for one instruction set.
struct Kernels {
  const NormKernels& norm;
  const RecurrentKernels& recurrent;
  const CrossEntropyKernels& cross_entropy;
  const LikeliestKernels& likeliest;
  const CachedAttentionKernels& cached_attention;
  const PackedAttentionKernels& packed_attention;
  const DropoutKernels& dropout;
};

// The best first; the last one runs everywhere.
#define RR_ALL(set)                                                           \
  {norm_##set, recurrent_##set, cross_entropy_##set, likeliest_##set,         \
   cached_attention_##set, packed_attention_##set, dropout_##set}
const Kernels all_kernels[] = {
#ifdef RR_X86
    RR_ALL(avx512),
    RR_ALL(avx2),
#endif
    RR_ALL(portable),
};
#undef RR_ALL

bool supports(const Kernels& kernels) {
#ifdef RR_X86
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (&kernels.norm == &norm_avx2) return avx2;
  if (&kernels.norm == &norm_avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
  return &kernels.norm == &norm_portable;
}

const Kernels* best_kernels() {
  const Kernels* kernels = all_kernels;
  while (!supports(*kernels)) ++kernels;
  return kernels;
}

const Kernels* active = best_kernels();

}  // namespace

float* scratch(int slot, int64_t floats) {
  static thread_local Scratch kept;
  if (kept.floats[slot] < floats) {
    free(kept.memory[slot]);
    kept.memory[slot] = static_cast<float*>(aligned_alloc(64, (size_t)(floats + 15) / 16 * 64));
    if (kept.memory[slot] == nullptr) abort();
    kept.floats[slot] = floats;
  }
  return kept.memory[slot];
}

RR_EXPORT const char* rr_source_hash() { return RR_SOURCE_HASH; }

RR_EXPORT void rr_set_parallel(ParallelFor parallel) { torch_parallel = parallel; }

RR_EXPORT const char* rr_instruction_set() { return active->norm.name; }

// Use the kernels of this name, or the best with null; returns 0 where the processor lacks them.
RR_EXPORT int32_t rr_use_instruction_set(const char* name) {
  for (const Kernels& kernels : all_kernels)
    if ((name == nullptr || strcmp(name, kernels.norm.name) == 0) && supports(kernels)) {
      active = &kernels;
      return 1;
    }
  return 0;
}

RR_EXPORT void rr_norm_forward(const NormSpec* spec, int64_t rows, const void* x, int64_t x_stride, const void* residual,
                               int64_t residual_stride, const void* gain, const void* bias, void* y, void* sum,
                               float* stat) {
  active->norm.forward(*spec, {rows, x, x_stride, residual, residual_stride, gain, bias, y, sum, stat});
}

RR_EXPORT void rr_norm_backward(const NormSpec* spec, int64_t rows, const void* dy, int64_t dy_stride, const void* dsum,
                                int64_t dsum_stride, const void* x, int64_t x_stride, const void* gain,
                                const float* stat, void* dx, void* dgain, void* dbias) {
  active->norm.backward(*spec, {rows, dy, dy_stride, dsum, dsum_stride, x, x_stride, gain, stat, dx, dgain, dbias});
}

RR_EXPORT void rr_lstm_forward(const RecurrentCall* call) { active->recurrent.lstm_forward(*call); }
RR_EXPORT void rr_lstm_backward(const RecurrentCall* call) { active->recurrent.lstm_backward(*call); }
RR_EXPORT void rr_gru_forward(const RecurrentCall* call) { active->recurrent.gru_forward(*call); }
RR_EXPORT void rr_gru_backward(const RecurrentCall* call) { active->recurrent.gru_backward(*call); }
RR_EXPORT void rr_conditional_gru_forward(const ConditionalCall* call) { active->recurrent.conditional_gru_forward(*call); }
RR_EXPORT void rr_conditional_gru_backward(const ConditionalCall* call) { active->recurrent.conditional_gru_backward(*call); }
RR_EXPORT void rr_linear_cross_entropy(const CrossEntropyCall* call) { active->cross_entropy.linear_cross_entropy(*call); }
RR_EXPORT void rr_cached_attention(const CachedAttentionCall* call) {
  active->cached_attention.cached_attention(*call);
}
RR_EXPORT void rr_packed_attention_forward(const PackedAttentionCall* call) {
  active->packed_attention.forward(*call);
}
RR_EXPORT void rr_packed_attention_backward(const PackedAttentionCall* call) {
  active->packed_attention.backward(*call);
}
RR_EXPORT void rr_dropout(const DropoutCall* call) { active->dropout.dropout(*call); }
RR_EXPORT int32_t rr_has_bfloat16_product() { return active->likeliest.has_bfloat16_product(); }
RR_EXPORT int64_t rr_packed_bfloat16_bytes(int64_t rows, int64_t depth) { return active->likeliest.packed_bytes(rows, depth); }
RR_EXPORT void rr_pack_bfloat16(const float* weight, int64_t rows, int64_t depth, void* panels) {
  active->likeliest.pack(weight, rows, depth, panels);
}
RR_EXPORT void rr_likeliest(const LikeliestCall* call) { active->likeliest.likeliest(*call); }
RR_EXPORT int64_t rr_packed_floats(int64_t rows, int64_t depth) { return active->recurrent.packed_floats(rows, depth); }
RR_EXPORT void rr_pack(const float* weight, int64_t rows, int64_t depth, float* panels) {
  active->recurrent.pack(weight, rows, depth, panels);
}
RR_EXPORT void rr_multiply(const Product* product) { active->recurrent.multiply(*product); }
RR_EXPORT void rr_activate(const float* x, float* y, int64_t n, int32_t is_tanh) { active->recurrent.activate(x, y, n, is_tanh); }

// Advise the system to back memory that has not been touched yet with large pages.
RR_EXPORT void rr_use_large_pages(void* memory, int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  const uintptr_t page = 2 << 20, begin = ((uintptr_t)memory + page - 1) / page * page;
  const uintptr_t end = ((uintptr_t)memory + (uintptr_t)bytes) / page * page;
  if (begin < end) madvise((void*)begin, end - begin, MADV_HUGEPAGE);
#endif
}
