//! Canned answers over real HTTP, from a process of their own so that what they cost is nobody's.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;

pub const VECTORS: usize = 256;
pub const DIM: usize = 1536;
pub const DELTAS: usize = 2000;

/// The serving process; it ends with this value.
pub struct Process {
    child: Child,
    pub url: String,
}

impl Process {
    pub fn start() -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        Process {
            child,
            url: line.trim().to_owned(),
        }
    }

    /// Connections accepted so far, without the one that asks.
    #[allow(dead_code, reason = "not every bench asks")]
    pub fn connections(&self) -> String {
        self.get("about/connections")
    }

    /// Bytes of the body that a case's answer has.
    #[allow(dead_code, reason = "not every bench asks")]
    pub fn body_len(&self, case: &str) -> usize {
        self.get(&format!("about/{case}")).parse().unwrap()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://")).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.rsplit("\r\n").next().unwrap_or_default().to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    let accepted = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let (stream, accepted) = (stream.unwrap(), Arc::clone(&accepted));
        std::thread::spawn(move || connection(&stream, &accepted));
    }
}

/// Answers one connection's requests until it closes.
fn connection(stream: &TcpStream, accepted: &AtomicUsize) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    let mut counted = false;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let length = head
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map_or(0, |(_, value)| value.trim().parse().unwrap());
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default();
        if let Some(what) = path.strip_prefix("/about/") {
            let text = match what {
                "connections" => accepted.load(Ordering::Relaxed),
                case => body_len(answer(case)),
            };
            let _ = (&*stream).write_all(&whole("text/plain", &text.to_string()));
            return;
        }
        if !counted {
            accepted.fetch_add(1, Ordering::Relaxed);
            counted = true;
        }
        if (&*stream)
            .write_all(answer(path.split('/').nth(1).unwrap_or_default()))
            .is_err()
        {
            return;
        }
    }
}

fn answer(case: &str) -> &'static [u8] {
    match case.trim_end_matches("-bare").trim_end_matches("-bytes") {
        "chat" => &CHAT,
        "embed" => &EMBED,
        "floats" => &FLOATS,
        "base64" => &BASE64,
        _ => &STREAM,
    }
}

fn body_len(answer: &[u8]) -> usize {
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    answer.len() - head - 4
}

fn whole(content_type: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nx-request-id: req_1\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

static CHAT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    whole(
        "application/json",
        r#"{"id":"chatcmpl-1","object":"chat.completion","created":1764460800,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Limits are kept, whoever asks."},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":7,"total_tokens":16}}"#,
    )
});

static EMBED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    whole(
        "application/json",
        r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.0123,-0.0456,0.0789,-0.1011,0.1213,-0.1415,0.1617,-0.1819]}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}"#,
    )
});

/// Floats as a server prints them: single precision, shortest form.
fn vector(item: usize) -> impl Iterator<Item = f32> {
    (0..DIM).map(move |i| ((item * DIM + i) as f32 * 0.618_034).sin() * 0.05)
}

fn batch(one: impl Fn(usize) -> String) -> Vec<u8> {
    let items: Vec<String> = (0..VECTORS)
        .map(|i| {
            format!(
                r#"{{"object":"embedding","index":{i},"embedding":{}}}"#,
                one(i)
            )
        })
        .collect();
    whole(
        "application/json",
        &format!(
            r#"{{"object":"list","data":[{}],"model":"m","usage":{{"prompt_tokens":512,"total_tokens":512}}}}"#,
            items.join(",")
        ),
    )
}

static FLOATS: LazyLock<Vec<u8>> = LazyLock::new(|| {
    batch(|i| {
        let numbers: Vec<String> = vector(i).map(|v| v.to_string()).collect();
        format!("[{}]", numbers.join(","))
    })
});

static BASE64: LazyLock<Vec<u8>> = LazyLock::new(|| {
    batch(|i| {
        let bytes: Vec<u8> = vector(i).flat_map(f32::to_le_bytes).collect();
        format!(r#""{}""#, base64::prelude::BASE64_STANDARD.encode(bytes))
    })
});

static STREAM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut body = String::new();
    for i in 0..DELTAS {
        body.push_str(&format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1764460800,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" word{i}\"}},\"finish_reason\":null}}]}}\n\n"
        ));
    }
    body.push_str("data: {\"id\":\"chatcmpl-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
    whole("text/event-stream", &body)
});
