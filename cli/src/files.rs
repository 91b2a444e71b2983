//! The files a run reads and writes: what it writes must not be what it reads, and nothing is emptied before all is well.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use crate::args::{Common, Stream};
use crate::run::Fatal;

/// What a run reads and where it writes.
pub(crate) struct Files {
    pub(crate) input: Box<dyn Read + Send>,
    /// The input's size, where it has one.
    pub(crate) size: Option<u64>,
    pub(crate) output: Box<dyn Write + Send>,
    pub(crate) attempts: Option<File>,
}

/// Opens them all. `read` are the files that the configuration depends on. When something is refused, every file is as it was.
pub(crate) fn open(common: &Common, read: Vec<PathBuf>) -> Result<Files, Fatal> {
    let (input, size, about) = open_input(&common.input)?;
    let mut used: Vec<Identity> = about.as_ref().and_then(Identity::of).into_iter().collect();
    let paths = common.config.path().into_iter();
    let paths = paths.chain(read.iter().map(PathBuf::as_path));
    used.extend(paths.filter_map(|path| Identity::of(&path.metadata().ok()?)));
    if common.config == Stream::Standard {
        used.extend(Identity::of_standard("/dev/stdin"));
    }

    let mut output = None;
    match &common.output {
        Stream::File(path) => output = Some(Opened::at(path, &mut used)?),
        Stream::Standard => {
            if let Some(stdout) = Identity::of_standard("/dev/stdout") {
                if used.contains(&stdout) {
                    return Err("standard output is a file that this run reads"
                        .to_owned()
                        .into());
                }
                used.push(stdout);
            }
        }
    }
    let mut attempts = None;
    if let Some(path) = &common.attempts {
        attempts = Some(Opened::at(path, &mut used)?);
    }

    let output: Box<dyn Write + Send> = match output {
        Some(opened) => Box::new(opened.empty()?),
        None => Box::new(io::stdout()),
    };
    Ok(Files {
        input,
        size,
        output,
        attempts: attempts.map(Opened::empty).transpose()?,
    })
}

type Input = (Box<dyn Read + Send>, Option<u64>, Option<Metadata>);

fn open_input(stream: &Stream) -> Result<Input, Fatal> {
    let Stream::File(path) = stream else {
        let about = Path::new("/dev/stdin").metadata().ok();
        return Ok((Box::new(io::stdin()), None, about));
    };
    let opened = File::open(path).and_then(|file| file.metadata().map(|about| (file, about)));
    match opened {
        Ok((_, about)) if about.is_dir() => {
            Err(format!("{}: it is a folder", path.display()).into())
        }
        Ok((file, about)) => {
            let size = about.is_file().then_some(about.len());
            Ok((Box::new(file), size, Some(about)))
        }
        Err(error) => Err(problem(path, &error)),
    }
}

/// A file that is open for writing, with all that was in it.
struct Opened<'a> {
    path: &'a Path,
    file: File,
    /// It was not there before, and goes away again unless it is to be kept.
    new: bool,
}

impl<'a> Opened<'a> {
    /// Opens a file that none of `used` is, and adds it to them.
    fn at(path: &'a Path, used: &mut Vec<Identity>) -> Result<Self, Fatal> {
        let mut options = OpenOptions::new();
        options.write(true);
        let (file, new) = match options.clone().create_new(true).open(path) {
            Ok(file) => (Ok(file), true),
            // What a link points to may still have to be made.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                (options.create(true).truncate(false).open(path), false)
            }
            Err(error) => (Err(error), false),
        };
        let file = file.map_err(|error| problem(path, &error))?;
        let opened = Opened { path, file, new };
        let about = opened.file.metadata();
        let about = about.map_err(|error| problem(path, &error))?;
        if let Some(identity) = Identity::of(&about) {
            if used.contains(&identity) {
                return Err(format!(
                    "{}: it would be overwritten, and is in use by this run",
                    path.display()
                )
                .into());
            }
            used.push(identity);
        }
        Ok(opened)
    }

    /// Nothing stands in the way any more: the file, empty.
    fn empty(mut self) -> Result<File, Fatal> {
        let file = self.file.try_clone().and_then(|file| {
            // Only a file has something to lose; pipes and devices take what comes.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            Ok(file)
        });
        let file = file.map_err(|error| problem(self.path, &error))?;
        self.new = false;
        Ok(file)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        if self.new {
            // Left behind it would be an empty file, which harms nobody.
            let _ = std::fs::remove_file(self.path);
        }
    }
}

fn problem(path: &Path, error: &io::Error) -> Fatal {
    format!("{}: {error}", path.display()).into()
}

/// Which file it is, whatever it is called. Terminals and other devices have none: they may be used several times.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    #[cfg(unix)]
    fn of(about: &Metadata) -> Option<Self> {
        use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
        let kind = about.file_type();
        (kind.is_file() || kind.is_fifo()).then(|| Identity(about.dev(), about.ino()))
    }

    #[cfg(not(unix))]
    fn of(_: &Metadata) -> Option<Self> {
        None
    }

    fn of_standard(stream: &str) -> Option<Self> {
        Identity::of(&Path::new(stream).metadata().ok()?)
    }
}
