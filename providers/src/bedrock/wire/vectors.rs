//! Answers with vectors: Titan's single one, Cohere's list, and Cohere's lists by type.

use antfly_framework::embed::{Embeddings, EmbeddingsBuilder};
use antfly_framework::generate::Usage;
use antfly_framework::provider::Head;
use antfly_framework::{Error, Kind, Result};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::super::error::in_place_of_answer;
use super::embed::Model;
use super::{counted, unreadable};

/// The vectors of `inputs` inputs.
pub(in crate::bedrock) fn decode(
    model: Model,
    head: &Head,
    body: &[u8],
    inputs: usize,
) -> Result<Embeddings> {
    let (lists, counted_here) = match model {
        Model::CohereV3 | Model::CohereV4 => cohere(head, body)?,
        _ => titan(head, body)?,
    };
    let mut vectors = EmbeddingsBuilder::new(inputs);
    for (index, vector) in lists.iter().enumerate() {
        vectors.put(index, vector)?;
    }
    let mut vectors = vectors.finish()?;
    let usage = |input_tokens| Usage {
        input_tokens: Some(input_tokens),
        ..Usage::default()
    };
    vectors.usage = counted_here.map(usage).or_else(|| counted(head));
    Ok(vectors)
}

type Lists = (Vec<Vec<f32>>, Option<u64>);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Titan {
    #[serde(default)]
    embedding: Option<Vec<f32>>,
    #[serde(default)]
    embeddings_by_type: Option<ByType<Vec<f32>>>,
    #[serde(default)]
    input_text_token_count: Value,
    /// The image model's way to say what is wrong with an input, under a status of success.
    #[serde(default)]
    message: Option<String>,
}

fn titan(head: &Head, body: &[u8]) -> Result<Lists> {
    let answer: Titan = serde_json::from_slice(body).map_err(|e| unreadable(head, body, e))?;
    let vector = answer
        .embedding
        .or(answer.embeddings_by_type.and_then(|b| b.0));
    let count = answer.input_text_token_count.as_u64();
    match (vector, answer.message) {
        (Some(vector), None) => Ok((vec![vector], count)),
        (_, Some(message)) if !message.is_empty() => Err(in_place_of_answer(head, body)
            .unwrap_or_else(|| {
                let what = format!("the model refused the input: {message}");
                Error::new(Kind::InvalidRequest, what)
            })),
        (Some(vector), _) => Ok((vec![vector], count)),
        (None, _) => Err(unreadable(head, body, "there is no embedding in it")),
    }
}

#[derive(Deserialize)]
struct Cohere {
    embeddings: Shapes,
}

fn cohere(head: &Head, body: &[u8]) -> Result<Lists> {
    let answer: Cohere = serde_json::from_slice(body).map_err(|e| unreadable(head, body, e))?;
    match answer.embeddings.0 {
        Some(lists) => Ok((lists, None)),
        None => Err(unreadable(head, body, "embeddings holds no type")),
    }
}

