//! Messages and their parts as the chat completions wire wants them.

use antfly_framework::content::{Media, MediaKind, MediaSource, Part};
use antfly_framework::generate::Message;
use antfly_framework::{Error, Kind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::chat::Dialect;

/// One message.
#[derive(Serialize)]
pub(super) struct WireMessage<'a> {
    role: &'static str,
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

/// A single text travels as a plain string: servers that know no parts take it.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<WirePart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum WirePart<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    InputAudio { input_audio: InputAudio<'a> },
    File { file: File<'a> },
    Media(MediaPart<'a>),
}

/// Bytes of any kind, on Antfly's wire.
#[derive(Serialize)]
pub(crate) struct MediaPart<'a> {
    pub(crate) data: std::borrow::Cow<'a, str>,
    pub(crate) mime_type: &'a str,
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: std::borrow::Cow<'a, str>,
}

#[derive(Serialize)]
struct InputAudio<'a> {
    data: std::borrow::Cow<'a, str>,
    format: String,
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    file_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filename: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_data: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The messages of a request.
pub(super) fn messages(messages: &[Message], dialect: Dialect) -> Result<Vec<WireMessage<'_>>> {
    messages.iter().map(|m| message(m, dialect)).collect()
}

fn message(message: &Message, dialect: Dialect) -> Result<WireMessage<'_>> {
    let content = match message.content.as_slice() {
        // Null is right beside tool calls; elsewhere an empty text is what was said.
        [] if !message.tool_calls.is_empty() => None,
        [] => Some(Content::Text("")),
        [Part::Text(text)] if text.is_empty() && !message.tool_calls.is_empty() => None,
        [Part::Text(text)] => Some(Content::Text(text)),
        parts => Some(Content::Parts(
            parts
                .iter()
                .map(|p| part(p, dialect))
                .collect::<Result<_>>()?,
        )),
    };
    let tool_calls = message
        .tool_calls
        .iter()
        .map(|call| WireCall {
            id: &call.id,
            r#type: "function",
            function: WireFunction {
                name: &call.name,
                arguments: &call.arguments,
            },
        })
        .collect();
    Ok(WireMessage {
        role: message.role.as_str(),
        content,
        tool_calls,
        tool_call_id: message.tool_call_id.as_deref(),
    })
}

fn part(part: &Part, dialect: Dialect) -> Result<WirePart<'_>> {
    match part {
        Part::Text(text) => Ok(WirePart::Text { text }),
        Part::Media(media) if dialect == Dialect::Antfly => of_antfly(media),
        Part::Media(media) => match media.kind {
            MediaKind::Image => image(media),
            MediaKind::Audio => audio(media),
            MediaKind::File => file(media, dialect == Dialect::Compatible),
            _ => Err(refused(
                "this kind of media can't be sent in a chat message",
            )),
        },
        _ => Err(refused("this kind of part can't be sent in a chat message")),
    }
}

/// Antfly takes an image as OpenAI does and anything else by its bytes; it holds no files.
fn of_antfly(media: &Media) -> Result<WirePart<'_>> {
    match (&media.source, media.kind) {
        (MediaSource::FileId(_), _) => Err(refused("the server holds no files: send the bytes")),
        (_, MediaKind::Image) => image(media),
        _ => media_part(media).map(WirePart::Media),
    }
}

/// Media by its bytes.
pub(crate) fn media_part(media: &Media) -> Result<MediaPart<'_>> {
    match &media.source {
        MediaSource::Bytes { data, mime_type } => Ok(MediaPart {
            data: STANDARD.encode(data).into(),
            mime_type,
        }),
        MediaSource::Url(url) => match inline(url) {
            Some((mime_type, data)) => Ok(MediaPart {
                data: data.into(),
                mime_type,
            }),
            None => Err(refused(
                "only an image travels by its URL; other media as bytes or as a base64 data: URI",
            )),
        },
        _ => Err(refused("the server holds no files: send the bytes")),
    }
}

