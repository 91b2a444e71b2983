//! Numbers and texts from a file, never past its end.

use std::fmt::Display;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use antfly_framework::{Error, Result};

use super::broken;

/// A source that knows where it is and how much is left.
pub(super) struct Reader<R> {
    path: PathBuf,
    source: R,
    position: u64,
    len: u64,
}

impl<R: Read + Seek> Reader<R> {
    pub(super) fn new(path: PathBuf, mut source: R) -> Result<Self> {
        let len = source
            .seek(SeekFrom::End(0))
            .and_then(|len| source.seek(SeekFrom::Start(0)).map(|_| len))
            .map_err(|e| broken(&path, "file", format_args!("can't be read: {e}")))?;
        Ok(Reader {
            path,
            source,
            position: 0,
            len,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An error about one field of this file.
    pub(super) fn error(&self, field: impl Display, problem: impl Display) -> Error {
        broken(&self.path, field, problem)
    }

    /// The whole file, in bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Where the next byte comes from.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Goes to a byte of the file.
    pub(super) fn seek(&mut self, to: u64, field: impl Display) -> Result<()> {
        self.source
            .seek(SeekFrom::Start(to))
            .map_err(|e| broken(&self.path, field, format_args!("can't be read: {e}")))?;
        self.position = to;
        Ok(())
    }

    /// Refuses `bytes` more than the file still has.
    pub(super) fn left(&self, bytes: u64, field: impl Display) -> Result<()> {
        let left = self.len.saturating_sub(self.position);
        if bytes > left {
            let problem = format_args!(
                "needs {bytes} bytes, the file has {left} left; it is truncated or broken"
            );
            return Err(self.error(field, problem));
        }
        Ok(())
    }

    pub(super) fn fill(&mut self, into: &mut [u8], field: impl Display) -> Result<()> {
        self.left(into.len() as u64, &field)?;
        self.source
            .read_exact(into)
            .map_err(|e| broken(&self.path, field, format_args!("can't be read: {e}")))?;
        self.position += into.len() as u64;
        Ok(())
    }

    /// So many bytes; `bytes` was held against the file's end before anything is allocated.
    pub(super) fn bytes(&mut self, bytes: u64, field: impl Display) -> Result<Vec<u8>> {
        self.left(bytes, &field)?;
        let size = usize::try_from(bytes).map_err(|_| self.error(&field, "is too large"))?;
        let mut all = vec![0; size];
        self.fill(&mut all, field)?;
        Ok(all)
    }

    pub(super) fn array<const N: usize>(&mut self, field: impl Display) -> Result<[u8; N]> {
        let mut all = [0; N];
        self.fill(&mut all, field)?;
        Ok(all)
    }

    pub(super) fn u32(&mut self, field: impl Display) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(super) fn u64(&mut self, field: impl Display) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A count of at most `most`.
    pub(super) fn count(&mut self, field: impl Display, most: u64) -> Result<u64> {
        let n = self.u64(&field)?;
        if n > most {
            let problem = format_args!("{n} is more than the {most} allowed");
            return Err(self.error(field, problem));
        }
        Ok(n)
    }

    /// A text of at most `most` bytes. Bytes that are not UTF-8 (some vocabularies hold them) become replacement characters.
    pub(super) fn text(&mut self, field: impl Display, most: u64) -> Result<String> {
        let n = self.count(&field, most)?;
        let bytes = self.bytes(n, &field)?;
        Ok(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => String::from_utf8_lossy(e.as_bytes()).into_owned(),
        })
    }
}
