use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// The recorded types, a letter for each operand.
fn types(letters: &str) -> String {
    let name = |letter| match letter {
        'b' => "c10::BFloat16",
        'h' => "c10::Half",
        'f' => "float",
        'd' => "double",
        '8' => "c10::Float8_e4m3fn",
        '4' => "c10::Float4_e2m1fn_x2",
        'l' => "long int",
        'i' => "int",
        'c' => "signed char",
        'o' => "bool",
        's' => "Scalar",
        'L' => "ScalarList",
        'T' => "TensorList",
        '.' => "",
        other => panic!("{other}"),
    };
    serde_json::to_string(&letters.chars().map(name).collect::<Vec<_>>()).unwrap()
}

/// FLOPs and bytes of a call, whose values are separated by `|`.
fn work(name: &str, dims: &str, letters: &str, values: &str) -> Option<(f64, f64)> {
    let values = serde_json::to_string(&values.split('|').collect::<Vec<_>>()).unwrap();
    let call = Recorded { name, dims, types: &types(letters), strides: "", values: &values };
    work_of(&call).map(|work| (work.flops, work.bytes))
}

type Row = (&'static str, &'static str, &'static str, &'static str, f64, f64);

fn check(rows: &[Row]) {
    for (name, dims, letters, values, flops, bytes) in rows {
        assert_eq!(work(name, dims, letters, values), Some((*flops, *bytes)), "{name} {dims}");
    }
}

/// FLOPs by `FlopCounterMode` of torch 2.15 around the call with tensors of the gpu `meta`, and bytes of the
/// tensors that go in and out. `mv` and `_int_mm` are not in the counter: 2·m·k, 2·m·n·k.
#[test]
fn products_count_like_torch() {
    check(&[
        ("aten::mm", "[[32,512],[512,2048]]", "bb", "|", 67_108_864.0, 2_260_992.0),
        ("aten::addmm", "[[768],[77,768],[768,768],[],[]]", "bbbss", "|||1|1", 90_832_896.0, 1_417_728.0),
        ("aten::bmm", "[[64,512,64],[64,64,512]]", "bb", "|", 2_147_483_648.0, 41_943_040.0),
        ("aten::baddbmm", "[[8,1,32],[8,16,24],[8,24,32]]", "fff", "", 196_608.0, 54_272.0),
        ("aten::linear", "[[4,77,768],[3072,768],[3072]]", "bbb", "", 1_453_326_336.0, 7_090_176.0),
        ("aten::linear", "[[4,77,768],[3072,768],[]]", "bb.", "", 1_453_326_336.0, 7_084_032.0),
        ("aten::matmul", "[[2,1,5,7],[3,7,9]]", "bb", "", 3780.0, 1058.0),
        ("aten::mv", "[[64,32],[32]]", "bb", "", 4096.0, 4288.0),
        ("aten::_scaled_mm", "[[16,32],[32,64],[],[],[],[],[],[]]", "88ff..ss", "||||||15|False", 65_536.0, 4616.0),
        ("aten::_int_mm", "[[32,64],[64,16]]", "cc", "|", 65_536.0, 5120.0),
        // Two numbers lie in each byte.
        ("aten::_scaled_mm", "[[16,32],[32,64],[],[],[],[],[],[]]", "44ff..ss", "||||||15|", 131_072.0, 4616.0),
        // vLLM and AITER: the weight is [n,k], as in `linear`.
        ("vllm::rocm_unquantized_gemm", "[[46,2880],[201088,2880],[]]", "bb.", "", 53_280_276_480.0, 1_177_031_936.0),
        ("aiter::gemm_a16w16", "[[64,4096],[6144,4096],[],[]]", "bb.s", "", 3_221_225_472.0, 51_642_368.0),
    ]);
}

