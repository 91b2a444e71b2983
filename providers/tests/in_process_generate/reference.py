#!/usr/bin/env python3
"""What llama.cpp answers to some chats, greedily: the fixtures of this folder.

    python3 -m venv v && v/bin/pip install xllamacpp
    v/bin/python reference.py MODEL.gguf [MARGIN] > fixtures/MODEL.json

The small random models are written by the tests themselves, into target/tmp/in_process_generate.

Prompt, tokens and text are llama.cpp's own: its template engine, its tokenizer, its arithmetic. Both runtimes round activations to 8 bits,
each in its own order, so they may part where two tokens are nearly as likely. A chat is therefore cut before the first token whose
lead over the second is below MARGIN (difference of log-probabilities), and kept if at least LEAST tokens are left or it ended by itself.

How much rounding does, measured with SmolLM2-135M-Instruct.Q4_1 against a pass in double precision over the same weights (dequantised by
the gguf package), over the six likeliest tokens of some 350 places in twelve chats: llama.cpp's log-probabilities are off by 0.1 on average and by up to 1.07.
"Who wrote Romeo and Juliet?" shows it: at its eleventh token the exact lead of " attributed" over " a" is 0.07; llama.cpp makes it 0.28, and the
same pass with activations rounded to 8 bits makes it -0.30, so that the other token wins. Neither is a wrong reading of the file. The
rule drops that chat: it is not clear for long enough.
"""
import json, os, sys, time, urllib.error, urllib.request
import xllamacpp as x

MARGIN = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5
LEAST, MOST = 16, 18
CHATS = [
    [("system", "You add."), ("user", "What is 2 + 2?"), ("assistant", "2 + 2 is 4."), ("user", "And 3 + 3?")],
    [("user", "Who wrote Romeo and Juliet?")],
    [("user", "Name the seven days of the week.")],
    [("user", "Count from 1 to 20, separated by commas.")],
    [("system", "You list."), ("user", "Name the twelve months of the year.")],
    [("system", "You write code."), ("user", "A Python function that adds two numbers.")],
    [("system", "You repeat what the user says, word for word."), ("user", "Füße, Äpfel und Öl kosten 12,50 Euro.")],
    [("system", "Echo."), ("user", "  def add(a, b):\n      return a + b\n\nRepeat this\tcode. 日本の首都 😀  ")],
]


def fnv(path):
    digest = 0xCBF29CE484222325
    with open(path, "rb") as f:
        for byte in f.read(1 << 20):
            digest = (digest ^ byte) * 0x100000001B3 % (1 << 64)
    return f"{digest:016x}"


def serve(path):
    p = x.CommonParams()
    p.model.path, p.port, p.n_ctx, p.n_parallel, p.cpuparams.n_threads = path, 0, 2048, 1, 1
    p.use_jinja = True
    p.warmup = False
    server = x.Server(p)
    for _ in range(300):
        try:
            urllib.request.urlopen(server.listening_address + "/health", timeout=2)
            return server
        except Exception:
            time.sleep(0.1)
    sys.exit("the server does not answer")


def main(path):
    server = serve(path)

    def post(route, body):
        request = urllib.request.Request(
            server.listening_address + route, json.dumps(body).encode(), {"content-type": "application/json"}
        )
        return json.load(urllib.request.urlopen(request))

    def answer(tokens, n):
        return post("/completion", {
            "prompt": tokens, "n_predict": n, "temperature": 0, "n_probs": 4, "cache_prompt": False, "return_tokens": True,
            "samplers": ["top_k"], "top_k": 1, "post_sampling_probs": False,
        })

    chats = []
    for turns in CHATS:
        messages = [{"role": r, "content": c} for r, c in turns]
        prompt = post("/apply-template", {"messages": messages})["prompt"]
        tokens = post("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"]
        try:
            whole = answer(tokens, MOST)
        except urllib.error.HTTPError as e:
            print(f"dropped, {e}: {turns[-1][1][:50]!r}", file=sys.stderr)
            continue
        leads = [t["top_logprobs"][0]["logprob"] - t["top_logprobs"][1]["logprob"] for t in whole["completion_probabilities"]]
        clear = next((i for i, lead in enumerate(leads) if lead < MARGIN), len(leads))
        ended = whole["stop_type"] == "eos"
        if not (clear >= LEAST or (ended and clear == len(leads))):
            print(f"dropped, {clear} of {len(leads)} clear: {turns[-1][1][:50]!r}", file=sys.stderr)
            continue
        by_itself = ended and clear == len(leads)
        text = whole["content"] if by_itself else answer(tokens, clear)["content"]
        while text.endswith("\ufffd"):
            text = text[:-1]
        chats.append({
            "messages": messages, "input_tokens": len(tokens), "output_tokens": len(whole["tokens"]) if by_itself else clear,
            "finish": "stop" if by_itself else "length", "text": text, "smallest_lead": round(min(leads[:clear]), 3),
        })
    json.dump({
        "runtime": f"llama.cpp through xllamacpp {x.__version__}", "model": os.path.basename(path),
        "fnv1a_of_first_mebibyte": fnv(path), "smallest_lead_kept": MARGIN, "chats": chats,
    }, sys.stdout, ensure_ascii=False, indent=1)
    print()
    os._exit(sys.stdout.flush() or 0)


main(sys.argv[1])
