//! The real all-MiniLM-L6-v2, against vectors that transformers and torch made of the same texts (`minilm.json`), and as a
//! reranker of a small hand-made set.

use antfly_framework::content::Part;
use antfly_providers::embed::EmbedInput;
use antfly_providers::{EmbedRequest, Kind, Operation};
use serde_json::{Value, json};

use crate::support::*;

const DIM: usize = 384;

fn reference() -> (Vec<String>, Vec<f32>) {
    let about: Value = serde_json::from_str(include_str!("minilm.json")).unwrap();
    let texts = serde_json::from_value(about["texts"].clone()).unwrap();
    let (numbers, rest) = include_bytes!("minilm.f32").as_chunks::<4>();
    assert!(rest.is_empty());
    (
        texts,
        numbers.iter().map(|n| f32::from_le_bytes(*n)).collect(),
    )
}

/// What is asked, and which of a set's passages answers it.
const QUESTIONS: [(&str, usize); 12] = [
    ("How do bees tell each other where food is?", 0),
    ("Why does the moon look different through the month?", 1),
    ("What keeps bread dough rising?", 2),
    ("How can I make my old laptop start faster?", 3),
    ("Who pays if a parcel is damaged on the way?", 4),
    ("What should I do about a burn from hot water?", 5),
    ("Why are some rivers brown after a storm?", 6),
    ("How does a vaccine protect somebody?", 7),
    ("What is a rate limit for?", 8),
    ("When should tomatoes be planted outside?", 9),
    ("How do noise-cancelling headphones work?", 10),
    ("Why is glass see-through?", 11),
];

const PASSAGES: [&str; 12] = [
    "A worker returning to the hive dances in a figure of eight; the angle and length of the run show nestmates the direction and \
     distance of flowers.",
    "As our satellite circles the Earth we see more or less of its sunlit half, from a thin crescent to a full disc and back.",
    "Yeast eats sugar and gives off carbon dioxide; the gas is trapped by gluten and the loaf grows.",
    "Replace the hard disk with a solid-state drive, remove programs that run at login, and the machine will boot in seconds.",
    "The carrier is liable for goods broken in transit unless the sender packed them badly; claims must be made within seven days.",
    "Hold the scald under cool running water for twenty minutes, take off rings, and cover it loosely; do not use butter or ice.",
    "Heavy rain washes soil from fields and banks into the stream, and the suspended clay colours the water until it settles.",
    "It shows the immune system a harmless piece of a germ, so that antibodies and memory cells are ready when the real one comes.",
    "It caps how many requests a client may send in a given time, so that one caller can't use up a shared service.",
    "Seedlings go into the garden once nights stay above ten degrees and the danger of frost has passed, usually late in spring.",
    "A microphone picks up the sound around you and the electronics play its mirror image, so that the two waves cancel.",
    "Its electrons can't absorb the energy of visible light, so the rays pass straight through the disordered solid.",
];

#[tokio::test]
async fn vectors_equal_an_independent_implementations() {
    let (texts, reference) = reference();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert!(texts.iter().any(|t| t.split(' ').count() == 600));
    let vectors = embed(models(), MINILM, json!({}), &texts).await.unwrap();
    assert_eq!((vectors.len(), vectors.dim()), (texts.len(), DIM));
    for ((text, is), should) in texts
        .iter()
        .zip(vectors.iter())
        .zip(reference.chunks_exact(DIM))
    {
        let same = cosine(is, should);
        assert!(same >= 0.9999, "{same} for {text:?}");
        let apart = is
            .iter()
            .zip(should)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(apart < 2e-5, "{apart} for {text:?}");
        let length = is.iter().map(|v| v * v).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-5, "{length} for {text:?}");
    }
    // Each text found its own row: they are in order.
    let distinct = texts.iter().filter(|t| !t.trim().is_empty()).count();
    assert!(distinct > 20);
}

#[tokio::test]
async fn a_text_has_the_same_vector_alone_and_in_any_company() {
    let (texts, _) = reference();
    let texts: Vec<&str> = texts.iter().map(String::as_str).take(12).collect();
    let many = embed(models(), MINILM, json!({}), &texts).await.unwrap();
    let two_by_two = embed(models(), MINILM, json!({ "batch_size": 2 }), &texts)
        .await
        .unwrap();
    for (at, text) in texts.iter().enumerate() {
        let alone = embed(models(), MINILM, json!({}), &[text]).await.unwrap();
        for other in [&many, &two_by_two] {
            let same = cosine(alone.get(0).unwrap(), other.get(at).unwrap());
            assert!(same > 0.999_999, "{same} for {text:?}");
        }
    }
}

#[tokio::test]
async fn the_models_own_maximum_wins_over_the_tokenizers_stray_one() {
    // 200 words: more than the 128 tokens that tokenizer.json would leave, fewer than the model's 256.
    let word = |n: usize| ["river", "stone", "cloud"][n % 3];
    let long: Vec<&str> = (0..200).map(word).collect();
    let (long, short) = (long.join(" "), long[..126].join(" "));
    let longer = format!("{long} {long}");
    let texts = [long.as_str(), &short, &longer];
    let vectors = embed(models(), MINILM, json!({}), &texts).await.unwrap();
    let usage = vectors.usage.unwrap();
    assert_eq!(usage.input_tokens, Some(202 + 128 + 256));
    assert!(cosine(vectors.get(0).unwrap(), vectors.get(1).unwrap()) < 0.999_99);
}

