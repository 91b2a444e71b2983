//! Small GGUF files, written by the tests: one whose every answer is known beforehand, and some with random weights in every format.

use std::path::PathBuf;

/// A metadata value.
#[derive(Clone)]
pub(crate) enum Meta {
    U32(u32),
    F32(f32),
    Flag(bool),
    Text(String),
    Texts(Vec<String>),
    Ints(Vec<i32>),
    Floats(Vec<f32>),
    /// A type's number and bytes that may be anything.
    Raw(u32, Vec<u8>),
}

impl Meta {
    pub(crate) fn text(text: &str) -> Self {
        Meta::Text(text.to_owned())
    }
}

/// A tensor: its name, columns and rows, GGUF's number of its format, its bytes.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dims: Vec<u64>,
    pub(crate) format: u32,
    pub(crate) bytes: Vec<u8>,
}

/// A file before it is written.
#[derive(Clone)]
pub(crate) struct File {
    pub(crate) meta: Vec<(String, Meta)>,
    pub(crate) tensors: Vec<Tensor>,
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn list(out: &mut Vec<u8>, kind: u32, len: usize) {
    out.extend(kind.to_le_bytes());
    out.extend((len as u64).to_le_bytes());
}

impl File {
    pub(crate) fn set(&mut self, key: &str, value: Meta) {
        self.meta.retain(|(k, _)| k != key);
        self.meta.push((key.to_owned(), value));
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.meta.retain(|(k, _)| k != key);
        self.tensors.retain(|t| t.name != key);
    }

    /// The header alone, then the whole file.
    pub(crate) fn parts(&self) -> (Vec<u8>, Vec<u8>) {
        let mut out = b"GGUF".to_vec();
        out.extend(3u32.to_le_bytes());
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.meta.len() as u64).to_le_bytes());
        for (key, value) in &self.meta {
            text(&mut out, key);
            let kind: u32 = match value {
                Meta::U32(_) => 4,
                Meta::F32(_) => 6,
                Meta::Flag(_) => 7,
                Meta::Text(_) => 8,
                Meta::Texts(_) | Meta::Ints(_) | Meta::Floats(_) => 9,
                Meta::Raw(kind, _) => *kind,
            };
            out.extend(kind.to_le_bytes());
            match value {
                Meta::U32(n) => out.extend(n.to_le_bytes()),
                Meta::F32(x) => out.extend(x.to_le_bytes()),
                Meta::Flag(b) => out.push(u8::from(*b)),
                Meta::Text(t) => text(&mut out, t),
                Meta::Texts(all) => {
                    list(&mut out, 8, all.len());
                    all.iter().for_each(|t| text(&mut out, t));
                }
                Meta::Ints(all) => {
                    list(&mut out, 5, all.len());
                    all.iter().for_each(|n| out.extend(n.to_le_bytes()));
                }
                Meta::Floats(all) => {
                    list(&mut out, 6, all.len());
                    all.iter().for_each(|x| out.extend(x.to_le_bytes()));
                }
                Meta::Raw(_, bytes) => out.extend(bytes),
            }
        }
        let mut offset = 0u64;
        for tensor in &self.tensors {
            text(&mut out, &tensor.name);
            out.extend(u32::try_from(tensor.dims.len()).unwrap().to_le_bytes());
            tensor.dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
            out.extend(tensor.format.to_le_bytes());
            out.extend(offset.to_le_bytes());
            offset += (tensor.bytes.len() as u64).next_multiple_of(32);
        }
        let header = out.clone();
        for tensor in &self.tensors {
            out.resize(out.len().next_multiple_of(32), 0);
            out.extend(&tensor.bytes);
        }
        out.resize(out.len().next_multiple_of(32), 0);
        (header, out)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.parts().1
    }

    /// Writes it below the test's own folder.
    pub(crate) fn write(&self, name: &str) -> PathBuf {
        write(name, &self.bytes())
    }
}

