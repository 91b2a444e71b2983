//! How fast a GGUF model reads a prompt and writes an answer, greedily: `cargo bench -p antfly-providers --features in-process
//! --bench generate -- MODEL.gguf`. One JSON line a round; the best counts. `beside_llama_cpp.py` runs it in turn with llama.cpp.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Instant;

use antfly_providers::{EntryConfig, GenerateRequest, Operation, StreamEvent};

/// About 500 tokens, which the model goes on with for longer than is measured.
fn prompt() -> GenerateRequest {
    let text = "The river rose in the night and the village moved to the hill. ".repeat(32);
    let mut request = GenerateRequest::prompt(format!("Summarize: {text}"));
    request.temperature = Some(0.0);
    request.max_tokens = Some(64);
    request
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // Cargo adds `--bench`.
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let Some(model) = arguments.next() else {
        println!("a GGUF file is needed: cargo bench ... --bench generate -- MODEL.gguf");
        return;
    };
    let rounds: usize = arguments.next().map_or(3, |n| n.parse().unwrap());
    let mut entry = EntryConfig::new(Operation::Generate, "in_process", "m");
    entry.model_path = Some(model);
    let generator = antfly_providers::client()
        .unwrap()
        .generator(&entry)
        .unwrap();
    let mut warm = GenerateRequest::prompt("hi");
    warm.max_tokens = Some(1);
    generator.generate(warm).await.unwrap();
    for _ in 0..rounds {
        let began = Instant::now();
        let mut first = None;
        let mut usage = None;
        let mut stream = generator.stream(prompt()).await.unwrap();
        while let Some(event) = stream.next().await {
            match event.unwrap() {
                StreamEvent::Text(_) => {
                    first.get_or_insert_with(Instant::now);
                }
                StreamEvent::Usage(counted) => usage = Some(counted),
                _ => {}
            }
        }
        let (first, usage) = (first.unwrap(), usage.unwrap());
        let (read, written) = (
            usage.input_tokens.unwrap(),
            usage.output_tokens.unwrap() - 1,
        );
        println!(
            "{{\"prompt_tokens\": {read}, \"prompt_per_second\": {:.1}, \"written_tokens\": {written}, \"written_per_second\": {:.1}}}",
            read as f64 / (first - began).as_secs_f64(),
            written as f64 / first.elapsed().as_secs_f64(),
        );
    }
}
