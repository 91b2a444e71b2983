#!/usr/bin/env python3
"""What llama.cpp makes of some texts with small vocabularies: fixtures/tokens.json.

    python3 -m venv v && v/bin/pip install xllamacpp gguf tokenizers sentencepiece
    v/bin/python tokens.py > fixtures/tokens.json

The byte-level vocabulary is trained on the texts themselves without cutting them into words, so its merges run across every place where
some kind of model cuts: a cut that is missing or too many shows as other tokens. The SentencePiece one has no token for most letters
outside of ASCII, so bytes stand in; there is one trained as merges and one as unigrams. The ids are llama.cpp's own, from a model of one empty layer around the vocabulary.
"""
import io, json, os, sys, tempfile, time, urllib.request
import gguf, numpy, sentencepiece, tokenizers, xllamacpp

TEXTS = [
    "Hello, world! The river rose; the village moved.", "I'm sure they'LL say we've won, it's Tom's, isn't it? D'accord, I'D go.",
    "a  b   c    d\te\t\tf  ", "  leading and trailing   ", "line one\nline two\r\n\r\n  indented\n\n\nend\n", "\n", " ", "   \n  x",
    "1 12 123 1234 12345 3.14 1,000,000 v2.0 x86_64", "½ ² ٣٤٥ Ⅷ", "def f(x):\n    return x**2 + 1  # done\n\n\tif x!=0: pass",
    "Füße, Äpfel und Öl kosten 12,50 Euro. naïve café e\u0301", "日本の首都はどこですか。東京です。", "Привет, мир! Это тест 42.",
    "😀 👩‍👩‍👧 ok😀😀", "a\u00a0b\u2003c\u3000d\u200be", "((([[[{{{...!!!???--->>>", "http://example.com/a?b=c&d=e#f", "नमस्ते दुनिया", "don't DON'T ‘don’t’",
    "hello hello hello  hello", "x='s'; y=\"'re\"", "<0x41> ▁ ▁▁a Ġ", "_snake_case CamelCase kebab-case", "tail'",
]
MARKED = ["<|a|>user\nHello<|b|>\n<|a|> x", "Hello<|b|>world", "<|a|><|b|>  two"]
PRES = ["gpt-2", "smollm", "starcoder", "refact", "command-r", "codeshell", "llama-bpe", "llama3", "llama-v3", "qwen2"]


def byte_level():
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=620, special_tokens=["<|a|>", "<|b|>"], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    bpe.train_from_iterator(TEXTS * 2, trainer)
    model = json.loads(bpe.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    return {"model": "gpt2", "tokens": tokens, "types": [3, 3] + [1] * (len(tokens) - 2), "merges": [" ".join(m) for m in model["merges"]]}


def sentence_piece(kind="bpe"):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([t for text in TEXTS for t in text.split("\n") if t.isascii()] * 3), model_writer=out, model_type=kind, vocab_size=460,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, control_symbols=["<|a|>", "<|b|>"],
        minloglevel=3, num_threads=1, hard_vocab_limit=False, character_coverage=1.0)
    sp = sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())
    n = range(sp.get_piece_size())
    kind = lambda i: 2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1
    return {"model": "llama", "tokens": [sp.id_to_piece(i) for i in n], "types": [kind(i) for i in n], "scores": [round(sp.get_score(i), 4) for i in n]}, sp


def serve(vocabulary, pre=None, blank=None):
    path = os.path.join(tempfile.mkdtemp(), "v.gguf")
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(1), w.add_context_length(64), w.add_embedding_length(32), w.add_feed_forward_length(32)
    w.add_head_count(1), w.add_head_count_kv(1), w.add_layer_norm_rms_eps(1e-5), w.add_rope_dimension_count(32)
    w.add_tokenizer_model(vocabulary["model"]), w.add_token_list(vocabulary["tokens"]), w.add_token_types(vocabulary["types"])
    begin = vocabulary["tokens"].index("<s>" if "<s>" in vocabulary["tokens"] else "<|a|>")
    w.add_bos_token_id(begin), w.add_eos_token_id(begin + 1)
    if pre: w.add_tokenizer_pre(pre), w.add_token_merges(vocabulary["merges"])
    else: w.add_token_scores(vocabulary["scores"]), w.add_unk_token_id(0)
    if blank is not None: w.add_add_space_prefix(blank)
    n = len(vocabulary["tokens"])
    zero = lambda *shape: numpy.zeros(shape, numpy.float32)
    w.add_tensor("token_embd.weight", zero(n, 32)), w.add_tensor("output.weight", zero(n, 32)), w.add_tensor("output_norm.weight", zero(32))
    for part in "attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down".split(): w.add_tensor(f"blk.0.{part}.weight", zero(32, 32))
    for part in "attn_norm ffn_norm".split(): w.add_tensor(f"blk.0.{part}.weight", zero(32))
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    p = xllamacpp.CommonParams()
    p.model.path, p.port, p.n_ctx, p.n_parallel, p.cpuparams.n_threads, p.warmup = path, 0, 64, 1, 1, False
    server = xllamacpp.Server(p)
    for _ in range(300):
        try:
            urllib.request.urlopen(server.listening_address + "/health", timeout=2)
            break
        except Exception:
            time.sleep(0.1)

    def ids(text):
        body = json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()
        return json.load(urllib.request.urlopen(urllib.request.Request(server.listening_address + "/tokenize", body, {"content-type": "application/json"})))["tokens"]
    return server, [ids(text) for text in TEXTS + MARKED]


def main():
    merges = byte_level()
    scores, sp = sentence_piece()
    unigrams, _ = sentence_piece("unigram")
    cases, servers = [], []
    for pre in PRES:
        server, ids = serve(merges, pre)
        servers.append(server)
        cases.append({"vocabulary": 0, "pre": pre, "ids": ids})
    for blank in [None, False]:
        server, ids = serve(scores, None, blank)
        servers.append(server)
        cases.append({"vocabulary": 1, "add_space_prefix": blank, "ids": ids})
    # The same kind of file with a unigram model's scores: llama.cpp merges by them all the same.
    server, ids = serve(unigrams)
    servers.append(server)
    cases.append({"vocabulary": 2, "add_space_prefix": None, "ids": ids})
    own = sum([1] + sp.encode(text) == ids for text, ids in zip(TEXTS, cases[-3]["ids"]))
    print(f"sentencepiece itself agrees on {own} of {len(TEXTS)}", file=sys.stderr)
    for text, ids in zip(TEXTS, cases[-3]["ids"]):
        if [1] + sp.encode(text) != ids: print(repr(text), ids, sp.encode(text), file=sys.stderr)
    print(len({json.dumps(c["ids"]) for c in cases}), "different answers of", len(cases), [len(v["tokens"]) for v in (merges, scores, unigrams)], file=sys.stderr)
    json.dump({"runtime": f"llama.cpp through xllamacpp {xllamacpp.__version__}", "vocabularies": [merges, scores, unigrams], "texts": TEXTS + MARKED, "cases": cases},
              sys.stdout, ensure_ascii=False, separators=(",", ":"))
    print()
    os._exit(sys.stdout.flush() or 0)


main()
