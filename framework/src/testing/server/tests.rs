use std::io::{Read, Write};
use std::net::TcpStream;

use super::*;

/// Sends raw bytes and reads to the end.
fn exchange(server: &Server, request: &str) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

#[test]
fn replies_come_in_order_on_one_connection_and_requests_are_recorded_in_full() {
    let server = Server::start([
        Reply::json(200, serde_json::json!({"a": 1})),
        Reply::sse(["x"]).header("x-a", "b").then_close(),
    ]);
    let answer = exchange(
        &server,
        "POST /a?b=c HTTP/1.1\r\nX-K: v\r\ncontent-length: 2\r\n\r\nhiPUT /d HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n",
    );
    assert_eq!(
        answer,
        "HTTP/1.1 200 Scripted\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"a\":1}\
         HTTP/1.1 200 Scripted\r\ncontent-type: text/event-stream\r\nx-a: b\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n\
         9\r\ndata: x\n\n\r\n0\r\n\r\n"
    );
    let requests = server.requests();
    assert_eq!(
        (requests[0].method.as_str(), requests[0].path.as_str()),
        ("POST", "/a?b=c")
    );
    assert_eq!(
        (requests[0].header("x-k"), requests[0].text().as_str()),
        (Some("v"), "hi")
    );
    assert_eq!(
        (requests[1].body.as_ref(), requests[1].connection),
        (&b"abcd"[..], 0)
    );
    assert!(requests[0].at <= requests[1].at);
}

#[test]
fn raw_bytes_go_out_as_they_are() {
    let server = Server::with(|request| Reply::raw(format!("you said {}", request.path)));
    assert_eq!(exchange(&server, "GET /x HTTP/1.1\r\n\r\n"), "you said /x");
}

#[tokio::test]
async fn a_gate_holds_a_reply_and_the_counts_tell() {
    let gate = Gate::new();
    let server = Server::always(Reply::text(200, "x").after(&gate).then_close());
    let calls: Vec<_> = (0..3)
        .map(|_| {
            let address = server.address();
            tokio::task::spawn_blocking(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).unwrap();
                answer
            })
        })
        .collect();
    server.wait_for_requests(3).await;
    assert_eq!((server.open_requests(), server.open_connections()), (3, 3));
    gate.open();
    for call in calls {
        assert!(call.await.unwrap().ends_with("\r\n\r\nx"));
    }
    server.wait_until_idle().await;
    assert_eq!((server.peak_open_requests(), server.connections()), (3, 3));
}

#[tokio::test]
async fn a_client_that_goes_away_is_noticed_while_the_reply_waits() {
    for reply in [
        Reply::hang(),
        Reply::stream(200, "x/y").pause(&Gate::new()),
        Reply::status(200).after(&Gate::new()),
    ] {
        let server = Server::always(reply);
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        server.wait_for_requests(1).await;
        assert_eq!(server.disconnects(), 0);
        drop(stream);
        server.wait_for_disconnect().await;
        server.wait_until_idle().await;
    }
}

#[test]
fn a_script_that_is_too_short_or_panics_or_hears_no_http_is_a_failure() {
    let server = Server::start([]);
    assert!(
        exchange(&server, "GET / HTTP/1.1\r\nconnection: close\r\n\r\n")
            .starts_with("HTTP/1.1 599 ")
    );
    assert_eq!(server.take_failures().len(), 1);
    let server = Server::with(|_| std::panic::resume_unwind(Box::new("no")));
    assert!(
        exchange(&server, "GET / HTTP/1.1\r\n\r\nNOT HTTP\r\n\r\n").starts_with("HTTP/1.1 599 ")
    );
    assert_eq!(server.take_failures().len(), 2);
}

#[test]
#[should_panic(expected = "no reply for GET /x")]
fn a_failure_fails_the_test() {
    let server = Server::start([]);
    exchange(&server, "GET /x HTTP/1.1\r\n\r\nBAD\r\n\r\n");
}
