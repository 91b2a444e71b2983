//! What each target feeds, and what must hold whatever it is fed with. Shared with `libfuzzer/`.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use antfly_framework::config::Document;
use antfly_framework::http::{EventStreamParser, LineParser};
use antfly_framework::provider::{
    Codec, Flow, Frame, Framing, Head, Plugin, Provider, Route, parse_duration,
    parse_proto_duration,
};
use antfly_framework::testing::{resolve, retry_after};
use antfly_framework::{
    EmbedInput, EntryConfig, Env, Error, GenerateRequest, Kind, Operation, RerankRequest,
    StreamEvent,
};
use http::{HeaderMap, HeaderValue};

/// One thing that is fed.
pub struct Target {
    /// Its name, and that of its folder under `corpus/`.
    pub name: &'static str,
    /// Words of its format, for the mutator; libFuzzer finds its own.
    #[allow(dead_code)]
    pub words: &'static [&'static str],
    /// Panics when something does not hold.
    pub check: fn(&[u8]),
}

/// Every target, for `libfuzzer/`.
#[allow(dead_code)]
pub const ALL: [&Target; 9] = [
    &EVENT_STREAM,
    &LINES,
    &RETRY_AFTER,
    &CONFIG,
    &EMBED,
    &GENERATE,
    &RERANK,
    &STREAM,
    &CLASSIFY,
];

/// The longest an error may be.
const LONGEST_ERROR: usize = 20_000;
/// The bound that parsers are given: small, so that it is met.
const MAX_EVENT: usize = 256;

pub const EVENT_STREAM: Target = Target {
    name: "event_stream",
    words: &[
        "data:", "data: ", "event: ", "id:", "retry: 5", ":", "\r\n", "\n\n", "\r", "\u{feff}",
        "[DONE]",
    ],
    check: |data| {
        framing(
            data,
            |chunk, out, parser: &mut EventStreamParser| match chunk {
                Some(chunk) => parser.push(chunk, out),
                None => parser.finish(out),
            },
            || EventStreamParser::new(MAX_EVENT),
        );
    },
};

pub const LINES: Target = Target {
    name: "lines",
    words: &["{}", "\n", "\r\n", "\r", " ", "\u{feff}", "{\"a\":1}"],
    check: |data| {
        framing(
            data,
            |chunk, out, parser: &mut LineParser| match chunk {
                Some(chunk) => parser.push(chunk, out),
                None => parser.finish(out),
            },
            || LineParser::new(MAX_EVENT),
        );
    },
};

type Read = (Vec<Frame>, Option<Kind>);

/// However a body is cut, the same frames and the same error come out, none larger than the bound, none out of nothing.
fn framing<P>(
    data: &[u8],
    feed: impl Fn(Option<&[u8]>, &mut Vec<Frame>, &mut P) -> Result<(), Error>,
    new: impl Fn() -> P,
) {
    let read = |chunks: &[&[u8]]| -> Read {
        let (mut parser, mut out) = (new(), Vec::new());
        for chunk in chunks {
            if let Err(e) = feed(Some(chunk), &mut out, &mut parser) {
                return (out, Some(e.kind()));
            }
        }
        let ended = feed(None, &mut out, &mut parser);
        (out, ended.err().map(|e| e.kind()))
    };
    let whole = read(&[data]);
    let single: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(read(&single), whole, "byte by byte");
    for size in [2, 3, 7] {
        let some: Vec<&[u8]> = data.chunks(size).collect();
        assert_eq!(read(&some), whole, "by {size} bytes");
    }
    let (frames, _) = whole;
    let mut bytes = 0;
    for frame in &frames {
        assert!(!frame.data.is_empty(), "a frame without data");
        // Bytes that are no UTF-8 become a replacement of three bytes each.
        assert!(
            frame.data.len() <= 3 * MAX_EVENT + 3,
            "{} bytes",
            frame.data.len()
        );
        bytes += frame.data.len();
    }
    assert!(bytes <= 3 * data.len(), "more came out than went in");
}

