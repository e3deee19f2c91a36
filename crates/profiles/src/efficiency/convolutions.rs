//! Convolutions: every element of the result is a product of 2·k operations, k being the weights of its channel. As
//! in torch's FLOP counter, except for the gradient of a grouped weight, which torch counts as if there were one
//! group.

use std::collections::HashMap;

use serde::Deserialize;

use super::operands::{Operands, Tensor, numel};
use super::{Operator, Recorded, Work, finite, operator, work_of};

/// How many different convolutions are kept.
const MOST_CONVOLUTIONS: usize = 4096;

/// Where an operator has its operands.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Convolution {
    input: usize,
    weight: usize,
    /// The gradient of the result, if this is the way back.
    gradient: Option<usize>,
    /// Others that are read.
    others: Vec<usize>,
    pub stride: usize,
    padding: usize,
    dilation: Option<usize>,
    transposed: Transposed,
    /// Where a transposed one has the padding of its result, and its groups.
    output_padding: Option<usize>,
    groups: usize,
    /// Which gradients are computed: of the input, of the weight. Both, where not recorded.
    mask: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Transposed {
    #[default]
    Never,
    Always,
    Given(usize),
}

impl Convolution {
    pub fn work(&self, operands: &Operands) -> Option<Work> {
        let (input, weight) = (operands.tensor(self.input)?, operands.tensor(self.weight)?);
        let number = input.element.format;
        let (per_position, read) = (2.0 * weight.numel(), input.bytes() + weight.bytes());
        let Some(gradient) = self.gradient else {
            return Some(self.forward_work(operands, [input, weight], self.forward(operands, input, weight)?));
        };
        let gradient = operands.tensor(gradient)?;
        let slides_over = if self.is_transposed_back(operands, gradient, weight)? { input } else { gradient };
        let positions = Spatial::new(slides_over, weight)?.positions();
        let flags = self.mask.and_then(|at| operands.flags(at));
        let is_computed = |at: usize| flags.as_ref().is_none_or(|flags| flags.get(at) == Some(&true));
        // The gradient of the input reads the weight, and that of the weight reads the input; each is as long as its
        // origin.
        let (of_input, of_weight) = (is_computed(0), is_computed(1));
        let sides = f64::from(u8::from(of_input) + u8::from(of_weight));
        let moved = if sides > 0.0 { gradient.bytes() + read * sides } else { 0.0 };
        Some(Work { flops: per_position * positions * sides, bytes: moved, number })
    }

    /// The same for a call without recorded strides, whose result is as large as this gradient.
    pub(crate) fn work_with(&self, operands: &Operands, gradient: &[u64]) -> Option<Work> {
        let (input, weight) = (operands.tensor(self.input)?, operands.tensor(self.weight)?);
        let [batch, channels, lengths @ ..] = gradient else { return None };
        let is_transposed = channels != weight.dims.first()?;
        let positions = if is_transposed {
            Spatial::new(input, weight)?.positions()
        } else {
            numel([batch].into_iter().chain(lengths).copied())
        };
        let results = numel(gradient.iter().copied());
        self.gradient.is_none().then(|| self.forward_work(operands, [input, weight], [positions, results]))
    }

    /// The shapes of input and weight.
    pub fn shapes(&self, operands: &Operands) -> Option<[Vec<u64>; 2]> {
        let dims = |at: usize| operands.tensor(at).map(|tensor| tensor.dims.clone());
        Some([dims(self.input)?, dims(self.weight)?])
    }

    /// The work on the way forward, from the number of positions and of the result's elements.
    fn forward_work(
        &self,
        operands: &Operands,
        [input, weight]: [&Tensor; 2],
        [positions, results]: [f64; 2],
    ) -> Work {
        let others: f64 = self.others.iter().map(|at| operands.bytes(*at)).sum();
        Work {
            flops: 2.0 * weight.numel() * positions,
            bytes: input.bytes() + weight.bytes() + others + results * input.element.bytes,
            number: input.element.format,
        }
    }