/// Like those of products; torch counts the gradient of a grouped weight without groups, which would be 508,032 for
/// the depthwise one.
#[test]
fn convolutions_count_like_torch() {
    let general = "[],[],[],[],[],[],[]]";
    let images = format!("[[4,3,224,224],[768,3,16,16],{}", general.replacen("[]", "[768]", 1));
    let dims = |start: &str| format!("{start},{general}");
    let plain = "bb.LLLsLs";
    for (dims, letters, values, flops, bytes) in [
        (images, "bbbLLLsLs", "|||[16, 16]|[0, 0]|[1, 1]|False|[0, 0]|1", 924_844_032.0, 3_589_632.0),
        // `torch.ops.aten.convolution(x, w, None, [2, 1], [1, 3], [2, 1], False, [0, 0], 2)`
        (dims("[[2,8,17,19],[12,4,3,5]"), "ff.LLLsLs", "|||[2, 1]|[1, 3]|[2, 1]|False|[0, 0]|2", 483_840.0, 39_680.0),
        (dims("[[2,4,100],[6,4,5]"), plain, "|||[2]|[2]|[1]|False|[0]|1", 24_000.0, 3040.0),
        (dims("[[1,2,8,9,10],[4,2,3,3,3]"), plain, "|||[1, 1, 1]|[1]|[1]|False|[0]|1", 311_040.0, 9072.0),
        (dims("[[2,8,7,7],[8,3,4,4]"), plain, "|||[2, 2]|[1, 1]|[1, 1]|True|[1, 1]|2", 75_264.0, 7736.0),
    ] {
        assert_eq!(work("aten::convolution", &dims, letters, values), Some((flops, bytes)), "{dims}");
    }
    check(&[
        (
            "aten::conv2d",
            "[[10,64,56,56],[128,64,3,3],[],[],[],[],[]]",
            "bb.LLLs",
            "|||[2, 2]|[1, 1]|[1, 1]|1",
            1_156_055_040.0,
            6_168_576.0,
        ),
        // A single image, without a batch.
        (
            "aten::conv2d",
            "[[3,32,32],[6,3,3,3],[],[],[],[],[]]",
            "bb.LLLs",
            "|||[1, 1]|[1, 1]|[1, 1]|1",
            331_776.0,
            18_756.0,
        ),
        (
            "aten::conv_transpose2d",
            "[[2,8,7,7],[8,3,4,4],[],[],[],[],[],[]]",
            "bb.LLLsL",
            "|||[2, 2]|[1, 1]|[1, 1]|2|[1, 1]",
            75_264.0,
            7736.0,
        ),
        (
            "aten::cudnn_convolution_transpose",
            "[[2,8,7,7],[8,3,4,4],[],[],[],[],[]]",
            "bbLLLLs",
            "||[1, 1]|[1, 1]|[2, 2]|[1, 1]|2|False|False|True",
            75_264.0,
            7736.0,
        ),
        // Of the same call as the first: cuDNN's has the padding first and no bias.
        (
            "aten::cudnn_convolution",
            "[[4,3,224,224],[768,3,16,16],[],[],[],[],[],[],[]]",
            "bbLLLssss",
            "||[0, 0]|[16, 16]|[1, 1]|1|False|False|True",
            924_844_032.0,
            3_588_096.0,
        ),
        (
            "aten::miopen_convolution",
            "[[10,64,56,56],[128,64,3,3],[],[],[],[],[],[],[]]",
            "bb.LLLsss",
            "|||[1, 1]|[2, 2]|[1, 1]|1|False|False",
            1_156_055_040.0,
            6_168_576.0,
        ),
    ]);
}

