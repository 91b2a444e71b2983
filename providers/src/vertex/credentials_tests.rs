use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use antfly_framework::testing::{Gate, Reply, Server};
use serde_json::json;

use super::*;

/// A token endpoint, and the tokens of a user who refreshes there.
struct Signed {
    server: Server,
    tokens: Arc<Tokens>,
    file: PathBuf,
}

impl Signed {
    /// `replies`: one a request.
    fn in_with(patience: Duration, replies: Vec<Reply>) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let server = Server::start(replies);
        let name = format!("google-tokens-{}-{number}.json", std::process::id());
        let file = std::env::temp_dir().join(name);
        let user = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
                          "token_uri": format!("{}/token", server.url())});
        std::fs::write(&file, user.to_string()).unwrap();
        let source = Source::File {
            path: file.clone(),
            kind: FileKind::AuthorizedUser,
            default: false,
        };
        let tokens = Arc::new(Tokens::new(source, patience));
        Signed {
            server,
            tokens,
            file,
        }
    }

    /// Asks for a token and goes away while the endpoint is still at it.
    async fn ask_and_go(&self) {
        let mut asked = Box::pin(self.tokens.token(None));
        assert!(futures::poll!(asked.as_mut()).is_pending());
        self.server.wait_for_requests(1).await;
    }

    async fn forgotten(&self) {
        until(|| self.tokens.built.lock().unwrap().is_none()).await;
    }
}

impl Drop for Signed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

const LONG: Duration = Duration::from_secs(60);

fn token(text: &str, expires_in: u64) -> Reply {
    Reply::json(
        200,
        json!({"access_token": text, "expires_in": expires_in, "token_type": "Bearer"}),
    )
}

async fn until(done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < LONG, "waited in vain");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_endpoint_that_hangs_is_given_up_though_whoever_asked_has_gone() {
    let short = Duration::from_millis(100);
    let replies = vec![Reply::hang(), token("good", 3600)];
    let signed = Signed::in_with(short, replies);
    signed.ask_and_go().await;
    signed.forgotten().await;
    // Nothing of it is left: its connection is closed.
    until(|| signed.server.open_requests() == 0).await;
    let got = signed.tokens.token(None).await.unwrap();
    assert_eq!(got.expose_secret(), "good");
}

/// An answer that came while nobody waited is none to the next who asks.
async fn is_not_kept(answer: Reply) {
    let gate = Gate::new();
    let replies = vec![answer.after(&gate), token("good", 3600)];
    let signed = Signed::in_with(LONG, replies);
    signed.ask_and_go().await;
    gate.open();
    signed.forgotten().await;
    let got = signed.tokens.token(None).await.unwrap();
    assert_eq!(got.expose_secret(), "good");
}

#[tokio::test]
async fn an_absurd_expiry_that_nobody_waited_for_is_no_panic_and_not_kept() {
    is_not_kept(token("t", u64::MAX)).await;
}

#[tokio::test]
async fn a_refresh_that_panicked_is_an_error_for_whoever_looks() {
    let replies = vec![token("t", u64::MAX)];
    let signed = Signed::in_with(LONG, replies);
    let (built, _) = signed.tokens.built().unwrap();
    until(|| built.look().is_some()).await;
    let told = built.look().unwrap().unwrap_err();
    assert!(failed(&told, &built.redactor).message().contains(UNUSABLE));
}

#[tokio::test]
async fn a_failure_that_came_while_nobody_waited_is_no_answer_to_the_next() {
    is_not_kept(Reply::status(400)).await;
}

#[tokio::test]
async fn who_comes_while_an_endpoint_hangs_waits_no_longer_than_who_came_first() {
    let patience = Duration::from_millis(1500);
    let replies = vec![Reply::hang(), token("good", 3600)];
    let signed = Signed::in_with(patience, replies);
    let began = Instant::now();
    signed.ask_and_go().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let error = signed.tokens.token(None).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Transport, "{error}");
    // Of its own it would have had the whole patience.
    assert!(
        began.elapsed() < Duration::from_millis(2400),
        "{:?}",
        began.elapsed()
    );
    let got = signed.tokens.token(None).await.unwrap();
    assert_eq!(got.expose_secret(), "good");
}

#[tokio::test]
async fn only_the_token_that_was_refused_is_replaced() {
    let replies = vec![token("first", 3600), token("second", 3600)];
    let signed = Signed::in_with(LONG, replies);
    let first = signed.tokens.token(None).await.unwrap();
    for _ in 0..2 {
        let second = signed.tokens.token(Some(&first)).await.unwrap();
        assert_eq!(second.expose_secret(), "second");
    }
}
