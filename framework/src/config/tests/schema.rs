//! The schema against the parser: what one takes for a key, the other takes.

use serde_json::{Value, json};

use super::super::parse::{ADMISSION, COMMON, EMBED, GENERATE, RERANK, RETRY};
use super::super::policy::KEYS;
use super::super::schema::{described, schema};
use crate::config::EntryConfig;
use crate::provider::Operation;

/// Whether `value` is valid by `schema`: the part of JSON Schema that the configuration's uses, and nothing else.
pub(crate) fn valid(root: &Value, schema: &Value, value: &Value) -> bool {
    let Some(rules) = schema.as_object() else {
        return schema == &json!(true);
    };
    rules.iter().all(|(rule, of)| match rule.as_str() {
        "$schema" | "$defs" | "title" | "description" | "then" | "else" => true,
        "$ref" => {
            let at = of.as_str().unwrap().trim_start_matches('#');
            valid(root, root.pointer(at).unwrap(), value)
        }
        "type" => match of {
            Value::Array(types) => types.iter().any(|t| is(t, value)),
            one => is(one, value),
        },
        "enum" => of.as_array().unwrap().contains(value),
        "minimum" => value.as_f64().is_none_or(|n| n >= of.as_f64().unwrap()),
        "maximum" => value.as_f64().is_none_or(|n| n <= of.as_f64().unwrap()),
        "minLength" => value
            .as_str()
            .is_none_or(|s| s.chars().count() as u64 >= of.as_u64().unwrap()),
        "pattern" => {
            assert_eq!(of, "\\S", "the only pattern there is");
            value.as_str().is_none_or(|s| !s.trim().is_empty())
        }
        "required" => value.as_object().is_none_or(|o| {
            of.as_array()
                .unwrap()
                .iter()
                .all(|k| o.contains_key(k.as_str().unwrap()))
        }),
        "properties" => value.as_object().is_none_or(|o| {
            of.as_object()
                .unwrap()
                .iter()
                .all(|(k, s)| o.get(k).is_none_or(|v| valid(root, s, v)))
        }),
        "propertyNames" => value
            .as_object()
            .is_none_or(|o| o.keys().all(|k| valid(root, of, &json!(k)))),
        "additionalProperties" => value.as_object().is_none_or(|o| {
            let known = schema.get("properties").and_then(Value::as_object);
            o.iter()
                .filter(|(k, _)| known.is_none_or(|known| !known.contains_key(*k)))
                .all(|(_, v)| valid(root, of, v))
        }),
        "items" => value
            .as_array()
            .is_none_or(|a| a.iter().all(|v| valid(root, of, v))),
        "anyOf" => of.as_array().unwrap().iter().any(|s| valid(root, s, value)),
        "not" => !valid(root, of, value),
        "if" => {
            let branch = if valid(root, of, value) {
                "then"
            } else {
                "else"
            };
            schema.get(branch).is_none_or(|s| valid(root, s, value))
        }
        other => panic!("the schema uses {other:?}, which this test does not know"),
    })
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    }
}

const OPERATIONS: [(Operation, &str, &[&str]); 3] = [
    (Operation::Embed, "embedder", &EMBED),
    (Operation::Generate, "generator", &GENERATE),
    (Operation::Rerank, "reranker", &RERANK),
];

/// Values of every type and at the edges of every range.
fn probes() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(1.5),
        json!(-1001),
        json!(1001),
        json!(1_000_001),
        json!(4_294_967_295_u64),
        json!(4_294_967_296_u64),
        json!(u64::MAX),
        json!(""),
        json!("  "),
        json!("x"),
        json!("none"),
        json!("auto"),
        json!("any"),
        json!("float"),
        json!("completion"),
        json!("token_bucket"),
        json!("cosine"),
        json!("follow"),
        json!([]),
        json!([""]),
        json!(["a", "b"]),
        json!([1]),
        json!({}),
        json!({"x": 1}),
        json!({"name": "n"}),
        json!({"function": {"name": "n"}}),
        json!([{"name": "n"}]),
        json!([{}]),
        json!({"type": "text"}),
        json!({"type": "xml"}),
        json!({"x-a": "b"}),
        json!({"x-a": 1}),
        json!({"max_attempts": 2}),
        json!({"max_queue": 0}),
        json!({"max_concurrency": 3}),
        json!({"burst": 1}),
        json!({"burst": "1"}),
        json!({"backoff_multiplier": 0.5}),
    ]
}

#[test]
fn every_key_of_the_parser_is_in_the_schema_and_described() {
    let nested = KEYS.iter().chain(&RETRY).chain(&ADMISSION);
    for key in COMMON
        .iter()
        .chain(&EMBED)
        .chain(&GENERATE)
        .chain(&RERANK)
        .chain(nested)
    {
        assert!(described(key), "config/schema.rs says nothing of {key:?}");
    }
    let schema = schema();
    for (_, name, own) in OPERATIONS {
        let properties = schema["$defs"][name]["properties"].as_object().unwrap();
        // And "$schema", for an entry that is the whole document.
        assert_eq!(properties.len(), COMMON.len() + own.len() + 1, "{name}");
    }
}

