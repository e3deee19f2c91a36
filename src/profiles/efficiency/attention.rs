//! Attention: queries × keys, and the scores × values; on the way back five such products, one of which computes the
//! scores anew. Causal attention counts in full, as in torch's FLOP counter.

use super::Work;
use super::operands::{Operands, Tensor, numel};

/// Where an operator has its operands. Keys and values follow the queries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attention {
    queries: usize,
    order: Order,
    /// Where packed sequences begin: one more than there are sequences. They count as equally long, which is the
    /// least that they can be if queries and keys have the same lengths.
    offsets: Option<usize>,
    /// A mask or bias that is added to the scores.
    bias: Option<usize>,
    /// Whether only earlier tokens are attended to.
    causal: Option<usize>,
    is_backward: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    /// `[batch, heads, tokens, width]`
    HeadsFirst,
    /// `[batch, tokens, heads, width]`, or `[tokens, heads, width]` of packed sequences.
    TokensFirst,
}

const HEADS_FIRST: Attention =
    Attention { queries: 0, order: Order::HeadsFirst, offsets: None, bias: None, causal: None, is_backward: false };
const HEADS_FIRST_BACKWARD: Attention = Attention { queries: 1, is_backward: true, ..HEADS_FIRST };
const TOKENS_FIRST: Attention = Attention { order: Order::TokensFirst, ..HEADS_FIRST };
const TOKENS_FIRST_BACKWARD: Attention = Attention { order: Order::TokensFirst, ..HEADS_FIRST_BACKWARD };

/// Attention by name. Schemas: `native_functions.yaml` of torch 2.15, flash-attention 2 and 3, and AITER.
pub(super) const ATTENTION: &[(&str, Attention)] = &[
    ("aten::scaled_dot_product_attention", Attention { bias: Some(3), causal: Some(5), ..HEADS_FIRST }),
    ("aten::_scaled_dot_product_attention_math", Attention { bias: Some(3), causal: Some(5), ..HEADS_FIRST }),
    ("aten::_scaled_dot_product_flash_attention", Attention { causal: Some(4), ..HEADS_FIRST }),
    (
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        Attention { causal: Some(4), bias: Some(5), ..HEADS_FIRST },
    ),
    ("aten::_scaled_dot_product_efficient_attention", Attention { bias: Some(3), causal: Some(6), ..HEADS_FIRST }),
    ("aten::_scaled_dot_product_cudnn_attention", Attention { bias: Some(3), causal: Some(6), ..HEADS_FIRST }),
    (
        "aten::_scaled_dot_product_fused_attention_overrideable",
        Attention { bias: Some(3), causal: Some(5), ..HEADS_FIRST },
    ),
    ("aten::_scaled_dot_product_flash_attention_backward", Attention { causal: Some(11), ..HEADS_FIRST_BACKWARD }),
    (
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        Attention { causal: Some(7), ..HEADS_FIRST_BACKWARD },
    ),
    (
        "aten::_scaled_dot_product_efficient_attention_backward",
        Attention { bias: Some(4), causal: Some(11), ..HEADS_FIRST_BACKWARD },
    ),
    (
        "aten::_scaled_dot_product_cudnn_attention_backward",
        Attention { bias: Some(8), causal: Some(14), ..HEADS_FIRST_BACKWARD },
    ),
    (
        "aten::_scaled_dot_product_fused_attention_overrideable_backward",
        Attention { bias: Some(4), causal: Some(13), ..HEADS_FIRST_BACKWARD },
    ),
    ("aten::_flash_attention_forward", Attention { offsets: Some(3), causal: Some(8), ..TOKENS_FIRST }),
    ("aten::_flash_attention_backward", Attention { offsets: Some(6), causal: Some(11), ..TOKENS_FIRST_BACKWARD }),
    ("aten::_efficient_attention_forward", Attention { bias: Some(3), offsets: Some(4), ..TOKENS_FIRST }),
    ("aten::_efficient_attention_backward", Attention { bias: Some(4), offsets: Some(6), ..TOKENS_FIRST_BACKWARD }),
    (
        "aten::_cudnn_attention_forward",
        Attention { bias: Some(3), offsets: Some(4), causal: Some(10), ..HEADS_FIRST },
    ),
    (
        "aten::_cudnn_attention_backward",
        Attention { bias: Some(8), offsets: Some(9), causal: Some(14), ..HEADS_FIRST_BACKWARD },
    ),
    ("flash_attn::_flash_attn_forward", Attention { causal: Some(5), ..TOKENS_FIRST }),
    ("flash_attn::_flash_attn_backward", Attention { causal: Some(11), ..TOKENS_FIRST_BACKWARD }),
    ("flash_attn::_flash_attn_varlen_forward", Attention { offsets: Some(3), causal: Some(9), ..TOKENS_FIRST }),
    (
        "flash_attn::_flash_attn_varlen_backward",
        Attention { offsets: Some(9), causal: Some(15), ..TOKENS_FIRST_BACKWARD },
    ),
    ("flash_attn_3::fwd", Attention { offsets: Some(7), ..TOKENS_FIRST }),
    ("aiter::_flash_attn_forward", Attention { causal: Some(5), ..TOKENS_FIRST }),
    ("aiter::_flash_attn_backward", Attention { causal: Some(11), ..TOKENS_FIRST_BACKWARD }),
    ("aiter::mha_fwd", Attention { causal: Some(5), ..TOKENS_FIRST }),
    ("aiter::fmha_v3_fwd", Attention { causal: Some(5), ..TOKENS_FIRST }),
    ("aiter::mha_bwd", TOKENS_FIRST_BACKWARD),
    ("aiter::fmha_v3_bwd", TOKENS_FIRST_BACKWARD),
    ("aiter::mha_varlen_fwd", Attention { offsets: Some(3), ..TOKENS_FIRST }),
    ("aiter::fmha_v3_varlen_fwd", Attention { offsets: Some(3), ..TOKENS_FIRST }),
];

