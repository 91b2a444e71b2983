//! Weights from safetensors files, tensor by tensor: only what a model asks for is read, and whatever precision it is stored in
//! becomes `f32`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use antfly_framework::{Error, Kind, Result};
use candle_core::{DType, Device, Tensor};
use serde::Deserialize;

use super::super::folder::Folder;

/// How a file begins that `git clone` leaves where Git LFS is not installed.
const GIT_LFS: &[u8; 8] = b"version ";
/// The largest header that is read, in bytes.
const LARGEST_HEADER: u64 = 100 << 20;

/// The tensors of a model's files.
#[derive(Debug)]
pub(super) struct Weights {
    files: Arc<Files>,
    /// What the model's own names begin with (`bert.`), found by looking.
    prefix: &'static str,
}

#[derive(Debug, Default)]
struct Files {
    tensors: HashMap<String, Place>,
    files: Vec<(PathBuf, Mutex<File>)>,
}

#[derive(Clone, Debug)]
struct Place {
    file: usize,
    dtype: DType,
    shape: Vec<usize>,
    /// From the file's start, in bytes.
    start: u64,
    bytes: usize,
}

/// One tensor in a file's header.
#[derive(Deserialize)]
struct Described {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

impl Weights {
    /// Reads the headers of the folder's files.
    pub(super) fn open(folder: &Folder<'_>) -> Result<Self> {
        Self::of(folder.weights()?)
    }

    /// Reads the headers of these files.
    pub(super) fn of(paths: Vec<PathBuf>) -> Result<Self> {
        let mut all = Files::default();
        for path in paths {
            let (file, tensors) = header(&path)?;
            let number = all.files.len();
            all.files.push((path, Mutex::new(file)));
            for (name, mut place) in tensors {
                place.file = number;
                all.tensors.insert(name, place);
            }
        }
        Ok(Weights {
            files: Arc::new(all),
            prefix: "",
        })
    }

    /// The same files, with names that begin with whichever of `prefixes` makes `known` a tensor there is.
    pub(super) fn with_prefix(&self, known: &str, prefixes: &[&'static str]) -> Self {
        let there = |p: &&&str| self.files.tensors.contains_key(&format!("{p}{known}"));
        Weights {
            files: Arc::clone(&self.files),
            prefix: prefixes.iter().find(there).copied().unwrap_or(""),
        }
    }

    /// Whether the model itself has a tensor of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// A matrix whose name does not begin with one of `known`, a whole word each: the first by its name.
    pub(super) fn other_matrix(&self, known: &[&str]) -> Option<(&str, &Path)> {
        let other = |(name, place): &(&String, &Place)| {
            let first = name.split('.').next().unwrap_or_default();
            place.shape.len() == 2 && !known.contains(&first)
        };
        let (name, place) = self
            .files
            .tensors
            .iter()
            .filter(other)
            .min_by_key(|t| t.0)?;
        Some((name, &self.files.files[place.file].0))
    }

    fn find(&self, name: &str) -> Option<&Place> {
        let tensors = &self.files.tensors;
        let whole = format!("{}{name}", self.prefix);
        // Checkpoints of the oldest kind call a normalisation's weight and bias so.
        let old = || match whole.rsplit_once('.') {
            Some((layer, "weight")) => tensors.get(&format!("{layer}.gamma")),
            Some((layer, "bias")) => tensors.get(&format!("{layer}.beta")),
            _ => None,
        };
        tensors.get(&whole).or_else(old)
    }

    /// The numbers, row by row, of a tensor that must have this shape.
    pub(super) fn numbers(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let place = self.find(name).ok_or_else(|| self.missing(name))?;
        let (path, file) = &self.files.files[place.file];
        if place.shape != shape {
            return Err(bad(
                path,
                format!(
                    "its tensor {}{name} has shape {:?}, the model's configuration asks for {shape:?}",
                    self.prefix, place.shape
                ),
            ));
        }
        let mut bytes = vec![0; place.bytes];
        {
            let mut file = file
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            file.seek(SeekFrom::Start(place.start))
                .and_then(|_| file.read_exact(&mut bytes))
                .map_err(|e| bad(path, e))?;
        }
        Tensor::from_raw_buffer(&bytes, place.dtype, shape, &Device::Cpu)
            .and_then(|tensor| tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1())
            .map_err(|e| bad(path, e))
    }

    /// A list of `n` numbers, or `None` where the model has no such tensor.
    pub(super) fn list_if_there(&self, name: &str, n: usize) -> Result<Option<Vec<f32>>> {
        if self.has(name) {
            self.numbers(name, &[n]).map(Some)
        } else {
            Ok(None)
        }
    }

    fn missing(&self, name: &str) -> Error {
        let files: Vec<_> = (self.files.files.iter())
            .map(|(path, _)| path.display().to_string())
            .collect();
        Error::new(
            Kind::Config,
            format!("no tensor {}{name} in {}", self.prefix, files.join(", ")),
        )
    }
}

fn header(path: &Path) -> Result<(File, Vec<(String, Place)>)> {
    let fail = |e: std::io::Error| bad(path, e);
    let mut file = File::open(path).map_err(fail)?;
    let size = file.metadata().map_err(fail)?.len();
    let mut length = [0; 8];
    if size < length.len() as u64 {
        return Err(bad(path, format!("it has {size} bytes: it is truncated")));
    }
    file.read_exact(&mut length).map_err(fail)?;
    if &length == GIT_LFS {
        let what = "it is a pointer of Git LFS and not the weights; fetch them with `git lfs pull`";
        return Err(bad(path, what));
    }
    let length = u64::from_le_bytes(length);
    if length > LARGEST_HEADER || length.saturating_add(8) > size {
        let what = format!(
            "its header claims {length} bytes, the file has {size}; it is truncated or no safetensors file"
        );
        return Err(bad(path, what));
    }
    let mut json = vec![0; length as usize];
    file.read_exact(&mut json).map_err(fail)?;
    let described: HashMap<String, serde_json::Value> =
        serde_json::from_slice(&json).map_err(|e| bad(path, e))?;
    let data = 8 + length;
    let mut tensors = Vec::with_capacity(described.len());
    for (name, value) in described {
        if name == "__metadata__" {
            continue;
        }
        let it: Described =
            serde_json::from_value(value).map_err(|e| bad(path, format!("{name}: {e}")))?;
        // Others (the integers of a buffer) are nothing a model here asks for.
        let (dtype, width) = match it.dtype.as_str() {
            "F32" => (DType::F32, 4),
            "F16" => (DType::F16, 2),
            "BF16" => (DType::BF16, 2),
            "F64" => (DType::F64, 8),
            _ => continue,
        };
        let bytes = it
            .shape
            .iter()
            .try_fold(width, |all: usize, n| all.checked_mul(*n));
        let (from, to) = it.data_offsets;
        let fits = to >= from && data.saturating_add(to) <= size;
        match bytes {
            Some(bytes) if fits && (to - from) == bytes as u64 => tensors.push((
                name,
                Place {
                    file: 0,
                    dtype,
                    shape: it.shape,
                    start: data + from,
                    bytes,
                },
            )),
            _ => {
                return Err(bad(
                    path,
                    format!("its tensor {name} does not fit the file; it is truncated or broken"),
                ));
            }
        }
    }
    Ok((file, tensors))
}

fn bad(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::new(
        Kind::Config,
        format!("the model's file {} can't be used: {what}", path.display()),
    )
}
