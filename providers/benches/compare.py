"""Embeddings a second of all-MiniLM-L6-v2: this library, onnxruntime and sentence-transformers, in one run on the same cores.

    python -m venv .venv && .venv/bin/pip install torch transformers sentence-transformers onnx onnxscript onnxruntime
    ANTFLY_MODELS_DIR=... .venv/bin/python providers/benches/compare.py

Each tokenizes and embeds the lines of texts.txt, one a call and 32 a call; every round runs all of them, so that what else the
machine does falls on each. onnxruntime runs the same F32 weights with all its graph optimisations, padded to the longest text of a call
(and sorted by length before, which is what a careful caller does: that row counts).
"""

import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime
import torch
import transformers
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

HERE = pathlib.Path(__file__).parent
FOLDER = pathlib.Path(os.environ["ANTFLY_MODELS_DIR"]) / "all-MiniLM-L6-v2"
TEXTS = (HERE / "texts.txt").read_text().splitlines()
THREADS = len(os.sched_getaffinity(0))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
AT_LEAST = float(os.environ.get("AT_LEAST", "1.5"))


class Hidden(torch.nn.Module):
    """The model as a function of three tensors, which is what can be exported."""

    def __init__(self):
        super().__init__()
        self.model = transformers.AutoModel.from_pretrained(FOLDER, attn_implementation="eager").eval()

    def forward(self, ids, mask, types):
        return self.model(input_ids=ids, attention_mask=mask, token_type_ids=types).last_hidden_state


class Session:
    """onnxruntime with the tokenizer's own library."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp()) / "model.onnx"
        example = transformers.AutoTokenizer.from_pretrained(FOLDER)(["a text", "another one"], return_tensors="pt", padding=True)
        names = ["input_ids", "attention_mask", "token_type_ids"]
        axes = {name: {0: "batch", 1: "tokens"} for name in names + ["hidden"]}
        torch.onnx.export(
            Hidden(), tuple(example[n] for n in names), str(self.path), input_names=names, output_names=["hidden"], dynamic_axes=axes,
            opset_version=17, dynamo=False,
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = onnxruntime.InferenceSession(str(self.path), options, providers=["CPUExecutionProvider"])
        self.tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
        self.tokenizer.enable_truncation(256)
        self.tokenizer.enable_padding()

    def embed(self, texts):
        batch = self.tokenizer.encode_batch(texts)
        mask = np.array([e.attention_mask for e in batch], dtype=np.int64)
        feed = {
            "input_ids": np.array([e.ids for e in batch], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([e.type_ids for e in batch], dtype=np.int64),
        }
        hidden = self.session.run(["hidden"], feed)[0]
        weight = mask[:, :, None].astype(np.float32)
        vectors = (hidden * weight).sum(1) / weight.sum(1)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def rate(embed, texts, size):
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < AT_LEAST:
        for start in range(0, len(texts), size):
            count += len(embed(texts[start : start + size]))
    return count / (time.perf_counter() - began)


def own():
    command = os.environ.get("BENCH") or None
    if command is None:
        build = "cargo bench -p antfly-providers --no-default-features --features in-process --bench in_process"
        run = subprocess.run(build.split(), capture_output=True, text=True, check=True, cwd=HERE.parent.parent)
    else:
        run = subprocess.run([command], capture_output=True, text=True, check=True)
    found = dict(re.findall(r"^(\w+): ([\d.]+) embeddings/s", run.stdout, re.M))
    return float(found["single"]), float(found["batch32"])


def main():
    torch.set_num_threads(THREADS)
    session = Session()
    library = SentenceTransformer(str(FOLDER), device="cpu")
    by_length = sorted(TEXTS, key=len)
    rows = {}

    def add(name, value):
        rows.setdefault(name, []).append(value)

    session.embed(TEXTS[:32])
    library.encode(TEXTS[:32])
    for _ in range(ROUNDS):
        single, batch = own()
        add("antfly-providers single", single)
        add("antfly-providers batch32", batch)
        add("onnxruntime single", rate(session.embed, TEXTS, 1))
        add("onnxruntime batch32 as they come", rate(session.embed, TEXTS, 32))
        add("onnxruntime batch32 sorted", rate(session.embed, by_length, 32))
        add("sentence-transformers single", rate(library.encode, TEXTS, 1))
        add("sentence-transformers batch32", rate(library.encode, TEXTS, 32))
    print(f"{THREADS} cores; onnxruntime {onnxruntime.__version__}, torch {torch.__version__}, {ROUNDS} rounds")
    median = {name: statistics.median(values) for name, values in rows.items()}
    for name, value in median.items():
        print(f"{name:36} {value:9.1f} embeddings/s   ({min(rows[name]):.1f} to {max(rows[name]):.1f})")
    print(f"single:  {median['antfly-providers single'] / median['onnxruntime single']:.2f}x onnxruntime")
    print(f"batch32: {median['antfly-providers batch32'] / median['onnxruntime batch32 sorted']:.2f}x onnxruntime (sorted)")


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    sys.exit(main())
