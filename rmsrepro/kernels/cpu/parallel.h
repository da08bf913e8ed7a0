// Threads: torch's own pool, handed in at run time, so that no second pool competes for the cores.
#pragma once

#include <cstdint>

// The signatures of torch's stable C interface (torch/csrc/stable/c/shim.h).
typedef void (*ParallelBody)(int64_t begin, int64_t end, void* context);
typedef int32_t (*ParallelFor)(int64_t begin, int64_t end, int64_t grain, ParallelBody body, void* context);

extern ParallelFor torch_parallel;  // null: everything runs on the calling thread

// Call body(begin, end) over a partition of [0, count) into ranges of at least `grain`.
template <class Body>
static inline void parallel_ranges(int64_t count, int64_t grain, const Body& body) {
  if (torch_parallel == nullptr || count <= grain) {
    if (count > 0) body((int64_t)0, count);
    return;
  }
  torch_parallel(
      0, count, grain, [](int64_t begin, int64_t end, void* context) { (*static_cast<const Body*>(context))(begin, end); },
      const_cast<Body*>(&body));
}

// Scratch memory of the calling thread, kept between calls; valid until the next call with the same slot.
float* scratch(int slot, int64_t floats);
enum ScratchSlot {
  SCRATCH_GAIN,
  SCRATCH_BIAS,
  SCRATCH_PARTIALS,
  SCRATCH_ROW,
  SCRATCH_TILES,
  SCRATCH_PANELS,
  SCRATCH_QUERY_PANELS,
  SCRATCH_CONTEXT_PANELS,
  SCRATCH_SECOND_PANELS,
  SCRATCH_LOGITS,
  SCRATCH_SLOTS
};
