//! Faults that adapters have had, each to be found by a check of its name.

/// One fault of the sample's, chosen by the entry's model ([`Fault::model`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Answers are taken in the order they stand, whatever their index.
    WrongOrder,
    /// The last input is not sent.
    LosesItem,
    /// A field of the adapter's own in `extra_body` is let through.
    OwnedFieldTaken,
    /// A number that is none becomes 0.
    NullIsZero,
    /// A body that does not parse becomes an empty answer.
    TakesAnything,
    /// The key is in the adapter's `Debug`.
    LeaksKeyInDebug,
    /// The key is logged.
    LogsKey,
    /// The key is in the URL.
    KeyInUrl,
    /// The key is not sent.
    NoCredential,
    /// Every key is one credential source.
    OneCredential,
    /// A field of the scope is not declared.
    MissingScopeField,
    /// A socket is opened while an entry is resolved.
    OpensSocket,
    /// A hint in a refusal's body is not read.
    IgnoresBodyHint,
    /// 401 is taken for a bad request.
    WrongKind,
    /// A credential that is called expired is not loaded anew.
    DeafToExpiry,
    /// A refusal that is not JSON is a panic.
    PanicsOnBody,
    /// The output cap is on the wire and not in the price.
    UnderDeclaresCost,
    /// Media is left out of the body.
    DropsMedia,
    /// A stream that ends anywhere has ended well.
    StreamEndIsSuccess,
    /// An error inside a stream is passed over.
    SwallowsStreamError,
    /// A stream's text is cut where a chunk ends.
    LosesDelta,
    /// On the engine route: each request is sent twice.
    SendsTwice,
    /// On the engine route: a token is fetched under the permit.
    FetchesTokenInside,
    /// On the engine route: a task goes on with a request whose call has been dropped.
    LeavesWorkBehind,
    /// On the engine route: a 429's Retry-After is not handed on.
    IgnoresRetryAfter,
    /// On the engine route: a failed connection is tried again by the engine itself.
    RetriesItself,
    /// A query in the entry's URL is cut off in silence.
    DropsQuery,
    /// A key is taken as it is, whatever is in it.
    TakesAnyKey,
    /// On the engine route: lines of an event stream end in LF only.
    OnlyKnowsLf,
    /// On the engine route: U+2028 and its like end a line.
    SplitsAtSeparators,
    /// On the engine route: `data:` counts only with a space after it.
    WantsASpace,
    /// On the engine route: a comment is taken for data.
    ReadsComments,
    /// On the engine route: an event without data is taken for one with data.
    DiesOfPings,
    /// On the engine route: a stream is ended after so many pieces, however well it goes.
    EndsLongStreams,
    /// On the engine route: an event may be of any size.
    NoEventBound,
    /// On the engine route: the bound of an event is held against the whole stream.
    BoundsWholeStream,
    /// On the engine route: a stream is read to its end before its first event is handed on.
    Hoards,
    /// On the engine route: an answer may be of any size.
    NoBodyBound,
    /// On the engine route: a content encoding is not looked at.
    IgnoresEncoding,
    /// On the engine route: a second is added to what a 429 says to wait.
    AddsMargin,
    /// On the engine route: each 429 makes those that come after wait twice as long.
    AdaptsRate,
    /// On the local route: vectors come in the order of their texts.
    SortsInputs,
    /// On the local route: the output cap is not kept.
    IgnoresCap,
    /// On the local route: a dropped stream keeps its slot.
    KeepsSlot,
    /// On the local route: a queue without end.
    EndlessQueue,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Fault; 45] = [
        Fault::WrongOrder,
        Fault::LosesItem,
        Fault::OwnedFieldTaken,
        Fault::NullIsZero,
        Fault::TakesAnything,
        Fault::LeaksKeyInDebug,
        Fault::LogsKey,
        Fault::KeyInUrl,
        Fault::NoCredential,
        Fault::OneCredential,
        Fault::MissingScopeField,
        Fault::OpensSocket,
        Fault::IgnoresBodyHint,
        Fault::WrongKind,
        Fault::DeafToExpiry,
        Fault::PanicsOnBody,
        Fault::UnderDeclaresCost,
        Fault::DropsMedia,
        Fault::StreamEndIsSuccess,
        Fault::SwallowsStreamError,
        Fault::LosesDelta,
        Fault::SendsTwice,
        Fault::FetchesTokenInside,
        Fault::LeavesWorkBehind,
        Fault::IgnoresRetryAfter,
        Fault::RetriesItself,
        Fault::DropsQuery,
        Fault::TakesAnyKey,
        Fault::OnlyKnowsLf,
        Fault::SplitsAtSeparators,
        Fault::WantsASpace,
        Fault::ReadsComments,
        Fault::DiesOfPings,
        Fault::EndsLongStreams,
        Fault::NoEventBound,
        Fault::BoundsWholeStream,
        Fault::Hoards,
        Fault::NoBodyBound,
        Fault::IgnoresEncoding,
        Fault::AddsMargin,
        Fault::AdaptsRate,
        Fault::SortsInputs,
        Fault::IgnoresCap,
        Fault::KeepsSlot,
        Fault::EndlessQueue,
    ];

    /// The model that has it.
    pub fn model(self) -> String {
        format!("{self:?}")
    }

    pub(super) fn named(model: &str) -> Option<Self> {
        Fault::ALL.into_iter().find(|f| f.model() == model)
    }
}
