//! The sample on the engine route: one HTTP/1.1 exchange on a connection of its own, as an SDK would have it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::spoil::spoil;
use super::stream::Decoder;
use super::{Fault, Sample};
use crate::attempt::Attempt;
use crate::error::{Error, Kind, Result};
use crate::generate::StreamEvent;
use crate::http::EventStreamParser;
use crate::provider::{
    Credential, EngineProvider, Flow, Head, HttpProvider as _, Prepared, Reply, StreamDecoder as _,
};

#[async_trait]
impl EngineProvider for Sample {
    async fn send(
        &self,
        prepared: &Prepared,
        credential: &Credential,
        attempt: Attempt,
    ) -> Result<Reply> {
        let (most, most_of_event) = self.bounds;
        if self.is(Fault::SendsTwice) {
            let mut first = self.open(prepared, credential).await?;
            first.rest(most).await?;
        }
        if self.is(Fault::FetchesTokenInside) {
            let mut request = self.raw(prepared, credential)?;
            request.bytes = b"GET /token HTTP/1.1\r\nconnection: close\r\n\r\n".to_vec();
            Exchange::open(&request).await?.rest(most).await?;
        }
        if self.is(Fault::LeavesWorkBehind) {
            drop(attempt);
            let request = self.raw(prepared, credential)?;
            let task = tokio::spawn(async move {
                let mut exchange = Exchange::open(&request).await?;
                let head = exchange.head.clone();
                Ok(Reply::Bytes(head, Bytes::from(exchange.rest(most).await?)))
            });
            return task.await.map_err(broken)?;
        }
        let mut exchange = match self.open(prepared, credential).await {
            Err(_) if self.is(Fault::RetriesItself) => self.open(prepared, credential).await?,
            opened => opened?,
        };
        if self.is(Fault::IgnoresRetryAfter) {
            exchange.head.headers.remove("retry-after");
        }
        if exchange.head.status == 429 {
            self.reword(&mut exchange.head.headers);
        }
        let head = exchange.head.clone();
        if head.status == 200
            && let Some(encoding) = foreign_encoding(&head)
            && !self.is(Fault::IgnoresEncoding)
        {
            let message = format!("the answer is encoded as {encoding:?}");
            return Err(Error::new(Kind::InvalidResponse, message).with_status(200));
        }
        if head.status == 200 && head.content_type() == "text/event-stream" {
            let reader = Reader {
                parser: EventStreamParser::new(match self.is(Fault::NoEventBound) {
                    true => usize::MAX,
                    false => most_of_event,
                }),
                decoder: Decoder::new(self.fault),
                fault: self.fault,
                most_of_event,
                pieces: 0,
                bytes: 0,
                hoard: VecDeque::new(),
            };
            return Ok(Reply::Events(head, events(exchange, reader, attempt)));
        }
        // The answer had begun: sending it again could run it twice.
        let most = match self.is(Fault::NoBodyBound) {
            true => usize::MAX,
            false => most,
        };
        let body = exchange
            .rest(most)
            .await
            .map_err(|e| e.with_status(head.status).with_retryable(false))?;
        drop(attempt);
        Ok(Reply::Bytes(head, Bytes::from(body)))
    }
}

/// A request as it goes on the wire, and where.
struct Raw {
    host: String,
    port: u16,
    bytes: Vec<u8>,
}

/// The encoding of an answer, where it has one.
fn foreign_encoding(head: &Head) -> Option<&str> {
    let encoding = head.header("content-encoding");
    encoding.filter(|e| !e.eq_ignore_ascii_case("identity"))
}

impl Sample {
    /// What the faults make of a 429's word.
    fn reword(&self, headers: &mut HeaderMap) {
        let told = headers.get("retry-after").and_then(|v| v.to_str().ok());
        let told = told.and_then(|v| v.parse::<u64>().ok());
        let wait = match self.fault {
            Some(Fault::AddsMargin) => told.map(|wait| wait + 1),
            Some(Fault::AdaptsRate) => {
                let before = self.refused.fetch_add(1, Ordering::Relaxed);
                Some(1 << before.min(20))
            }
            _ => None,
        };
        if let Some(wait) = wait {
            headers.insert("retry-after", HeaderValue::from(wait));
        }
    }

