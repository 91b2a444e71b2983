//! The date that some templates put into their system message. In UTC: a process has no other zone that can be relied on.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];

/// The present time in a format of C's `strftime`.
pub(super) fn now(format: &str) -> Result<String, Error> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    show(format, since.map_or(0, |since| since.as_secs()))
}

/// The time `seconds` after 1970 began.
pub(super) fn show(format: &str, seconds: u64) -> Result<String, Error> {
    let days = seconds / 86_400;
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let name = |names: &[&'static str], at: u64| {
        let at = usize::try_from(at).unwrap_or(0);
        names.get(at).copied().unwrap_or_default()
    };
    let (month_name, day_name) = (name(&MONTHS, month - 1), name(&DAYS, days % 7));
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let shown = match letters.next() {
            Some('Y') => year.to_string(),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('e') => format!("{day:2}"),
            Some('y') => format!("{:02}", year % 100),
            Some('B') => month_name.to_owned(),
            Some('b' | 'h') => month_name.chars().take(3).collect(),
            Some('A') => day_name.to_owned(),
            Some('a') => day_name.chars().take(3).collect(),
            Some('H') => format!("{hour:02}"),
            Some('I') => format!("{:02}", (hour + 11) % 12 + 1),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('M') => format!("{minute:02}"),
            Some('S') => format!("{second:02}"),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('Z') => "UTC".to_owned(),
            Some('%') => "%".to_owned(),
            other => {
                let problem = format!("strftime_now: %{} is not supported", other.unwrap_or(' '));
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        };
        out.push_str(&shown);
    }
    Ok(out)
}

/// Year, month and day of the day `days` after 1 January 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    let mut left = days;
    loop {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = if leap { 366 } else { 365 };
        if left < length {
            let february = if leap { 29 } else { 28 };
            for (month, length) in (1..).zip([31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
            {
                if left < length {
                    return (year, month, left + 1);
                }
                left -= length;
            }
        }
        left -= length;
        year += 1;
    }
}
