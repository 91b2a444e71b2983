//! Amazon Bedrock through the AWS SDK: embed, generate and rerank.
