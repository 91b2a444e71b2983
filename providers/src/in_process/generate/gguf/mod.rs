//! A GGUF file: its header read within the file's own bounds, its tensors on demand.
//!
//! Nothing a file says is believed before it is checked: a count is held against the bytes that are left before anything is
//! allocated for it, a tensor against the file's end before the first one is read. So a truncated or hostile file is an error that
//! names the file and the field, and costs no more memory than its own size.

mod read;
mod tensor;
mod value;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use antfly_framework::{Error, Kind, Result};

pub(super) use tensor::Raw;

use read::Reader;
use tensor::TensorInfo;
use value::Value;

/// The formats of GGUF this reads: little-endian versions 2 and 3.
const VERSIONS: std::ops::RangeInclusive<u32> = 2..=3;
const MAGIC: &[u8; 4] = b"GGUF";
/// More metadata or tensors than any model has.
const MAX_ENTRIES: u64 = 1 << 16;
const MAX_NAME: u64 = 1 << 16;

/// An open file.
pub(super) struct Gguf<R> {
    reader: Reader<R>,
    metadata: HashMap<String, Value>,
    tensors: HashMap<String, TensorInfo>,
}

impl Gguf<BufReader<File>> {
    /// Opens the file and reads its header.
    ///
    /// # Errors
    /// `config`, naming the file and what is wrong with which field of it.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)
            .map_err(|e| broken(path, "file", format_args!("can't be opened: {e}")))?;
        Self::read(path.to_owned(), BufReader::with_capacity(1 << 18, file))
    }
}

impl<R: Read + Seek> Gguf<R> {
    /// Reads a header from any source; `path` is what errors name.
    pub(super) fn read(path: PathBuf, source: R) -> Result<Self> {
        let mut reader = Reader::new(path, source)?;
        let mut magic = [0; 4];
        reader.fill(&mut magic, "magic")?;
        if &magic != MAGIC {
            return Err(reader.error("magic", "this is not a GGUF file"));
        }
        let version = reader.u32("version")?;
        if VERSIONS.contains(&version.swap_bytes()) {
            return Err(reader.error("version", "the file is big-endian; little-endian is read"));
        }
        if !VERSIONS.contains(&version) {
            let problem = format_args!("{version} is not supported; 2 and 3 are");
            return Err(reader.error("version", problem));
        }
        let tensors = reader.count("tensor_count", MAX_ENTRIES)?;
        let entries = reader.count("metadata_kv_count", MAX_ENTRIES)?;
        let metadata = metadata(&mut reader, entries)?;
        let alignment = alignment(&reader, &metadata)?;
        let tensors = tensor::directory(&mut reader, tensors, alignment)?;
        Ok(Gguf {
            reader,
            metadata,
            tensors,
        })
    }

    /// The file's name, for errors.
    pub(super) fn path(&self) -> &Path {
        self.reader.path()
    }

    /// An error about one field.
    pub(super) fn error(
        &self,
        field: impl std::fmt::Display,
        problem: impl std::fmt::Display,
    ) -> Error {
        self.reader.error(field, problem)
    }

    /// A text, if there is one under `key`.
    pub(super) fn text(&self, key: &str) -> Result<Option<&str>> {
        self.typed(key, "a text", |v| match v {
            Value::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }

    /// A whole number that is not negative.
    pub(super) fn unsigned(&self, key: &str) -> Result<Option<u64>> {
        self.typed(key, "a whole number of at least 0", |v| match v {
            Value::Unsigned(n) => Some(*n),
            Value::Signed(n) => u64::try_from(*n).ok(),
            _ => None,
        })
    }

    /// A finite number.
    pub(super) fn float(&self, key: &str) -> Result<Option<f64>> {
        self.typed(key, "a finite number", |v| match v {
            Value::Float(x) if x.is_finite() => Some(*x),
            _ => None,
        })
    }

    /// True or false.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false", |v| match v {
            Value::Flag(b) => Some(*b),
            _ => None,
        })
    }

    /// A list of texts.
    pub(super) fn texts(&self, key: &str) -> Result<Option<&[String]>> {
        self.typed(key, "a list of texts", |v| match v {
            Value::Texts(list) => Some(list.as_slice()),
            _ => None,
        })
    }

    /// A list of whole numbers.
    pub(super) fn integers(&self, key: &str) -> Result<Option<&[i64]>> {
        self.typed(key, "a list of whole numbers", |v| match v {
            Value::Integers(list) => Some(list.as_slice()),
            _ => None,
        })
    }

    /// A list of numbers.
    pub(super) fn floats(&self, key: &str) -> Result<Option<&[f32]>> {
        self.typed(key, "a list of numbers", |v| match v {
            Value::Floats(list) => Some(list.as_slice()),
            _ => None,
        })
    }

    /// `value`, or an error that the key is missing.
    pub(super) fn needed<T>(&self, key: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.error(key, "is missing"))
    }

    /// Whether there is a tensor of that name.
    pub(super) fn has_tensor(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// Reads one tensor: `rows x columns`, a vector being one row.
    pub(super) fn tensor(&mut self, name: &str) -> Result<Raw> {
        let Some(info) = self.tensors.get(name) else {
            return Err(self.error(format_args!("tensor {name}"), "is missing"));
        };
        tensor::read(&mut self.reader, name, info)
    }

    fn typed<'a, T>(
        &'a self,
        key: &str,
        what: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.metadata.get(key) else {
            return Ok(None);
        };
        match read(value) {
            Some(value) => Ok(Some(value)),
            None => Err(self.error(key, format_args!("{} is not {what}", value.describe()))),
        }
    }
}

fn metadata<R: Read + Seek>(
    reader: &mut Reader<R>,
    entries: u64,
) -> Result<HashMap<String, Value>> {
    let mut metadata = HashMap::new();
    for index in 0..entries {
        let key = reader.text(format_args!("metadata key {index}"), MAX_NAME)?;
        let value = Value::read(reader, &key)?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(reader.error(key, "is there twice"));
        }
    }
    Ok(metadata)
}

/// Where tensors may start: the file's own alignment, or GGUF's default.
fn alignment<R: Read + Seek>(reader: &Reader<R>, metadata: &HashMap<String, Value>) -> Result<u64> {
    const KEY: &str = "general.alignment";
    match metadata.get(KEY) {
        None => Ok(32),
        Some(Value::Unsigned(n)) if n.is_power_of_two() && (8..=1 << 16).contains(n) => Ok(*n),
        Some(other) => {
            let problem =
                format_args!("{} is not a power of two from 8 to 65536", other.describe());
            Err(reader.error(KEY, problem))
        }
    }
}

/// An error about a model file.
pub(super) fn broken(
    path: &Path,
    field: impl std::fmt::Display,
    problem: impl std::fmt::Display,
) -> Error {
    Error::new(
        Kind::Config,
        format!("model file {}: {field}: {problem}", path.display()),
    )
}
