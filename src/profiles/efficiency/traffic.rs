//! Operators that are bound by memory: elementwise ones, normalization, softmax, reductions, look-ups and copies.
//! They count no FLOPs. Their bytes are those of the operands and of the result, each once; a result that is not
//! recorded follows from the rest.

use super::Work;
use super::numbers::Element;
use super::operands::{Operands, Tensor, numel};
use super::products::broadcast;

/// What such an operator reads and writes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Traffic {
    /// The first operands, as many as there are, are broadcast to the result.
    Elementwise(usize),
    /// The same, with a result of Booleans.
    Comparison(usize),
    /// All operands are read; the result is like the one at this place.
    Like(usize),
    /// The same, in single precision if the flag at this place says so.
    Softmax(usize),
    /// The first operand becomes one of another type, whose number is at this place.
    Cast(usize),
    /// The dimensions at this place are summed up, or whatever a reduction does with them.
    Reduced(usize),
    /// All operands are read, and the result is one number.
    ToScalar,
    /// The first operand becomes a result like it and a mask of Booleans.
    Dropout,
    /// Rows of a table are read, as many as there are indices at place 1.
    Rows,
    /// The gradient of such a table, with as many rows as place 2 says.
    RowGradients,
    /// Slices along the dimension at place 1 are read, as many as there are indices at place 2.
    Slices,
    /// A single element for each index at place 2.
    Gathered,
    /// Each operand crosses the memory this many times.
    Each(&'static [u8]),
}

