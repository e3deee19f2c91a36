//! Attention: queries × keys, and the scores × values; on the way back five such products, one of which computes the
//! scores anew. Causal attention counts in full, as in torch's FLOP counter.

use serde::Deserialize;

use super::Work;
use super::operands::{Operands, Tensor, numel};

/// Where an operator has its operands. Keys and values follow the queries.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Attention {
    queries: usize,
    /// `[batch, tokens, heads, width]`, or `[tokens, heads, width]` of packed sequences, rather than `[batch, heads, tokens, width]`.
    tokens_first: bool,
    /// Where packed sequences begin: one more than there are sequences. They count as equally long, which is the
    /// least that they can be if queries and keys have the same lengths.
    offsets: Option<usize>,
    /// A mask or bias that is added to the scores.
    bias: Option<usize>,
    /// Whether only earlier tokens are attended to.
    causal: Option<usize>,
    is_backward: bool,
}

impl Attention {
    pub fn work(&self, operands: &Operands) -> Option<Work> {
        let [queries, keys, values] = self.inputs(operands)?;
        let [of_queries, of_keys, of_values] = [self.heads(queries)?, self.heads(keys)?, self.heads(values)?];
        let ([heads, tokens, width], [_, key_tokens, key_width], [_, value_tokens, value_width]) =
            (of_queries, of_keys, of_values);
        // Sequences lie behind each other, without a dimension for the batch.
        let is_packed = |tensor: &Tensor| self.tokens_first && tensor.dims.len() == 3;
        if key_tokens != value_tokens || width != key_width || is_packed(queries) != is_packed(keys) {
            return None;
        }
        // Packed sequences attend to their own tokens alone.
        let offsets = self.offsets.and_then(|at| operands.tensor(at)?.size(0)).filter(|offsets| *offsets > 1);
        let sequences = match offsets {
            Some(offsets) => offsets - 1,
            None if is_packed(queries) => return None,
            None => 1,
        };
        let pairs = heads * tokens * key_tokens / sequences as f64;
        let widths = if self.is_backward { 3.0 * width + 2.0 * value_width } else { width + value_width };
        let inputs = queries.bytes() + keys.bytes() + values.bytes();
        let results = heads * tokens * value_width * queries.element.bytes;
        let bias = self.bias.map_or(0.0, |at| operands.bytes(at));
        // On the way back, the results and their gradients are read, and the gradients of the inputs are written.
        let passes = if self.is_backward { 2.0 } else { 1.0 };
        Some(Work {
            flops: 2.0 * pairs * widths,
            bytes: passes * (inputs + results) + bias,
            number: queries.element.format,
        })
    }

    /// Queries, keys and values.
    pub fn inputs<'a>(&self, operands: &'a Operands) -> Option<[&'a Tensor; 3]> {
        let at = self.queries;
        Some([operands.tensor(at)?, operands.tensor(at + 1)?, operands.tensor(at + 2)?])
    }

    /// Whether a call says that it is causal.
    pub(crate) fn is_causal(&self, operands: &Operands) -> bool {
        self.causal.is_some_and(|at| operands.flag(at) == Some(true))
    }

    /// Heads of all in the batch, their tokens, and their width.
    fn heads(&self, tensor: &Tensor) -> Option<[f64; 3]> {
        let (heads, tokens, width) = match &tensor.dims[..] {
            [heads @ .., tokens, width] if !self.tokens_first => (numel(heads.iter().copied()), tokens, width),
            [tokens, heads, width] if self.tokens_first => (*heads as f64, tokens, width),
            [batch, tokens, heads, width] if self.tokens_first => {
                (numel([*batch, *heads].into_iter()), tokens, width)
            }
            _ => return None,
        };
        Some([heads, *tokens as f64, *width as f64])
    }
}
