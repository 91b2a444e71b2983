//! Proves an adapter: what it declares, sends, reads, costs, and that the framework's promises hold with it.
//!
//! Give a [`Subject`] (the plugin, an entry, an environment) and a [`Wire`] (how its server speaks), and every check that the
//! adapter's capabilities call for is run against a scripted server on loopback, on a clock that moves only when told:
//!
//! ```
//! use antfly_framework::provider::Operation;
//! use antfly_framework::testing::conformance::{KEY, Row, Subject, Wire};
//! use antfly_framework::testing::{Received, Reply};
//! # use antfly_framework::testing::conformance::sample;
//!
//! struct Acme;
//!
//! impl Wire for Acme {
//!     fn texts(&self, request: &Received) -> Vec<String> {
//!         serde_json::from_value(request.json()["texts"].clone()).unwrap_or_default()
//!     }
//!     fn embeddings(&self, rows: &[Row<'_>]) -> Option<Reply> {
//!         let rows: Vec<_> = rows.iter().map(|r| serde_json::json!({"at": r.index, "vector": r.vector})).collect();
//!         Some(Reply::json(200, serde_json::json!({ "rows": rows })))
//!     }
//! }
//!
//! let acme = Subject::new(sample::PLUGIN, Operation::Embed, |server| {
//!     serde_json::json!({"provider": "sample", "model": "tiny", "url": server, "api_key": KEY})
//! });
//! let report = acme.scope(|server| vec![
//!     ("provider", "sample".into()), ("endpoint", server.into()), ("operation", "embed".into()),
//!     ("model", "tiny".into()), ("credential", "literal:*".into()), ("project", "none".into()),
//! ]).check(Acme);
//! report.assert();
//! ```
//!
//! A check that an adapter has no use for is skipped with a reason ([`Report::skipped`]); one that fails says what it checked,
//! what was expected and what was seen. [`Report::assert`] panics with all of them.
//!
//! # What is the author's to say
//! - In the [`Subject`]: the scope's fields (all of them, so that a missing one is seen), media, the default output cap.
//! - In the [`Wire`]: how to read a request, a good answer, the provider's own refusals. Statuses, broken bodies, redirects,
//!   cooldowns, deadlines, cancellations and drops are the kit's, and so are the forms of a stream: event streams (what
//!   [`Stream::sse`] gives) are sent with every line end, comments and pings, all streams cut, endless and for long.
//!
//! An adapter on the engine route is checked like one on the HTTP route: its SDK talks to the scripted server, whose streams may
//! be any bytes ([`Stream`]). One on the local route has no wire: [`Subject::check_local`].
//!
//! # Reading order
//! `subject` and `wire` (what an author gives), `report` (what comes back), `bench` (a server, a client and a clock for one
//! check), then `checks/`, one file a subject. `sample` is a small adapter that passes, for tests of the kit.

mod bench;
mod call;
mod checks;
mod log;
mod report;
pub mod sample;
mod subject;
mod verdict;
mod wire;

pub use report::{Outcome, Report, Status};
pub use subject::{KEY, Subject};
pub use wire::{Refusal, Row, Score, Stream, Wire};
