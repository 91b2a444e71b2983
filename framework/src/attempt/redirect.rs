//! Redirects, hop by hop: what may be followed, and what a hop may carry.

use http::HeaderMap;
use http::header::LOCATION;
use url::Url;

use crate::config::Redirects;
use crate::error::{Error, Kind, Result};
use crate::http::is_credential_header;
use crate::provider::Head;

/// The most hops of one attempt chain.
pub(crate) const MAX_HOPS: u32 = 5;

/// Whether a status is a redirect at all.
pub(crate) fn is_redirect(status: u16) -> bool {
    matches!(status, 300..=303 | 305..=308)
}

/// Where the next hop goes, or why there is none.
pub(crate) fn next(rule: Redirects, from: &Url, head: &Head, hops: u32) -> Result<Url> {
    let refuse = |why: String| Error::new(Kind::Redirect, why).with_status(head.status);
    let target = head
        .headers
        .get(LOCATION)
        .and_then(|v| std::str::from_utf8(v.as_bytes()).ok())
        .filter(|v| !v.trim().is_empty())
        .and_then(|v| from.join(v.trim()).ok())
        .filter(|target| http::Uri::try_from(target.as_str()).is_ok())
        .ok_or_else(|| {
            refuse("the redirect names no usable target (header Location)".to_owned())
        })?;
    let shown = shown(&target);
    if !matches!(target.scheme(), "http" | "https") {
        return Err(refuse(format!("the redirect to {shown} leaves HTTP")));
    }
    if !target.username().is_empty() || target.password().is_some() {
        return Err(refuse(format!("the redirect to {shown} carries user info")));
    }
    if !matches!(head.status, 307 | 308) {
        return Err(refuse(format!(
            "the endpoint redirects a POST to {shown} with a status that would turn it into a GET"
        )));
    }
    match rule {
        Redirects::None => Err(refuse(format!("redirects are off; the target is {shown}"))),
        Redirects::SameOrigin if !same_origin(from, &target) => Err(refuse(format!(
            "the redirect leaves the origin for {shown}"
        ))),
        _ if from.scheme() == "https" && target.scheme() == "http" => {
            Err(refuse(format!("the redirect to {shown} drops TLS")))
        }
        _ if hops >= MAX_HOPS => Err(refuse(format!(
            "more than {MAX_HOPS} redirects; the last target is {shown}"
        ))),
        _ => Ok(target),
    }
}

/// Whether two URLs have one origin.
pub(crate) fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme()
        && a.host_str() == b.host_str()
        && a.port_or_known_default() == b.port_or_known_default()
}

/// Takes every credential header away, and all that `also` has.
pub(crate) fn strip(headers: &mut HeaderMap, also: &[&HeaderMap]) {
    let gone: Vec<_> = headers
        .keys()
        .filter(|name| is_credential_header(name) || also.iter().any(|a| a.contains_key(*name)))
        .cloned()
        .collect();
    for name in gone {
        headers.remove(name);
    }
}

/// A target as errors show it: no user info, no query.
fn shown(target: &Url) -> String {
    if !target.has_host() {
        return format!("a {:?} URL", target.scheme());
    }
    format!("{}{}", target.origin().ascii_serialization(), target.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, location: &str) -> Head {
        let mut headers = HeaderMap::new();
        if let Ok(v) = http::HeaderValue::from_str(location) {
            headers.insert(LOCATION, v);
        }
        Head { status, headers }
    }

    fn try_next(
        rule: Redirects,
        from: &str,
        status: u16,
        location: &str,
        hops: u32,
    ) -> Result<Url> {
        next(
            rule,
            &Url::parse(from).unwrap(),
            &head(status, location),
            hops,
        )
    }

    #[test]
    fn j04_only_307_and_308_are_followed_and_the_others_name_the_target() {
        for status in [307, 308] {
            let to = try_next(Redirects::Follow, "http://a/x", status, "/y", 0).unwrap();
            assert_eq!(to.as_str(), "http://a/y");
        }
        for status in [301, 302, 303] {
            let e = try_next(Redirects::Follow, "http://a/x", status, "/y?key=k", 0).unwrap_err();
            assert_eq!(e.kind(), Kind::Redirect);
            assert!(e.message().contains("http://a/y") && !e.message().contains("key=k"));
        }
    }

    #[test]
    fn tls_is_never_dropped_and_rules_are_kept() {
        assert!(try_next(Redirects::Follow, "https://a/", 307, "http://a/", 0).is_err());
        assert!(try_next(Redirects::SameOrigin, "http://a/", 307, "http://b/", 0).is_err());
        assert!(try_next(Redirects::SameOrigin, "http://a/", 307, "/z", 0).is_ok());
        assert!(try_next(Redirects::None, "http://a/", 307, "/z", 0).is_err());
        assert!(try_next(Redirects::Follow, "http://a/", 307, "/z", MAX_HOPS).is_err());
        for bad in [
            "",
            "  ",
            "javascript:alert(1)",
            "ftp://b/",
            "http://u:p@b/",
            "http://[::1",
        ] {
            assert!(
                try_next(Redirects::Follow, "http://a/", 307, bad, 0).is_err(),
                "{bad}"
            );
        }
    }
}
