//! How long a provider asks to wait, read from an answer's headers and from the durations in its body.
//!
//! Everything here rounds up and saturates: a retry is never earlier than told, and no value overflows or panics. What is
//! malformed counts as absent, never as zero.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

/// The longest wait that the headers of an answer ask for.
///
/// Looks at every value of `retry-after-ms`, `x-ms-retry-after-ms` (milliseconds) and `retry-after` (seconds, with or without a
/// fraction; an HTTP date in any of its three forms; or a duration such as `2m59.56s`). A date is measured against the
/// answer's own `date` when it has a valid one, else against `now`; a date in the past is zero.
pub(crate) fn hint(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let texts = |name: &'static str| {
        let values = headers.get_all(name).into_iter();
        values
            .filter_map(|value| value.to_str().ok())
            .map(str::trim)
    };
    let millis = texts("retry-after-ms")
        .chain(texts("x-ms-retry-after-ms"))
        .filter_map(|text| parse_decimal(text, Unit::MILLI).or_else(|| parse_duration(text)));
    let seconds = texts("retry-after").filter_map(|text| {
        parse_decimal(text, Unit::SECOND)
            .or_else(|| parse_duration(text))
            .or_else(|| until(text, headers, now))
    });
    millis.chain(seconds).max()
}

/// A duration in the form of Google's `RetryInfo`: decimal seconds followed by `s`, such as `34.4s`.
pub fn parse_proto_duration(text: &str) -> Option<Duration> {
    parse_decimal(text.trim().strip_suffix('s')?, Unit::SECOND)
}

/// A duration as a sequence of decimals and units: `7.66s`, `2m59.56s`, `23h47m36.648s`, `12ms`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (digits, tail) = rest.split_at(number);
        let unit = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit);
        sum = sum.saturating_add(parse_decimal(digits, Unit::named(unit)?)?);
        rest = tail;
    }
    Some(sum)
}

/// A unit of time, in nanoseconds.
#[derive(Clone, Copy)]
struct Unit(u128);

impl Unit {
    const MILLI: Unit = Unit(1_000_000);
    const SECOND: Unit = Unit(1_000_000_000);

    fn named(name: &str) -> Option<Unit> {
        Some(match name {
            "ns" => Unit(1),
            "us" | "\u{b5}s" | "\u{3bc}s" => Unit(1_000),
            "ms" => Unit::MILLI,
            "s" => Unit::SECOND,
            "m" => Unit(60 * Unit::SECOND.0),
            "h" => Unit(3_600 * Unit::SECOND.0),
            "d" => Unit(86_400 * Unit::SECOND.0),
            _ => return None,
        })
    }
}

/// `digits[.digits]` units; no sign, no exponent, no other script's digits. Rounded up to a nanosecond.
fn parse_decimal(text: &str, unit: Unit) -> Option<Duration> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, fraction),
        None => (text, "0"),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = whole.bytes().fold(0_u128, |sum, digit| {
        sum.saturating_mul(10)
            .saturating_add(u128::from(digit - b'0'))
    });
    // Eighteen places are exact for every unit; what is beyond them can only round up.
    let mut scale = 1_u128;
    let mut part = 0_u128;
    for digit in fraction.bytes().take(18) {
        scale *= 10;
        part = part * 10 + u128::from(digit - b'0');
    }
    let beyond = fraction.bytes().skip(18).any(|digit| digit != b'0');
    let part = (part * unit.0).div_ceil(scale) + u128::from(beyond);
    Some(from_nanos(
        whole.saturating_mul(unit.0).saturating_add(part),
    ))
}

fn from_nanos(nanos: u128) -> Duration {
    let second = Unit::SECOND.0;
    match (u64::try_from(nanos / second), u32::try_from(nanos % second)) {
        (Ok(seconds), Ok(nanos)) => Duration::new(seconds, nanos),
        _ => Duration::MAX,
    }
}

