// The CPU norms as a C++ autograd node: what autograd.py does, without Python between the engine and the kernels.
//
// Optional, and the only file that needs torch's headers. Built by rmsrepro.kernels.cpu.node.build for the torch and
// Python that run it; the kernels themselves stay in libkernels.so and are handed in as addresses.
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/object_ptr.h>

namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The functions of library.cpp.
typedef void (*Forward)(const void* spec, int64_t rows, const void* x, int64_t x_stride, const void* residual,
                        int64_t residual_stride, const void* gain, const void* bias, void* y, void* sum, float* stat);
typedef void (*Backward)(const void* spec, int64_t rows, const void* dy, int64_t dy_stride, const void* dsum,
                         int64_t dsum_stride, const void* x, int64_t x_stride, const void* gain, const float* stat,
                         void* dx, void* dgain, void* dbias);
Forward kernel_forward;
Backward kernel_backward;

const void* data(const Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }
void* writable(Tensor& tensor) { return tensor.defined() ? tensor.mutable_data_ptr() : nullptr; }

PyObject* wrap(const Tensor& tensor) {
  if (tensor.defined()) return THPVariable_Wrap(tensor);
  Py_RETURN_NONE;
}

// The gradients by plan.differentiable_backward(dy, x, gain, want_x, want_gain, want_bias), for a second derivative.
variable_list differentiable(PyObject* plan, const Tensor& dy, const Tensor& x, const Tensor& gain, const bool* wanted) {
  pybind11::gil_scoped_acquire gil;
  THPObjectPtr py_dy(wrap(dy)), py_x(wrap(x)), py_gain(wrap(gain));
  THPObjectPtr result(PyObject_CallMethod(plan, "differentiable_backward", "OOOiii", py_dy.get(), py_x.get(),
                                          py_gain.get(), wanted[0], wanted[1], wanted[2]));
  if (!result) throw python_error();
  variable_list gradients(6);
  for (int i = 0; i < 3; ++i) {
    PyObject* item = PyTuple_GetItem(result.get(), i);
    if (item != Py_None) gradients[i] = THPVariable_Unpack(item);
  }
  return gradients;
}

struct Norm : torch::autograd::Function<Norm> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const std::optional<Tensor>& gain_or_none,
                        const std::optional<Tensor>& bias_or_none, int64_t spec, int64_t plan, int64_t stats) {
    const Tensor gain = gain_or_none.value_or(Tensor()), bias = bias_or_none.value_or(Tensor());
    const int64_t n = x.size(-1), rows = x.numel() / n;
    Tensor y = at::empty_like(x), stat = at::empty({rows, stats}, x.options().dtype(at::kFloat));
    kernel_forward((const void*)spec, rows, data(x), n, nullptr, 0, data(gain), data(bias), writable(y), nullptr,
                   static_cast<float*>(writable(stat)));
    ctx->save_for_backward({x, gain, stat});
    ctx->saved_data["spec"] = spec;
    ctx->saved_data["plan"] = plan;
    ctx->saved_data["bias"] = bias.defined() ? static_cast<int64_t>(bias.scalar_type()) : int64_t{-1};
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list upstream) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &gain = saved[1], &stat = saved[2];
    const int64_t n = x.size(-1), bias_type = ctx->saved_data["bias"].toInt();
    // Edges are counted over the tensors that were given.
    const bool wanted[] = {ctx->needs_input_grad(0), gain.defined() && ctx->needs_input_grad(1),
                           bias_type >= 0 && ctx->needs_input_grad(gain.defined() ? 2 : 1)};
    if (c10::GradMode::is_enabled())
      return differentiable((PyObject*)ctx->saved_data["plan"].toInt(), upstream[0], x, gain, wanted);
    Tensor dy = upstream[0].scalar_type() == x.scalar_type() ? upstream[0] : upstream[0].to(x.scalar_type());
    int64_t dy_stride = n;
    if (!dy.is_contiguous()) {
      bool one_row = dy.numel() > 0;  // expanded over all rows, as the gradient of a sum is
      for (int64_t d = 0; d + 1 < dy.dim(); ++d) one_row &= dy.stride(d) == 0;
      while (one_row && dy.dim() > 1) dy = dy.select(0, 0);
      if (one_row) dy_stride = 0;
      dy = dy.contiguous();
    }
    Tensor dx, dgain, dbias;
    if (wanted[0]) dx = at::empty_like(x);
    if (wanted[1]) dgain = at::empty_like(gain);
    if (wanted[2]) dbias = at::empty({n}, x.options().dtype(static_cast<at::ScalarType>(bias_type)));
    kernel_backward((const void*)ctx->saved_data["spec"].toInt(), stat.size(0), data(dy), dy_stride, nullptr, 0,
                    data(x), n, data(gain), static_cast<const float*>(data(stat)), writable(dx), writable(dgain),
                    writable(dbias));
    return {dx, dgain, dbias, Tensor(), Tensor(), Tensor()};
  }
};

std::optional<Tensor> optional_tensor(PyObject* object) {
  if (object == Py_None) return std::nullopt;
  return THPVariable_Unpack(object);
}

// norm(x, gain, bias, spec address, plan address, numbers per row): contiguous tensors that the caller has checked.
PyObject* norm(PyObject*, PyObject* const* args, Py_ssize_t) {
  HANDLE_TH_ERRORS
  return THPVariable_Wrap(Norm::apply(THPVariable_Unpack(args[0]), optional_tensor(args[1]), optional_tensor(args[2]),
                                      static_cast<int64_t>(PyLong_AsLongLong(args[3])),
                                      static_cast<int64_t>(PyLong_AsLongLong(args[4])),
                                      static_cast<int64_t>(PyLong_AsLongLong(args[5]))));
  END_HANDLE_TH_ERRORS
}

PyObject* use_kernels(PyObject*, PyObject* const* args, Py_ssize_t) {
  kernel_forward = (Forward)PyLong_AsVoidPtr(args[0]);
  kernel_backward = (Backward)PyLong_AsVoidPtr(args[1]);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"norm", (PyCFunction)(void*)norm, METH_FASTCALL, "Normalise rows, recording a C++ autograd node."},
    {"use_kernels", (PyCFunction)(void*)use_kernels, METH_FASTCALL, "Take the addresses of the two kernels."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_node", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__node() {
  PyObject* module = PyModule_Create(&definition);
  if (module) PyModule_AddStringConstant(module, "built_for", RR_BUILT_FOR);
  return module;
}