#[test]
fn gradients_of_convolutions_count_like_torch() {
    let letters = "bbbLLLLsLsL";
    let rest = "[],[],[],[],[],[],[],[]]";
    for (shapes, values, flops, bytes) in [
        (
            "[[10,512,7,7],[10,256,14,14],[512,256,3,3]",
            "|||[0]|[2, 2]|[1, 1]|[1, 1]|False|[0, 0]|1|[True, True, False]",
            2_312_110_080.0,
            7_227_392.0,
        ),
        // The first layer: the images need no gradient.
        (
            "[[4,64,112,112],[4,3,224,224],[64,3,7,7]",
            "|||[0]|[2, 2]|[3, 3]|[1, 1]|False|[0, 0]|1|[False, True, False]",
            944_111_616.0,
            7_645_568.0,
        ),
        (
            "[[2,3,15,15],[2,8,7,7],[8,3,4,4]",
            "|||[0]|[2, 2]|[1, 1]|[1, 1]|True|[1, 1]|1|[True, True, False]",
            150_528.0,
            7372.0,
        ),
        (
            "[[2,8,14,14],[2,8,14,14],[8,1,3,3]",
            "|||[0]|[1, 1]|[1, 1]|[1, 1]|False|[0, 0]|8|[True, True, False]",
            112_896.0,
            19_104.0,
        ),
        (
            "[[2,8,14,14],[2,8,14,14],[8,1,3,3]",
            "|||[0]|[1, 1]|[1, 1]|[1, 1]|False|[0, 0]|8|[False, False, True]",
            0.0,
            0.0,
        ),
    ] {
        let dims = format!("{shapes},{rest}");
        let found = work("aten::convolution_backward", &dims, letters, values);
        assert_eq!(found, Some((flops, bytes)), "{shapes}");
    }
    // torch 1.10 recorded no values; the shapes suffice, and both gradients count. 2 · 2 · 32 · 7 · 7 · 2048 · 512.
    let dims = "[[32,512,7,7],[32,2048,7,7],[2048,512,1,1],[],[],[],[],[],[],[],[]]";
    let found = work("aten::cudnn_convolution_backward", dims, "fff........", "");
    assert_eq!(found, Some((6_576_668_672.0, 27_656_192.0)));
}

/// A ResNet-50 with torch 1.10: no values were recorded, so only the way back shows the size of the result.
#[test]
fn results_of_convolutions_without_strides_are_learned() {
    let types = types("fff........");
    let call = |name, dims| Recorded { name, dims, types: &types, ..Recorded::default() };
    let forward = call("aten::cudnn_convolution", "[[32,256,56,56],[512,256,1,1],[],[],[]]");
    let backward = call(
        "aten::cudnn_convolution_backward",
        "[[32,256,56,56],[32,512,28,28],[512,256,1,1],[],[],[],[],[],[],[],[]]",
    );
    let mut results = ConvolutionResults::default();
    results.learn(&forward);
    assert_eq!(results.work_of(&forward), None);
    results.learn(&backward);
    results.learn(&backward);
    let (forward_work, backward_work) = (results.work_of(&forward).unwrap(), results.work_of(&backward).unwrap());
    // `FlopCounterMode` around `conv2d(x, w, stride=2)`, and the bytes of input, weight and result.
    assert_eq!((forward_work.flops, forward_work.bytes), (6_576_668_672.0, 154_664_960.0));
    assert_eq!(backward_work.flops, 2.0 * forward_work.flops);
    // The same input and weight with another stride: no longer known.
    results.learn(&call(
        "aten::cudnn_convolution_backward",
        "[[32,256,56,56],[32,512,56,56],[512,256,1,1],[],[],[],[],[],[],[],[]]",
    ));
    assert_eq!(results.work_of(&forward), None);
    // Whatever else is known stays as it is.
    let product = call("aten::mm", "[[2,3],[3,4]]");
    assert_eq!(results.work_of(&product), work_of(&product));
}

