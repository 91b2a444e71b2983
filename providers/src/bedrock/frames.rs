//! Watches the lengths of event-stream frames as bytes pass by, so that no frame is collected beyond its bound.

use antfly_framework::{Error, Kind, Result};

/// A frame begins with its whole length, as four bytes, the largest first.
const LENGTH_BYTES: usize = 4;
/// The shortest frame: two lengths and two checksums.
const SHORTEST: usize = 16;

/// Follows the frames of one stream.
#[derive(Debug)]
pub(super) struct FrameBound {
    max: usize,
    /// The length's bytes seen so far.
    length: [u8; LENGTH_BYTES],
    seen: usize,
    /// What is still to come of the frame at hand.
    left: usize,
}

impl FrameBound {
    pub(super) fn new(max: usize) -> Self {
        FrameBound {
            max,
            length: [0; LENGTH_BYTES],
            seen: 0,
            left: 0,
        }
    }

    /// More bytes of the stream.
    ///
    /// # Errors
    /// `invalid_response` when a frame announces more than the bound, or less than a frame has.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let step = self.left.min(bytes.len());
                self.left -= step;
                bytes = bytes.get(step..).unwrap_or_default();
                continue;
            }
            let (first, rest) = bytes.split_at(1);
            if let (Some(place), Some(byte)) = (self.length.get_mut(self.seen), first.first()) {
                *place = *byte;
            }
            self.seen += 1;
            bytes = rest;
            if self.seen == LENGTH_BYTES {
                let whole = usize::try_from(u32::from_be_bytes(self.length)).unwrap_or(usize::MAX);
                self.begin(whole)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, whole: usize) -> Result<()> {
        if whole < SHORTEST {
            return Err(Error::new(
                Kind::StreamInterrupted,
                "the stream broke: a frame's length makes no sense",
            ));
        }
        if whole > self.max {
            return Err(Error::new(
                Kind::InvalidResponse,
                format!(
                    "an event of {whole} bytes is larger than {} (max_event_bytes)",
                    self.max
                ),
            ));
        }
        self.left = whole - LENGTH_BYTES;
        self.seen = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(length: u32) -> Vec<u8> {
        let mut bytes = length.to_be_bytes().to_vec();
        bytes.resize(length as usize, 7);
        bytes
    }

    #[test]
    fn d05_a_frame_at_the_bound_passes_and_a_larger_one_does_not_however_the_bytes_are_cut() {
        for cut in 1..9 {
            let stream = [frame(16), frame(100), frame(64)].concat();
            let mut bound = FrameBound::new(100);
            for chunk in stream.chunks(cut) {
                bound.push(chunk).unwrap();
            }
            let mut bound = FrameBound::new(99);
            let failed = stream.chunks(cut).find_map(|chunk| bound.push(chunk).err());
            assert!(failed.unwrap().message().contains("max_event_bytes"));
        }
    }

    #[test]
    fn d07_many_small_frames_have_no_bound() {
        let mut bound = FrameBound::new(64);
        let chunk = frame(64).repeat(64);
        for _ in 0..1000 {
            bound.push(&chunk).unwrap();
        }
    }

    #[test]
    fn a_length_that_no_frame_has_is_a_broken_stream() {
        let e = FrameBound::new(64).push(&[0, 0, 0, 15]).unwrap_err();
        assert_eq!(e.kind(), Kind::StreamInterrupted);
    }
}
