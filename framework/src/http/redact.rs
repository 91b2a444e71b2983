//! Keeping secrets out of what providers say back to us.
//!
//! A [`Redactor`] knows the secrets of one call and takes them out of messages, codes and request ids, in the spellings an
//! answer is likely to echo them in. [`mask`] hides what merely looks like a credential. [`clip`] bounds what is left.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use http::HeaderName;
use secrecy::{ExposeSecret, SecretString};

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// The most bytes of a provider's message that an error keeps.
pub const MAX_MESSAGE_BYTES: usize = 2048;

/// Secrets shorter than this are not looked for: they would be found inside ordinary words.
const MIN_SECRET_BYTES: usize = 4;

/// Takes the secrets of one call out of text. Its `Debug` shows how many there are and nothing else.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Every spelling of every secret, the longest first.
    needles: Vec<SecretString>,
}

impl Redactor {
    /// A redactor for these secrets: as they are, and base64, percent and JSON encoded.
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut spellings: Vec<String> = Vec::new();
        for secret in secrets {
            let secret = secret.expose_secret().trim();
            if secret.len() < MIN_SECRET_BYTES {
                continue;
            }
            spellings.extend([
                secret.to_owned(),
                STANDARD_NO_PAD.encode(secret),
                URL_SAFE_NO_PAD.encode(secret),
                super::url::encode_segment(secret),
                secret.replace('\\', "\\\\").replace('"', "\\\""),
                secret.replace('/', "\\/"),
            ]);
        }
        spellings.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        spellings.dedup();
        Redactor {
            needles: spellings.into_iter().map(SecretString::from).collect(),
        }
    }

    /// `text` without the secrets.
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut out = Cow::Borrowed(text);
        for needle in &self.needles {
            let needle = needle.expose_secret();
            if out.contains(needle) {
                out = Cow::Owned(out.replace(needle, REDACTED));
            }
        }
        out
    }

    /// A provider's message as an error may carry it: scrubbed, masked, and clipped to [`MAX_MESSAGE_BYTES`].
    pub fn message(&self, text: &str) -> String {
        let scrubbed = self.scrub(text);
        clip(&mask(&scrubbed), MAX_MESSAGE_BYTES).into_owned()
    }

    /// A provider's code or request id as an error may carry it: scrubbed, masked, one line, at most 200 bytes.
    pub fn label(&self, text: &str) -> String {
        let scrubbed = self.scrub(text);
        let masked = mask(&scrubbed);
        clip(&masked.replace(char::is_control, " "), 200).into_owned()
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} needles)", self.needles.len())
    }
}