    /// The shapes of both factors.
    pub(crate) fn factors<'a>(&self, operands: &'a Operands) -> Option<[&'a Tensor; 2]> {
        let first = self.gradient.unwrap_or(self.input);
        Some([operands.tensor(first)?, operands.tensor(self.weight)?])
    }

    /// At how many positions the weight is applied, and how many elements the result has.
    fn forward(&self, operands: &Operands, input: &Tensor, weight: &Tensor) -> Option<[f64; 2]> {
        let spatial = Spatial::new(input, weight)?;
        let is_transposed = match self.transposed {
            Transposed::Never => false,
            Transposed::Always => true,
            Transposed::Given(at) => operands.flag(at)?,
        };
        let (stride, padding) = (operands.integers(self.stride)?, operands.integers(self.padding)?);
        let dilation = self.dilation.map_or(Some(vec![1]), |at| operands.integers(at))?;
        let added = match (self.output_padding, is_transposed) {
            (Some(at), true) => operands.integers(at)?,
            _ => vec![0],
        };
        let mut size = Vec::new();
        for (at, (length, kernel)) in spatial.lengths.iter().zip(spatial.kernel).enumerate() {
            let (stride, padding) = (nth(&stride, at)?, nth(&padding, at)?.saturating_mul(2));
            let reach = nth(&dilation, at)?.saturating_mul(i128::from(*kernel) - 1).saturating_add(1);
            let length = i128::from(*length);
            let length = if is_transposed {
                let last = (length - 1).saturating_mul(stride);
                last.saturating_sub(padding).saturating_add(reach).saturating_add(nth(&added, at)?)
            } else {
                length.saturating_add(padding).saturating_sub(reach).checked_div_euclid(stride)?.saturating_add(1)
            };
            size.push(u64::try_from(length).ok()?);
        }
        let channels = if is_transposed {
            // Its weight is `[in, out / groups, …]`.
            weight.size(1)?.checked_mul(operands.value(self.groups)?.parse().ok()?)?
        } else {
            weight.size(0)?
        };
        let places = numel(size.into_iter());
        let positions = if is_transposed { spatial.positions() } else { spatial.batch as f64 * places };
        Some([positions, spatial.batch as f64 * channels as f64 * places])
    }

    /// Whether the gradient is that of a transposed convolution.
    fn is_transposed_back(&self, operands: &Operands, gradient: &Tensor, weight: &Tensor) -> Option<bool> {
        Some(match self.transposed {
            Transposed::Never => false,
            Transposed::Always => true,
            Transposed::Given(at) => match operands.flag(at) {
                Some(is_transposed) => is_transposed,
                None => gradient.size(1)? != weight.size(0)?,
            },
        })
    }
}

/// The number for one dimension: a list of one is for all of them.
fn nth(list: &[i64], at: usize) -> Option<i128> {
    let number = list.get(at).or(if list.len() == 1 { list.first() } else { None });
    number.map(|number| i128::from(*number))
}

/// Over what a weight slides.
#[derive(Debug, Clone, Copy)]
struct Spatial<'a> {
    batch: u64,
    lengths: &'a [u64],
    kernel: &'a [u64],
}

impl<'a> Spatial<'a> {
    /// Images `[batch, channels, …]`, or a single one without the batch.
    fn new(images: &'a Tensor, weight: &'a Tensor) -> Option<Self> {
        let kernel = weight.dims.get(2..)?;
        let (batch, rest) =
            if images.dims.len() == weight.dims.len() { images.dims.split_first()? } else { (&1, &images.dims[..]) };
        let (_, lengths) = rest.split_first()?;
        (lengths.len() == kernel.len()).then_some(Self { batch: *batch, lengths, kernel })
    }

    fn positions(&self) -> f64 {
        numel([self.batch].into_iter().chain(self.lengths.iter().copied()))
    }
}

/// The sizes of convolutions' results, as the calls of a trace show them on the way back: torch before 2.1 recorded no strides, so the
/// size of a result is unknown. But its gradient has the same size, and is read with the same input and weight.
#[derive(Debug, Clone, Default)]
pub struct ConvolutionResults {
    /// By the shapes of input and weight; `None` where two calls differ.
    sizes: HashMap<[Vec<u64>; 2], Option<Vec<u64>>>,
}

impl ConvolutionResults {
    /// Learns from a call, if it is a convolution on the way back. Memory is bounded.
    pub fn learn(&mut self, call: &Recorded) {
        let Some((convolution, operands)) = convolution(call) else { return };
        let gradient = convolution.gradient.and_then(|at| operands.tensor(at));
        let (Some(shapes), Some(gradient)) = (convolution.shapes(&operands), gradient) else { return };
        if self.sizes.len() < MOST_CONVOLUTIONS || self.sizes.contains_key(&shapes) {
            let known = self.sizes.entry(shapes).or_insert_with(|| Some(gradient.dims.clone()));
            if known.as_ref() != Some(&gradient.dims) {
                *known = None;
            }
        }
    }

    /// The work of a call like [`work_of`], and of convolutions without strides as well.
    pub(crate) fn work_of(&self, call: &Recorded) -> Option<Work> {
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
