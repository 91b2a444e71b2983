//! Policies are valid and normalised, or they do not exist.
#![allow(missing_docs)]

use antfly_limiter::{Pacing, Policy, PolicyError};

#[test]
fn a_zero_is_an_error_that_names_its_limit() {
    let b = Policy::builder;
    for (builder, field) in [
        (b().requests_per_minute(0), "requests_per_minute"),
        (b().burst(0), "burst"),
        (b().max_concurrency(0), "max_concurrency"),
        (b().tokens_per_minute(0), "tokens_per_minute"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error, PolicyError::Zero { field });
        assert_eq!(
            error.to_string(),
            format!("{field} is 0, expected an integer from 1 to 4294967295")
        );
    }
}

#[test]
fn completion_pacing_needs_a_rate_and_burst_one() {
    let b = || Policy::builder().pacing(Pacing::Completion);
    assert_eq!(b().build().unwrap_err().field(), "requests_per_minute");
    assert_eq!(
        b().requests_per_minute(5)
            .burst(2)
            .build()
            .unwrap_err()
            .field(),
        "burst"
    );
    assert!(
        b().requests_per_minute(5)
            .burst(1)
            .max_concurrency(3)
            .build()
            .is_ok()
    );
}

#[test]
fn a_burst_without_a_rate_is_normalised_away() {
    let policy = Policy::builder().burst(9).build().unwrap();
    assert_eq!(policy, Policy::UNLIMITED);
    assert!(policy.is_unlimited());
    let one = Policy::builder()
        .requests_per_minute(5)
        .burst(1)
        .build()
        .unwrap();
    assert_eq!(
        one,
        Policy::builder().requests_per_minute(5).build().unwrap()
    );
}

#[test]
fn a_policy_reads_as_its_limits() {
    let b = Policy::builder;
    assert_eq!(Policy::UNLIMITED.to_string(), "unlimited");
    let all = b()
        .requests_per_minute(120)
        .burst(2)
        .max_concurrency(4)
        .tokens_per_minute(9)
        .build()
        .unwrap();
    assert_eq!(
        all.to_string(),
        "requests_per_minute 120, burst 2, max_concurrency 4, tokens_per_minute 9"
    );
    let paced = b()
        .requests_per_minute(6)
        .pacing(Pacing::Completion)
        .build()
        .unwrap();
    assert_eq!(
        paced.to_string(),
        "requests_per_minute 6, pacing completion"
    );
}