fn image(media: &Media) -> Result<WirePart<'_>> {
    let url = match &media.source {
        MediaSource::Url(url) => url.as_str().into(),
        MediaSource::Bytes { data, mime_type } => data_uri(mime_type, data).into(),
        MediaSource::FileId(id) => return Ok(by_id(id)),
        _ => return Err(refused("this image can't be sent in a chat message")),
    };
    Ok(WirePart::ImageUrl {
        image_url: ImageUrl { url },
    })
}

fn audio(media: &Media) -> Result<WirePart<'_>> {
    let (data, format) = match &media.source {
        MediaSource::Bytes { data, mime_type } => {
            (STANDARD.encode(data).into(), audio_format(mime_type))
        }
        MediaSource::Url(url) => match inline(url) {
            Some((mime_type, data)) => (data.into(), audio_format(mime_type)),
            None => {
                return Err(refused(
                    "audio travels as bytes or as a base64 data: URI, not by its URL",
                ));
            }
        },
        MediaSource::FileId(id) => return Ok(by_id(id)),
        _ => return Err(refused("this audio can't be sent in a chat message")),
    };
    Ok(WirePart::InputAudio {
        input_audio: InputAudio { data, format },
    })
}

fn file(media: &Media, file_urls: bool) -> Result<WirePart<'_>> {
    let (filename, file_data) = match &media.source {
        MediaSource::Bytes { data, mime_type } => {
            (file_name(mime_type), data_uri(mime_type, data).into())
        }
        MediaSource::Url(url) => match inline(url) {
            Some((mime_type, _)) => (file_name(mime_type), url.as_str().into()),
            None if file_urls => (file_name(""), url.as_str().into()),
            None => {
                return Err(refused(
                    "a file travels as bytes, as a base64 data: URI or by its id, not by its URL",
                ));
            }
        },
        MediaSource::FileId(id) => return Ok(by_id(id)),
        _ => return Err(refused("this file can't be sent in a chat message")),
    };
    Ok(WirePart::File {
        file: File {
            file_id: None,
            filename: Some(filename),
            file_data: Some(file_data),
        },
    })
}

fn by_id(id: &str) -> WirePart<'_> {
    WirePart::File {
        file: File {
            file_id: Some(id),
            filename: None,
            file_data: None,
        },
    }
}

fn data_uri(mime_type: &str, data: &[u8]) -> String {
    let mut uri = format!("data:{mime_type};base64,");
    STANDARD.encode_string(data, &mut uri);
    uri
}

/// The MIME type and the base64 text of a base64 `data:` URI.
fn inline(url: &str) -> Option<(&str, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    Some((head.strip_suffix(";base64")?, data))
}

/// `wav` and `mp3` are what OpenAI takes; compatible servers take more, by the subtype's name.
fn audio_format(mime_type: &str) -> String {
    match subtype(mime_type).as_str() {
        "wav" | "x-wav" | "wave" | "vnd.wave" => "wav".to_owned(),
        "mpeg" | "mp3" | "mpeg3" | "x-mpeg-3" => "mp3".to_owned(),
        other => other.trim_start_matches("x-").to_owned(),
    }
}

fn file_name(mime_type: &str) -> String {
    match subtype(mime_type).as_str() {
        "pdf" => "file.pdf".to_owned(),
        "plain" => "file.txt".to_owned(),
        "json" => "file.json".to_owned(),
        "csv" => "file.csv".to_owned(),
        "html" => "file.html".to_owned(),
        "markdown" => "file.md".to_owned(),
        _ => "file".to_owned(),
    }
}

fn subtype(mime_type: &str) -> String {
    let essence = mime_type.split(';').next().unwrap_or("");
    essence
        .split_once('/')
        .map_or("", |(_, subtype)| subtype)
        .trim()
        .to_ascii_lowercase()
}

fn refused(why: &str) -> Error {
    Error::new(Kind::MediaNotAllowed, why)
}