/// FLOPs like those of products; bytes of queries, keys, values, mask and result. Torch counts causal attention in
/// full.
#[test]
fn attention_counts_like_torch() {
    check(&[
        (
            "aten::_scaled_dot_product_flash_attention",
            "[[4,12,197,64],[4,12,197,64],[4,12,197,64],[],[],[]]",
            "bbbsss",
            "|||0.|False|False",
            476_884_992.0,
            4_841_472.0,
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            "[[1,16,128,64],[1,16,128,64],[1,16,128,64],[],[],[]]",
            "bbbsss",
            "|||0.|True|False",
            67_108_864.0,
            1_048_576.0,
        ),
        (
            "aten::_scaled_dot_product_efficient_attention",
            "[[2,8,100,64],[2,8,300,64],[2,8,300,32],[2,8,100,300],[]]",
            "bbbbs",
            "||||False",
            92_160_000.0,
            2_188_800.0,
        ),
        (
            "aten::_flash_attention_forward",
            "[[1,77,12,64],[1,77,12,64],[1,77,12,64],[],[],[],[],[],[],[]]",
            "bbb..sssss",
            "|||||77|77|0.|True|False",
            18_213_888.0,
            473_088.0,
        ),
        // Four packed sequences of 256 tokens.
        (
            "aten::_flash_attention_forward",
            "[[1024,16,64],[1024,16,64],[1024,16,64],[5],[5],[],[],[],[],[]]",
            "bbbiisssss",
            "|||||256|256|0.|True|False",
            1_073_741_824.0,
            8_388_608.0,
        ),
        (
            "aten::_scaled_dot_product_flash_attention_backward",
            "[[4,12,197,64],[4,12,197,64],[4,12,197,64],[4,12,197,64],[4,12,197,64],[4,12,197],[0],[0],[],[]]",
            "bbbbbfiiss",
            "||||||||197|197",
            1_192_212_480.0,
            9_682_944.0,
        ),
        (
            "aten::_scaled_dot_product_efficient_attention_backward",
            "[[2,8,100,32],[2,8,100,64],[2,8,300,64],[2,8,300,32],[],[2,8,100,32],[2,8,100]]",
            "bbbb.bf",
            "",
            245_760_000.0,
            2_457_600.0,
        ),
        // Eight heads of queries share a head of keys: `sdpa_flop_count((1, 32, 128, 64), (1, 4, 128, 64), (1, 4,
        // 128, 64))`.
        ("aiter::fmha_v3_fwd", "[[1,128,32,64],[1,128,4,64],[1,128,4,64]]", "bbb", "", 134_217_728.0, 1_179_648.0),
    ]);
    // How long the cached sequences are is not recorded, nor is it without the offsets.
    assert_eq!(work("vllm::unified_attention_with_output", "[[888,8,64],[888,1,64],[888,1,64]]", "bbb", ""), None);
    assert_eq!(work("aten::_flash_attention_forward", "[[8,2,4],[8,2,4],[8,2,4],[],[]]", "bbb..", ""), None);
}

/// Bytes of the tensors that go in and out, in torch 2.15.
#[test]
fn traffic_counts_each_tensor_once() {
    let rows: &[(&str, &str, &str, &str, f64)] = &[
        ("aten::native_layer_norm", "[[1,77,768],[],[768],[768],[]]", "bLbbs", "|[768]||", 239_616.0),
        (
            "aten::native_batch_norm_backward",
            "[[10,64,7,7],[10,64,7,7],[64],[64],[64],[64],[64],[],[],[]]",
            "bbbbbffssL",
            "|||||||True|0.|[True, True, True]",
            189_056.0,
        ),
        ("aten::gelu", "[[1,77,5120],[]]", "b.", "|", 1_576_960.0),
        ("aten::add", "[[8,128,768],[768],[]]", "bfs", "||1", 4_721_664.0),
        // In place: what is written is of the same size.
        ("aten::add_", "[[8,128],[8,128],[]]", "bbs", "||1", 6144.0),
        ("aten::mul", "[[8,128],[]]", "bd", "|", 4104.0),
        ("aten::eq", "[[8,128],[8,128]]", "bb", "|", 5120.0),
        ("aten::_softmax", "[[2,64,512],[],[]]", "bss", "|-1|False", 262_144.0),
        ("aten::_softmax", "[[2,64,512],[],[]]", "bss", "|-1|True", 393_216.0),
        ("aten::sum", "[[10,1000],[],[],[]]", "bLs.", "|[0]|True|", 22_000.0),
        ("aten::mean", "[[10,512,7,7],[],[],[]]", "bLs.", "|[-1, -2]|True|", 512_000.0),
        ("aten::sum", "[[10,1000],[]]", "b.", "|", 20_002.0),
        ("aten::embedding", "[[30522,512],[4,141],[],[],[]]", "blsss", "||-1|False|False", 1_159_584.0),
        ("aten::index_select", "[[100,8],[],[7]]", "bsl", "|0|", 280.0),
        ("aten::gather", "[[100,8],[],[7,8],[]]", "bsls", "|0||False", 672.0),
        ("aten::where", "[[5,5],[5,5],[]]", "obb", "||", 127.0),
        ("aten::native_dropout", "[[4,8],[],[]]", "bss", "|0.1|True", 160.0),
        ("aten::_to_copy", "[[4,8],[],[]]", "fs.", "|15|", 192.0),
        ("aten::copy_", "[[4,8],[4,8],[]]", "fbs", "||False", 192.0),
        ("aten::fill_", "[[4,8],[]]", "fs", "|0", 128.0),
        ("_C::fused_add_rms_norm", "[[888,2880],[888,2880],[2880],[]]", "bbbs", "", 20_465_280.0),
        ("sgl_kernel::silu_and_mul", "[[16,12288],[16,24576]]", "bb", "", 1_179_648.0),
    ];
    for (name, dims, letters, values, bytes) in rows {
        assert_eq!(work(name, dims, letters, values), Some((0.0, *bytes)), "{name} {dims}");
    }
}