pub const RETRY_AFTER: Target = Target {
    name: "retry_after",
    words: &[
        "ms",
        "s",
        "m",
        "h",
        "d",
        "us",
        "\u{b5}s",
        "GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "99999999999999999999",
        ".",
        "-1",
        "1e9",
    ],
    check: |data| {
        let text = String::from_utf8_lossy(data);
        let _ = parse_duration(&text);
        let proto = parse_proto_duration(&text);
        if let Some(wait) = proto {
            assert_eq!(
                parse_duration(text.trim()),
                Some(wait),
                "two readers, two waits"
            );
        }
        let Ok(value) = HeaderValue::from_bytes(data) else {
            return;
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let mut headers = HeaderMap::new();
        for name in ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"] {
            headers.insert(name, value.clone());
            let wait = retry_after(&headers, now);
            headers.insert("date", value.clone());
            let dated = retry_after(&headers, now);
            headers.clear();
            // Seconds as a number are taken exactly; the same number in milliseconds is a thousandth.
            if let Ok(seconds) = text.trim_matches([' ', '\t']).parse::<u32>()
                && !text.contains('+')
            {
                let unit = if name == "retry-after" { 1000 } else { 1 };
                let right = Duration::from_millis(u64::from(seconds) * unit);
                assert_eq!(
                    (wait, dated),
                    (Some(right), Some(right)),
                    "{name}: {text:?}"
                );
            }
        }
    },
};

pub const CONFIG: Target = Target {
    name: "config",
    words: &[
        "\"embedders\"",
        "\"generators\"",
        "\"rerankers\"",
        "\"rate_limit\"",
        "\"burst\"",
        "null",
        "4294967296",
        "-1",
        "1.0",
        "\"provider\":",
        "\"api_key\":\"SENTINEL-key\"",
        "\"headers\":{",
        "\"retry\":{",
        "\"tools\":[",
        "\"pacing\":\"completion\"",
    ],
    check: |data| match Document::from_slice(data) {
        Ok(document) => {
            let shown = format!("{document:?}");
            let fed = String::from_utf8_lossy(data);
            if stands_for_a_key_alone(&fed) {
                assert!(!shown.contains("SENTINEL"), "a key in Debug");
            }
            for entry in &document.entries {
                assert!(entry.validate().is_ok(), "what was parsed is not valid");
            }
        }
        Err(e) => {
            assert_eq!(e.kind(), Kind::Config, "{e}");
            bounded(&e);
        }
    },
};

/// Whether the sentinel stands nowhere but where a key does: a mutator also puts it into a model's name, which is shown.
fn stands_for_a_key_alone(text: &str) -> bool {
    let is_key = |before: &str| {
        let name = before.strip_suffix('"')?.trim_end().strip_suffix(':')?;
        Some(name.trim_end().ends_with("\"api_key\""))
    };
    let mut all = text.match_indices("SENTINEL");
    !text.contains("\\u") && all.all(|(at, _)| is_key(&text[..at]) == Some(true))
}

pub(crate) fn bounded(error: &Error) {
    let shown = error.to_string();
    assert!(
        shown.len() < LONGEST_ERROR,
        "an error of {} bytes",
        shown.len()
    );
    assert!(!shown.contains(['\n', '\r']), "an error of two lines");
}

/// Cuts a body into frames: a chunk, or (`None`) its end.
type Cut = Box<dyn FnMut(Option<&[u8]>, &mut Vec<Frame>) -> Result<(), Error>>;

/// An adapter and its name.
type Adapter = (String, Arc<dyn Provider>);

