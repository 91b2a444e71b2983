//! Parts of a content: text, and media inline or by reference.

use std::borrow::Cow;

use antfly_framework::content::{Media, MediaKind, MediaSource, Part};
use antfly_framework::{Error, Kind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

/// One part of a content.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum WirePart<'a> {
    Text(&'a str),
    InlineData(InlineData<'a>),
    FileData(FileData<'a>),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InlineData<'a> {
    pub(crate) mime_type: Cow<'a, str>,
    /// Base64.
    pub(crate) data: Cow<'a, str>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FileData<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<Cow<'a, str>>,
    pub(crate) file_uri: Cow<'a, str>,
}

/// A whole content: who speaks, and what.
#[derive(Debug, Serialize)]
pub(crate) struct WireContent<P> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<&'static str>,
    pub(crate) parts: Vec<P>,
}

/// How files are named on a wire.
#[derive(Clone, Copy, Debug)]
#[allow(dead_code, reason = "each adapter names its own kind")]
pub(crate) enum Files<'a> {
    /// The Gemini API: the files below this URL, and whatever can be fetched.
    Gemini(&'a str),
    /// Vertex AI: Cloud Storage and public URLs, always with their MIME type.
    Vertex,
}

impl Files<'_> {
    /// The parts of a content; an empty text carries nothing and is left out.
    pub(crate) fn parts<'p>(self, parts: &'p [Part]) -> Result<Vec<WirePart<'p>>> {
        let full = |part: &&'p Part| !matches!(part, Part::Text(text) if text.is_empty());
        parts.iter().filter(full).map(|p| self.part(p)).collect()
    }

    fn part(self, part: &Part) -> Result<WirePart<'_>> {
        match part {
            Part::Text(text) => Ok(WirePart::Text(text)),
            Part::Media(media) => self.media(media),
            _ => Err(refused("this kind of part can't be sent")),
        }
    }

    fn media(self, media: &Media) -> Result<WirePart<'_>> {
        Ok(match &media.source {
            MediaSource::Bytes { data, mime_type } => WirePart::InlineData(InlineData {
                mime_type: mime_type.into(),
                data: STANDARD.encode(data).into(),
            }),
            MediaSource::Url(url) => match inline(url)? {
                Some(data) => WirePart::InlineData(data),
                None => WirePart::FileData(self.file(url.into(), media.kind)?),
            },
            MediaSource::FileId(id) => {
                let uri = match self {
                    Files::Gemini(base) if !id.contains("://") => format!("{base}/{id}").into(),
                    Files::Vertex if !id.contains("://") => {
                        return Err(refused(
                            "Vertex AI names a file by its gs:// or https:// URI",
                        ));
                    }
                    _ => Cow::from(id),
                };
                WirePart::FileData(self.file(uri, media.kind)?)
            }
            _ => return Err(refused("media from this source can't be sent")),
        })
    }

    fn file(self, uri: Cow<'_, str>, kind: MediaKind) -> Result<FileData<'_>> {
        let mime_type = mime_of(&uri, kind).map(Cow::from);
        if mime_type.is_none() && matches!(self, Files::Vertex) {
            return Err(refused(
                "Vertex AI must be told the MIME type of a file, and this one's name ends with no known extension; send it as \
                 bytes",
            ));
        }
        Ok(FileData {
            mime_type,
            file_uri: uri.into_owned().into(),
        })
    }
}

/// A `data:` URI as inline data; `None` when it is another URL.
pub(crate) fn inline(url: &str) -> Result<Option<InlineData<'_>>> {
    let Some((scheme, rest)) = url.split_once(':') else {
        return Ok(None);
    };
    if !scheme.eq_ignore_ascii_case("data") {
        return Ok(None);
    }
    let parsed = rest.split_once(',').and_then(|(head, data)| {
        let mime_type = head.strip_suffix(";base64")?;
        let essence = mime_type.split(';').next().unwrap_or("").trim();
        (!essence.is_empty()).then_some((essence, data))
    });
    match parsed {
        Some((mime_type, data)) => Ok(Some(InlineData {
            mime_type: mime_type.into(),
            data: data.into(),
        })),
        None => Err(refused(
            "a data: URI must name its MIME type and be base64 (data:image/png;base64,...)",
        )),
    }
}