/// Bytes of all tensors that go in and out; the names of kernels are those that torch 2.6 recorded.
#[test]
fn lists_of_tensors_have_the_type_of_their_kernel() {
    let at_native = "void at::native::(anonymous namespace)::";
    let opaque = format!(
        "{at_native}CatArrayBatchedCopy_contig<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 3>"
    );
    let typed = format!("{at_native}CatArrayBatchedCopy<float, unsigned int, 2, 128, 1>(float*)");
    let adam = format!(
        "{at_native}multi_tensor_apply_kernel<at::native::(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, \
         at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4, (at::native::(anonymous namespace)::ADAM_MODE)1>>"
    );
    let lerp =
        format!("{at_native}multi_tensor_apply_kernel<at::native::TernaryOpScalarFunctor<c10::BFloat16, 2, 2, 0>>");
    let parameters = "[[8,8],[8]]";
    let adam_lists = format!("[{parameters},{parameters},{parameters},{parameters},[],[[],[]],[],[]]");
    let rows = [
        ("aten::cat", "[[[4,8],[2,8]],[]]".to_owned(), &opaque, Some(192.0)),
        ("aten::cat", "[[[4,8],[2,8]],[]]".to_owned(), &typed, Some(384.0)),
        ("aten::_fused_adamw_", adam_lists, &adam, Some(2016.0)),
        ("aten::_foreach_lerp_", format!("[{parameters},{parameters},[]]"), &lerp, Some(432.0)),
        ("aten::_foreach_sqrt", format!("[{parameters}]"), &lerp, Some(288.0)),
        // Lists that were not recorded, an unknown type, and no list.
        ("aten::_foreach_add_", "[[],[],[]]".to_owned(), &lerp, None),
        ("aten::cat", "[[[4,8],[2,8]],[]]".to_owned(), &at_native.to_owned(), None),
        ("aten::mm", "[[2,3],[3,4]]".to_owned(), &typed, None),
    ];
    for (name, dims, kernel, bytes) in rows {
        let call = Recorded { name, dims: &dims, ..Recorded::default() };
        assert_eq!(work_of_lists(&call, kernel).map(|work| work.bytes), bytes, "{name} {kernel}");
    }
}

#[test]
fn a_repeated_element_is_read_once() {
    let (dims, types) = ("[[4,8],[4,8]]", types("ff"));
    let call = Recorded { name: "aten::copy_", dims, types: &types, strides: "[[8,1],[0,1]]", values: "" };
    assert_eq!(work_of(&call).unwrap().bytes, 128.0 + 32.0);
}

#[test]
fn the_format_is_that_of_the_operands() {
    for (letters, number) in [
        ("bb", NumberFormat::Bf16),
        ("hh", NumberFormat::F16),
        ("ff", NumberFormat::F32),
        ("dd", NumberFormat::F64),
        ("88", NumberFormat::F8),
        ("cc", NumberFormat::I8),
        ("ll", NumberFormat::Other),
    ] {
        let types = types(letters);
        let call = Recorded { name: "aten::mm", dims: "[[2,3],[3,4]]", types: &types, ..Recorded::default() };
        assert_eq!(work_of(&call).unwrap().number, number, "{letters}");
    }
}