/// `text` with everything masked that looks like a credential: `Bearer ...`, `sk-...`, `AKIA...`, `x-api-key: ...`, signed
/// tokens and the like.
pub fn mask(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    let mut expects = false;
    let mut at = 0;
    while let Some(start) = text[at..].find(is_token_char).map(|found| at + found) {
        let end = text[start..]
            .find(|c| !is_token_char(c))
            .map_or(text.len(), |found| start + found);
        let gap = &text[at..start];
        let word = text[start..end].trim_end_matches('.');
        // The value follows its name directly: only `: = " '` and spaces may stand between.
        let follows = expects
            && gap
                .chars()
                .all(|c| matches!(c, ' ' | ':' | '=' | '"' | '\'' | '\\'));
        let separated = text[start + word.len()..]
            .trim_start_matches(['"', '\'', '\\', ' '])
            .starts_with([':', '=']);
        if (has_key_prefix(word) || follows) && looks_secret(word) {
            out.push_str(&text[copied..start]);
            out.push_str(REDACTED);
            copied = start + word.len();
            expects = false;
        } else {
            expects = is_scheme(word) || (is_credential_name(word) && separated);
        }
        at = end;
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// `text` cut to at most `max` bytes, an ellipsis included, never inside a character.
pub fn clip(text: &str, max: usize) -> Cow<'_, str> {
    const ELLIPSIS: char = '\u{2026}';
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(max.saturating_sub(ELLIPSIS.len_utf8()));
    let mut out = text[..end].to_owned();
    if max >= ELLIPSIS.len_utf8() {
        out.push(ELLIPSIS);
    }
    Cow::Owned(out)
}

/// Whether a header carries a credential or a signature, and so must never cross to another origin, be logged or be configured
/// as an extra header.
pub fn is_credential_header(name: &HeaderName) -> bool {
    let name = name.as_str();
    name.starts_with("amz-sdk-") || CREDENTIAL_HEADERS.contains(&name)
}

/// Whether a header belongs to the transport or the framework, and so can't be configured.
pub fn is_framing_header(name: &HeaderName) -> bool {
    FRAMING_HEADERS.contains(&name.as_str())
}

const CREDENTIAL_HEADERS: [&str; 19] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "cookie2",
    "x-api-key",
    "api-key",
    "apikey",
    "x-goog-api-key",
    "x-goog-iam-authorization-token",
    "x-amz-security-token",
    "x-amz-date",
    "x-amz-content-sha256",
    "x-amz-signature",
    "x-amz-credential",
    "x-auth-token",
    "x-access-token",
    "x-csrf-token",
    "x-forwarded-authorization",
    "ocp-apim-subscription-key",
];

const FRAMING_HEADERS: [&str; 17] = [
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "accept-encoding",
    "transfer-encoding",
    "connection",
    "proxy-connection",
    "keep-alive",
    "te",
    "upgrade",
    "expect",
    "trailer",
    "http2-settings",
    "date",
    "range",
    "via",
];

fn is_token_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | '+' | '~' | '*')
}

/// Names after which a value is a credential, when `:` or `=` stands between.
fn is_credential_name(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    CREDENTIAL_HEADERS.contains(&word.as_str())
        || matches!(
            word.as_str(),
            "api_key"
                | "key"
                | "token"
                | "access_token"
                | "id_token"
                | "refresh_token"
                | "client_secret"
                | "secret"
                | "password"
                | "signature"
                | "credential"
                | "secret_access_key"
                | "aws_secret_access_key"
                | "x-amz-security-token"
        )
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"]
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme))
}

fn has_key_prefix(word: &str) -> bool {
    [
        "sk-",
        "sk_",
        "rk-",
        "pk-",
        "AKIA",
        "ASIA",
        "AIza",
        "ya29.",
        "eyJ",
        "gsk_",
        "xai-",
        "hf_",
        "ghp_",
        "pplx-",
        "ABSK",
        "bedrock-api-key-",
    ]
    .iter()
    .any(|prefix| word.starts_with(prefix))
}