/// The time until an HTTP date, in whole milliseconds rounded up.
fn until(text: &str, headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let date = httpdate::parse_http_date(text).ok()?;
    let base = headers
        .get(http::header::DATE)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| httpdate::parse_http_date(text.trim()).ok())
        .unwrap_or(now);
    let wait = date.duration_since(base).unwrap_or(Duration::ZERO);
    Some(from_nanos(
        wait.as_nanos().div_ceil(Unit::MILLI.0) * Unit::MILLI.0,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn now() -> SystemTime {
        // Sun, 06 Nov 1994 08:49:37 GMT
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    fn read(pairs: &[(&'static str, &str)]) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        hint(&headers, now())
    }

    const fn ms(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis))
    }

    #[test]
    fn f01_a_date_in_any_of_three_forms_counts_as_seconds() {
        for date in [
            "Sun, 06 Nov 1994 08:49:40 GMT",
            "Sunday, 06-Nov-94 08:49:40 GMT",
            "Sun Nov  6 08:49:40 1994",
        ] {
            assert_eq!(read(&[("retry-after", date)]), ms(3000), "{date}");
        }
        assert_eq!(
            read(&[("retry-after", "Sun, 06 Nov 1994 08:49:30 GMT")]),
            ms(0)
        );
    }

    #[test]
    fn f01_a_date_is_measured_against_the_answers_own_date() {
        let at = ("retry-after", "Sun, 06 Nov 1994 10:00:05 GMT");
        assert_eq!(
            read(&[at, ("date", "Sun, 06 Nov 1994 10:00:00 GMT")]),
            ms(5000)
        );
        assert_eq!(read(&[at, ("date", "yesterday")]), ms(4_228_000));
    }

    #[test]
    fn f01_a_date_is_never_rounded_down() {
        let headers = HeaderMap::from_iter([(
            http::header::RETRY_AFTER,
            HeaderValue::from_static("Sun, 06 Nov 1994 08:49:40 GMT"),
        )]);
        assert_eq!(hint(&headers, now() + Duration::from_nanos(1)), ms(3000));
    }

    #[test]
    fn f02_malformed_values_are_absent_and_never_zero() {
        for bad in [
            "",
            " ",
            "soon",
            "Wed, 99 Foo 2026",
            "-1",
            "-0",
            "+5",
            "NaN",
            "inf",
            "-inf",
            "1e3",
            "0x10",
            "\u{b2}",
            "5\u{b2}",
            "1.2.3",
            ".",
            "1.",
            ".5",
            "5 s",
            "s",
            "5x",
            "1m-2s",
            "2m59.56",
            "5, 10",
            "Sun, 06 Nov 19940 08:49:40 GMT",
            "null",
            "\u{661}",
        ] {
            for name in ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"] {
                assert_eq!(read(&[(name, bad)]), None, "{name}: {bad:?}");
            }
        }
        assert_eq!(read(&[]), None);
        assert_eq!(
            read(&[("retry-after", "soon"), ("retry-after", "7")]),
            ms(7000)
        );
    }

    #[test]
    fn the_longest_of_all_values_counts() {
        let all = [
            ("retry-after", "2"),
            ("retry-after", "1.5"),
            ("retry-after-ms", "2500.5"),
            ("x-ms-retry-after-ms", "-1"),
        ];
        assert_eq!(read(&all), Some(Duration::from_micros(2_500_500)));
        assert_eq!(read(&[("x-ms-retry-after-ms", "300")]), ms(300));
        assert_eq!(read(&[("retry-after", " 0 ")]), ms(0));
    }

    #[test]
    fn f05_f07_a_value_is_taken_exactly() {
        assert_eq!(read(&[("retry-after", "90")]), ms(90_000));
        assert_eq!(read(&[("retry-after", "60")]), ms(60_000));
        assert_eq!(read(&[("retry-after", "3600.001")]), ms(3_600_001));
    }

    #[test]
    fn durations_with_units_are_read_and_do_not_panic() {
        assert_eq!(read(&[("retry-after", "7.66s")]), ms(7_660));
        assert_eq!(read(&[("retry-after", "2m59.56s")]), ms(179_560));
        assert_eq!(parse_duration("23h47m36.648s"), ms(85_656_648));
        assert_eq!(parse_duration("12ms"), ms(12));
        assert_eq!(parse_duration("6m0s"), ms(360_000));
        assert_eq!(
            parse_duration("1.5\u{b5}s"),
            Some(Duration::from_nanos(1500))
        );
        for bad in ["", "5", "m", "1mm", "1s2", "\u{e9}1s", "1\u{e9}"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }

    #[test]
    fn huge_values_saturate() {
        let long = "9".repeat(400);
        for value in [
            long.clone(),
            format!("{long}.{long}"),
            format!("{long}h{long}m"),
            u64::MAX.to_string(),
        ] {
            assert!(read(&[("retry-after", &value)]).unwrap() >= Duration::from_secs(u64::MAX));
        }
        assert!(read(&[("retry-after-ms", &long)]).unwrap() == Duration::MAX);
        assert!(
            read(&[("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")]).unwrap()
                > Duration::from_secs(1 << 32)
        );
    }

    #[test]
    fn f10_proto_durations() {
        assert_eq!(parse_proto_duration("2.5s"), ms(2500));
        assert_eq!(parse_proto_duration("22s"), ms(22_000));
        assert_eq!(
            parse_proto_duration("45.837906927s"),
            Some(Duration::new(45, 837_906_927))
        );
        assert_eq!(
            parse_proto_duration("0.0000000001s"),
            Some(Duration::from_nanos(1))
        );
        for bad in ["", "s", "-3s", "5", "5m", "5ms", "NaNs", "1e9s", "\u{b2}s"] {
            assert_eq!(parse_proto_duration(bad), None, "{bad}");
        }
    }
}
