//! Files that are broken, hostile or something else: an error that names the file and the field, never a panic.

use std::path::Path;

use antfly_providers::{Error, GenerateRequest, Kind};

use crate::tiny::{self, File, Meta, Random, Tensor};
use crate::{client, entry, generator};

/// The error of a first call: a file is opened then.
async fn refusal(path: &Path) -> Error {
    let error = generator(path)
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Config, "{error}");
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(
        error.message().contains(name),
        "{error} does not name {name}"
    );
    error
}

fn good() -> File {
    tiny::saying(&["o", "k"], "<|im_end|>")
}

async fn refused(name: &str, field: &str, change: impl FnOnce(&mut File)) {
    let mut file = good();
    change(&mut file);
    let error = refusal(&file.write(name)).await;
    assert!(
        error.message().contains(field),
        "{error} does not name {field}"
    );
}

#[tokio::test]
async fn what_is_no_gguf_says_so() {
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("text", b"hello, this is no model at all"),
        ("magic", b"GGU"),
        ("old", b"GGUF\x01\0\0\0\0\0\0\0\0\0\0\0"),
        ("new", b"GGUF\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
        ("endian", b"GGUF\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
    ] {
        let error = refusal(&tiny::write(&format!("no-{name}"), bytes)).await;
        let fields = ["magic", "version"];
        assert!(
            fields.iter().any(|f| error.message().contains(f)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_huge_count_costs_nothing() {
    for (name, tensors, entries) in [
        ("tensors", u64::MAX, 0),
        ("entries", 0, u64::MAX),
        ("many", 60_000, 60_000),
    ] {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(u64::to_le_bytes(entries));
        refusal(&tiny::write(&format!("count-{name}"), &bytes)).await;
    }
    let huge = |kind: u32, len: u64| {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes
    };
    for kind in [0, 4, 6, 8, 9, 12] {
        for len in [1 << 23, u64::MAX] {
            refused("list", "x.list", |f| {
                f.set("x.list", Meta::Raw(9, huge(kind, len)))
            })
            .await;
        }
    }
    refused("long", "x.text", |f| {
        f.set("x.text", Meta::Raw(8, u64::MAX.to_le_bytes().to_vec()))
    })
    .await;
    refused("type", "x.type", |f| {
        f.set("x.type", Meta::Raw(99, Vec::new()))
    })
    .await;
    refused("flag", "x.flag", |f| f.set("x.flag", Meta::Raw(7, vec![2]))).await;
    let mut nested = Vec::new();
    for _ in 0..100_000 {
        nested.extend(huge(9, 1));
    }
    refused("nested", "x.deep", |f| {
        f.set("x.deep", Meta::Raw(9, nested))
    })
    .await;
}

#[tokio::test]
async fn a_missing_or_impossible_value_is_named() {
    for key in [
        "general.architecture",
        "llama.block_count",
        "llama.context_length",
        "llama.embedding_length",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.merges",
        "tokenizer.chat_template",
        "token_embd.weight",
        "output_norm.weight",
        "blk.0.attn_k.weight",
        "blk.0.ffn_down.weight",
    ] {
        refused(&format!("without-{key}"), key, |f| f.remove(key)).await;
    }
    for (key, value) in [
        ("general.architecture", Meta::text("gpt-neox")),
        ("general.architecture", Meta::U32(1)),
        ("general.alignment", Meta::U32(0)),
        ("general.alignment", Meta::U32(48)),
        ("llama.block_count", Meta::U32(0)),
        ("llama.block_count", Meta::U32(u32::MAX)),
        ("llama.embedding_length", Meta::text("wide")),
        ("llama.attention.head_count", Meta::U32(7)),
        ("llama.attention.head_count_kv", Meta::U32(3)),
        ("llama.rope.dimension_count", Meta::U32(3)),
        ("llama.rope.scaling.type", Meta::text("yarn")),
        ("llama.rope.freq_base", Meta::F32(0.0)),
        ("llama.rope.freq_base", Meta::F32(f32::NAN)),
        ("llama.expert_count", Meta::U32(8)),
        ("tokenizer.ggml.model", Meta::text("t5")),
        ("tokenizer.ggml.pre", Meta::text("unheard-of")),
        ("tokenizer.ggml.token_type", Meta::Ints(vec![1])),
        ("tokenizer.ggml.tokens", Meta::Texts(vec!["a".to_owned()])),
        ("tokenizer.ggml.tokens", Meta::Texts(Vec::new())),
        (
            "tokenizer.ggml.merges",
            Meta::Texts(vec!["nopair".to_owned()]),
        ),
        (
            "tokenizer.ggml.merges",
            Meta::Texts(vec!["no token".to_owned()]),
        ),
        ("tokenizer.ggml.eos_token_id", Meta::U32(1_000_000)),
        ("tokenizer.chat_template", Meta::text("{% for m in %}")),
    ] {
        let named = if key == "tokenizer.ggml.tokens" || key == "tokenizer.ggml.token_type" {
            "tokenizer.ggml"
        } else {
            key
        };
        refused("impossible", named, |f| f.set(key, value)).await;
    }
    refused("supported", "\"llama\"", |f| {
        f.set("general.architecture", Meta::text("bert"))
    })
    .await;
    refused("kinds", "\"gpt2\"", |f| {
        f.set("tokenizer.ggml.model", Meta::text("t5"))
    })
    .await;
}

#[tokio::test]
async fn a_tensor_of_another_shape_or_format_is_named() {
    let change = |name: &'static str, change: fn(&mut Tensor)| {
        move |f: &mut File| change(f.tensors.iter_mut().find(|t| t.name == name).unwrap())
    };
    let q = "blk.0.attn_q.weight";
    let k = "blk.0.attn_k.weight";
    refused("shape", k, change(k, |t| t.dims.reverse())).await;
    refused("dims", q, change(q, |t| t.dims = vec![1; 5])).await;
    refused("no-dims", q, change(q, |t| t.dims = vec![])).await;
    refused("zero", q, change(q, |t| t.dims = vec![0, 8])).await;
    refused(
        "overflow",
        q,
        change(q, |t| t.dims = vec![u64::MAX, u64::MAX]),
    )
    .await;
    refused("large", q, change(q, |t| t.dims = vec![1 << 40, 1 << 20])).await;
    refused("format", q, change(q, |t| t.format = 23)).await;
    refused(
        "block",
        q,
        change(q, |t| (t.format, t.dims) = (2, vec![17, 8])),
    )
    .await;
    refused("bias", "attn_q.bias", |f| {
        let mut bias = f.tensors[0].clone();
        bias.name = "blk.0.attn_q.bias".to_owned();
        f.tensors.push(bias);
    })
    .await;
    refused("twice", "token_embd.weight", |f| {
        f.tensors.push(f.tensors[0].clone())
    })
    .await;
}

#[tokio::test]
async fn a_file_cut_anywhere_is_an_error() {
    let (header, whole) = good().parts();
    let mut cuts: Vec<usize> = (0..40).chain((40..header.len()).step_by(997)).collect();
    cuts.extend([header.len(), whole.len() / 2, whole.len() - 33]);
    for cut in cuts {
        refusal(&tiny::write("cut", &whole[..cut])).await;
    }
}

#[tokio::test]
async fn random_bytes_in_a_header_never_panic() {
    let (header, whole) = good().parts();
    let mut random = Random(7);
    for round in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..1 + round % 8 {
            let at = random.next() as usize % header.len();
            bytes[at] = random.next() as u8;
        }
        let path = tiny::write("noise", &bytes);
        let mut request = GenerateRequest::prompt("hi");
        request.max_tokens = Some(2);
        // A byte of a name may change nothing; whatever it is, it is said.
        if let Err(error) = generator(&path).generate(request).await {
            assert!(!error.message().contains("panic"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_template_that_fails_or_refuses_is_an_error() {
    let mut file = good();
    file.set(
        "tokenizer.chat_template",
        Meta::text("{{ messages[0].content.nope() }}"),
    );
    let error = refusal(&file.write("template-fails")).await;
    assert!(
        error.message().contains("tokenizer.chat_template"),
        "{error}"
    );
    file.set(
        "tokenizer.chat_template",
        Meta::text("{{ raise_exception('only questions') }}"),
    );
    let generator = generator(&file.write("template-refuses"));
    let error = generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidRequest);
    assert!(error.message().contains("only questions"), "{error}");
    let forever = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
    file.set("tokenizer.chat_template", Meta::text(forever));
    refusal(&file.write("template-forever")).await;
    file.set("tokenizer.chat_template", Meta::text(""));
    let generator = crate::generator(&file.write("template-empty"));
    let error = generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidRequest);
}

#[tokio::test]
async fn weights_that_are_no_numbers_are_an_error() {
    let mut file = good();
    let norm = file
        .tensors
        .iter_mut()
        .find(|t| t.name == "output_norm.weight")
        .unwrap();
    norm.bytes.iter_mut().for_each(|b| *b = 0xff);
    let generator = generator(&file.write("nan"));
    let error = generator
        .generate(GenerateRequest::prompt("hi"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Server);
    assert!(error.message().contains("weights"), "{error}");
}

#[tokio::test]
async fn a_folder_needs_exactly_one_file() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("in_process_folder");
    drop(std::fs::remove_dir_all(&folder));
    std::fs::create_dir_all(&folder).unwrap();
    let error = client().generator(&entry(&folder)).unwrap_err();
    assert!(error.message().contains(".gguf"), "{error}");
    for name in ["a.gguf", "b.gguf"] {
        std::fs::write(folder.join(name), good().bytes()).unwrap();
    }
    let error = client().generator(&entry(&folder)).unwrap_err();
    assert!(error.message().contains("model_path"), "{error}");
    std::fs::remove_file(folder.join("b.gguf")).unwrap();
    let mut request = GenerateRequest::prompt("hi");
    request.temperature = Some(0.0);
    assert_eq!(
        generator(&folder).generate(request).await.unwrap().text,
        "ok"
    );
}
