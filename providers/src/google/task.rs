//! What an embedding is for: `task_type`, or its older name `input_type`, in Google's words.

use antfly_framework::config::EntryConfig;
use antfly_framework::{Error, Result};

/// The entry's task in Google's words; `None` when it names none.
pub(crate) fn of(entry: &EntryConfig) -> Result<Option<String>> {
    match (&entry.embed.task_type, &entry.embed.input_type) {
        (Some(_), Some(_)) => Err(Error::config(
            entry.field("input_type"),
            "is the older name of task_type: one of the two is allowed",
        )),
        (Some(task), None) => {
            let word = task.trim().to_ascii_uppercase();
            let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
            if word.is_empty() || !word.chars().all(fits) {
                return Err(Error::config(
                    entry.field("task_type"),
                    format!("{task:?} is not allowed; a word such as RETRIEVAL_DOCUMENT is"),
                ));
            }
            Ok(Some(word))
        }
        (None, Some(input)) => older(input).map(|word| Some(word.to_owned())).ok_or_else(|| {
            Error::config(
                entry.field("input_type"),
                format!(
                    "{input:?} is not allowed; search_query, search_document, classification or clustering is, or use task_type"
                ),
            )
        }),
        (None, None) => Ok(None),
    }
}

fn older(input: &str) -> Option<&'static str> {
    Some(match input.trim().to_ascii_lowercase().as_str() {
        "query" | "search_query" => "RETRIEVAL_QUERY",
        "document" | "passage" | "search_document" => "RETRIEVAL_DOCUMENT",
        "classification" => "CLASSIFICATION",
        "clustering" => "CLUSTERING",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use antfly_framework::Operation;

    #[test]
    fn both_names_give_googles_words() {
        let task = |task: Option<&str>, input: Option<&str>| {
            let mut entry = EntryConfig::new(Operation::Embed, "vertex", "m").with_name("docs");
            entry.embed.task_type = task.map(str::to_owned);
            entry.embed.input_type = input.map(str::to_owned);
            of(&entry).map_err(|e| e.message().to_owned())
        };
        assert_eq!(task(None, None), Ok(None));
        assert_eq!(
            task(Some("retrieval_query"), None),
            Ok(Some("RETRIEVAL_QUERY".to_owned()))
        );
        assert_eq!(
            task(None, Some("search_document")),
            Ok(Some("RETRIEVAL_DOCUMENT".to_owned()))
        );
        assert!(
            task(None, Some("image"))
                .unwrap_err()
                .starts_with("docs.input_type: \"image\"")
        );
        assert!(
            task(Some("a b"), None)
                .unwrap_err()
                .starts_with("docs.task_type: ")
        );
        assert!(task(Some("A"), Some("query")).is_err());
    }
}