#[tokio::test]
async fn what_becomes_of_a_long_text_is_the_entrys_choice() {
    let head = "apple ".repeat(400);
    let text = format!("{head}zebra");
    let texts = ["short", text.as_str()];
    let cut = |how: &str| json!({ "truncate": how });
    let end = embed(models(), MINILM, cut("END"), &texts).await.unwrap();
    let start = embed(models(), MINILM, cut("start"), &texts).await.unwrap();
    let apples = embed(models(), MINILM, json!({}), &["short", &head])
        .await
        .unwrap();
    assert!(cosine(end.get(1).unwrap(), apples.get(1).unwrap()) > 0.999_999);
    assert!(cosine(start.get(1).unwrap(), apples.get(1).unwrap()) < 0.999);
    let e = embed(models(), MINILM, cut("NONE"), &texts)
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidRequest, Some(1)));
    assert!(
        e.message().contains("256") || e.message().contains("254"),
        "{e}"
    );
}

#[tokio::test]
async fn only_the_models_own_dimensions_are_allowed() {
    let same = json!({ "dimensions": 384 });
    let vectors = embed(models(), MINILM, same, &["a text"]).await.unwrap();
    assert_eq!(vectors.dim(), DIM);
    let other = json!({ "dimensions": 256 });
    let e = embed(models(), MINILM, other, &["a text"])
        .await
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Config);
    assert!(
        e.message().starts_with("embedders.one.dimensions: 256"),
        "{e}"
    );
    assert!(e.message().contains("384"), "{e}");
}

#[tokio::test]
async fn media_and_empty_texts_are_refused_before_any_work() {
    let (client, _clock) = client_of(models());
    let embedder = client
        .embedder(&entry(Operation::Embed, MINILM, json!({})))
        .unwrap();
    let mut request = EmbedRequest::texts(["fine"]);
    request.inputs.push(EmbedInput::Parts(vec![
        Part::text("a picture"),
        Part::media(vec![1_u8], "image/png"),
    ]));
    let e = embedder.embed(request).await.unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::MediaNotAllowed, Some(1)));
    let e = embedder
        .embed(EmbedRequest::texts(["fine", ""]))
        .await
        .unwrap_err();
    assert_eq!((e.kind(), e.item()), (Kind::InvalidRequest, Some(1)));
    // Parts that are all text are one text.
    let mut request = EmbedRequest::texts(["one\ntwo"]);
    request.inputs.push(EmbedInput::Parts(vec![
        Part::text("one"),
        Part::text("two"),
    ]));
    let vectors = embedder.embed(request).await.unwrap();
    assert_eq!(vectors.get(0), vectors.get(1));
}

#[tokio::test]
async fn no_inputs_are_no_vectors() {
    let vectors = embed(models(), MINILM, json!({}), &[]).await.unwrap();
    assert!(vectors.is_empty());
}

async fn right_first(more: Value) -> usize {
    let mut right = 0;
    for (question, passage) in QUESTIONS {
        let scores = scores(models(), MINILM, more.clone(), question, &PASSAGES)
            .await
            .unwrap();
        assert_eq!(scores.len(), PASSAGES.len());
        let best = (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b]));
        right += usize::from(best == Some(passage));
    }
    right
}

#[tokio::test]
async fn by_cosine_the_right_passage_is_first() {
    let right = right_first(json!({})).await;
    assert!(right >= 10, "{right} of 12");
    let scores = scores(
        models(),
        MINILM,
        json!({ "scoring": "cosine" }),
        "same",
        &["same", "else"],
    );
    let scores = scores.await.unwrap();
    assert!(
        (scores[0] - 1.0).abs() < 1e-5 && scores[1] < 0.9,
        "{scores:?}"
    );
}

#[tokio::test]
async fn by_late_interaction_the_right_passage_is_first() {
    let right = right_first(json!({ "scoring": "late_interaction" })).await;
    assert!(right >= 10, "{right} of 12");
    // A text against itself: each token finds itself.
    let late = json!({ "scoring": "late_interaction" });
    let scores = scores(
        models(),
        MINILM,
        late,
        "four words are here",
        &["four words are here"],
    );
    assert!((scores.await.unwrap()[0] - 4.0).abs() < 1e-4);
}

#[tokio::test]
async fn of_a_json_document_the_named_field_is_ranked() {
    let more = json!({ "field": "body" });
    let documents = [
        r#"{"title": "what is a rate limit", "body": "Seedlings go out after the last frost."}"#,
        r#"{"title": "gardening", "body": "A rate limit caps how many requests a client may send."}"#,
        "A rate limit caps how many requests a client may send.",
    ];
    let scores = scores(models(), MINILM, more, "What is a rate limit?", &documents)
        .await
        .unwrap();
    assert!(scores[1] > scores[0], "{scores:?}");
    assert!((scores[1] - scores[2]).abs() < 1e-5, "{scores:?}");
}
