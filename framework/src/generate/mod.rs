//! Generation: messages in, text and tool calls out, whole or streamed.
//!
//! [`request`] has what is asked, [`answer`] what comes back, [`stream`] the streamed form.

pub mod answer;
mod parse;
pub mod request;
pub mod stream;

pub use answer::{FinishReason, Generation, Usage};
pub use request::{GenerateRequest, Message, ResponseFormat, Role, Tool, ToolCall, ToolChoice};
pub use stream::{Accumulator, GenerateStream, StreamEvent, ToolCallDelta};
