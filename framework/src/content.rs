//! What requests carry: text and media, in the same shape for every operation.

use bytes::Bytes;

/// A piece of a message, an embedding input or a document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// Plain text.
    Text(String),
    /// An image, sound, film or file.
    Media(Media),
}

impl Part {
    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Part::Text(text.into())
    }

    /// An image by its URL (`https:` or `data:`).
    pub fn image_url(url: impl Into<String>) -> Self {
        Part::Media(Media {
            kind: MediaKind::Image,
            source: MediaSource::Url(url.into()),
        })
    }

    /// Media by its bytes; its kind follows from the MIME type.
    pub fn media(data: impl Into<Bytes>, mime_type: impl Into<String>) -> Self {
        let mime_type = mime_type.into();
        Part::Media(Media {
            kind: MediaKind::of_mime(&mime_type),
            source: MediaSource::Bytes {
                data: data.into(),
                mime_type,
            },
        })
    }

    /// The text, if this is a text part.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(text),
            Part::Media(_) => None,
        }
    }

    /// Whether this part is media, in whatever encoding.
    pub fn is_media(&self) -> bool {
        matches!(self, Part::Media(_))
    }
}

/// One media item.
#[derive(Clone, Debug, PartialEq)]
pub struct Media {
    /// What it is.
    pub kind: MediaKind,
    /// Where its bytes are.
    pub source: MediaSource,
}

/// The broad kind of a media item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MediaKind {
    /// `image/*`.
    Image,
    /// `audio/*`.
    Audio,
    /// `video/*`.
    Video,
    /// Anything else (a PDF, say).
    File,
}

impl MediaKind {
    /// The kind of a MIME type.
    pub fn of_mime(mime_type: &str) -> Self {
        let top = mime_type.split('/').next().unwrap_or("");
        match top.trim().to_ascii_lowercase().as_str() {
            "image" => MediaKind::Image,
            "audio" => MediaKind::Audio,
            "video" => MediaKind::Video,
            _ => MediaKind::File,
        }
    }
}

/// Where a media item's bytes are.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum MediaSource {
    /// A URL, also `data:` and provider schemes such as `gs:` or `s3:`.
    Url(String),
    /// The bytes themselves.
    Bytes {
        /// The raw bytes (not base64).
        data: Bytes,
        /// Their MIME type.
        mime_type: String,
    },
    /// A file the provider already holds, by its id.
    FileId(String),
}

/// What an adapter's model can take besides text. A declaration: a request that carries anything else fails before any wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaSupport {
    /// Text only.
    None,
    /// These kinds.
    Kinds(&'static [MediaKind]),
}

impl MediaSupport {
    /// Whether media of `kind` can be sent.
    pub fn accepts(self, kind: MediaKind) -> bool {
        match self {
            MediaSupport::None => false,
            MediaSupport::Kinds(kinds) => kinds.contains(&kind),
        }
    }
}
