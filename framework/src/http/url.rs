//! Endpoints: a base URL in one normal form, and the URLs below it.

use std::fmt;

use crate::error::{Error, Kind, Result};

/// A provider's base URL in its normal form, so that two spellings of one endpoint are equal.
///
/// `http` or `https` only; scheme and host in lower case; no default port, no trailing slash, no user info, no query and no
/// fragment. The path is kept as it is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint(String);

impl Endpoint {
    /// Reads a base URL. The error names the problem and never repeats the value, which may hold a password.
    pub fn parse(value: &str) -> Result<Endpoint> {
        let value = value.trim();
        let problem = |what: &str| Err(Error::new(Kind::Config, format!("the URL {what}")));
        if value.is_empty() {
            return problem("is empty");
        }
        if value.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
            return problem("holds white space, a control character or a backslash");
        }
        if !value.contains("://") {
            return problem("must begin with http:// or https://");
        }
        let parsed = match url::Url::parse(value) {
            Ok(parsed) => parsed,
            Err(error) => return problem(&format!("is not valid: {error}")),
        };
        if !matches!(parsed.scheme(), "http" | "https") {
            return problem("must begin with http:// or https://");
        }
        // A parser of URLs takes the first name after any number of slashes for the host.
        let no_host = value
            .split_once("://")
            .is_some_and(|(_, rest)| rest.starts_with('/'));
        if no_host || parsed.host_str().is_none_or(str::is_empty) {
            return problem("has no host");
        }
        if !parsed.username().is_empty() || parsed.password().is_some() || has_at(value) {
            return problem("must not hold a user name or password");
        }
        if parsed.query().is_some() {
            return problem("must not have a query");
        }
        if parsed.fragment().is_some() {
            return problem("must not have a fragment");
        }
        if parsed.port() == Some(0) {
            return problem("must not have port 0");
        }
        Ok(Endpoint(parsed.as_str().trim_end_matches('/').to_owned()))
    }

    /// This endpoint, or, when it has no path, the one with `path` (such as `/v1`).
    #[must_use]
    pub fn with_default_path(self, path: &str) -> Endpoint {
        let path = path.trim_matches('/');
        if self.path().is_empty() && !path.is_empty() {
            return Endpoint(format!("{}/{path}", self.0));
        }
        self
    }

    /// The URL of `path` below this endpoint, with exactly one slash between them. `path` may carry a query; what is dynamic
    /// in it went through [`encode_segment`]. A path that would climb out of the endpoint is refused.
    pub fn join(&self, path: &str) -> Result<url::Url> {
        let path = path.trim_start_matches('/');
        let (segments, _) = path.split_once(['?', '#']).unwrap_or((path, ""));
        if segments.split(['/', '\\']).any(is_dot_segment) {
            return Err(Error::new(
                Kind::InvalidRequest,
                "a path segment of the request is `.` or `..`",
            ));
        }
        url::Url::parse(&format!("{}/{path}", self.0)).map_err(|error| {
            Error::new(
                Kind::InvalidRequest,
                format!("the request's URL is not valid: {error}"),
            )
        })
    }

    /// The normal form, as `Display` prints it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Scheme, host and port: `https://api.example.com` or `http://127.0.0.1:8082`.
    pub fn origin(&self) -> &str {
        let end = self.0.len() - self.path().len();
        &self.0[..end]
    }

    /// The path: empty, or beginning with a slash and not ending with one.
    pub fn path(&self) -> &str {
        let host = self.0.find("://").map_or(0, |at| at + 3);
        let path = self.0[host..]
            .find('/')
            .map_or(self.0.len(), |at| host + at);
        &self.0[path..]
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.0)
    }
}

impl std::str::FromStr for Endpoint {
    type Err = Error;

    fn from_str(value: &str) -> Result<Self> {
        Endpoint::parse(value)
    }
}

/// One path segment with everything but unreserved characters percent-encoded: a slash becomes `%2F`, a colon `%3A`.
pub fn encode_segment(segment: &str) -> String {
    let mut out = String::with_capacity(segment.len());
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => {
                out.push('%');
                for nibble in [byte >> 4, byte & 15] {
                    out.push(char::from(b"0123456789ABCDEF"[usize::from(nibble)]));
                }
            }
        }
    }
    out
}

