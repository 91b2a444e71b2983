//! What the scripted server answers.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;

/// A gate that holds a reply back until the test opens it. Clones are the same gate; once open it stays open.
#[derive(Clone)]
pub struct Gate(Arc<Semaphore>);

impl Gate {
    /// A closed gate.
    pub fn new() -> Gate {
        Gate(Arc::new(Semaphore::new(0)))
    }

    /// Opens the gate, for all who wait and all who come later.
    pub fn open(&self) {
        self.0.close();
    }

    /// Waits until the gate is open.
    pub async fn passed(&self) {
        // No permit is ever added: this ends with the error that says the gate was opened.
        let _ = self.0.acquire().await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Gate::new()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_closed() {
            "Gate(open)"
        } else {
            "Gate(closed)"
        })
    }
}

/// One reply: a head, and steps that send bytes, wait, or end the connection.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: Option<u16>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) framing: Framing,
    pub(super) before_head: Vec<Gate>,
    pub(super) steps: Vec<Step>,
    /// At most so many bytes of the body are sent.
    pub(super) cut: Option<usize>,
    pub(super) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunked,
    /// The bytes are the whole answer, head included, or its body ends with the connection.
    Raw,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Send(Bytes),
    Wait(Gate),
}

/// What happens after the last step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The body is ended as its framing wants and the connection is kept.
    KeepAlive,
    /// The body is ended as its framing wants and the connection is closed.
    Close,
    /// The connection is closed without ending the body.
    Abandon,
    /// The connection is reset.
    Reset,
    /// Nothing more, for as long as the client stays.
    Hang,
}

impl Reply {
    /// An answer with an empty body.
    pub fn status(status: u16) -> Reply {
        Reply {
            status: Some(status),
            headers: Vec::new(),
            framing: Framing::Length,
            before_head: Vec::new(),
            steps: Vec::new(),
            cut: None,
            end: End::KeepAlive,
        }
    }

    /// A JSON answer with a content length; `body` is text or a `serde_json::Value`.
    pub fn json(status: u16, body: impl ToString) -> Reply {
        Reply::status(status)
            .header("content-type", "application/json")
            .chunk(body.to_string())
    }

    /// A plain-text answer with a content length.
    pub fn text(status: u16, body: impl ToString) -> Reply {
        Reply::status(status)
            .header("content-type", "text/plain")
            .chunk(body.to_string())
    }

    /// An answer with a content length, any content type and any bytes.
    pub fn bytes(status: u16, content_type: &str, body: impl Into<Bytes>) -> Reply {
        Reply::status(status)
            .header("content-type", content_type)
            .chunk(body)
    }

    /// A chunked answer; add its parts with [`Reply::chunk`] and [`Reply::pause`].
    pub fn stream(status: u16, content_type: &str) -> Reply {
        let mut reply = Reply::status(status).header("content-type", content_type);
        reply.framing = Framing::Chunked;
        reply
    }

    /// A chunked `text/event-stream` with one chunk an event; each item is the event's data.
    pub fn sse<T: AsRef<str>>(events: impl IntoIterator<Item = T>) -> Reply {
        events
            .into_iter()
            .fold(Reply::stream(200, "text/event-stream"), |reply, data| {
                reply.event(data.as_ref())
            })
    }

    /// These bytes and nothing else, head included. The connection is closed after them.
    pub fn raw(bytes: impl Into<Bytes>) -> Reply {
        let mut reply = Reply::status(200).chunk(bytes);
        reply.status = None;
        reply.framing = Framing::Raw;
        reply.end = End::Close;
        reply
    }

    /// No answer: the connection is reset once the request is read.
    pub fn reset() -> Reply {
        Reply::raw(Bytes::new()).then_reset()
    }

    /// No answer: the connection is closed once the request is read.
    pub fn close() -> Reply {
        Reply::raw(Bytes::new())
    }

    /// No answer, ever; the connection stays open.
    pub fn hang() -> Reply {
        Reply::raw(Bytes::new()).then_hang()
    }

    /// Adds a header; one of the same name is kept beside it. A `content-length`, `transfer-encoding` or `connection` given here
    /// replaces the server's own.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    /// Adds bytes to the body, written and flushed on their own.
    #[must_use]
    pub fn chunk(mut self, bytes: impl Into<Bytes>) -> Reply {
        self.steps.push(Step::Send(bytes.into()));
        self
    }

