use super::*;
use crate::config::ProxySetting;
use crate::http::{ERROR_BODY_BYTES, EventStreamParser, read_bounded, read_error_body};
use crate::testing::{Gate, Reply, Server};
use http::Request;

fn transport() -> Transport {
    Transport::new(&TransportConfig {
        proxy: ProxySetting::None,
        ..TransportConfig::default()
    })
    .unwrap()
}

impl Transport {
    async fn post(&self, request: Request<Bytes>) -> Result<Response<ResponseBody>> {
        let (parts, body) = request.into_parts();
        let url = Url::parse(&parts.uri.to_string()).unwrap();
        self.send(&url, parts.headers, body).await
    }
}

fn post(server: &Server, path: &str) -> Request<Bytes> {
    Request::post(format!("{}{path}", server.url()))
        .header("authorization", "Bearer hunter2")
        .body(Bytes::from_static(b"{\"a\":1}"))
        .unwrap()
}

async fn read(response: Response<ResponseBody>) -> Bytes {
    read_bounded(response.into_body(), 1 << 20).await.unwrap()
}

#[tokio::test]
async fn a_request_arrives_as_it_was_given_and_connections_are_reused() {
    let server = Server::always(Reply::json(200, "{\"ok\":true}").header("x-request-id", "r1"));
    let transport = transport();
    for _ in 0..3 {
        let response = transport
            .post(post(&server, "/v1/a%2Fb?x=1"))
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-request-id"], "r1");
        assert_eq!(read(response).await, "{\"ok\":true}");
    }
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(server.connections(), 1);
    assert_eq!(
        (requests[0].method.as_str(), requests[0].path.as_str()),
        ("POST", "/v1/a%2Fb?x=1")
    );
    assert_eq!(requests[0].header("accept-encoding"), Some("identity"));
    assert_eq!(requests[0].header("authorization"), Some("Bearer hunter2"));
    assert_eq!(requests[0].header("content-length"), Some("7"));
    assert_eq!(requests[0].json()["a"], 1);
}

#[tokio::test]
async fn j04_a_redirect_is_handed_back_and_not_followed() {
    let server = Server::always(Reply::status(307).header("location", "/other"));
    let response = transport().post(post(&server, "/")).await.unwrap();
    assert_eq!(response.status(), 307);
    assert_eq!(response.headers()["location"], "/other");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn e13_a_reset_or_close_without_an_answer_is_one_retryable_transport_error() {
    for reply in [Reply::reset(), Reply::close()] {
        let server = Server::always(reply);
        let error = transport()
            .post(post(&server, "/secret-path?q=hunter2"))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), Kind::Transport);
        assert!(error.is_retryable());
        let shown = format!("{error} {error:?}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("secret-path"),
            "{shown}"
        );
        assert_eq!(server.requests().len(), 1, "nothing is sent again");
    }
}

#[tokio::test]
async fn e13_a_reused_connection_that_is_reset_is_an_error_and_not_a_second_request() {
    let server = Server::start([Reply::json(200, "{}"), Reply::reset()]);
    let transport = transport();
    read(transport.post(post(&server, "/")).await.unwrap()).await;
    let error = transport.post(post(&server, "/")).await.unwrap_err();
    assert!(error.is_retryable() && error.kind() == Kind::Transport);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_refused_connection_says_so() {
    let server = Server::start([]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let request = Request::get(format!("http://{address}/x?q=hunter2"))
        .body(Bytes::new())
        .unwrap();
    let error = transport().post(request).await.unwrap_err();
    assert!(error.is_retryable());
    assert!(
        error
            .message()
            .starts_with(&format!("can't connect to http://{address}: ")),
        "{error}"
    );
    assert!(
        error.message().contains("refused") && !error.message().contains("hunter2"),
        "{error}"
    );
    drop(server);
}

#[tokio::test]
async fn tls_to_a_server_without_tls_is_a_transport_error() {
    let server = Server::always(Reply::close());
    let url = server.url().replace("http://", "https://");
    let error = transport()
        .post(Request::get(url).body(Bytes::new()).unwrap())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Transport, "{error}");
    server.take_failures(); // a TLS greeting is not HTTP
}

#[tokio::test]
async fn bytes_that_are_not_http_are_not_worth_a_retry() {
    let server = Server::always(Reply::raw("SMTP ready\r\n\r\n"));
    let error = transport().post(post(&server, "/")).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Transport);
    assert!(!error.is_retryable(), "{error}");
}

#[tokio::test]
async fn d03_half_a_body_is_an_error_that_is_not_retryable() {
    for reply in [
        Reply::json(200, "{\"ok\":true}").cut_after(5),
        Reply::json(200, "{\"ok\":true}").cut_after(5).then_reset(),
        Reply::stream(200, "text/plain")
            .chunk("12345")
            .then_abandon(),
    ] {
        let server = Server::always(reply);
        let mut body = transport()
            .post(post(&server, "/"))
            .await
            .unwrap()
            .into_body();
        let error = loop {
            match body.chunk().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("half a body taken for a whole one"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), Kind::Transport);
        assert!(!error.is_retryable());
        assert!(error.message().contains("after 5 bytes"), "{error}");
    }
}

