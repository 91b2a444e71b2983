//! The Gemini API with a key: embed and generate.