    async fn open(&self, prepared: &Prepared, credential: &Credential) -> Result<Exchange> {
        Exchange::open(&self.raw(prepared, credential)?).await
    }

    fn raw(&self, prepared: &Prepared, credential: &Credential) -> Result<Raw> {
        let host = prepared.url.host_str().unwrap_or_default().to_owned();
        let port = prepared.url.port_or_known_default().unwrap_or(80);
        let mut headers = prepared.headers.clone();
        headers.extend(self.authorize(prepared, credential)?);
        let query = prepared.url.query();
        let query = query.map(|q| format!("?{q}")).unwrap_or_default();
        let mut head = format!(
            "POST {}{query} HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: {}\r\nconnection: close\r\n",
            prepared.url.path(),
            prepared.body.len()
        );
        for (name, value) in &headers {
            let value = value.to_str().unwrap_or_default();
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        let bytes = [head.as_bytes(), &prepared.body].concat();
        Ok(Raw { host, port, bytes })
    }
}

fn broken(problem: impl std::fmt::Display) -> Error {
    Error::new(Kind::Transport, format!("the connection broke: {problem}"))
}

/// An answer whose head has been read.
struct Exchange {
    stream: TcpStream,
    head: Head,
    /// Read and not yet looked at.
    buffer: Vec<u8>,
    body: Body,
}

enum Body {
    /// So many bytes are left.
    Length(usize),
    /// Chunks; `true` once the last has come.
    Chunked(bool),
    /// Until the connection ends.
    Close,
}

impl Exchange {
    async fn open(request: &Raw) -> Result<Self> {
        let address = (request.host.as_str(), request.port);
        let mut stream = TcpStream::connect(address).await.map_err(broken)?;
        stream.write_all(&request.bytes).await.map_err(broken)?;
        stream.flush().await.map_err(broken)?;
        Exchange::begin(stream).await
    }

    async fn begin(mut stream: TcpStream) -> Result<Self> {
        let mut buffer = Vec::new();
        let end = loop {
            if let Some(end) = memchr::memmem::find(&buffer, b"\r\n\r\n") {
                break end;
            }
            if stream.read_buf(&mut buffer).await.map_err(broken)? == 0 {
                return Err(broken("no head"));
            }
        };
        let text = String::from_utf8_lossy(&buffer[..end]).into_owned();
        buffer.drain(..end + 4);
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .and_then(|l| l.split(' ').nth(1))
            .and_then(|s| s.parse().ok())
            .ok_or_else(|| broken("no status"))?;
        let mut headers = HeaderMap::new();
        for (name, value) in lines.filter_map(|l| l.split_once(':')) {
            if let (Ok(name), Ok(value)) = (
                HeaderName::from_bytes(name.as_bytes()),
                HeaderValue::from_str(value.trim()),
            ) {
                headers.append(name, value);
            }
        }
        let head = Head { status, headers };
        let body = match head.header("content-length").and_then(|l| l.parse().ok()) {
            Some(length) => Body::Length(length),
            None if head.header("transfer-encoding").is_some() => Body::Chunked(false),
            None => Body::Close,
        };
        Ok(Exchange {
            stream,
            head,
            buffer,
            body,
        })
    }

    async fn more(&mut self) -> Result<usize> {
        self.stream.read_buf(&mut self.buffer).await.map_err(broken)
    }

