use super::*;

fn options(
    model: Model,
    change: impl FnOnce(&mut EmbedOptions),
) -> Result<Options, (&'static str, String)> {
    let mut options = EmbedOptions::default();
    change(&mut options);
    Options::of(model, &options)
}

const ALL: [Model; 5] = [
    Model::TitanV1,
    Model::TitanV2,
    Model::TitanImage,
    Model::CohereV3,
    Model::CohereV4,
];

#[test]
fn models_are_known_by_id_profile_and_arn() {
    for (id, model) in [
        ("amazon.titan-embed-text-v1", Some(Model::TitanV1)),
        ("amazon.titan-embed-text-v1:2:8k", Some(Model::TitanV1)),
        ("amazon.titan-embed-g1-text-02", Some(Model::TitanV1)),
        ("amazon.titan-embed-text-v2:0", Some(Model::TitanV2)),
        ("amazon.titan-embed-image-v1", Some(Model::TitanImage)),
        ("cohere.embed-english-v3", Some(Model::CohereV3)),
        ("cohere.embed-multilingual-v3", Some(Model::CohereV3)),
        ("cohere.embed-v4:0", Some(Model::CohereV4)),
        ("global.cohere.embed-v4:0", Some(Model::CohereV4)),
        (
            "arn:aws:bedrock:eu-west-1::foundation-model/amazon.titan-embed-text-v2:0",
            Some(Model::TitanV2),
        ),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.cohere.embed-v4:0",
            Some(Model::CohereV4),
        ),
        (
            "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc",
            Some(Model::Opaque),
        ),
        (
            "arn:aws:bedrock:us-east-1:1:provisioned-model/abc",
            Some(Model::Opaque),
        ),
        (
            "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude",
            None,
        ),
        ("anthropic.claude-3", None),
        ("m", None),
    ] {
        assert_eq!(Model::of(id), model, "{id}");
    }
}

#[test]
fn each_model_has_its_own_lengths() {
    for model in ALL {
        let allowed: Vec<u32> = [128, 256, 384, 512, 1024, 1536, 3072]
            .into_iter()
            .filter(|n| options(model, |o| o.dimensions = Some(*n)).is_ok())
            .collect();
        assert_eq!(allowed, model.dimensions());
    }
    let (field, problem) = options(Model::CohereV4, |o| o.dimensions = Some(100)).unwrap_err();
    assert_eq!(
        (field, problem.as_str()),
        (
            "dimensions",
            "100 is not allowed; this model has 256, 512, 1024, 1536"
        )
    );
}

#[test]
fn an_option_a_model_does_not_have_is_refused() {
    for model in [Model::TitanV1, Model::TitanV2, Model::TitanImage] {
        for (field, result) in [
            (
                "truncate",
                options(model, |o| o.truncate = Some("END".into())),
            ),
            (
                "input_type",
                options(model, |o| o.input_type = Some("search_query".into())),
            ),
            (
                "task_type",
                options(model, |o| o.task_type = Some("CLUSTERING".into())),
            ),
        ] {
            assert_eq!(result.unwrap_err().0, field);
        }
    }
    for model in [Model::CohereV3, Model::CohereV4] {
        for (field, result) in [
            (
                "truncate",
                options(model, |o| o.truncate = Some("MIDDLE".into())),
            ),
            (
                "input_type",
                options(model, |o| o.input_type = Some("image".into())),
            ),
            (
                "task_type",
                options(model, |o| o.task_type = Some("SEMANTIC_SIMILARITY".into())),
            ),
            (
                "task_type",
                options(model, |o| {
                    o.task_type = Some("CLUSTERING".into());
                    o.input_type = Some("clustering".into());
                }),
            ),
        ] {
            assert_eq!(result.unwrap_err().0, field);
        }
    }
}

#[test]
fn a_task_may_be_named_either_way() {
    for (word, wire) in [
        ("search_query", "search_query"),
        ("RETRIEVAL_DOCUMENT", "search_document"),
    ] {
        let found = options(Model::CohereV3, |o| o.task_type = Some(word.into())).unwrap();
        assert_eq!(found.input_type, wire);
    }
}

#[test]
fn forms_decide_what_travels_together() {
    let text = EmbedInput::from("a");
    let joined = EmbedInput::Parts(vec![Part::text("a"), Part::text("b")]);
    let image = EmbedInput::Parts(vec![Part::image_url("data:image/png;base64,aa==")]);
    let both = EmbedInput::Parts(vec![
        Part::text("a"),
        Part::image_url("data:image/png;base64,aa=="),
    ]);
    assert!(Model::CohereV3.together(&text, &joined));
    assert!(!Model::CohereV3.together(&image, &image));
    assert!(Model::CohereV4.together(&image, &image) && Model::CohereV4.together(&both, &both));
    assert!(!Model::CohereV4.together(&text, &image) && !Model::CohereV4.together(&image, &both));
}

#[test]
fn text_in_parts_is_joined() {
    let found = options(Model::TitanV1, |_| {}).unwrap();
    let input = [EmbedInput::Parts(vec![Part::text("a"), Part::text("b")])];
    assert_eq!(
        body(&found, &input, &Map::new()).unwrap(),
        br#"{"inputText":"a\nb"}"#
    );
}
