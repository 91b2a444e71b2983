//! The directory of tensors, and one tensor's bytes.

use std::collections::HashMap;
use std::fmt;
use std::io::{Read, Seek};

use antfly_framework::Result;
use candle_core::quantized::GgmlDType;

use super::MAX_NAME;
use super::read::Reader;

/// How a tensor's numbers are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Format(pub(in super::super) GgmlDType);

impl Format {
    /// GGUF's number for a format, where it can be read here.
    fn of(number: u32) -> Option<Self> {
        use GgmlDType as D;
        Some(Format(match number {
            0 => D::F32,
            1 => D::F16,
            2 => D::Q4_0,
            3 => D::Q4_1,
            6 => D::Q5_0,
            7 => D::Q5_1,
            8 => D::Q8_0,
            10 => D::Q2K,
            11 => D::Q3K,
            12 => D::Q4K,
            13 => D::Q5K,
            14 => D::Q6K,
            30 => D::BF16,
            _ => return None,
        }))
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Where a tensor is and what it holds. `rows x columns` numbers, a row contiguous.
#[derive(Debug)]
pub(super) struct TensorInfo {
    rows: usize,
    columns: usize,
    format: Format,
    start: u64,
    bytes: u64,
}

/// A tensor as it is in the file: `rows x columns`, row by row.
#[derive(Debug)]
pub(in super::super) struct Raw {
    pub(in super::super) rows: usize,
    pub(in super::super) columns: usize,
    pub(in super::super) format: Format,
    pub(in super::super) bytes: Vec<u8>,
}

/// The tensors that a header lists, each held against the file's end.
pub(super) fn directory<R: Read + Seek>(
    reader: &mut Reader<R>,
    count: u64,
    alignment: u64,
) -> Result<HashMap<String, TensorInfo>> {
    let mut tensors = HashMap::new();
    for index in 0..count {
        let name = reader.text(format_args!("tensor name {index}"), MAX_NAME)?;
        let info = info(reader, &name)?;
        if tensors.insert(name.clone(), info).is_some() {
            return Err(reader.error(format_args!("tensor {name}"), "is there twice"));
        }
    }
    let data = reader.position().next_multiple_of(alignment);
    for (name, info) in &mut tensors {
        let field = format_args!("tensor {name}");
        if info.start % alignment != 0 {
            let problem =
                format_args!("starts at {}, not at a multiple of {alignment}", info.start);
            return Err(reader.error(field, problem));
        }
        let start = info.start.checked_add(data);
        let end = start.and_then(|start| start.checked_add(info.bytes));
        match (start, end) {
            (Some(start), Some(end)) if end <= reader.len() => info.start = start,
            _ => {
                let problem = format_args!(
                    "its {} bytes end past the file's {}; it is truncated or broken",
                    info.bytes,
                    reader.len()
                );
                return Err(reader.error(field, problem));
            }
        }
    }
    Ok(tensors)
}

fn info<R: Read + Seek>(reader: &mut Reader<R>, name: &str) -> Result<TensorInfo> {
    let field = format_args!("tensor {name}");
    let dims = reader.u32(field)?;
    if !(1..=4).contains(&dims) {
        let problem = format_args!("has {dims} dimensions; 1 to 4 are allowed");
        return Err(reader.error(field, problem));
    }
    let too_large = |reader: &Reader<R>| reader.error(field, "is larger than any file");
    let mut columns = 1;
    let mut rows = 1u64;
    for dim in 0..dims {
        let n = reader.u64(field)?;
        if dim == 0 {
            columns = n;
        } else {
            rows = rows.checked_mul(n).ok_or_else(|| too_large(reader))?;
        }
    }
    let number = reader.u32(field)?;
    let Some(format) = Format::of(number) else {
        let problem = format_args!(
            "has format {number}, which can't be read; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and Q2_K to Q6_K can"
        );
        return Err(reader.error(field, problem));
    };
    let block = format.0.block_size() as u64;
    if columns == 0 || rows == 0 || columns % block != 0 {
        let problem = format_args!(
            "is {rows} x {columns}; a row of {format:?} has a multiple of {block} numbers, and at least one"
        );
        return Err(reader.error(field, problem));
    }
    let bytes = (columns / block)
        .checked_mul(format.0.type_size() as u64)
        .and_then(|row| row.checked_mul(rows))
        .ok_or_else(|| too_large(reader))?;
    let start = reader.u64(field)?;
    let whole = |n: u64| usize::try_from(n).map_err(|_| too_large(reader));
    Ok(TensorInfo {
        rows: whole(rows)?,
        columns: whole(columns)?,
        format,
        start,
        bytes,
    })
}

pub(super) fn read<R: Read + Seek>(
    reader: &mut Reader<R>,
    name: &str,
    info: &TensorInfo,
) -> Result<Raw> {
    let field = format_args!("tensor {name}");
    reader.seek(info.start, field)?;
    Ok(Raw {
        rows: info.rows,
        columns: info.columns,
        format: info.format,
        bytes: reader.bytes(info.bytes, field)?,
    })
}
