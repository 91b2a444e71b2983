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

/// Secrets shorter than this are only taken out where they stand alone: else they would be found inside ordinary words.
const SHORT_SECRET_BYTES: usize = 4;

/// Takes the secrets of one call out of text. Its `Debug` shows how many there are and nothing else.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Every spelling of every secret, the longest first.
    needles: Vec<SecretString>,
}

impl Redactor {
    /// A redactor for these secrets: as they are, and base64, percent and JSON encoded.
    pub fn new<S: AsRef<str>>(secrets: impl IntoIterator<Item = S>) -> Self {
        let mut spellings: Vec<String> = Vec::new();
        for secret in secrets {
            let secret = secret.as_ref().trim();
            if secret.is_empty() {
                continue;
            }
            if secret.len() < SHORT_SECRET_BYTES {
                spellings.push(secret.to_owned());
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

    /// What a provider said, as an error may carry it: without the secrets, masked (see [`mask`]), and clipped to
    /// [`MAX_MESSAGE_BYTES`].
    pub fn scrub(&self, text: &str) -> String {
        let mut out = Cow::Borrowed(text);
        for needle in &self.needles {
            let needle = needle.expose_secret();
            if needle.len() < SHORT_SECRET_BYTES {
                out = Cow::Owned(replace_alone(&out, needle));
            } else if out.contains(needle) {
                out = Cow::Owned(out.replace(needle, REDACTED));
            }
        }
        clip(&mask(&out), MAX_MESSAGE_BYTES).into_owned()
    }
}

/// Takes `needle` out where no letter or digit touches it.
fn replace_alone(text: &str, needle: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before: Option<char> = None;
    while let Some(at) = rest.find(needle) {
        let (head, tail) = rest.split_at(at);
        let after = tail[needle.len()..].chars().next();
        let touched = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        out.push_str(head);
        let left = head.chars().next_back().or(before);
        if touched(left) || touched(after) {
            out.push_str(needle);
        } else {
            out.push_str(REDACTED);
        }
        before = needle.chars().next_back();
        rest = &tail[needle.len()..];
    }
    out.push_str(rest);
    out
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
                | "subject_token"
                | "assertion"
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
mod tests;
