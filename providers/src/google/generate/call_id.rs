//! The ids of tool calls.
//!
//! Google's calls may have no id, and they may carry a *thought signature* that must come back with the call in the next turn, or the
//! model refuses it. Both travel in the one thing that callers hand back untouched: the call's id.

/// Between the id and the signature.
const SIGNATURE: &str = "~thought~";
/// What an id of our own begins with.
const OWN: &str = "gcall-";

/// What a call's id holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CallId<'a> {
    /// The provider's id, where it sent one.
    pub(super) id: Option<&'a str>,
    /// The thought signature, as it came.
    pub(super) signature: Option<&'a str>,
}

impl<'a> CallId<'a> {
    /// Reads an id that a caller hands back.
    pub(super) fn parse(text: &'a str) -> Self {
        let (id, signature) = match text.rsplit_once(SIGNATURE) {
            Some((id, signature)) => (id, Some(signature)),
            None => (text, None),
        };
        CallId {
            id: Some(id).filter(|id| !id.is_empty() && !id.starts_with(OWN)),
            signature: signature.filter(|signature| !signature.is_empty()),
        }
    }
}

/// The id of an answer's call number `number`. `answer` is the answer's own id, so that calls of several turns differ.
pub(super) fn make(
    sent: Option<&str>,
    signature: Option<&str>,
    answer: Option<&str>,
    number: usize,
) -> String {
    let mut id = match (sent, answer) {
        (Some(sent), _) => sent.to_owned(),
        (None, Some(answer)) => format!("{OWN}{answer}-{number}"),
        (None, None) => format!("{OWN}{number}"),
    };
    if let Some(signature) = signature {
        id.push_str(SIGNATURE);
        id.push_str(signature);
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_comes_back_and_what_was_made_up_does_not() {
        for (sent, signature) in [
            (Some("fc-1"), Some("Cg==")),
            (Some("fc-1"), None),
            (None, Some("a/b+c=")),
            (None, None),
        ] {
            let id = make(sent, signature, Some("resp~1"), 0);
            let back = CallId::parse(&id);
            assert_eq!((back.id, back.signature), (sent, signature), "{id}");
        }
        assert_ne!(
            make(None, None, Some("a"), 0),
            make(None, None, Some("b"), 0)
        );
        assert_ne!(make(None, None, None, 0), make(None, None, None, 1));
    }
}
