//! The bytes of the scripted server: requests in, replies out.

use std::io::{Error, ErrorKind, Result};
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::reply::{End, Framing, Gate, Reply, Step};
use super::{Received, Shared};

/// Serves one connection to its end; true when the client ended it.
pub(super) async fn serve(stream: TcpStream, index: usize, shared: &Shared) -> bool {
    let mut connection = Connection {
        stream,
        buffer: BytesMut::new(),
        index,
    };
    let _ = connection.stream.set_nodelay(true);
    loop {
        let request = match connection.request().await {
            Ok(Some(request)) => request,
            Ok(None) => return true,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                shared.fail(format!("a request that is not HTTP/1.1: {error}"));
                return false;
            }
            Err(_) => return true,
        };
        let asked_to_close = request
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let reply = shared.reply_to(request);
        let result = connection.reply(&reply, shared).await;
        if reply.end == End::Reset && result.is_ok() {
            let _ = connection.stream.set_zero_linger();
        }
        let keep = result.is_ok() && reply.keeps_alive() && !asked_to_close;
        if result.is_ok() && !keep && reply.end != End::Reset {
            let _ = connection.stream.shutdown().await;
        }
        shared.change(|state| state.open_requests -= 1);
        if result.is_err() {
            return true;
        }
        if !keep {
            return false;
        }
    }
}

struct Connection {
    stream: TcpStream,
    buffer: BytesMut,
    index: usize,
}

impl Connection {
    /// The next request; nothing when the client closed the connection between two.
    async fn request(&mut self) -> Result<Option<Received>> {
        let head = loop {
            if self
                .buffer
                .first()
                .is_some_and(|first| !first.is_ascii_uppercase())
            {
                return Err(invalid("it does not begin with a method"));
            }
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.split_to(end);
                self.buffer.advance(4);
                break head.freeze();
            }
            if !self.more().await? {
                return Ok(None);
            }
        };
        let head = std::str::from_utf8(&head).map_err(|_| invalid("the head is not text"))?;
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(path), Some("HTTP/1.1")) =
            (first.next(), first.next(), first.next())
        else {
            return Err(invalid("the request line"));
        };
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| invalid(line))?;
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid(name))?;
            let value = HeaderValue::from_bytes(value.trim().as_bytes())
                .map_err(|_| invalid(name.as_str()))?;
            headers.append(name, value);
        }
        let (method, path) = (method.to_owned(), path.to_owned());
        let chunked = headers
            .get("transfer-encoding")
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"chunked"));
        let body = if chunked {
            self.chunked_body().await?
        } else {
            let length = headers
                .get("content-length")
                .map(|value| value.to_str().unwrap_or_default());
            let length = length
                .unwrap_or("0")
                .parse()
                .map_err(|_| invalid("content-length"))?;
            self.exactly(length).await?
        };
        Ok(Some(Received {
            method,
            path,
            headers,
            body,
            at: Instant::now(),
            connection: self.index,
        }))
    }

    async fn chunked_body(&mut self) -> Result<Bytes> {
        let mut body = BytesMut::new();
        loop {
            let line = self.line().await?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| invalid("a chunk's size"))?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(body.freeze());
            }
            body.extend_from_slice(&self.exactly(size).await?);
            self.line().await?;
        }
    }

    async fn line(&mut self) -> Result<Bytes> {
        loop {
            if let Some(end) = memchr::memmem::find(&self.buffer, b"\r\n") {
                let line = self.buffer.split_to(end).freeze();
                self.buffer.advance(2);
                return Ok(line);
            }
            self.need_more().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> Result<Bytes> {
        while self.buffer.len() < length {
            self.need_more().await?;
        }
        Ok(self.buffer.split_to(length).freeze())
    }

    async fn need_more(&mut self) -> Result<()> {
        match self.more().await? {
            true => Ok(()),
            false => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn more(&mut self) -> Result<bool> {
        Ok(self.stream.read_buf(&mut self.buffer).await? > 0)
    }

    async fn reply(&mut self, reply: &Reply, shared: &Shared) -> Result<()> {
        for gate in &reply.before_head {
            self.wait(gate).await?;
        }
        let mut pending = reply.head();
        let mut left = reply.cut.unwrap_or(usize::MAX);
        for step in &reply.steps {
            match step {
                Step::Wait(gate) => {
                    self.send(&mut pending, shared).await?;
                    self.wait(gate).await?;
                }
                Step::Send(bytes) => {
                    let bytes = &bytes[..bytes.len().min(left)];
                    left -= bytes.len();
                    match reply.framing {
                        _ if bytes.is_empty() => {}
                        Framing::Chunked => {
                            pending.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
                            pending.extend_from_slice(bytes);
                            pending.extend_from_slice(b"\r\n");
                        }
                        Framing::Length | Framing::Raw => pending.extend_from_slice(bytes),
                    }
                    self.send(&mut pending, shared).await?;
                }
            }
        }
        if reply.framing == Framing::Chunked && matches!(reply.end, End::KeepAlive | End::Close) {
            pending.extend_from_slice(b"0\r\n\r\n");
        }
        self.send(&mut pending, shared).await?;
        if reply.end == End::Hang {
            self.wait(&Gate::new()).await?;
        }
        Ok(())
    }

    async fn send(&mut self, pending: &mut Vec<u8>, shared: &Shared) -> Result<()> {
        if !pending.is_empty() {
            self.stream.write_all(pending).await?;
            self.stream.flush().await?;
            shared.change(|state| state.sent_bytes += pending.len());
            pending.clear();
        }
        Ok(())
    }

    /// Waits at a gate, and notices when the client goes away meanwhile.
    async fn wait(&mut self, gate: &Gate) -> Result<()> {
        loop {
            tokio::select! {
                biased;
                () = gate.passed() => return Ok(()),
                more = self.more() => match more? {
                    true => {} // a pipelined request; it is read later
                    false => return Err(ErrorKind::UnexpectedEof.into()),
                },
            }
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_owned())
}
