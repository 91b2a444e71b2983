#!/usr/bin/env bash
# Embeds, reranks and answers over a few documents with models that run in the process: no account and no key.
#
#   examples/quickstart.sh ["a question"]
#
# Fetches two small open models once (see fetch-models.sh, also for work offline), builds the command line with models in the
# process, and runs it with the configuration and the documents in examples/quickstart/. ANTFLY_MODELS_DIR names a folder of models
# that are there already.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
here=$root/examples/quickstart
question=${1:-Why does bread rise?}

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
command -v cargo >/dev/null || die "cargo is needed to build the command line, and is not installed (see the README)."

ANTFLY_MODELS_DIR=$("$root/examples/fetch-models.sh")
export ANTFLY_MODELS_DIR

# The first build takes minutes. What cargo says goes to standard error, and where it put the binary is taken from its messages.
program=$(cargo build --release --manifest-path "$root/Cargo.toml" -p antfly-cli --features in-process \
    --message-format json-render-diagnostics | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
[[ -x $program ]] || die "the build left no binary behind."

# A text as the inside of a JSON string. What it may hold that JSON can't is a newline or the like: a question needs none.
escape() { printf '%s' "$1" | tr '\000-\037' ' ' | sed 's/[\\"]/\\&/g'; }
# The document of an id, as it stands in its JSON line.
document() { sed -n "s/^{\"id\": \"$1\", \"text\": \"\(.*\)\"}\$/\1/p" "$here/documents.jsonl"; }
# Three digits are enough to look at.
short() { sed 's/\(\.[0-9]\{3\}\)[0-9]*/\1/g'; }
run() { "$program" "$1" --quiet --config "$here/config.json" "${@:2}"; }

show() {
    printf '\n== embed: each document becomes a vector\n'
    run embed --input "$here/documents.jsonl" |
        sed 's/^{"id":"\([^"]*\)","embedding":\[\([^,]*\),\([^,]*\),\([^,]*\),.*/  \1: \2, \3, \4, .../' | short

    printf '\n== rerank: the documents nearest to "%s"\n' "$question"
    ranked=$(run rerank --query "$question" --input "$here/documents.jsonl")
    printf '%s\n' "$ranked" | sed 's/^{"id":"\([^"]*\)",.*"score":\([^}]*\)}/  \1: \2/' | short

    best=$(sed -n '1s/^{"id":"\([^"]*\)".*/\1/p' <<<"$ranked")
    printf '\n== generate: an answer out of "%s"\n' "$best"
    task="You answer questions about a text in one short sentence. The text: $(document "$best")"
    asked="{\"role\": \"system\", \"content\": \"$task\"}, {\"role\": \"user\", \"content\": \"$(escape "$question")\"}"
    answer=$(run generate <<<"{\"messages\": [$asked]}")
    printf '  %b\n' "$(printf '%s' "$answer" | sed 's/^.*"text":"\(.*\)","finish_reason".*/\1/; s/\\"/"/g')"
}

TIMEFORMAT=$'\nthe work took %R s; the configuration is in examples/quickstart/config.json'
time show
