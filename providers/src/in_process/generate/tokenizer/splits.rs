//! How a byte-level vocabulary cuts text into words before it merges: a property of the model, named in its file.

/// The patterns of one kind of vocabulary, applied one after the other to what the one before left whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Splits {
    pub(super) patterns: &'static [&'static str],
    /// A word that is a token is that token, whatever the merges say; such models also begin texts with a token of their own.
    pub(super) whole_words: bool,
}

const WORDS: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)";
const DIGIT: &str = r"\p{N}";
const LLAMA_3: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The names that [`of`] knows, for an error.
pub(super) const KNOWN: &str = "\"gpt-2\", \"smollm\", \"starcoder\", \"refact\", \"command-r\", \"codeshell\", \"llama-bpe\" and \"qwen2\"";

/// The splits that a file's `tokenizer.ggml.pre` names.
pub(super) fn of(name: &str) -> Option<Splits> {
    let (patterns, whole_words): (&[&str], _) = match name {
        "gpt-2" => (&[WORDS], false),
        "smollm" | "starcoder" | "refact" | "command-r" | "codeshell" => (&[DIGIT, WORDS], false),
        "llama-bpe" | "llama3" | "llama-v3" => (&[LLAMA_3], true),
        "qwen2" => (&[QWEN_2], false),
        _ => return None,
    };
    Some(Splits {
        patterns,
        whole_words,
    })
}