/// Every adapter for an operation that can be had without a network or weights.
fn adapters(operation: Operation) -> Vec<Adapter> {
    let url = "http://127.0.0.1:9";
    let env = Env::from_pairs([
        ("OPENAI_API_KEY", "k-0123456789"),
        ("GEMINI_API_KEY", "k-0123456789"),
        ("ANTFLY_INFERENCE_URL", url),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI"),
        ("AWS_CONFIG_FILE", "/nonexistent"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent"),
        ("GOOGLE_CLOUD_PROJECT", "p"),
    ]);
    let models = [
        "m",
        "amazon.titan-embed-text-v2:0",
        "cohere.embed-v4:0",
        "cohere.rerank-v3-5:0",
        "gemini-embedding-001",
    ];
    let registry = antfly_providers::registry().expect("plugins");
    let plugins: Vec<Plugin> = registry
        .iter()
        .filter(|(_, o, _)| *o == operation)
        .map(|(_, _, plugin)| *plugin)
        .collect();
    let mut all = Vec::new();
    for plugin in plugins {
        for model in models {
            let entry = EntryConfig::new(operation, plugin.name, model).with_url(url);
            if let Ok(adapter) = resolve(&plugin, &entry, &env) {
                all.push((format!("{} {model}", plugin.name), adapter));
            }
        }
    }
    assert!(!all.is_empty(), "no adapter for {operation}");
    all
}

static EMBEDDERS: LazyLock<Vec<Adapter>> = LazyLock::new(|| adapters(Operation::Embed));
static GENERATORS: LazyLock<Vec<Adapter>> = LazyLock::new(|| adapters(Operation::Generate));
static RERANKERS: LazyLock<Vec<Adapter>> = LazyLock::new(|| adapters(Operation::Rerank));

fn each(adapters: &[Adapter], mut check: impl FnMut(&str, &dyn Codec)) {
    for (name, adapter) in adapters {
        match adapter.route() {
            Route::Http(http) => check(name, http),
            Route::Engine(engine) => check(name, engine),
            Route::Local(_) => {}
        }
    }
}

fn head(status: u16) -> Head {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    Head { status, headers }
}

const JSON_WORDS: &[&str] = &[
    "null",
    "true",
    "[",
    "]",
    "{",
    "}",
    "1e999",
    "-0",
    "\"index\":",
    "\"index\": 1",
    "\"data\":",
    "\"error\":",
    "\"embedding\":",
    "\"values\":",
    "\"scores\":",
    "\"choices\":",
    "\"message\":",
    "\"content\":",
    "\"text\":",
    "\"finish_reason\":",
    "\"tool_calls\":",
    "\"usage\":",
    "\"candidates\":",
    "\"predictions\":",
    "\\u0000",
    "\\ud800",
    "\"AACAPw==\"",
    "18446744073709551615",
];

pub const EMBED: Target = Target {
    name: "embed",
    words: JSON_WORDS,
    check: |data| {
        for count in [1, 2] {
            let inputs: Vec<EmbedInput> = (0..count).map(|i| format!("t{i}").into()).collect();
            let options = antfly_framework::config::EmbedOptions::default();
            let part = antfly_framework::embed::EmbedPart {
                inputs: &inputs,
                options: &options,
            };
            each(&EMBEDDERS, |name, codec| {
                let Some(codec) = codec.embed() else { return };
                match codec.decode(&head(200), bytes::Bytes::copy_from_slice(data), &part) {
                    Ok(vectors) => {
                        assert_eq!(vectors.len(), count, "{name}");
                        // A number takes two bytes at least, a base64 one more than five.
                        assert!(
                            vectors.as_flat().len() <= data.len(),
                            "{name}: out of nothing"
                        );
                    }
                    Err(e) => bounded(&e),
                }
            });
        }
    },
};

pub const GENERATE: Target = Target {
    name: "generate",
    words: JSON_WORDS,
    check: |data| {
        let request = GenerateRequest::prompt("hi");
        each(&GENERATORS, |name, codec| {
            let Some(codec) = codec.generate() else {
                return;
            };
            match codec.decode(&head(200), bytes::Bytes::copy_from_slice(data), &request) {
                Ok(whole) => assert!(whole.text.len() <= data.len(), "{name}: out of nothing"),
                Err(e) => bounded(&e),
            }
        });
    },
};

pub const RERANK: Target = Target {
    name: "rerank",
    words: JSON_WORDS,
    check: |data| {
        let request = RerankRequest::new("q", ["a", "b"]);
        each(&RERANKERS, |name, codec| {
            let Some(codec) = codec.rerank() else { return };
            match codec.decode(&head(200), bytes::Bytes::copy_from_slice(data), &request) {
                Ok(ranking) => assert!(
                    ranking.results.len() <= data.len(),
                    "{name}: out of nothing"
                ),
                Err(e) => bounded(&e),
            }
        });
    },
};

pub const STREAM: Target = Target {
    name: "stream",
    words: &[
        "data: ",
        "\n\n",
        "\r\n",
        "[DONE]",
        "\"delta\":",
        "\"content\":",
        "\"finish_reason\":\"stop\"",
        "\"tool_calls\":[",
        "\"index\":",
        "\"function\":",
        "\"arguments\":",
        "\"error\":",
        "null",
        "\"candidates\":",
        "\"parts\":",
        "\"finishReason\":\"STOP\"",
        "\"thought\":true",
        "\\u0000",
    ],
    check: |data| {
        let request = GenerateRequest::prompt("hi");
        each(&GENERATORS, |name, codec| {
            // An engine cuts and decodes its own streams: `frames.rs` feeds Bedrock's.
            let Some(codec) = codec.generate() else {
                return;
            };
            if name.starts_with("bedrock") {
                return;
            }
            let read = |size: usize| {
                let mut decoder = codec.stream_decoder(&head(200), &request);
                let mut events = Vec::new();
                let mut frames = Vec::new();
                let mut cut: Cut = match codec.framing() {
                    Framing::EventStream => {
                        let mut parser = EventStreamParser::new(1 << 16);
                        Box::new(move |chunk, out| match chunk {
                            Some(chunk) => parser.push(chunk, out),
                            None => parser.finish(out),
                        })
                    }
                    Framing::Lines => {
                        let mut parser = LineParser::new(1 << 16);
                        Box::new(move |chunk, out| match chunk {
                            Some(chunk) => parser.push(chunk, out),
                            None => parser.finish(out),
                        })
                    }
                };
                let chunks = data.chunks(size.max(1)).map(Some).chain([None]);
                for chunk in chunks {
                    let parsed = cut(chunk, &mut frames);
                    for frame in frames.drain(..) {
                        match decoder.push(frame, &mut events) {
                            Ok(Flow::Continue) => {}
                            Ok(Flow::Done) => return (events, None),
                            Err(e) => {
                                bounded(&e);
                                return (events, Some(e.kind()));
                            }
                        }
                    }
                    if let Err(e) = parsed {
                        return (events, Some(e.kind()));
                    }
                }
                let ended = decoder.end(&mut events);
                (events, ended.err().map(|e| e.kind()))
            };
            let whole = read(data.len());
            for size in [1, 5] {
                assert_eq!(read(size), whole, "{name} by {size} bytes");
            }
            let text: usize = whole
                .0
                .iter()
                .map(|e| match e {
                    StreamEvent::Text(t) | StreamEvent::Reasoning(t) => {
                        assert!(!t.is_empty(), "{name}: an event without text");
                        t.len()
                    }
                    _ => 0,
                })
                .sum();
            // Bytes that are no UTF-8 become a replacement of three bytes each.
            assert!(text <= 3 * data.len(), "{name}: out of nothing");
        });
    },
};

pub const CLASSIFY: Target = Target {
    name: "classify",
    words: &[
        "\"error\":",
        "\"message\":",
        "\"code\":",
        "\"type\":",
        "\"status\":",
        "\"details\":[",
        "\"@type\":",
        "\"retryDelay\":\"9s\"",
        "RetryInfo",
        "null",
        "429",
        "<html>",
        "[[[[",
        "\"metadata\":{",
        "\"__type\":",
    ],
    check: |data| {
        for adapters in [&EMBEDDERS, &GENERATORS, &RERANKERS] {
            // A refusal means the same for every model of a provider: one of each.
            let mut seen = Vec::new();
            each(adapters, |name, codec| {
                let plugin = name.split(' ').next().unwrap_or(name).to_owned();
                if seen.contains(&plugin) {
                    return;
                }
                seen.push(plugin);
                for status in [400, 429, 503] {
                    let e = codec.classify(&head(status), data);
                    bounded(&e);
                    assert!(
                        e.code().is_none_or(|c| c.len() < 1000),
                        "{name}: a code without end"
                    );
                }
            });
        }
    },
};
