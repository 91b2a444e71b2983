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

    /// More bytes of the stream. Of bytes with a frame that is refused it gives how many come before that frame, and why.
    ///
    /// # Errors
    /// `invalid_response` when a frame announces more than the bound, `stream_interrupted` when less than a frame has.
    pub(super) fn push(&mut self, bytes: &[u8]) -> std::result::Result<(), (usize, Error)> {
        let mut rest = bytes;
        // Where the frame at hand began.
        let mut began = 0;
        while !rest.is_empty() {
            if self.left > 0 {
                let step = self.left.min(rest.len());
                self.left -= step;
                rest = rest.get(step..).unwrap_or_default();
                began = bytes.len() - rest.len();
                continue;
            }
            let (first, later) = rest.split_at(1);
            if let (Some(place), Some(byte)) = (self.length.get_mut(self.seen), first.first()) {
                *place = *byte;
            }
            self.seen += 1;
            rest = later;
            if self.seen == LENGTH_BYTES {
                let whole = usize::try_from(u32::from_be_bytes(self.length)).unwrap_or(usize::MAX);
                self.begin(whole).map_err(|refused| (began, refused))?;
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
            assert!(failed.unwrap().1.message().contains("max_event_bytes"));
        }
    }

    #[test]
    fn what_comes_before_a_frame_that_is_refused_is_good() {
        let stream = [frame(16), frame(32), frame(100)].concat();
        let (good, _) = FrameBound::new(64).push(&stream).unwrap_err();
        assert_eq!(good, 48);
        let mut bound = FrameBound::new(64);
        bound.push(&stream[..40]).unwrap();
        assert_eq!(bound.push(&stream[40..]).unwrap_err().0, 8);
        let mut bound = FrameBound::new(64);
        bound.push(&stream[..50]).unwrap();
        // The frame began in an earlier piece.
        assert_eq!(bound.push(&stream[50..]).unwrap_err().0, 0);
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
        let (good, e) = FrameBound::new(64).push(&[0, 0, 0, 15]).unwrap_err();
        assert_eq!((good, e.kind()), (0, Kind::StreamInterrupted));
    }
}
