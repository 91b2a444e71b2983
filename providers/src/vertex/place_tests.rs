use super::*;
use antfly_framework::Kind;

fn entry(operation: Operation, model: &str) -> EntryConfig {
    let mut entry = EntryConfig::new(operation, "vertex", model).with_name("w");
    entry.project_id = Some("p-1".to_owned());
    entry
}

fn place(entry: &EntryConfig) -> Place {
    Place::of(entry, &Env::empty()).unwrap()
}

fn generate_url(model: &str, location: Option<&str>) -> String {
    let mut entry = entry(Operation::Generate, model);
    entry.location = location.map(str::to_owned);
    place(&entry).method("generateContent").unwrap().to_string()
}

#[test]
fn j13_the_host_goes_by_the_location_and_global_has_no_prefix() {
    for (location, host) in [
        (None, "us-central1-aiplatform.googleapis.com"),
        (
            Some("europe-west4"),
            "europe-west4-aiplatform.googleapis.com",
        ),
        (Some("global"), "aiplatform.googleapis.com"),
        (Some("eu"), "aiplatform.eu.rep.googleapis.com"),
        (Some("us"), "aiplatform.us.rep.googleapis.com"),
    ] {
        let path = location.unwrap_or("us-central1");
        assert_eq!(
            generate_url("gemini-2.5-flash", location),
            format!(
                "https://{host}/v1/projects/p-1/locations/{path}/publishers/google/models/gemini-2.5-flash:generateContent"
            )
        );
    }
}

#[test]
fn names_of_models_become_resources_and_googles_own_are_one_model_however_named() {
    let below =
        "https://us-central1-aiplatform.googleapis.com/v1/projects/p-1/locations/us-central1/";
    for (name, resource, short) in [
        ("m@001", "publishers/google/models/m@001", "m@001"),
        ("google/m", "publishers/google/models/m", "m"),
        (
            "publishers/google/models/m",
            "publishers/google/models/m",
            "m",
        ),
        (
            "intfloat/e5-maas",
            "publishers/intfloat/models/e5-maas",
            "publishers/intfloat/models/e5-maas",
        ),
        ("endpoints/123", "endpoints/123", "endpoints/123"),
        ("models/9", "models/9", "models/9"),
        ("a b", "publishers/google/models/a%20b", "a b"),
    ] {
        assert_eq!(
            generate_url(name, None),
            format!("{below}{resource}:generateContent")
        );
        assert_eq!(place(&entry(Operation::Generate, name)).model, short);
    }
}

#[test]
fn a_full_name_brings_project_and_location_and_must_not_contradict_the_entry() {
    let name = "projects/p-2/locations/europe-west1/publishers/google/models/m";
    let mut full = EntryConfig::new(Operation::Embed, "vertex", name).with_name("w");
    let env = Env::from_pairs([
        ("GOOGLE_CLOUD_PROJECT", "other"),
        ("GOOGLE_CLOUD_LOCATION", "us-west1"),
    ]);
    let there = Place::of(&full, &env).unwrap();
    assert_eq!(
        (
            there.project.as_str(),
            there.location.as_str(),
            there.model.as_str()
        ),
        ("p-2", "europe-west1", "m")
    );
    let mut short = EntryConfig::new(Operation::Embed, "vertex", "m");
    short.project_id = Some("p-2".to_owned());
    short.location = Some("europe-west1".to_owned());
    assert_eq!(Place::of(&short, &env).unwrap(), there);
    full.project_id = Some("p-3".to_owned());
    let error = Place::of(&full, &env).unwrap_err();
    assert!(error.message().starts_with("w.project_id: "), "{error}");
}

#[test]
fn project_and_location_come_from_the_environment_where_the_entry_is_silent() {
    let entry = EntryConfig::new(Operation::Generate, "vertex", "m").with_name("w");
    let env = Env::from_pairs([
        ("GOOGLE_CLOUD_PROJECT", "example.com:p"),
        ("GOOGLE_CLOUD_LOCATION", "global"),
    ]);
    let url = Place::of(&entry, &env).unwrap().method("predict").unwrap();
    assert_eq!(
        url.as_str(),
        "https://aiplatform.googleapis.com/v1/projects/example.com%3Ap/locations/global/publishers/google/models/m:predict"
    );
    let error = Place::of(&entry, &Env::empty()).unwrap_err();
    assert_eq!(error.kind(), Kind::Config);
    assert!(error.message().starts_with("w.project_id: "), "{error}");
    assert!(error.message().contains("GOOGLE_CLOUD_PROJECT"), "{error}");
}

#[test]
fn ranking_is_global_unless_the_entry_says_otherwise() {
    let mut entry = entry(Operation::Rerank, "semantic-ranker-default@latest");
    let env = Env::from_pairs([("GOOGLE_CLOUD_LOCATION", "europe-west4")]);
    let url = |entry: &EntryConfig| Place::of(entry, &env).unwrap().method("rank").unwrap();
    assert_eq!(
        url(&entry).as_str(),
        "https://discoveryengine.googleapis.com/v1/projects/p-1/locations/global/rankingConfigs/default_ranking_config:rank"
    );
    entry.location = Some("eu".to_owned());
    assert_eq!(
        url(&entry).as_str(),
        "https://eu-discoveryengine.googleapis.com/v1/projects/p-1/locations/eu/rankingConfigs/default_ranking_config:rank"
    );
}

#[test]
fn a_url_overrides_the_host_and_keeps_the_resource() {
    let with = |url: &str| {
        let entry = entry(Operation::Generate, "m").with_url(url);
        place(&entry).method("generateContent").unwrap().to_string()
    };
    let rest = "projects/p-1/locations/us-central1/publishers/google/models/m:generateContent";
    assert_eq!(
        with("http://127.0.0.1:9/"),
        format!("http://127.0.0.1:9/v1/{rest}")
    );
    assert_eq!(with("http://h/v1beta1"), format!("http://h/v1beta1/{rest}"));
}

#[test]
fn what_could_leave_its_place_is_refused_and_named() {
    for (field, value) in [
        ("location", "evil.example/"),
        ("location", "EU"),
        ("location", "-a"),
        ("project_id", "a/b"),
        ("project_id", ".."),
        ("model", "a/b/c"),
        ("model", "publishers/google/models/.."),
        ("model", "projects/p-1/locations/eu"),
        ("model", "projects/p-1/locations/e.u/endpoints/1"),
        ("model", "/m"),
    ] {
        let mut entry = entry(Operation::Embed, "m");
        match field {
            "location" => entry.location = Some(value.to_owned()),
            "project_id" => entry.project_id = Some(value.to_owned()),
            _ => entry.model = value.to_owned(),
        }
        let error = Place::of(&entry, &Env::empty()).unwrap_err();
        assert_eq!(error.kind(), Kind::Config);
        assert!(
            error.message().starts_with(&format!("w.{field}: ")),
            "{error}"
        );
    }
}