    /// The next bytes of the body; `None` at its end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            match self.body {
                Body::Length(0) | Body::Chunked(true) => return Ok(None),
                Body::Length(left) if !self.buffer.is_empty() => {
                    let take = left.min(self.buffer.len());
                    self.body = Body::Length(left - take);
                    return Ok(Some(self.buffer.drain(..take).collect()));
                }
                Body::Close if !self.buffer.is_empty() => {
                    return Ok(Some(std::mem::take(&mut self.buffer)));
                }
                Body::Chunked(false) => {
                    if let Some(chunk) = self.chunk()? {
                        self.body = Body::Chunked(chunk.is_empty());
                        if chunk.is_empty() {
                            continue;
                        }
                        return Ok(Some(chunk));
                    }
                }
                Body::Length(_) | Body::Close => {}
            }
            match (self.more().await?, &self.body) {
                (0, Body::Close) => return Ok(None),
                (0, _) => return Err(broken("the body broke off")),
                _ => {}
            }
        }
    }

    /// One whole chunk out of the buffer, if it is there.
    fn chunk(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(line) = memchr::memmem::find(&self.buffer, b"\r\n") else {
            return Ok(None);
        };
        let size = std::str::from_utf8(&self.buffer[..line]).unwrap_or("");
        let size = usize::from_str_radix(size, 16).map_err(broken)?;
        if self.buffer.len() < line + 2 + size + 2 {
            return Ok(None);
        }
        let chunk = self.buffer[line + 2..line + 2 + size].to_vec();
        self.buffer.drain(..line + 2 + size + 2);
        Ok(Some(chunk))
    }

    /// What is left of the body, `most` bytes of it at most.
    async fn rest(&mut self, most: usize) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        while let Some(bytes) = self.next().await? {
            body.extend_from_slice(&bytes);
            if body.len() > most {
                let message =
                    format!("the answer is larger than {most} bytes (max_response_bytes)");
                return Err(Error::new(Kind::InvalidResponse, message));
            }
        }
        Ok(body)
    }
}

/// How a streamed answer is read.
struct Reader {
    parser: EventStreamParser,
    decoder: Decoder,
    fault: Option<Fault>,
    most_of_event: usize,
    /// Read so far.
    pieces: usize,
    bytes: usize,
    /// Read and not handed on, for the fault that reads ahead.
    hoard: VecDeque<Vec<u8>>,
}

impl Reader {
    /// The next bytes of the body; `None` at its end.
    async fn next(&mut self, exchange: &mut Exchange) -> Result<Option<Vec<u8>>> {
        if self.fault == Some(Fault::Hoards) && self.pieces == 0 {
            while let Some(bytes) = exchange.next().await? {
                self.hoard.push_back(bytes);
            }
        }
        let read = match self.hoard.pop_front() {
            Some(bytes) => Some(bytes),
            None => exchange.next().await?,
        };
        self.pieces += 1;
        self.bytes += read.as_ref().map_or(0, Vec::len);
        match self.fault {
            Some(Fault::EndsLongStreams) if self.pieces > 6 => Err(broken("it took too long")),
            Some(Fault::BoundsWholeStream) if self.bytes > self.most_of_event => {
                Err(broken("larger than max_event_bytes"))
            }
            fault => Ok(read.map(|bytes| spoil(fault, &bytes))),
        }
    }
}

/// The events of a streamed answer. The attempt rides along and is dropped after the connection.
fn events(
    exchange: Exchange,
    reader: Reader,
    attempt: Attempt,
) -> BoxStream<'static, Result<StreamEvent>> {
    let state = (Some(exchange), reader, attempt);
    let batches = futures::stream::unfold(state, |(exchange, mut reader, attempt)| async move {
        let mut exchange = exchange?;
        let (mut frames, mut out) = (Vec::new(), Vec::new());
        let read = reader.next(&mut exchange).await;
        let mut done = !matches!(read, Ok(Some(_)));
        let mut failed = match read {
            Ok(Some(bytes)) => reader.parser.push(&bytes, &mut frames).err(),
            Ok(None) => reader.parser.finish(&mut frames).err(),
            Err(e) => Some(Error::new(Kind::StreamInterrupted, e.message().to_owned())),
        };
        let mut marked = false;
        for frame in frames {
            match reader.decoder.push(frame, &mut out) {
                Ok(Flow::Continue) => {}
                Ok(Flow::Done) => {
                    (done, marked) = (true, true);
                    break;
                }
                Err(e) => {
                    failed = Some(e);
                    break;
                }
            }
        }
        if done && !marked && failed.is_none() {
            failed = reader.decoder.end(&mut out).err();
        }
        done |= failed.is_some();
        let batch: Vec<_> = out.into_iter().map(Ok).chain(failed.map(Err)).collect();
        let next = (!done).then_some(exchange);
        Some((futures::stream::iter(batch), (next, reader, attempt)))
    });
    batches.flatten().boxed()
}