#[test]
fn what_was_not_recorded_has_no_number() {
    let rows = [
        ("aten::mm", "", "", ""),
        ("aten::mm", "[[2,3],[3,4]]", "", ""),
        ("aten::mm", "[[2,3],[4,5]]", "bb", ""),
        ("aten::mm", "[[2,3]]", "b", ""),
        ("aten::mm", "[[2,-3],[-3,4]]", "bb", ""),
        ("my::operator", "[[2,3],[3,4]]", "bb", ""),
        ("aten::view", "[[2,3],[]]", "bL", "|[3, 2]"),
        ("", "[[2,3]]", "b", ""),
        // Types of lists are never recorded.
        ("aten::cat", "[[[4,8],[2,8]],[]]", "Ts", "|0"),
        ("aten::_foreach_add_", "[[],[],[]]", "TTs", "||1"),
        // torch 1.10 recorded no strides.
        ("aten::cudnn_convolution", "[[32,3,224,224],[64,3,7,7],[],[],[]]", "ff...", ""),
        // A stride of 0, and a kernel larger than the image.
        ("aten::conv2d", "[[1,1,4,4],[1,1,2,2],[],[],[],[],[]]", "ff.LLLs", "|||[0, 0]|[0, 0]|[1, 1]|1"),
        ("aten::conv2d", "[[1,1,4,4],[1,1,9,9],[],[],[],[],[]]", "ff.LLLs", "|||[1, 1]|[0, 0]|[1, 1]|1"),
    ];
    for (name, dims, letters, values) in rows {
        assert_eq!(work(name, dims, letters, values), None, "{name} {dims}");
    }
}

#[test]
fn shapes_read_well() {
    let rows = [
        ("aten::mm", "[[32,512],[512,2048]]", "bb", "", "[32,512]×[512,2048] bf16"),
        ("aten::addmm", "[[768],[77,768],[768,3072],[],[]]", "bbbss", "", "[77,768]×[768,3072] bf16"),
        ("aten::linear", "[[4,77,768],[3072,768],[3072]]", "hhh", "", "[4,77,768]×[768,3072] f16"),
        (
            "aten::conv2d",
            "[[10,64,56,56],[128,64,3,3],[],[],[],[],[]]",
            "ff.LLLs",
            "|||[2, 2]|[1, 1]|[1, 1]|1",
            "[10,64,56,56]×[128,64,3,3] stride 2 f32",
        ),
        (
            "aten::_scaled_dot_product_flash_attention",
            "[[1,16,128,64],[1,16,128,64],[1,16,128,64],[],[],[]]",
            "bbbsss",
            "|||0.|True|False",
            "[1,16,128,64] bf16 causal",
        ),
        (
            "aten::_scaled_dot_product_efficient_attention",
            "[[2,8,100,64],[2,8,300,64],[2,8,300,64],[],[]]",
            "bbb.s",
            "||||False",
            "[2,8,100,64]×[2,8,300,64] bf16",
        ),
        ("aten::mul", "[[8,128],[8,128]]", "bb", "", "[8,128] bf16"),
        ("aten::embedding", "[[30522,512],[4,141]]", "bl", "", "[30522,512], [4,141] bf16"),
        ("my::operator", "[[2,3],[],[5]]", "s.f", "", "[2,3], [5] f32"),
        ("aten::cat", "[[[4],[1],[4],[2],[9]],[]]", "Ts", "", "[4], [1], [2], …"),
    ];
    for (name, dims, letters, values, written) in rows {
        let values = serde_json::to_string(&values.split('|').collect::<Vec<_>>()).unwrap();
        let call = Recorded { name, dims, types: &types(letters), strides: "", values: &values };
        assert_eq!(shape_of(&call).as_deref(), Some(written), "{name} {dims}");
    }
    assert_eq!(
        shape_of(&Recorded { name: "aten::item", dims: "[[]]", types: "[\"float\"]", ..Recorded::default() }),
        None
    );
    assert_eq!(shape_of(&Recorded::default()), None);
}

