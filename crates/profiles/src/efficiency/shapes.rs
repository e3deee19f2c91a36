//! The shapes of a call as a person reads them: `[32,512]×[512,2048] bf16`.

use super::operands::{Operands, Sizes};
use super::{Operator, Recorded, operator};

/// How many different shapes are written.
const MOST_SHAPES: usize = 3;

/// The shapes of a call and the type of its elements: the factors of products, convolutions and attention, and the
/// different shapes of others. `None` if no shape was recorded.
pub fn shape_of(call: &Recorded) -> Option<String> {
    let operands = Operands::read(call)?;
    operator(call.name).and_then(|operator| factors(operator, &operands)).or_else(|| different(&operands))
}

/// What is multiplied.
fn factors(operator: &Operator, operands: &Operands) -> Option<String> {
    match operator {
        Operator::Product(product) => {
            let ([left, right], element) = product.factors(operands)?;
            Some(format!("{}×{} {}", written(&left), written(&right), element.word))
        }
        Operator::Convolution(convolution) => {
            let [images, weight] = convolution.factors(operands)?;
            let stride = operands.integers(convolution.stride).and_then(|stride| stride.iter().copied().max());
            let stride = stride.filter(|stride| *stride != 1).map(|stride| format!(" stride {stride}"));
            Some(format!(
                "{}×{}{} {}",
                written(&images.dims),
                written(&weight.dims),
                stride.unwrap_or_default(),
                images.element.word
            ))
        }
        Operator::Attention(attention) => {
            let [queries, keys, _] = attention.inputs(operands)?;
            let keys = if queries.dims == keys.dims { String::new() } else { format!("×{}", written(&keys.dims)) };
            let causal = if attention.is_causal(operands) { " causal" } else { "" };
            Some(format!("{}{keys} {}{causal}", written(&queries.dims), queries.element.word))
        }
        Operator::Traffic(_) | Operator::Lists(_) => None,
    }
}

/// The different shapes, in order.
fn different(operands: &Operands) -> Option<String> {
    let shapes = operands.sizes.iter().flat_map(|sizes| match sizes {
        Sizes::One(dims) => std::slice::from_ref(dims),
        Sizes::List(list) => list,
    });
    let mut different: Vec<&Vec<u64>> = Vec::new();
    for dims in shapes.filter(|dims| !dims.is_empty()) {
        if different.len() <= MOST_SHAPES && !different.contains(&dims) {
            different.push(dims);
        }
    }
    let mut text = different.iter().take(MOST_SHAPES).map(|dims| written(dims)).collect::<Vec<_>>().join(", ");
    if different.len() > MOST_SHAPES {
        text.push_str(", …");
    }
    let first = operands.tensors.iter().flatten().find(|tensor| !tensor.dims.is_empty());
    if let Some(tensor) = first {
        text = format!("{text} {}", tensor.element.word);
    }
    (!text.is_empty()).then_some(text)
}

fn written(dims: &[u64]) -> String {
    const LONGEST: usize = 8;
    let mut sizes: Vec<String> = dims.iter().take(LONGEST).map(ToString::to_string).collect();
    if dims.len() > LONGEST {
        sizes.push("…".to_owned());
    }
    format!("[{}]", sizes.join(","))
}
