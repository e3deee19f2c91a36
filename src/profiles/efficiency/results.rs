//! Convolutions of old traces: torch before 2.1 recorded no strides, so the size of a result is unknown. But the
//! gradient of a result has its size, and the call that reads it has the same input and weight.

use std::collections::HashMap;

use super::convolutions::Convolution;
use super::operands::Operands;
use super::{Operator, Recorded, Work, finite, operator, work_of};

/// How many different convolutions are kept.
const MOST_CONVOLUTIONS: usize = 4096;

/// The sizes of convolutions' results, as the calls of a trace show them on the way back.
#[derive(Debug, Clone, Default)]
pub struct ConvolutionResults {
    /// By the shapes of input and weight; `None` where two calls differ.
    sizes: HashMap<[Vec<u64>; 2], Option<Vec<u64>>>,
}

impl ConvolutionResults {
    /// Learns from a call, if it is a convolution on the way back. Memory is bounded.
    pub fn learn(&mut self, call: &Recorded) {
        let Some((convolution, operands)) = convolution(call) else { return };
        let (Some(shapes), Some(size)) = (convolution.shapes(&operands), convolution.gradient_shape(&operands))
        else {
            return;
        };
        if self.sizes.len() < MOST_CONVOLUTIONS || self.sizes.contains_key(&shapes) {
            let known = self.sizes.entry(shapes).or_insert_with(|| Some(size.clone()));
            if known.as_ref() != Some(&size) {
                *known = None;
            }
        }
    }

    /// The work of a call like [`work_of`], and of convolutions without strides as well.
    pub fn work_of(&self, call: &Recorded) -> Option<Work> {
        work_of(call).or_else(|| {
            let (convolution, operands) = convolution(call)?;
            let shapes = convolution.shapes(&operands)?;
            finite(convolution.work_with(&operands, self.sizes.get(&shapes)?.as_ref()?)?)
        })
    }
}

/// A call, if it is a convolution.
fn convolution(call: &Recorded) -> Option<(&'static Convolution, Operands)> {
    match operator(call.name)? {
        Operator::Convolution(convolution) => Some((convolution, Operands::read(call)?)),
        _ => None,
    }
}