#[test]
fn long_texts_are_refused_at_once() {
    let nested = "[".repeat(1 << 20);
    let long = format!("[{}[1]]", "[1],".repeat(1 << 18));
    let many = format!("[{}[1]]", "[1],".repeat(100));
    let high = format!("[[{}1]]", "1,".repeat(100));
    let deep = format!("{}{}", "[".repeat(8000), "]".repeat(8000));
    let types = types("bb");
    let start = Instant::now();
    for dims in [&nested, &long, &many, &high, &deep] {
        let call = Recorded { name: "aten::mm", dims, types: &types, ..Recorded::default() };
        assert_eq!((work_of(&call), shape_of(&call)), (None, None));
    }
    let call = Recorded { name: "aten::mm", dims: "[[2,3],[3,4]]", types: &types, strides: &long, values: &long };
    assert_eq!(work_of(&call), None);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[test]
fn the_tables_are_read() {
    let names = FACTS.operators.iter().map(|row| row.names.split_whitespace().count()).sum::<usize>();
    assert_eq!((OPERATORS.len(), FACTS.elements.len()), (names, 18), "a name has one row");
    assert!(names > 250, "{names}");
    assert!(peak_of("AMD Instinct MI350X").is_some(), "the last row");
}

fn any_name() -> impl Strategy<Value = String> {
    let known: Vec<_> = OPERATORS.keys().map(|name| (*name).to_owned()).collect();
    prop_oneof![9 => prop::sample::select(known), 1 => any::<String>()]
}

proptest! {
    #[test]
    fn any_text_is_harmless(name in any_name(), texts in prop::array::uniform4("(\\PC|[\\[\\],0-9\"]){0,60}")) {
        let [dims, types, strides, values] = &texts;
        let call = Recorded { name: &name, dims, types, strides, values };
        let mut results = ConvolutionResults::default();
        results.learn(&call);
        results.work_of(&call);
        work_of_lists(&call, values);
        shape_of(&call);
        peak_of(&name);
        peak_of(dims);
    }

    #[test]
    fn any_shape_has_a_finite_number_or_none(
        name in any_name(),
        dims in prop::collection::vec(prop::collection::vec(prop_oneof![0..9_u64, any::<u64>()], 0..6), 0..13),
        letters in "[bfl8so.]{12}",
        values in prop::collection::vec("(\\[(-?[0-9]{1,20}, ){0,3}-?[0-9]{1,20}\\]|-?[0-9]{1,20}|True|\\[False, True\\])", 12),
    ) {
        let dims = serde_json::to_string(&dims).unwrap();
        let values = serde_json::to_string(&values).unwrap();
        let call = Recorded { name: &name, dims: &dims, types: &types(&letters), strides: &dims, values: &values };
        let mut results = ConvolutionResults::default();
        results.learn(&call);
        if let Some(work) = results.work_of(&call) {
            prop_assert!(work.flops >= 0.0 && work.flops.is_finite(), "{work:?}");
            prop_assert!(work.bytes >= 0.0 && work.bytes.is_finite(), "{work:?}");
        }
        prop_assert!(shape_of(&call).is_none_or(|written| written.len() < 1000));
    }
}

#[test]
fn gpus_have_their_peaks() {
    use NumberFormat::{Bf16, F8, F32, F64, Tf32};
    // Name, bf16 (f16 before Ampere is another row), f32, TB/s.
    for (device_name, bf16, f32, tb_per_s) in [
        ("NVIDIA H100 80GB HBM3", 989.4, 67.0, 3.35),
        ("NVIDIA H100 PCIe", 756.5, 51.0, 2.0),
        ("NVIDIA H100 NVL", 835.5, 60.0, 3.9),
        ("NVIDIA H200", 989.4, 67.0, 4.8),
        ("NVIDIA GH200 480GB", 989.4, 67.0, 4.0),
        ("NVIDIA GH200 144G HBM3e", 989.4, 67.0, 4.9),
        ("NVIDIA B200", 2250.0, 75.0, 7.7),
        ("NVIDIA GB200", 2500.0, 80.0, 8.0),
        ("NVIDIA B300 SXM6 AC", 2250.0, 75.0, 8.0),
        ("NVIDIA A100-SXM4-80GB", 312.0, 19.5, 2.039),
        ("NVIDIA A100 80GB PCIe", 312.0, 19.5, 1.935),
        ("A100-SXM4-40GB", 312.0, 19.5, 1.555),
        ("NVIDIA A100-PCIE-40GB", 312.0, 19.5, 1.555),
        ("NVIDIA A100-PG509-200", 312.0, 19.5, 1.555),
        ("NVIDIA A10", 125.0, 31.2, 0.6),
        ("NVIDIA A10G", 70.0, 35.0, 0.6),
        ("NVIDIA A30", 165.0, 10.3, 0.933),
        ("NVIDIA A40", 149.7, 37.4, 0.696),
        ("NVIDIA L4", 121.0, 30.3, 0.3),
        ("NVIDIA L40", 181.05, 90.5, 0.864),
        ("NVIDIA L40S", 362.05, 91.6, 0.864),
        ("NVIDIA GeForce RTX 3090", 71.2, 35.6, 0.936),
        ("NVIDIA GeForce RTX 3090 Ti", 80.0, 40.0, 1.008),
        ("NVIDIA GeForce RTX 4090", 165.2, 82.6, 1.008),
        ("NVIDIA GeForce RTX 5090", 209.5, 104.8, 1.792),
        ("NVIDIA RTX A6000", 154.8, 38.7, 0.768),
        ("NVIDIA RTX 6000 Ada Generation", 364.2, 91.1, 0.96),
        ("AMD Instinct MI210", 181.0, 45.3, 1.638),
        ("AMD Instinct MI250X", 191.5, 47.9, 1.638),
        ("AMD Instinct MI250X / MI250", 191.5, 47.9, 1.638),
        ("AMD Instinct MI300X", 1307.4, 163.4, 5.3),
        ("AMD Instinct MI300X VF", 1307.4, 163.4, 5.3),
        ("AMD Instinct MI300A", 980.6, 122.6, 5.3),
        ("AMD Instinct MI325X", 1307.4, 163.4, 6.0),
        ("AMD Instinct MI355X", 2516.6, 157.3, 8.0),
    ] {
        let peak = peak_of(device_name).unwrap_or_else(|| panic!("{device_name}"));
        let found = (peak.tflops(Bf16), peak.tflops(F32), peak.tb_per_s);
        assert_eq!(found, (Some(bf16), Some(f32), tb_per_s), "{device_name}");
    }
    // Before Ampere there is neither bf16 nor TF32.
    for (device_name, f16, tb_per_s) in [
        ("Tesla V100-SXM2-16GB", 125.0, 0.9),
        ("Tesla V100-DGXS-32GB", 125.0, 0.9),
        ("Tesla V100-PCIE-32GB", 112.0, 0.9),
        ("Tesla V100S-PCIE-32GB", 130.0, 1.134),
        ("Tesla T4", 65.0, 0.32),
        ("Tesla P100-PCIE-16GB", 18.7, 0.732),
        ("Tesla P100-SXM2-16GB", 21.2, 0.732),
        ("NVIDIA GeForce RTX 2080 Ti", 53.8, 0.616),
    ] {
        let peak = peak_of(device_name).unwrap_or_else(|| panic!("{device_name}"));
        let found = (peak.tflops(NumberFormat::F16), peak.tflops(Bf16), peak.tflops(Tf32), peak.tb_per_s);
        assert_eq!(found, (Some(f16), None, None, tb_per_s), "{device_name}");
    }
    let h100 = peak_of("NVIDIA H100 80GB HBM3").unwrap();
    assert_eq!((h100.tflops(Tf32), h100.tflops(F8), h100.tflops(F64)), (Some(494.7), Some(1978.9), Some(67.0)));
}

#[test]
fn other_gpus_and_parts_of_one_have_no_peak() {
    for device_name in [
        "",
        "Simulated GPU",
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA A40-48Q",
        "GRID T4-16Q",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Super",
        "NVIDIA A100-SXM-64GB",
        "Quadro RTX 6000",
        "NVIDIA T400",
        "NVIDIA A1000",
        "AMD Radeon Graphics",
    ] {
        assert_eq!(peak_of(device_name), None, "{device_name}");
    }
    assert_eq!(peak_of(&"H100 ".repeat(1 << 20)), None);
}

/// Compute units and bytes as torch 2.6 recorded them of GPUs whose name was empty or `AMD Radeon Graphics`.
#[test]
fn gpus_without_a_name_are_told_by_their_size() {
    assert_eq!(peak_of_unnamed(304, 206_141_652_992).map(|peak| peak.name.as_str()), Some("MI300X"));
    assert_eq!(peak_of_unnamed(104, 68_702_699_520).map(|peak| peak.name.as_str()), Some("MI210"));
    assert_eq!(peak_of_unnamed(132, 85_018_279_936), None);
}
