//! How the faults of the sample's engine misread an event stream's bytes: each is turned into what the faulty reader makes of it.

use super::Fault;

/// What a reader with this fault sees of a chunk.
pub(super) fn spoil(fault: Option<Fault>, chunk: &[u8]) -> Vec<u8> {
    let as_seen: &[(&[u8], &[u8])] = match fault {
        Some(Fault::OnlyKnowsLf) => &[(b"\r", b" ")],
        Some(Fault::SplitsAtSeparators) => &[
            ("\u{2028}".as_bytes(), b"\n"),
            ("\u{2029}".as_bytes(), b"\n"),
            ("\u{85}".as_bytes(), b"\n"),
        ],
        Some(Fault::WantsASpace) => &[(b"data:{", b"unknown:{")],
        Some(Fault::ReadsComments) => &[(b"\n:", b"\ndata:")],
        Some(Fault::DiesOfPings) => &[(b"data:\n", b"data: ping\n")],
        _ => &[],
    };
    let mut seen = chunk.to_vec();
    for (what, by) in as_seen {
        seen = replaced(&seen, what, by);
    }
    seen
}

fn replaced(bytes: &[u8], what: &[u8], by: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for at in memchr::memmem::find_iter(bytes, what) {
        out.extend_from_slice(&bytes[from..at]);
        out.extend_from_slice(by);
        from = at + what.len();
    }
    out.extend_from_slice(&bytes[from..]);
    out
}
