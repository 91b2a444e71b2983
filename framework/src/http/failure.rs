//! Why there is no answer, or none that can be read: what the transport and an engine's own connector say alike.

use std::error::Error as StdError;

use http::header::{CONTENT_ENCODING, HeaderMap};

use crate::error::{Error, Kind};

/// The causes of an error in one line, from the outside in, each said once and without hyper's own frame.
pub fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        let known =
            text.starts_with("client error (") || parts.iter().any(|part| part.contains(&text));
        if !known {
            parts.retain(|part| !text.contains(part.as_str()));
            parts.push(text);
        }
        next = cause.source();
    }
    if parts.is_empty() {
        error.to_string()
    } else {
        parts.join(": ")
    }
}

/// Whether these [`causes`] say that bytes came which are no HTTP answer. Asking again does not mend that.
pub fn is_not_http(causes: &str) -> bool {
    // hyper's words; its error has no kinds to look at.
    causes.contains(" parsed") || causes.contains("message head is too large")
}

/// The error of a successful answer in a content encoding that was not asked for: `invalid_response`. `None` where there is no
/// such encoding. Of a refusal in one, the status says enough, and its body is left out.
pub fn foreign_encoding(headers: &HeaderMap) -> Option<Error> {
    let encoding = headers
        .get_all(CONTENT_ENCODING)
        .into_iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(|part| String::from_utf8_lossy(part).trim().to_owned())
        .find(|encoding| !encoding.is_empty() && !encoding.eq_ignore_ascii_case("identity"))?;
    Some(Error::new(
        Kind::InvalidResponse,
        format!("the answer has the content encoding {encoding:?}, which was not asked for"),
    ))
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use http::HeaderValue;

    use super::*;

    #[derive(Debug)]
    struct Told(&'static str, Option<Box<Told>>);

    impl fmt::Display for Told {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl StdError for Told {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            self.1.as_deref().map(|told| told as _)
        }
    }

    fn told(words: &[&'static str]) -> Told {
        let (first, rest) = words.split_first().unwrap();
        Told(first, (!rest.is_empty()).then(|| Box::new(told(rest))))
    }

    #[test]
    fn each_cause_is_said_once_from_the_outside_in() {
        for (words, line) in [
            (&["a", "b"][..], "a: b"),
            (&["no: b", "b"], "no: b"),
            (&["b", "no: b"], "no: b"),
            (&["a", "client error (Connect)", "c"], "a: c"),
            (
                &["client error (SendRequest)"],
                "client error (SendRequest)",
            ),
        ] {
            assert_eq!(causes(&told(words)), line);
        }
    }

    #[test]
    fn any_encoding_but_identity_is_foreign_wherever_it_stands() {
        for (values, foreign) in [
            (&[][..], None),
            (&["identity"], None),
            (&["", " Identity , "], None),
            (&["gzip"], Some("gzip")),
            (&["identity, br"], Some("br")),
            (&["identity", "x-own"], Some("x-own")),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            let error = foreign_encoding(&headers);
            let seen = error
                .as_ref()
                .map(|e| (e.kind(), e.message().contains(foreign.unwrap_or("?"))));
            assert_eq!(
                seen,
                foreign.map(|_| (Kind::InvalidResponse, true)),
                "{values:?}"
            );
        }
    }
}