/// Bytes as a file of that name below the tests' own folder.
pub(crate) fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let root = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = root.join("in_process_generate");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("{name}.gguf"));
    // Written aside and renamed: another test may read it at the same time.
    let aside = folder.join(format!("{name}.{:?}.part", std::thread::current().id()));
    std::fs::write(&aside, bytes).unwrap();
    std::fs::rename(&aside, &path).unwrap();
    path
}

/// The template of every tiny model.
pub(crate) const TEMPLATE: &str = "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}\
                                   {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/// The letter that a byte-level vocabulary writes a byte with.
pub(crate) fn letter(byte: u8) -> String {
    let hidden = |b: u8| !matches!(b, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let before = (0..byte).filter(|b| hidden(*b)).count();
    let number = if hidden(byte) {
        0x100 + u32::try_from(before).unwrap()
    } else {
        u32::from(byte)
    };
    char::from_u32(number).unwrap().to_string()
}

const CONTROL: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const MERGES: [&str; 12] = [
    "t h", "th e", "i n", "a n", "Ġ the", "e r", "o n", "r e", "Ġ a", "an d", "Ġ and", "in g",
];

/// Control tokens, a token a byte, a few merges; then the texts of `more` as single tokens.
pub(crate) fn vocabulary(more: &[&str]) -> Vec<String> {
    let mut tokens: Vec<String> = CONTROL.iter().map(|t| (*t).to_owned()).collect();
    tokens.extend((0..=255).map(letter));
    tokens.extend(MERGES.iter().map(|m| m.replace(' ', "")));
    tokens.extend(
        more.iter()
            .map(|t| t.bytes().map(letter).collect::<String>()),
    );
    tokens
}

/// Metadata of a model with that vocabulary.
fn described(
    tokens: &[String],
    layers: u32,
    width: u32,
    inner: u32,
    heads: u32,
    keys: u32,
) -> File {
    let mut types = vec![3; CONTROL.len()];
    types.resize(tokens.len(), 1);
    let mut file = File {
        meta: Vec::new(),
        tensors: Vec::new(),
    };
    for (key, value) in [
        ("general.architecture", Meta::text("llama")),
        ("llama.block_count", Meta::U32(layers)),
        ("llama.context_length", Meta::U32(512)),
        ("llama.embedding_length", Meta::U32(width)),
        ("llama.feed_forward_length", Meta::U32(inner)),
        ("llama.attention.head_count", Meta::U32(heads)),
        ("llama.attention.head_count_kv", Meta::U32(keys)),
        ("llama.attention.layer_norm_rms_epsilon", Meta::F32(1e-5)),
        ("llama.rope.dimension_count", Meta::U32(width / heads)),
        ("tokenizer.ggml.model", Meta::text("gpt2")),
        ("tokenizer.ggml.pre", Meta::text("smollm")),
        ("tokenizer.ggml.tokens", Meta::Texts(tokens.to_vec())),
        ("tokenizer.ggml.token_type", Meta::Ints(types)),
        (
            "tokenizer.ggml.merges",
            Meta::Texts(MERGES.iter().map(|m| (*m).to_owned()).collect()),
        ),
        ("tokenizer.ggml.bos_token_id", Meta::U32(1)),
        ("tokenizer.ggml.eos_token_id", Meta::U32(2)),
        ("tokenizer.ggml.add_bos_token", Meta::Flag(false)),
        ("tokenizer.chat_template", Meta::text(TEMPLATE)),
    ] {
        file.set(key, value);
    }
    file
}

fn plain(name: &str, columns: usize, rows: usize, at: impl Fn(usize, usize) -> f32) -> Tensor {
    let numbers = (0..rows).flat_map(|r| (0..columns).map(move |c| (r, c)));
    Tensor {
        name: name.to_owned(),
        dims: if rows == 1 {
            vec![columns as u64]
        } else {
            vec![columns as u64, rows as u64]
        },
        format: 0,
        bytes: numbers.flat_map(|(r, c)| at(r, c).to_le_bytes()).collect(),
    }
}

/// A model that says what it is told: `next(a)` are the tokens that may follow the token `a`, equally likely, every other one
/// far less. Its layer does nothing.
pub(crate) fn scripted(more: &[&str], next: impl Fn(&str) -> Vec<String>) -> File {
    let tokens = vocabulary(more);
    let width = tokens.len().next_multiple_of(8);
    let size = u32::try_from(width).unwrap();
    let mut file = described(&tokens, 1, size, 8, 2, 1);
    let inner = 8;
    let index = |token: &str| tokens.iter().position(|t| t == token).unwrap();
    let follows: Vec<Vec<usize>> = tokens
        .iter()
        .map(|t| next(t).iter().map(|t| index(t)).collect())
        .collect();
    let one = |r: usize, c: usize| f32::from(u8::from(r == c));
    let none = |_: usize, _: usize| 0.0;
    file.tensors = vec![
        plain("token_embd.weight", width, tokens.len(), one),
        plain("output.weight", width, tokens.len(), |r, c| {
            f32::from(u8::from(follows.get(c).is_some_and(|f| f.contains(&r))))
        }),
        plain("output_norm.weight", width, 1, |_, _| 1.0),
        plain("blk.0.attn_norm.weight", width, 1, |_, _| 1.0),
        plain("blk.0.ffn_norm.weight", width, 1, |_, _| 1.0),
        plain("blk.0.attn_q.weight", width, width, none),
        plain("blk.0.attn_k.weight", width, width / 2, none),
        plain("blk.0.attn_v.weight", width, width / 2, none),
        plain("blk.0.attn_output.weight", width, width, none),
        plain("blk.0.ffn_gate.weight", width, inner, none),
        plain("blk.0.ffn_up.weight", width, inner, none),
        plain("blk.0.ffn_down.weight", inner, width, none),
    ];
    file
}

/// A scripted model that says `parts`, a token each, after the prompt's last token (a line's end), and then `last`.
pub(crate) fn saying(parts: &[&str], last: &str) -> File {
    let long: Vec<&str> = parts.iter().copied().filter(|p| p.len() > 1).collect();
    let written = |p: &&str| -> String { p.bytes().map(letter).collect() };
    let mut chain = vec![letter(b'\n')];
    chain.extend(parts.iter().map(written));
    chain.push(last.to_owned());
    scripted(&long, |token| {
        let at = chain.iter().position(|t| t == token);
        at.and_then(|at| chain.get(at + 1))
            .cloned()
            .into_iter()
            .collect()
    })
}

/// Numbers that look random (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From -1 to 1.
    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

/// A half-precision number's bits, for plain sizes.
fn half(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    let sign = (bits >> 16 & 0x8000) as u16;
    let number = if exponent <= 0 {
        0
    } else {
        (exponent as u16) << 10 | (bits >> 13 & 0x3ff) as u16
    };
    (sign | number).to_le_bytes()
}

/// Random blocks of a format; numbers of about the size that keeps a row of outputs at the size of a row of inputs.
/// Rows that `silent` names are zero.
fn blocks(
    random: &mut Random,
    name: &str,
    (columns, rows): (usize, usize),
    (format, size): (u32, f32),
    silent: impl Fn(usize) -> bool,
) -> Tensor {
    let size = size / (columns as f32).sqrt();
    let mut bytes = Vec::new();
    // Bytes of a block, its numbers, where its halves are and how large: a scale, then perhaps a minimum.
    let (block, numbers, halves): (usize, usize, &[(usize, f32)]) = match format {
        0 | 1 | 30 => (0, 1, &[]),
        2 => (18, 32, &[(0, 1.0 / 8.0)]),
        3 => (20, 32, &[(0, 1.0 / 8.0), (2, -1.0)]),
        6 => (22, 32, &[(0, 1.0 / 16.0)]),
        7 => (24, 32, &[(0, 1.0 / 16.0), (2, -1.0)]),
        8 => (34, 32, &[(0, 1.0 / 128.0)]),
        10 => (84, 256, &[(80, 0.05), (82, 0.075)]),
        11 => (110, 256, &[(108, 1.0 / 74.0)]),
        12 => (144, 256, &[(0, 1.0 / 440.0), (2, 7.5 / 440.0)]),
        13 => (176, 256, &[(0, 1.0 / 900.0), (2, 15.5 / 900.0)]),
        14 => (210, 256, &[(208, 1.0 / 590.0)]),
        other => panic!("format {other}"),
    };
    for index in 0..columns * rows / numbers {
        if silent(index * numbers / columns) {
            let one = if format == 0 { 4 } else { 2 };
            bytes.extend(vec![0; if block == 0 { one } else { block }]);
            continue;
        }
        if block == 0 {
            let x = random.unit() * size;
            match format {
                0 => bytes.extend(x.to_le_bytes()),
                1 => bytes.extend(half(x)),
                _ => bytes.extend(&x.to_le_bytes()[2..]),
            }
            continue;
        }
        let start = bytes.len();
        bytes.extend((0..block).map(|_| random.next() as u8));
        if format == 14 {
            // Smaller scales of its sixteens: else the scale of them all is no normal number in half precision.
            for scale in &mut bytes[start + 192..start + 208] {
                *scale = (scale.cast_signed() >> 2).cast_unsigned();
            }
        }
        for (at, scale) in halves {
            let x = scale * size * (1.0 + 0.25 * random.unit());
            bytes[start + at..start + at + 2].copy_from_slice(&half(x));
        }
    }
    Tensor {
        name: name.to_owned(),
        dims: vec![columns as u64, rows as u64],
        format,
        bytes,
    }
}

/// Random weights; `formats` (GGUF's numbers) are dealt to the matrices in turn. Says printable characters only, and is sure of
/// them: its last matrix is larger than the others.
pub(crate) fn random(
    seed: u64,
    width: u32,
    inner: u32,
    heads: u32,
    keys: u32,
    formats: &[u32],
) -> File {
    let tokens = vocabulary(&[]);
    let mut file = described(&tokens, 2, width, inner, heads, keys);
    let mut random = Random(seed);
    let (width, inner) = (width as usize, inner as usize);
    let keys = width / heads as usize * keys as usize;
    let mut formats = formats.iter().cycle();
    let mut add = |file: &mut File, name: &str, columns, rows| {
        let format = *formats.next().unwrap();
        let last = name == "output.weight";
        let mute = |row: usize| {
            let visible =
                |t: &String| t.bytes().all(|b| b.is_ascii_graphic()) && !t.starts_with("<|");
            last && !tokens.get(row).is_some_and(visible)
        };
        let size = if last { 14.0 } else { 1.7 };
        file.tensors.push(blocks(
            &mut random,
            name,
            (columns, rows),
            (format, size),
            mute,
        ));
    };
    add(&mut file, "token_embd.weight", width, tokens.len());
    add(&mut file, "output.weight", width, tokens.len());
    for layer in 0..2 {
        for (part, columns, rows) in [
            ("attn_q", width, width),
            ("attn_k", width, keys),
            ("attn_v", width, keys),
            ("attn_output", width, width),
            ("ffn_gate", width, inner),
            ("ffn_up", width, inner),
            ("ffn_down", inner, width),
        ] {
            add(
                &mut file,
                &format!("blk.{layer}.{part}.weight"),
                columns,
                rows,
            );
        }
        for norm in ["attn_norm", "ffn_norm"] {
            let name = format!("blk.{layer}.{norm}.weight");
            file.tensors
                .push(plain(&name, width, 1, |_, c| 1.0 + (c % 7) as f32 / 20.0));
        }
    }
    file.tensors
        .push(plain("output_norm.weight", width, 1, |_, _| 1.0));
    file
}
