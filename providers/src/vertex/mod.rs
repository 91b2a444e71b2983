//! Google Vertex AI: embed, generate and rerank.