/// Both shapes of `embeddings`: a list of vectors, or lists by type.
struct Shapes(Option<Vec<Vec<f32>>>);

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Shapes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of vectors, or lists by type")
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut seq: A,
            ) -> std::result::Result<Shapes, A::Error> {
                let mut lists = Vec::new();
                while let Some(vector) = seq.next_element()? {
                    lists.push(vector);
                }
                Ok(Shapes(Some(lists)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Shapes, A::Error> {
                by_type(map).map(Shapes)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Values by type: the floats where they are, else the first there is.
struct ByType<T>(Option<T>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for ByType<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Types<T>(std::marker::PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for Types<T> {
            type Value = ByType<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object with a value for each type")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                map: A,
            ) -> std::result::Result<ByType<T>, A::Error> {
                by_type(map).map(ByType)
            }
        }
        deserializer.deserialize_map(Types(std::marker::PhantomData))
    }
}

fn by_type<'de, T: DeserializeOwned, A: MapAccess<'de>>(
    mut map: A,
) -> std::result::Result<Option<T>, A::Error> {
    let mut found = None;
    while let Some(name) = map.next_key::<String>()? {
        if name == "float" {
            // A type that was not asked for may be there as null.
            found = map.next_value::<Option<T>>()?.or(found);
        } else if found.is_none() {
            // One that is written in another way fails nothing: the floats may still come.
            found = T::deserialize(map.next_value::<Value>()?).ok();
        } else {
            map.next_value::<IgnoredAny>()?;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let mut headers = http::HeaderMap::new();
        headers.insert(
            "x-amzn-bedrock-input-token-count",
            http::HeaderValue::from_static("7"),
        );
        Head {
            status: 200,
            headers,
        }
    }

    #[test]
    fn each_shape_gives_the_same_vectors() {
        for body in [
            r#"{"embeddings": [[1, 2], [3, 4]], "id": "x", "response_type": "embeddings_floats", "texts": ["a", "b"]}"#,
            r#"{"embeddings": {"float": [[1, 2], [3, 4]]}, "response_type": "embeddings_by_type"}"#,
            r#"{"embeddings": {"int8": [[9, 9], [9, 9]], "float": [[1, 2], [3, 4]], "ubinary": null}}"#,
            r#"{"embeddings": {"uint8": [[1, 2], [3, 4]], "odd": null}}"#,
            // What is written in another way fails nothing, wherever it stands.
            r#"{"embeddings": {"base64": ["AAAA", "AAAA"], "odd": {"x": 1}, "float": [[1, 2], [3, 4]]}}"#,
            r#"{"embeddings": {"float": null, "odd": "x", "int8": [[1, 2], [3, 4]]}}"#,
        ] {
            let vectors = decode(Model::CohereV4, &head(), body.as_bytes(), 2).unwrap();
            assert_eq!(vectors.as_flat(), [1.0, 2.0, 3.0, 4.0], "{body}");
            assert_eq!(vectors.usage.unwrap().input_tokens, Some(7));
        }
        for body in [
            r#"{"embedding": [0.5, 1.5], "inputTextTokenCount": 3}"#,
            r#"{"embeddingsByType": {"binary": [9, 9], "float": [0.5, 1.5]}, "inputTextTokenCount": 3, "message": null}"#,
        ] {
            let vectors = decode(Model::TitanV2, &head(), body.as_bytes(), 1).unwrap();
            assert_eq!(vectors.as_flat(), [0.5, 1.5]);
            assert_eq!(vectors.usage.unwrap().input_tokens, Some(3));
        }
    }

    #[test]
    fn h04_h05_a_wrong_count_or_length_names_the_item() {
        for (body, item) in [
            (r#"{"embeddings": []}"#, 0),
            (r#"{"embeddings": [[1, 2]]}"#, 1),
            (r#"{"embeddings": [[1, 2], [1]]}"#, 1),
            (r#"{"embeddings": [[1, 2], []]}"#, 1),
            (r#"{"embeddings": [[1, 2], [1, 2], [1, 2]]}"#, 2),
        ] {
            let e = decode(Model::CohereV3, &head(), body.as_bytes(), 2).unwrap_err();
            assert_eq!(
                (e.kind(), e.item()),
                (Kind::InvalidResponse, Some(item)),
                "{body}"
            );
        }
    }

    #[test]
    fn e01_what_does_not_parse_is_named_with_status_and_sample() {
        for body in [
            "<html>",
            "{}",
            r#"{"embedding": null}"#,
            r#"{"embedding": ["a"]}"#,
            r#"{"embedding": [1e999]}"#,
        ] {
            let e = decode(Model::TitanV1, &head(), body.as_bytes(), 1).unwrap_err();
            assert_eq!(
                (e.kind(), e.status()),
                (Kind::InvalidResponse, Some(200)),
                "{body}"
            );
        }
        let e = decode(Model::CohereV3, &head(), br#"{"embeddings": {}}"#, 1).unwrap_err();
        assert_eq!(e.kind(), Kind::InvalidResponse);
    }

    #[test]
    fn a_count_that_is_none_takes_no_vector_away() {
        for count in ["-1", "3.0", "\"3\"", "null"] {
            let body = format!(r#"{{"embedding": [1], "inputTextTokenCount": {count}}}"#);
            let vectors = decode(Model::TitanV1, &head(), body.as_bytes(), 1).unwrap();
            assert_eq!(vectors.usage.unwrap().input_tokens, Some(7), "the head's");
        }
    }

    #[test]
    fn the_image_models_message_is_an_error() {
        let body = br#"{"embedding": null, "message": "image too large"}"#;
        let e = decode(Model::TitanImage, &head(), body, 1).unwrap_err();
        assert!(e.kind() == Kind::InvalidRequest && e.message().contains("image too large"));
    }
}