/// Operators by what they read and write. Schemas: `native_functions.yaml` of torch 2.15, and those of vLLM, SGLang
/// and AITER.
pub(super) const TRAFFIC: &[(&str, Traffic)] = &[
    (
        "aten::abs aten::neg aten::exp aten::exp2 aten::expm1 aten::log aten::log2 aten::log1p aten::sqrt \
         aten::rsqrt aten::square aten::reciprocal aten::sin aten::cos aten::tanh aten::sigmoid aten::logit \
         aten::erf aten::sgn aten::sign aten::floor aten::ceil aten::round aten::trunc aten::nan_to_num \
         aten::clamp aten::clamp_min aten::clamp_max aten::relu aten::relu6 aten::leaky_relu aten::elu \
         aten::gelu aten::silu aten::mish aten::softplus aten::hardswish aten::hardsigmoid aten::hardtanh \
         aten::threshold aten::bitwise_not aten::clone aten::contiguous aten::triu aten::tril aten::flip \
         aten::roll",
        Traffic::Elementwise(1),
    ),
    (
        "aten::add aten::sub aten::rsub aten::mul aten::div aten::divide aten::true_divide aten::pow \
         aten::remainder aten::fmod aten::floor_divide aten::maximum aten::minimum aten::atan2 aten::hypot \
         aten::prelu aten::masked_fill aten::bitwise_and aten::bitwise_or aten::bitwise_xor \
         aten::sigmoid_backward aten::tanh_backward aten::threshold_backward aten::gelu_backward \
         aten::silu_backward aten::elu_backward aten::leaky_relu_backward aten::hardswish_backward \
         aten::hardsigmoid_backward aten::hardtanh_backward aten::softplus_backward aten::mish_backward \
         aten::logit_backward aten::native_dropout_backward torch::distributed::reducer::mul_out",
        Traffic::Elementwise(2),
    ),
    ("aten::where aten::lerp aten::addcmul aten::addcdiv aten::mse_loss_backward", Traffic::Elementwise(3)),
    ("aten::isnan aten::isinf aten::isfinite aten::logical_not", Traffic::Comparison(1)),
    (
        "aten::eq aten::ne aten::lt aten::le aten::gt aten::ge aten::logical_and aten::logical_or \
         aten::logical_xor",
        Traffic::Comparison(2),
    ),
    (
        "aten::layer_norm aten::native_layer_norm aten::rms_norm aten::_fused_rms_norm aten::group_norm \
         aten::native_group_norm aten::instance_norm aten::batch_norm aten::_batch_norm_impl_index \
         aten::native_batch_norm aten::cudnn_batch_norm aten::miopen_batch_norm aten::_batch_norm_with_update \
         aten::_native_batch_norm_legit aten::softmax_backward_data aten::_softmax_backward_data \
         aten::_log_softmax_backward_data aten::_masked_softmax aten::cudnn_batch_norm_backward \
         aten::miopen_batch_norm_backward aten::cumsum aten::cumprod aiter::_groupnorm_run aiter::rms_norm \
         vllm::rocm_aiter_rms_norm fb::rms_norm",
        Traffic::Like(0),
    ),
    (
        "aten::native_layer_norm_backward aten::_fused_rms_norm_backward aten::native_group_norm_backward \
         aten::native_batch_norm_backward aten::batch_norm_backward aten::nll_loss_backward \
         aten::nll_loss2d_backward",
        Traffic::Like(1),
    ),
    ("aten::softmax aten::log_softmax aten::_softmax aten::_log_softmax aten::_safe_softmax", Traffic::Softmax(2)),
    ("aten::_to_copy", Traffic::Cast(1)),
    ("aten::sum aten::mean aten::nansum aten::amax aten::amin aten::logsumexp", Traffic::Reduced(1)),
    (
        "aten::max aten::min aten::argmax aten::argmin aten::prod aten::any aten::all aten::var aten::std \
         aten::var_mean aten::std_mean",
        Traffic::Reduced(1),
    ),
    ("aten::norm aten::linalg_vector_norm aten::linalg_norm", Traffic::Reduced(2)),
    (
        "aten::mse_loss aten::l1_loss aten::smooth_l1_loss aten::binary_cross_entropy \
         aten::binary_cross_entropy_with_logits aten::nll_loss aten::equal",
        Traffic::ToScalar,
    ),
    ("aten::embedding", Traffic::Rows),
    ("aten::embedding_dense_backward", Traffic::RowGradients),
    ("aten::native_dropout", Traffic::Dropout),
    ("aten::index_select", Traffic::Slices),
    ("aten::gather", Traffic::Gathered),
    // What is written alone.
    ("aten::fill_ aten::zero_ aten::normal_ aten::uniform_ aten::random_ aten::bernoulli_", Traffic::Each(&[1])),
    // A source and a target.
    ("aten::copy_ aten::_copy_from", Traffic::Each(&[1, 1])),
    // The result comes first, and the operands follow.
    (
        "_C::rms_norm _C::silu_and_mul _C::gelu_and_mul _C::gelu_tanh_and_mul sgl_kernel::rmsnorm \
         sgl_kernel::silu_and_mul sgl_kernel::gelu_and_mul aiter::rmsnorm aiter::silu_and_mul \
         _C::static_scaled_fp8_quant _C::dynamic_per_token_scaled_fp8_quant",
        Traffic::Each(&[1, 1, 1]),
    ),
    ("aiter::add_rmsnorm aiter::rmsnorm2d_fwd_with_add_ck", Traffic::Each(&[1, 1, 1, 1, 1])),
    // Both the input and the residual are read and written.
    ("_C::fused_add_rms_norm sgl_kernel::fused_add_rmsnorm", Traffic::Each(&[2, 2, 1])),
    ("vllm::rocm_aiter_rmsnorm2d_fwd_with_add", Traffic::Each(&[2, 2, 1])),
    // Positions; then queries and keys are read and written.
    ("_C::rotary_embedding sgl_kernel::rotary_embedding", Traffic::Each(&[1, 2, 2])),
    // Keys and values are read, and written into the cache.
    ("_C_cache_ops::reshape_and_cache_flash _C_cache_ops::reshape_and_cache", Traffic::Each(&[2, 2, 0, 0, 1])),
];

