#!/usr/bin/env python3
"""The scores that small random models of one format each must give: fixtures/logits.json and fixtures/logits.f32.

    python3 -m venv v && v/bin/pip install xllamacpp gguf
    ANTFLY_TINY_MODELS=DIR cargo test --workspace --all-features --lib every_format_scores    # writes the models into DIR
    v/bin/python logits.py DIR fixtures/logits

Weights are the gguf package's own dequantisation; the pass over them is written here, in double precision, and rounds nothing. Scores are
centred: a number added to all of them says nothing. Written down as well: how far llama.cpp is from these scores (the root of the
mean square of its differences, as a part of the root of the mean square of the scores). It rounds activations to 8 bits, as this
project does, so that is the size of what rounding alone does.
"""
import json, os, sys, time, urllib.request
import gguf, numpy as np, xllamacpp

NAMES = ["f32", "f16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k", "bf16"]
TOKENS = [(i * 37 + 11) % 240 + 3 for i in range(24)]
AT = [20, 24]


class Model:
    def __init__(self, path):
        reader = gguf.GGUFReader(path)
        meta = lambda key: reader.fields[key].contents()
        self.layers, self.heads, self.keys = (meta(f"llama.{k}") for k in ("block_count", "attention.head_count", "attention.head_count_kv"))
        self.head = meta("llama.embedding_length") // self.heads
        self.epsilon, self.base = meta("llama.attention.layer_norm_rms_epsilon"), 10000.0
        self.t = {t.name: gguf.dequantize(t.data, t.tensor_type).astype(np.float64).reshape([int(n) for n in reversed(t.shape)]) for t in reader.tensors}

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.epsilon) * self.t[name].reshape(-1)

    def turn(self, x):
        angle = np.arange(len(x))[:, None] * self.base ** (-np.arange(0, self.head, 2) / self.head)
        cos, sin, a, b, out = np.cos(angle)[:, None], np.sin(angle)[:, None], x[..., 0::2], x[..., 1::2], np.empty_like(x)
        out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
        return out

    def scores(self, tokens, rounded=lambda x: x):
        n, x = len(tokens), self.t["token_embd.weight"][tokens]
        by = lambda x, name: rounded(x) @ self.t[name].T
        for layer in range(self.layers):
            name = lambda part: f"blk.{layer}.{part}.weight"
            h = self.norm(x, name("attn_norm"))
            q, k, v = (by(h, name(f"attn_{p}")).reshape(n, -1, self.head) for p in "qkv")
            q, k = self.turn(q), self.turn(k)
            k, v = (a.repeat(self.heads // self.keys, 1) for a in (k, v))
            a = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.head) + np.triu(np.full((n, n), -np.inf), 1)
            a = np.exp(a - a.max(-1, keepdims=True))
            x = x + by(np.einsum("hqk,khd->qhd", a / a.sum(-1, keepdims=True), v).reshape(n, -1), name("attn_output"))
            h = self.norm(x, name("ffn_norm"))
            gate = by(h, name("ffn_gate"))
            x = x + by(gate / (1 + np.exp(-gate)) * by(h, name("ffn_up")), name("ffn_down"))
        return by(self.norm(x, "output_norm.weight"), "output.weight")


def llama_cpp(path, count):
    p = xllamacpp.CommonParams()
    p.model.path, p.port, p.n_ctx, p.n_parallel, p.cpuparams.n_threads, p.warmup = path, 0, 64, 1, 1, False
    server = xllamacpp.Server(p)
    for _ in range(300):
        try:
            urllib.request.urlopen(server.listening_address + "/health", timeout=2)
            break
        except Exception:
            time.sleep(0.1)
    all = []
    for at in AT:
        body = json.dumps({"prompt": TOKENS[:at], "n_predict": 1, "temperature": 0, "n_probs": count, "cache_prompt": False, "samplers": ["top_k"],
                           "top_k": 1, "post_sampling_probs": False}).encode()
        answer = json.load(urllib.request.urlopen(urllib.request.Request(server.listening_address + "/completion", body, {"content-type": "application/json"})))
        scores = np.zeros(count)
        for top in answer["completion_probabilities"][0]["top_logprobs"]:
            scores[top["id"]] = top["logprob"]
        all.append(scores)
    return np.stack(all), server


def off(a, b):
    return float(np.sqrt(((a - b) ** 2).mean() / (b * b).mean()))


def centred(x):
    return x - x.mean(-1, keepdims=True)


def eight_bits(n):
    def rounded(x):
        b = x.reshape(-1, n)
        d = np.abs(b).max(1, keepdims=True) / 127
        return (np.round(b / d) * d).reshape(x.shape)
    return rounded


def main(folder, out):
    models, numbers, servers = [], [], []
    for name in NAMES:
        path = os.path.join(folder, name + ".gguf")
        model = Model(path)
        scores = centred(model.scores(TOKENS)[[at - 1 for at in AT]])
        theirs, server = llama_cpp(path, scores.shape[1])
        servers.append(server)
        numbers.append(scores)
        models.append({"format": name, "fnv1a": fnv(path), "llama_cpp_is_off": round(off(centred(theirs), scores), 6)})
        print(models[-1], "rounded:", round(off(centred(model.scores(TOKENS, eight_bits(256 if "_k" in name else 32))[[at - 1 for at in AT]]), scores), 6),
              "size", round(float(np.sqrt((scores**2).mean())), 2), file=sys.stderr)
    np.stack(numbers).astype("<f4").tofile(out + ".f32")
    with open(out + ".json", "w") as f:
        json.dump({"runtime": f"numpy {np.__version__}, gguf 0.19.0; llama.cpp through xllamacpp {xllamacpp.__version__}", "tokens": TOKENS, "at": AT, "models": models}, f, indent=1)
        f.write("\n")
    os._exit(0)


def fnv(path):
    digest = 0xCBF29CE484222325
    for byte in open(path, "rb").read():
        digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{digest:016x}"


main(*sys.argv[1:])