#[tokio::test]
async fn d09_an_encoding_that_was_not_asked_for_is_a_typed_error() {
    for encoding in ["gzip", "br", "identity, zstd", "made-up"] {
        let server = Server::always(
            Reply::bytes(200, "text/event-stream", "\x1f\u{8b}")
                .header("content-encoding", encoding),
        );
        let error = transport().post(post(&server, "/")).await.unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidResponse);
        assert_eq!(error.status(), Some(200));
        assert!(!error.is_retryable());
    }
    let server = Server::always(Reply::json(200, "{}").header("content-encoding", "identity"));
    assert_eq!(
        read(transport().post(post(&server, "/")).await.unwrap()).await,
        "{}"
    );
}

#[tokio::test]
async fn e02_an_encoded_error_page_keeps_its_status() {
    let server =
        Server::always(Reply::bytes(502, "text/html", "\x1f").header("content-encoding", "gzip"));
    let response = transport().post(post(&server, "/")).await.unwrap();
    assert_eq!(response.status(), 502);
    assert!(read(response).await.is_empty());
}

#[tokio::test]
async fn an_announced_body_over_the_bound_is_refused_before_it_is_read() {
    let gate = Gate::new();
    let server = Server::always(
        Reply::status(200)
            .header("content-length", 1_u64 << 40)
            .pause(&gate)
            .then_hang(),
    );
    let body = transport()
        .post(post(&server, "/"))
        .await
        .unwrap()
        .into_body();
    let error = read_bounded(body, 1000).await.unwrap_err();
    assert!(
        error.kind() == Kind::InvalidResponse && error.message().contains("1000"),
        "{error}"
    );
    server.wait_for_disconnect().await;
}

#[tokio::test]
async fn b18_a_slow_error_body_is_read_whole_and_a_broken_one_as_far_as_it_came() {
    let gate = Gate::new();
    let server = Server::start([
        Reply::status(400)
            .chunk("{\"error\":")
            .pause(&gate)
            .chunk("\"x\"}"),
        Reply::status(400)
            .header("content-length", 100)
            .chunk("{\"err")
            .then_reset(),
        Reply::status(400).chunk(vec![b'x'; 10 << 20]),
    ]);
    let transport = transport();
    let body = transport
        .post(post(&server, "/"))
        .await
        .unwrap()
        .into_body();
    gate.open();
    assert_eq!(read_error_body(body).await, "{\"error\":\"x\"}");
    let body = transport
        .post(post(&server, "/"))
        .await
        .unwrap()
        .into_body();
    assert_eq!(read_error_body(body).await, "{\"err");
    let body = transport
        .post(post(&server, "/"))
        .await
        .unwrap()
        .into_body();
    assert_eq!(read_error_body(body).await.len(), ERROR_BODY_BYTES);
}

#[tokio::test]
async fn a_stream_arrives_event_by_event_and_dropping_it_closes_the_connection() {
    let gate = Gate::new();
    let server = Server::always(
        Reply::sse(["{\"a\":1}"])
            .pause(&gate)
            .event("{\"a\":2}")
            .then_hang(),
    );
    let mut body = transport()
        .post(post(&server, "/"))
        .await
        .unwrap()
        .into_body();
    let mut parser = EventStreamParser::new(1000);
    let mut events = Vec::new();
    while events.is_empty() {
        parser
            .push(&body.chunk().await.unwrap().unwrap(), &mut events)
            .unwrap();
    }
    assert_eq!(events[0].data, "{\"a\":1}");
    assert_eq!(server.open_requests(), 1);
    gate.open();
    while events.len() < 2 {
        parser
            .push(&body.chunk().await.unwrap().unwrap(), &mut events)
            .unwrap();
    }
    drop(body);
    server.wait_for_disconnect().await;
    server.wait_until_idle().await;
}

#[test]
fn each_runtime_has_its_own_pool_and_takes_it_along() {
    let server = Server::always(Reply::json(200, "{}"));
    let transport = transport();
    let kept = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for _ in 0..3 {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        for runtime in [&runtime, &kept, &runtime, &kept] {
            let response = runtime
                .block_on(transport.post(post(&server, "/")))
                .unwrap();
            runtime.block_on(read(response));
        }
        assert_eq!(transport.pools.len(), 2);
        drop(runtime);
        assert_eq!(transport.pools.len(), 1);
    }
    assert_eq!(
        server.connections(),
        4,
        "one for the runtime that stayed, one for each that went"
    );
    let metrics = kept.metrics();
    drop(transport);
    kept.block_on(async {
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn sending_without_a_runtime_is_an_error() {
    let server = Server::start([]);
    let send = transport().post(post(&server, "/")).now_or_never_for_test();
    assert_eq!(send.unwrap_err().kind(), Kind::Transport);
}

trait NowOrNever: Future + Sized {
    fn now_or_never_for_test(self) -> Self::Output {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(self).poll(&mut context) {
            std::task::Poll::Ready(output) => output,
            std::task::Poll::Pending => panic!("pending"),
        }
    }
}

impl<F: Future> NowOrNever for F {}

#[tokio::test]
async fn a_proxy_is_used_for_everything() {
    let proxy = Server::always(Reply::json(200, "\"proxied\""));
    let transport = Transport::new(&TransportConfig {
        proxy: ProxySetting::Url(proxy.url().replace("http://", "http://user:hunter2@")),
        ..TransportConfig::default()
    })
    .unwrap();
    let request = Request::get("http://provider.invalid/v1")
        .body(Bytes::new())
        .unwrap();
    assert_eq!(
        read(transport.post(request).await.unwrap()).await,
        "\"proxied\""
    );
    assert_eq!(proxy.requests()[0].path, "http://provider.invalid/v1");
    assert!(proxy.requests()[0].header("proxy-authorization").is_some());
}