impl Traffic {
    pub fn work(self, operands: &Operands) -> Option<Work> {
        let first = operands.tensors.iter().flatten().next()?;
        let read_of_all = || operands.tensors.iter().flatten().map(Tensor::bytes).sum::<f64>();
        let bytes = match self {
            Self::Elementwise(count) => elementwise(operands, count, None)?,
            Self::Comparison(count) => elementwise(operands, count, Some(Element::BOOL))?,
            Self::Like(at) => read_of_all() + result_like(operands.tensor(at)?),
            Self::Softmax(flag) => {
                let input = operands.tensor(0)?;
                let element = if operands.flag(flag) == Some(true) { Element::F32 } else { input.element };
                input.bytes() + input.numel() * element.bytes
            }
            Self::Cast(at) => {
                let input = operands.tensor(0)?;
                input.bytes() + input.numel() * operands.element(at).unwrap_or(input.element).bytes
            }
            Self::Reduced(at) => {
                let input = operands.tensor(0)?;
                input.bytes() + reduced(operands, input, at) * input.element.bytes
            }
            Self::ToScalar => read_of_all() + first.element.bytes,
            Self::Dropout => {
                let input = operands.tensor(0)?;
                input.bytes() + result_like(input) + input.numel() * Element::BOOL.bytes
            }
            Self::Rows => rows(operands)?,
            Self::RowGradients => read_of_all() + row_gradients(operands)?,
            Self::Slices => slices(operands)?,
            Self::Gathered => looked_up(operands.tensor(2)?, 1.0, operands.tensor(0)?),
            Self::Each(times) => {
                let each = times.iter().enumerate().map(|(at, times)| f64::from(*times) * operands.bytes(at));
                operands.tensor(0)?;
                each.sum()
            }
        };
        Some(Work { flops: 0.0, bytes, number: first.element.number })
    }
}

/// Bytes of a result with the shape and type of this tensor.
fn result_like(tensor: &Tensor) -> f64 {
    tensor.numel() * tensor.element.bytes
}

/// Bytes of the first operands and of the result to which they are broadcast, whose type may be given.
fn elementwise(operands: &Operands, count: usize, result: Option<Element>) -> Option<f64> {
    let tensors: Vec<&Tensor> = operands.tensors.iter().take(count).flatten().collect();
    let result = result.or_else(|| promoted(&tensors))?;
    let shape = tensors.iter().try_fold(Vec::new(), |shape, tensor| broadcast(&shape, &tensor.dims))?;
    let read: f64 = tensors.iter().map(|tensor| tensor.bytes()).sum();
    Some(read + numel(shape.into_iter()) * result.bytes)
}

/// The type to which operands are promoted: tensors of one number count only where there is no other.
fn promoted(tensors: &[&Tensor]) -> Option<Element> {
    let elements = tensors.iter().map(|tensor| (!tensor.dims.is_empty(), tensor.element));
    elements.max_by_key(|(has_dimensions, element)| (*has_dimensions, element.rank())).map(|(_, element)| element)
}

/// Elements that are left after the reduction over the dimensions at this place: one, where none are recorded.
fn reduced(operands: &Operands, input: &Tensor, at: usize) -> f64 {
    let Some(dims) = operands.integers(at).filter(|dims| !dims.is_empty()) else { return 1.0 };
    let gone = numel(dims.iter().filter_map(|at| input.size(*at)));
    if gone > 0.0 { input.numel() / gone } else { 0.0 }
}

/// Bytes of a look-up: the indices, and for each of them some elements of a table, which are read and written.
fn looked_up(indices: &Tensor, elements: f64, table: &Tensor) -> f64 {
    indices.bytes() + 2.0 * indices.numel() * elements * table.element.bytes
}

/// Bytes of rows that are looked up in a table.
fn rows(operands: &Operands) -> Option<f64> {
    let table = operands.tensor(0)?;
    Some(looked_up(operands.tensor(1)?, numel(table.dims.iter().skip(1).copied()), table))
}

/// Bytes of the gradient of such a table.
fn row_gradients(operands: &Operands) -> Option<f64> {
    let (gradient, rows) = (operands.tensor(0)?, *operands.integers(2)?.first()?);
    Some(u64::try_from(rows).ok()? as f64 * gradient.size(-1)? as f64 * gradient.element.bytes)
}

/// Bytes of slices that are looked up along a dimension.
fn slices(operands: &Operands) -> Option<f64> {
    let table = operands.tensor(0)?;
    let slices = table.size(*operands.integers(1)?.first()?)?;
    let slice = if slices > 0 { table.numel() / slices as f64 } else { return None };
    Some(looked_up(operands.tensor(2)?, slice, table))
}