/// The MIME type that a file's extension tells; a type of another kind is not believed.
pub(crate) fn mime_of(uri: &str, kind: MediaKind) -> Option<&'static str> {
    let path = uri.split(['?', '#']).next().unwrap_or("");
    let name = path.rsplit('/').next().unwrap_or("");
    let (_, extension) = name.rsplit_once('.')?;
    let mime = match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "bmp" => "image/bmp",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "avif" => "image/avif",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "flac" => "audio/flac",
        "aac" => "audio/aac",
        "m4a" => "audio/mp4",
        "ogg" | "opus" => "audio/ogg",
        "mp4" => "video/mp4",
        "mov" => "video/quicktime",
        "webm" => "video/webm",
        "mpeg" | "mpg" => "video/mpeg",
        "avi" => "video/x-msvideo",
        "wmv" => "video/x-ms-wmv",
        "flv" => "video/x-flv",
        "3gp" | "3gpp" => "video/3gpp",
        "pdf" => "application/pdf",
        "txt" | "md" => "text/plain",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        _ => return None,
    };
    (kind == MediaKind::File || MediaKind::of_mime(mime) == kind).then_some(mime)
}

fn refused(why: &str) -> Error {
    Error::new(Kind::MediaNotAllowed, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn sent(files: Files<'_>, part: &Part) -> Result<Value, Kind> {
        match files.parts(std::slice::from_ref(part)) {
            Ok(parts) => Ok(serde_json::to_value(parts).unwrap()[0].clone()),
            Err(e) => Err(e.kind()),
        }
    }

    const GEMINI: Files<'_> = Files::Gemini("https://g/v1beta");

    #[test]
    fn bytes_and_data_uris_travel_inline() {
        let inline = json!({"inlineData": {"mimeType": "image/png", "data": "AQI="}});
        for part in [
            Part::media(vec![1, 2], "image/png"),
            Part::image_url("data:image/png;base64,AQI="),
            Part::image_url("data:image/png;charset=x;base64,AQI="),
            Part::image_url("DATA:image/png;base64,AQI="),
        ] {
            assert_eq!(sent(Files::Vertex, &part), Ok(inline.clone()));
            assert_eq!(sent(GEMINI, &part), Ok(inline.clone()));
        }
        for bad in ["data:image/png,AQI=", "data:;base64,AQI=", "data:"] {
            assert_eq!(
                sent(GEMINI, &Part::image_url(bad)),
                Err(Kind::MediaNotAllowed)
            );
        }
    }

    #[test]
    fn files_travel_by_reference_with_the_type_their_name_tells() {
        let part = Part::image_url("gs://bucket/cat.JPG");
        assert_eq!(
            sent(Files::Vertex, &part),
            Ok(json!({"fileData": {"mimeType": "image/jpeg", "fileUri": "gs://bucket/cat.JPG"}}))
        );
        let nameless = Part::image_url("https://h/signed?x=a.png");
        assert_eq!(
            sent(GEMINI, &nameless),
            Ok(json!({"fileData": {"fileUri": "https://h/signed?x=a.png"}}))
        );
        assert_eq!(sent(Files::Vertex, &nameless), Err(Kind::MediaNotAllowed));
    }

    #[test]
    fn a_file_id_is_a_file_of_the_gemini_api() {
        let part = Part::Media(Media {
            kind: MediaKind::File,
            source: MediaSource::FileId("files/abc".to_owned()),
        });
        assert_eq!(
            sent(GEMINI, &part),
            Ok(json!({"fileData": {"fileUri": "https://g/v1beta/files/abc"}}))
        );
        assert_eq!(sent(Files::Vertex, &part), Err(Kind::MediaNotAllowed));
    }
}