/// Whether the authority holds an `@`, also an empty user info (`http://@host`), which the parser drops silently.
fn has_at(value: &str) -> bool {
    let authority = value.split_once("://").map_or(value, |(_, rest)| rest);
    let authority = authority.trim_start_matches('/');
    let end = authority.find(['/', '?', '#']).unwrap_or(authority.len());
    authority[..end].contains('@')
}

fn is_dot_segment(segment: &str) -> bool {
    let plain = segment.replace("%2e", ".").replace("%2E", ".");
    plain == "." || plain == ".."
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(value: &str) -> Endpoint {
        Endpoint::parse(value).unwrap()
    }

    #[test]
    fn j01_trailing_slashes_never_double() {
        for base in ["http://h:1/v1", "http://h:1/v1/", "http://h:1/v1//"] {
            for path in ["chat/completions", "/chat/completions"] {
                let url = endpoint(base).join(path).unwrap();
                assert_eq!(url.as_str(), "http://h:1/v1/chat/completions");
            }
        }
        assert_eq!(
            endpoint("http://h///").join("x").unwrap().as_str(),
            "http://h/x"
        );
    }

    #[test]
    fn j02_a_path_prefix_is_kept_and_a_query_refused() {
        for base in ["http://127.0.0.1:9/a/b", "http://127.0.0.1:9/a/b/"] {
            let url = endpoint(base)
                .with_default_path("/v1")
                .join("c?alt=sse")
                .unwrap();
            assert_eq!(url.as_str(), "http://127.0.0.1:9/a/b/c?alt=sse");
        }
        for bad in ["http://h/a?x=1", "http://h?", "http://h/#f"] {
            assert_eq!(Endpoint::parse(bad).unwrap_err().kind(), Kind::Config);
        }
    }

    #[test]
    fn j15_an_encoded_slash_stays_encoded_once() {
        let model = encode_segment("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc");
        let url = endpoint("https://h")
            .join(&format!("model/{model}/invoke"))
            .unwrap();
        assert!(
            url.path()
                .ends_with("application-inference-profile%2Fabc/invoke"),
            "{url}"
        );
        assert!(url.path().contains("arn%3Aaws"));
    }

    #[test]
    fn spellings_of_one_endpoint_are_equal() {
        for spelling in [
            "HTTPS://API.Example.com",
            "https://api.example.com:443/",
            " https://api.example.com// ",
        ] {
            assert_eq!(endpoint(spelling), endpoint("https://api.example.com"));
        }
        assert_eq!(endpoint("http://h:80/V1/").to_string(), "http://h/V1");
        assert_eq!(endpoint("http://h:443").to_string(), "http://h:443");
        assert_eq!(
            endpoint("http://[::1]:8080/x").origin(),
            "http://[::1]:8080"
        );
        assert_eq!(endpoint("http://[::1]:8080/x").path(), "/x");
    }

    #[test]
    fn a_default_path_is_for_endpoints_without_one() {
        assert_eq!(
            endpoint("http://h/").with_default_path("/v1").as_str(),
            "http://h/v1"
        );
        assert_eq!(
            endpoint("http://h/x").with_default_path("/v1").as_str(),
            "http://h/x"
        );
    }

    #[test]
    fn bad_urls_are_refused_without_being_repeated() {
        for bad in [
            "",
            "   ",
            "h",
            "h:80",
            "ftp://h",
            "http://",
            "http:h",
            "http://u:hunter2@h",
            "http://@h",
            "http:///u:hunter2@h",
            "http://h/\n",
            "http://h h",
            "http:\\\\h",
            "http://h:99999",
            "http://h:0",
            "http://hunter2\u{0}@h",
        ] {
            if bad == "http://h/\n" {
                continue; // outer white space is trimmed
            }
            let error = Endpoint::parse(bad).unwrap_err();
            assert_eq!(error.kind(), Kind::Config, "{bad:?}");
            assert!(!error.to_string().contains("hunter2"));
        }
    }

    #[test]
    fn a_path_cannot_climb_out() {
        for path in ["../x", "a/../../x", "%2e%2E/x", "a/./b"] {
            assert!(endpoint("http://h/v1").join(path).is_err(), "{path}");
        }
    }
}