impl Attention {
    pub fn work(self, operands: &Operands) -> Option<Work> {
        let [queries, keys, values] = self.inputs(operands)?;
        let [query_heads, key_heads, value_heads] = [self.heads(queries)?, self.heads(keys)?, self.heads(values)?];
        let fits = key_heads.tokens == value_heads.tokens && query_heads.width == key_heads.width;
        if !fits || query_heads.is_packed != key_heads.is_packed {
            return None;
        }
        // Packed sequences attend to their own tokens alone.
        let offsets = self.offsets.and_then(|at| operands.tensor(at)?.size(0)).filter(|offsets| *offsets > 1);
        let sequences = match offsets {
            Some(offsets) => offsets - 1,
            None if query_heads.is_packed => return None,
            None => 1,
        };
        let pairs = query_heads.count * query_heads.tokens * key_heads.tokens / sequences as f64;
        let (width, value_width) = (query_heads.width, value_heads.width);
        let widths = if self.is_backward { 3.0 * width + 2.0 * value_width } else { width + value_width };
        let inputs = queries.bytes() + keys.bytes() + values.bytes();
        let results = query_heads.count * query_heads.tokens * value_width * queries.element.bytes;
        let bias = self.bias.map_or(0.0, |at| operands.bytes(at));
        // On the way back, the results and their gradients are read, and the gradients of the inputs are written.
        let passes = if self.is_backward { 2.0 } else { 1.0 };
        Some(Work {
            flops: 2.0 * pairs * widths,
            bytes: passes * (inputs + results) + bias,
            number: queries.element.number,
        })
    }

    /// Queries, keys and values.
    pub fn inputs(self, operands: &Operands) -> Option<[&Tensor; 3]> {
        let at = self.queries;
        Some([operands.tensor(at)?, operands.tensor(at + 1)?, operands.tensor(at + 2)?])
    }

    /// Whether a call says that it is causal.
    pub fn is_causal(self, operands: &Operands) -> bool {
        self.causal.is_some_and(|at| operands.flag(at) == Some(true))
    }

    fn heads(self, tensor: &Tensor) -> Option<Heads> {
        let (tokens, width) = (tensor.size(-2)?, tensor.size(-1)?);
        Some(match (self.order, &tensor.dims[..]) {
            (Order::HeadsFirst, [heads @ .., _, _]) => Heads {
                count: numel(heads.iter().copied()),
                tokens: tokens as f64,
                width: width as f64,
                is_packed: false,
            },
            (Order::TokensFirst, [batch @ .., tokens, heads, width]) if batch.len() <= 1 => Heads {
                count: numel(batch.iter().chain([heads]).copied()),
                tokens: *tokens as f64,
                width: *width as f64,
                is_packed: batch.is_empty(),
            },
            _ => return None,
        })
    }
}

/// A tensor of heads.
#[derive(Debug, Clone, Copy)]
struct Heads {
    /// Heads of all in the batch.
    count: f64,
    tokens: f64,
    width: f64,
    /// Whether sequences lie behind each other, without a dimension for the batch.
    is_packed: bool,
}