    /// Adds a server-sent event with this data.
    #[must_use]
    pub fn event(self, data: &str) -> Reply {
        self.chunk(format!("data: {data}\n\n"))
    }

    /// Waits here, inside the body, until the gate is open.
    #[must_use]
    pub fn pause(mut self, gate: &Gate) -> Reply {
        self.steps.push(Step::Wait(gate.clone()));
        self
    }

    /// Waits until the gate is open before the head is sent.
    #[must_use]
    pub fn after(mut self, gate: &Gate) -> Reply {
        self.before_head.push(gate.clone());
        self
    }

    /// Sends only the first `bytes` of the body that the head announces, and then closes the connection.
    #[must_use]
    pub fn cut_after(mut self, bytes: usize) -> Reply {
        self.cut = Some(bytes);
        self.end = End::Abandon;
        self
    }

    /// Sends the body without any framing: it ends where the connection ends.
    #[must_use]
    pub fn until_close(mut self) -> Reply {
        self.framing = Framing::Raw;
        self.end = End::Close;
        self
    }

    /// Ends the body properly and closes the connection.
    #[must_use]
    pub fn then_close(mut self) -> Reply {
        self.end = End::Close;
        self
    }

    /// Closes the connection without ending the body (no last chunk).
    #[must_use]
    pub fn then_abandon(mut self) -> Reply {
        self.end = End::Abandon;
        self
    }

    /// Resets the connection without ending the body.
    #[must_use]
    pub fn then_reset(mut self) -> Reply {
        self.end = End::Reset;
        self
    }

    /// Keeps the connection open without ending the body.
    #[must_use]
    pub fn then_hang(mut self) -> Reply {
        self.end = End::Hang;
        self
    }

    /// The same reply, its body held back at its middle until the gate is open.
    #[must_use]
    pub fn halfway(mut self, gate: &Gate) -> Reply {
        let total: usize = self.steps.iter().map(Step::len).sum();
        let mut before = total / 2;
        let mut steps = Vec::with_capacity(self.steps.len() + 2);
        let mut held = false;
        for step in self.steps {
            match step {
                Step::Send(bytes) if !held && bytes.len() >= before => {
                    held = true;
                    steps.push(Step::Send(bytes.slice(..before)));
                    steps.push(Step::Wait(gate.clone()));
                    steps.push(Step::Send(bytes.slice(before..)));
                }
                step => {
                    before -= step.len().min(before);
                    steps.push(step);
                }
            }
        }
        self.steps = steps;
        self
    }

    /// The whole body.
    pub(crate) fn body(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for step in &self.steps {
            if let Step::Send(bytes) = step {
                body.extend_from_slice(bytes);
            }
        }
        body
    }

    /// The same reply with another body.
    pub(crate) fn with_body(mut self, body: impl Into<Bytes>) -> Reply {
        self.steps = vec![Step::Send(body.into())];
        self
    }

    /// The status, where it has one.
    pub(crate) fn status_code(&self) -> Option<u16> {
        self.status
    }

    /// The head as it goes on the wire; nothing for a raw reply.
    pub(super) fn head(&self) -> Vec<u8> {
        let Some(status) = self.status else {
            return Vec::new();
        };
        let mut head = format!("HTTP/1.1 {status} Scripted\r\n");
        let has = |wanted: &str| {
            self.headers
                .iter()
                .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
        };
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !has("content-length") && !has("transfer-encoding") {
            match self.framing {
                Framing::Length => {
                    let length: usize = self.steps.iter().map(Step::len).sum();
                    head.push_str(&format!("content-length: {length}\r\n"));
                }
                Framing::Chunked => head.push_str("transfer-encoding: chunked\r\n"),
                Framing::Raw => {}
            }
        }
        if self.end == End::Close && !has("connection") {
            head.push_str("connection: close\r\n");
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Whether the connection may carry another request afterwards.
    pub(super) fn keeps_alive(&self) -> bool {
        self.end == End::KeepAlive
            && !self.headers.iter().any(|(name, value)| {
                name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close")
            })
    }
}

impl Step {
    fn len(&self) -> usize {
        match self {
            Step::Send(bytes) => bytes.len(),
            Step::Wait(_) => 0,
        }
    }
}
