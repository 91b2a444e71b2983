//! The process's proxy variables, looked at before they are relied on: the HTTP library passes over one that it can't read, and requests
//! would then go out directly, without a word.

use crate::config::Env;
use crate::error::{Error, Result};

/// The first of a pair that is set counts, as for the HTTP library.
const VARIABLES: [[&str; 2]; 3] = [
    ["HTTP_PROXY", "http_proxy"],
    ["HTTPS_PROXY", "https_proxy"],
    ["ALL_PROXY", "all_proxy"],
];
const SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// Checks the proxy variables of this process, for what connects by them: the framework's own transport, or an SDK.
///
/// # Errors
/// `config` naming the variable that names no proxy. Its value is not shown, as it may hold a password.
pub fn check_proxy_variables() -> Result<()> {
    check(&Env::process())
}

fn check(env: &Env) -> Result<()> {
    // In a CGI program a request's own header arrives as HTTP_PROXY, and the library does not look at it.
    let is_cgi = env.get("REQUEST_METHOD")?.is_some();
    for pair in VARIABLES {
        if is_cgi && pair.contains(&"HTTP_PROXY") {
            continue;
        }
        for name in pair {
            let Some(value) = env.get(name)? else {
                continue;
            };
            if let Some(problem) = problem(&value) {
                return Err(Error::config(
                    name,
                    format!(
                        "this environment variable names no proxy: {problem}; {} is allowed (a host, or a URL with the scheme {}), or nothing. \
                         \"proxy\": \"none\" in the entry leaves the variables aside",
                        "http://proxy.example:3128",
                        SCHEMES.join(", ")
                    ),
                ));
            }
            break;
        }
    }
    Ok(())
}

/// What keeps the HTTP library from using a value.
fn problem(value: &str) -> Option<&'static str> {
    let Ok(uri) = value.parse::<http::Uri>() else {
        return Some("it is no URL");
    };
    if uri.scheme_str().is_some_and(|s| !SCHEMES.contains(&s)) {
        return Some("its scheme is of no proxy");
    }
    let Some(authority) = uri.authority() else {
        return Some("it has no host");
    };
    let text = authority.as_str();
    let host_and_port = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let port = host_and_port
        .strip_prefix(authority.host())
        .unwrap_or_default();
    match authority.host() {
        "" => Some("it has no host"),
        _ if port.is_empty() || authority.port_u16().is_some() => None,
        _ => Some("its port is no number from 0 to 65535"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_variable_that_names_no_proxy_is_an_error_that_names_it_and_shows_nothing_of_it() {
        for broken in [
            "http//user:hunter2@proxy:3128",
            "http://user:hunter2@proxy:port",
            "http://user:hunter2@proxy:99999",
            "http://user:hunter2@",
            "ftp://user:hunter2@proxy",
            "htp://user:hunter2@proxy:3128",
            "proxy of hunter2",
            "/hunter2",
            "http://hunter2 proxy",
        ] {
            for name in VARIABLES.into_iter().flatten() {
                let e = check(&Env::from_pairs([(name, broken)])).unwrap_err();
                assert_eq!(e.kind(), Kind::Config);
                assert!(
                    e.message().starts_with(&format!("{name}: ")),
                    "{broken}: {e}"
                );
                assert!(!format!("{e} {e:?}").contains("hunter2"), "{e}");
            }
        }
    }

    #[test]
    fn what_the_library_can_use_or_does_not_look_at_is_left_alone() {
        for good in [
            "http://proxy:3128",
            "http://user:pass@proxy:3128/",
            "https://proxy",
            "proxy:3128",
            "proxy.example",
            "10.0.0.1:8080",
            "http://[::1]:3128",
            "socks5h://127.0.0.1:1080",
            "",
        ] {
            for name in VARIABLES.into_iter().flatten() {
                check(&Env::from_pairs([(name, good)])).unwrap();
            }
        }
        check(&Env::empty()).unwrap();
        // The second of a pair, and a request's own header.
        check(&Env::from_pairs([
            ("HTTP_PROXY", "http://proxy"),
            ("http_proxy", "ftp://x"),
        ]))
        .unwrap();
        check(&Env::from_pairs([
            ("REQUEST_METHOD", "GET"),
            ("HTTP_PROXY", "ftp://x"),
        ]))
        .unwrap();
    }
}