/// A run long and mixed enough to be a key and not a word.
fn looks_secret(word: &str) -> bool {
    let mixed = word
        .bytes()
        .any(|byte| byte.is_ascii_digit() || byte == b'*');
    word.len() >= 20 || (word.len() >= 8 && mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secret: &str) -> Redactor {
        Redactor::new([SecretString::from(secret.to_owned())])
    }

    #[test]
    fn e09_a_secret_is_scrubbed_in_every_spelling() {
        let secret = "pa/ss\"wo+rd\u{e9}?";
        let redactor = redactor(secret);
        for spelling in [
            secret.to_owned(),
            base64::engine::general_purpose::STANDARD.encode(secret),
            URL_SAFE_NO_PAD.encode(secret),
            "pa%2Fss%22wo%2Brd%C3%A9%3F".to_owned(),
            "pa/ss\\\"wo+rd\u{e9}?".to_owned(),
        ] {
            let out = redactor.scrub(&format!("bad key {spelling}!")).into_owned();
            assert!(
                out.starts_with("bad key [redacted]") && out.ends_with('!'),
                "{out}"
            );
        }
        assert!(!format!("{redactor:?}").contains("pa"));
    }

    #[test]
    fn short_secrets_are_not_looked_for() {
        assert_eq!(redactor("abc").scrub("abcdef"), "abcdef");
        assert_eq!(redactor("").scrub("text"), "text");
    }

    #[test]
    fn what_looks_like_a_credential_is_masked() {
        for (text, expected) in [
            (
                "Authorization: Bearer abc.def.12345",
                "Authorization: Bearer [redacted]",
            ),
            (
                "authorization=Basic dXNlcjpwYXNz1234==",
                "authorization=Basic [redacted]==",
            ),
            (
                "Incorrect API key provided: sk-proj-****abcd. You can",
                "Incorrect API key provided: [redacted]. You can",
            ),
            (
                "{\"x-api-key\": \"abcd1234efgh\"}",
                "{\"x-api-key\": \"[redacted]\"}",
            ),
            (
                "x-api-key: abcd1234efgh, next",
                "x-api-key: [redacted], next",
            ),
            (
                "GET /v1?key=AIzaSyA1234567890&x=1",
                "GET /v1?key=[redacted]&x=1",
            ),
            ("user AKIAIOSFODNN7EXAMPLE is not", "user [redacted] is not"),
            ("jwt eyJhbGciOiJ.eyJzdWIiOiI.c2lnbmF0", "jwt [redacted]"),
            (
                "\u{e9} sk-1234567890 \u{1f600}",
                "\u{e9} [redacted] \u{1f600}",
            ),
        ] {
            assert_eq!(mask(text), expected);
        }
    }

    #[test]
    fn ordinary_messages_are_left_alone() {
        for text in [
            "",
            "Bearer authentication is required",
            "the token is missing",
            "input must not be empty",
            "model text-embedding-3-small not found; task sk-learn",
            "rate limit of 120000 tokens reached for gpt-4o-mini-2024-07-18",
            "invalid api key",
            "req_0123456789abcdef",
        ] {
            assert_eq!(mask(text), text);
            assert!(matches!(mask(text), Cow::Borrowed(_)));
        }
    }

    #[test]
    fn e09_a_long_message_is_clipped_between_characters() {
        let long = "\u{1f600}".repeat(10_000);
        let out = Redactor::default().message(&long);
        assert!(out.len() <= MAX_MESSAGE_BYTES && out.ends_with('\u{2026}'));
        for max in 0..12 {
            assert!(clip("\u{1f600}a\u{e9}\u{1f600}", max).len() <= max);
        }
        assert_eq!(clip("abc", 3), "abc");
    }

    #[test]
    fn a_secret_at_the_cut_leaves_no_half_behind() {
        let text = format!("{}hunter2hunter2", "x".repeat(MAX_MESSAGE_BYTES - 8));
        assert!(!redactor("hunter2hunter2").message(&text).contains("hunter"));
    }

    #[test]
    fn j06_credential_and_framing_headers_are_known() {
        for name in [
            "authorization",
            "x-api-key",
            "api-key",
            "x-goog-api-key",
            "x-amz-security-token",
            "x-amz-date",
            "x-amz-content-sha256",
            "amz-sdk-invocation-id",
            "amz-sdk-request",
            "cookie",
            "proxy-authorization",
        ] {
            assert!(
                is_credential_header(&HeaderName::from_static(name)),
                "{name}"
            );
        }
        for name in [
            "host",
            "content-length",
            "accept-encoding",
            "transfer-encoding",
            "connection",
            "content-type",
            "te",
            "upgrade",
            "expect",
            "trailer",
        ] {
            assert!(is_framing_header(&HeaderName::from_static(name)), "{name}");
        }
        for name in [
            "x-title",
            "http-referer",
            "anthropic-version",
            "openai-organization",
            "user-agent",
            "accept",
        ] {
            let name = HeaderName::from_static(name);
            assert!(
                !is_credential_header(&name) && !is_framing_header(&name),
                "{name}"
            );
        }
    }
}
