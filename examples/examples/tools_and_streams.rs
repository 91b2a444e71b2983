//! A tool call, and a stream written to standard output as it arrives.

use antfly_providers::{EntryConfig, GenerateRequest, Operation, Result, StreamEvent, Tool};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let server = antfly_examples::models();
    let client = antfly_providers::client_builder()?.build()?;
    let entry = EntryConfig::from_json(
        Operation::Generate,
        "generators.writer",
        json!({"provider": "openai", "model": "chat-small", "url": server.url()}),
    )?;
    let generator = client.generator(&entry)?;

    let mut request = GenerateRequest::prompt("What is the weather in Oslo?");
    request.tools = vec![Tool {
        name: "weather".into(),
        description: Some("The weather of a city".into()),
        parameters: json!({"type": "object", "properties": {"city": {"type": "string"}}}),
        strict: None,
    }];
    let answer = generator.generate(request).await?;
    for call in &answer.tool_calls {
        antfly_examples::say(&format!(
            "the model calls {}({})",
            call.name, call.arguments
        ));
    }

    let mut stream = generator
        .stream(GenerateRequest::prompt("Are limits kept?"))
        .await?;
    while let Some(event) = stream.next().await {
        if let StreamEvent::Text(text) = event? {
            antfly_examples::say(&format!("delta {text:?}"));
        }
    }
    Ok(())
}