#[test]
fn the_schema_takes_for_each_key_what_the_parser_takes() {
    let root = schema();
    let mut taken = 0;
    for (operation, name, own) in OPERATIONS {
        for key in COMMON.iter().chain(own) {
            for probe in probes() {
                let mut entry = json!({"provider": "p", "model": "m"});
                entry[*key] = probe;
                let parsed = EntryConfig::from_json(operation, "e.x", entry.clone());
                let by_schema = valid(&root, &root["$defs"][name], &entry);
                assert_eq!(parsed.is_ok(), by_schema, "{name}: {entry}: {parsed:?}");
                taken += u32::from(by_schema);
            }
        }
    }
    assert!(taken > 500, "{taken} were taken: the probes say little");
}

#[test]
fn unknown_and_missing_keys_are_refused_by_both() {
    let root = schema();
    for bad in [
        json!({"provider": "p"}),
        json!({"model": "m"}),
        json!({"provider": "p", "model": "m", "rate_limits": {}}),
        json!({"provider": "p", "model": "m", "top_n": 3, "dimensions": 3}),
        json!({"provider": "p", "model": "m", "rate_limit": {"rpm": 3}}),
    ] {
        for (operation, name, _) in OPERATIONS {
            assert!(
                EntryConfig::from_json(operation, "e.x", bad.clone()).is_err(),
                "{bad}"
            );
            assert!(!valid(&root, &root["$defs"][name], &bad), "{name}: {bad}");
        }
    }
}

#[test]
fn a_document_may_name_its_schema_and_an_entry_under_a_name_may_not() {
    let root = schema();
    let entry = json!({"provider": "p", "model": "m"});
    for (name, good) in [
        (json!("./config.schema.json"), true),
        (json!(""), true),
        (json!(null), true),
        (json!(7), false),
        (json!(["x"]), false),
        (json!({"$ref": "x"}), false),
    ] {
        let mut document = json!({"embedders": {"docs": entry}});
        document["$schema"] = name.clone();
        let mut alone = entry.clone();
        alone["$schema"] = name.clone();
        let inside = json!({"embedders": {"docs": alone}});
        assert_eq!(valid(&root, &root, &document), good, "{document}");
        assert_eq!(valid(&root, &root, &alone), good, "{alone}");
        assert!(!valid(&root, &root, &inside), "{inside}");
        let parsed = crate::Document::parse(&document.to_string());
        assert_eq!(parsed.is_ok(), good, "{document}: {parsed:?}");
        let parsed = crate::Document::parse_for(Operation::Embed, &alone.to_string(), |_| true);
        assert_eq!(parsed.is_ok(), good, "{alone}: {parsed:?}");
        assert!(crate::Document::parse(&inside.to_string()).is_err());
        assert!(EntryConfig::from_json(Operation::Embed, "", alone).is_err());
    }
}

/// Every JSON block of the documentation that is a configuration.
fn documented() -> Vec<Value> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    let docs = std::fs::read_dir(folder.join("docs")).unwrap();
    let pages = docs
        .map(|f| f.unwrap().path())
        .chain([folder.join("README.md")]);
    for page in pages.filter(|p| p.extension().is_some_and(|e| e == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        let fenced = text.split("```").skip(1).step_by(2);
        let quoted = fenced
            .clone()
            .flat_map(|block| block.split("<<'EOF'\n").skip(1));
        let json = fenced.filter_map(|block| block.strip_prefix("json\n"));
        for block in json.chain(quoted.filter_map(|b| b.split("\nEOF").next())) {
            if let Ok(value) = serde_json::from_str::<Value>(block)
                && ["embedders", "generators", "rerankers"]
                    .iter()
                    .any(|k| value.get(k).is_some())
            {
                all.push(value);
            }
        }
    }
    all
}

#[test]
fn the_configurations_in_the_documentation_are_valid_and_broken_copies_are_not() {
    let root = schema();
    let documented = documented();
    assert!(documented.len() >= 2, "{documented:?}");
    for value in documented {
        assert!(valid(&root, &root, &value), "{value}");
        crate::Document::parse(&value.to_string()).unwrap();
        for section in ["embedders", "generators", "rerankers"] {
            let Some(entries) = value.get(section).and_then(Value::as_object) else {
                continue;
            };
            for (name, entry) in entries {
                // An entry alone is a document too.
                assert!(valid(&root, &root, entry), "{entry}");
                for (key, wrong) in [
                    ("model", json!(7)),
                    ("modle", json!("m")),
                    ("rate_limit", json!({"burst": 0})),
                ] {
                    let mut broken = value.clone();
                    broken[section][name][key] = wrong;
                    assert!(!valid(&root, &root, &broken), "{broken}");
                    assert!(
                        crate::Document::parse(&broken.to_string()).is_err(),
                        "{broken}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_committed_schema_is_this_one() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.schema.json");
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let now = format!("{:#}\n", schema());
    assert!(
        committed == now,
        "docs/config.schema.json is stale; write it anew: cargo run -p antfly-framework --example config_schema"
    );
}
