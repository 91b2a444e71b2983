//! The whole proof of a third party's adapter.
use antfly_framework::contract::bytes::Bytes;
use antfly_framework::contract::serde_json::json;
use antfly_framework::testing::conformance::{KEY, Stream, Subject, Wire};
use antfly_framework::testing::{Received, Reply};
use antfly_framework::{Kind, Operation};

struct Parrot;

impl Wire for Parrot {
    fn generation(&self, text: &str) -> Option<Reply> {
        Some(Reply::json(200, json!({"said": text, "why": "stop"})))
    }

    fn stream(&self, texts: &[&str]) -> Option<Stream> {
        let said = texts.iter().map(|t| format!("{}\n", json!({ "said": t })));
        let why = format!("{}\n", json!({"why": "stop"}));
        Some(Stream::new("application/x-ndjson", said, [why], []))
    }

    fn output_cap(&self, request: &Received) -> Option<u64> {
        request.json()["most"].as_u64()
    }

    fn error(&self, status: u16, message: &str) -> Reply {
        Reply::json(status, json!({ "no": message }))
    }

    fn stream_errors(&self) -> Vec<(Bytes, Kind)> {
        vec![(Bytes::from("{\"no\": \"full\"}\n"), Kind::Overloaded)]
    }
}

#[test]
fn the_parrot_conforms() {
    let entry = |server: &str| json!({"provider": "parrot", "model": "polly", "url": server, "api_key": KEY});
    let report = Subject::new(parrot_provider::PLUGIN, Operation::Generate, entry)
        .scope(|server| {
            vec![
                ("provider", "parrot".to_owned()),
                ("endpoint", server.to_owned()),
                ("operation", "generate".to_owned()),
                ("model", "polly".to_owned()),
                ("credential", "literal:*".to_owned()),
            ]
        })
        .default_output_cap(200)
        .check(Parrot);
    println!("{report}");
    report.assert();
}
