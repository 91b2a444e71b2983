use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use secrecy::ExposeSecret as _;

use super::super::{FileStore, SecretStore, Secrets};
use super::{SETTING, reference, value};
use crate::config::Env;
use crate::error::Kind;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("antfly-secret-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn one(value: &str) -> String {
    serde_json::json!({"secrets": [{"key": "k", "value": value}]}).to_string()
}

async fn get(store: &FileStore, name: &str) -> Option<String> {
    store
        .get(name)
        .await
        .unwrap()
        .map(|v| v.expose_secret().to_owned())
}

#[tokio::test]
async fn a_path_is_relative_to_the_folder_of_the_configuration() {
    let folder = Folder::new();
    let path = folder.write("s.json", &one("v"));
    let relative = FileStore::open("s.json", &folder.0).unwrap();
    let absolute = FileStore::open(path.to_str().unwrap(), Path::new("/nowhere")).unwrap();
    assert_eq!(get(&relative, "k").await.as_deref(), Some("v"));
    assert!(relative.id().starts_with("file:/") && relative.id().ends_with("/s.json"));
    assert_eq!(relative.id(), absolute.id());
    assert!(relative.holds("k").unwrap() && !relative.holds("other").unwrap());
}

#[tokio::test]
async fn a_rewrite_is_seen_at_once_even_of_the_same_length_in_the_same_instant() {
    let folder = Folder::new();
    folder.write("s.json", &one("v0"));
    let store = FileStore::open("s.json", &folder.0).unwrap();
    for round in 1..50 {
        let text = format!("v{}", round % 10);
        folder.write("s.json", &one(&text));
        assert_eq!(get(&store, "k").await, Some(text));
    }
}

#[tokio::test]
async fn a_replacement_by_rename_is_seen() {
    let folder = Folder::new();
    folder.write("s.json", &one("old"));
    let store = FileStore::open("s.json", &folder.0).unwrap();
    let new = folder.write("new", &one("new"));
    fs::rename(new, folder.0.join("s.json")).unwrap();
    assert_eq!(get(&store, "k").await.as_deref(), Some("new"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_that_moves_to_a_new_version_is_followed_and_stays_the_same_store() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("v1")).unwrap();
    fs::create_dir(folder.0.join("v2")).unwrap();
    folder.write("v1/s.json", &one("old"));
    folder.write("v2/s.json", &one("new"));
    std::os::unix::fs::symlink("v1", folder.0.join("data")).unwrap();
    std::os::unix::fs::symlink("data/s.json", folder.0.join("s.json")).unwrap();
    let store = FileStore::open("s.json", &folder.0).unwrap();
    assert_eq!(get(&store, "k").await.as_deref(), Some("old"));
    std::os::unix::fs::symlink("v2", folder.0.join("next")).unwrap();
    fs::rename(folder.0.join("next"), folder.0.join("data")).unwrap();
    fs::remove_dir_all(folder.0.join("v1")).unwrap();
    assert_eq!(get(&store, "k").await.as_deref(), Some("new"));
    assert_eq!(
        FileStore::open("s.json", &folder.0).unwrap().id(),
        store.id()
    );
}

#[tokio::test]
async fn a_broken_rewrite_or_a_missing_file_keeps_the_last_good_values() {
    let folder = Folder::new();
    let path = folder.write("s.json", &one("good"));
    let store = FileStore::open("s.json", &folder.0).unwrap();
    for broken in [
        "",
        "{",
        "{\"secrets\": 7}",
        "{\"secrets\": [{\"key\": \"k\"}]}",
        "not json",
    ] {
        folder.write("s.json", broken);
        assert_eq!(get(&store, "k").await.as_deref(), Some("good"), "{broken}");
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(get(&store, "k").await.as_deref(), Some("good"));
    folder.write("s.json", &one("better"));
    assert_eq!(get(&store, "k").await.as_deref(), Some("better"));
}

#[test]
fn a_file_that_is_not_of_the_form_is_refused_without_a_word_of_its_text() {
    let folder = Folder::new();
    for bad in [
        "",
        "sentinel",
        r#"{"secrets": "sentinel"}"#,
        r#"{"sentinel": "sentinel"}"#,
        r#"{"secrets": [{"key": "k", "value": ["sentinel"]}]}"#,
        r#"{"secrets": [{"key": "k", "value": "a", "sentinel": 1}]}"#,
        r#"{"secrets": [{"key": " ", "value": "sentinel"}]}"#,
        r#"{"secrets": [{"key": "k", "value": "sentinel"}, {"key": "k", "value": "sentinel"}]}"#,
        r#"{"secrets": [{"key": "k", "value": "sentinel", "value": "sentinel"}]}"#,
        r#"{"secrets": [], "secrets": [{"key": "k", "value": "sentinel"}]}"#,
    ] {
        folder.write("s.json", bad);
        let e = FileStore::open("s.json", &folder.0).unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(e.message().starts_with("secrets.file: "), "{e}");
        assert!(!format!("{e} {e:?}").contains("sentinel"), "{e:?}");
    }
}

#[test]
fn what_is_no_file_or_too_large_is_refused() {
    let folder = Folder::new();
    assert!(FileStore::open("none.json", &folder.0).is_err());
    assert!(FileStore::open(".", &folder.0).is_err());
    folder.write("large.json", &one(&"x".repeat(2 << 20)));
    let e = FileStore::open("large.json", &folder.0).unwrap_err();
    assert!(e.message().contains("1 MiB"), "{e}");
}

#[tokio::test]
async fn white_space_around_a_stored_key_is_taken_off_and_a_break_inside_is_found_at_build() {
    let folder = Folder::new();
    folder.write("s.json", &format!("\u{feff}{}", one(" key\r\n")));
    let store = Arc::new(FileStore::open("s.json", &folder.0).unwrap());
    let secrets = Secrets::new(Some(store), Env::empty());
    let found = secrets.resolve(&reference("k"), SETTING).unwrap();
    assert_eq!(value(&found).await.unwrap(), "key");
    for bad in ["sentinel\nx", "sentinel\u{2014}x", " "] {
        folder.write("s.json", &one(bad));
        let e = secrets.resolve(&reference("k"), SETTING).unwrap_err();
        assert_eq!(e.kind(), Kind::Config);
        assert!(
            e.message().starts_with(SETTING) && !format!("{e:?}").contains("sentinel"),
            "{e:?}"
        );
    }
}
