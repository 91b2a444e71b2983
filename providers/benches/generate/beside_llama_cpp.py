#!/usr/bin/env python3
"""This project and llama.cpp in turn, same model, same prompt, two threads each, greedily; the best round of each counts.

    cargo bench -p antfly-providers --features in-process --bench generate --no-run     # prints the binary
    python3 -m venv v && v/bin/pip install xllamacpp
    v/bin/python beside_llama_cpp.py BINARY MODEL.gguf [ROUNDS]
"""
import json, os, subprocess, sys, time, urllib.request
import xllamacpp as x

binary, model = sys.argv[1:3]
rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 4
text = "Summarize: " + "The river rose in the night and the village moved to the hill. " * 32

p = x.CommonParams()
p.model.path, p.port, p.n_ctx, p.n_parallel = model, 0, 2048, 1
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 2
p.use_jinja = True
server = x.Server(p)
while True:
    try:
        urllib.request.urlopen(server.listening_address + "/health", timeout=2)
        break
    except Exception:
        time.sleep(0.1)


def post(route, body):
    request = urllib.request.Request(
        server.listening_address + route, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    return json.load(urllib.request.urlopen(request))


prompt = post("/apply-template", {"messages": [{"role": "user", "content": text}]})["prompt"]
best = {}
for _ in range(rounds):
    t = post("/completion", {"prompt": prompt, "n_predict": 64, "temperature": 0, "cache_prompt": False})["timings"]
    theirs = (t["prompt_n"], t["prompt_per_second"], t["predicted_n"], t["predicted_per_second"])
    run = subprocess.run([binary, model, "1"], capture_output=True, text=True, check=True)
    o = json.loads(run.stdout.splitlines()[-1])
    ours = (o["prompt_tokens"], o["prompt_per_second"], o["written_tokens"], o["written_per_second"])
    for name, (n, reading, m, writing) in (("llama.cpp", theirs), ("this project", ours)):
        print(f"{name:14} read {n} at {reading:7.1f}/s, wrote {m} at {writing:6.1f}/s", flush=True)
        reading0, writing0 = best.get(name, (0, 0))
        best[name] = max(reading, reading0), max(writing, writing0)
for name, (reading, writing) in best.items():
    print(f"best {name:14} reads {reading:7.1f} tokens/s, writes {writing:6.1f} tokens/s")
(a, b), (c, d) = best["this project"], best["llama.cpp"]
print(f"ratio reading {a / c:.2f}, writing {b / d:.2f}")
sys.stdout.flush()
os._exit(0)
