//! A row for each call: grey while it waits, blue while its exchange runs, a red cross where it is refused.

use std::fmt::Write as _;

use crate::sim::{Call, End};

const LEFT: f64 = 150.0;
const WIDTH: f64 = 640.0;
/// The most characters of a title that the drawing is wide enough for.
const WIDEST_TITLE: usize = 86;
const ROW: f64 = 16.0;
const TOP: f64 = 46.0;

/// A drawing in the making.
pub(crate) struct Plot {
    out: String,
    seconds: f64,
    y: f64,
}

impl Plot {
    /// An empty plot of so many seconds.
    pub(crate) fn new(seconds: f64) -> Self {
        Plot {
            out: String::new(),
            seconds,
            y: 0.0,
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds.min(self.seconds) / self.seconds * WIDTH
    }

    /// Adds a panel: a title, a row for each call, a shade for each cooldown.
    pub(crate) fn panel(
        mut self,
        title: &str,
        calls: &[Call],
        ends: &[End],
        cooldowns: &[(f64, f64)],
    ) -> Self {
        assert!(title.len() <= WIDEST_TITLE, "cut at the edge: {title}");
        let top = self.y + TOP;
        let height = calls.len() as f64 * ROW;
        let _ = writeln!(
            self.out,
            r##"<text x="{LEFT}" y="{:.1}" class="t">{title}</text>"##,
            top - 24.0
        );
        for (from, lasts) in cooldowns {
            let (a, b) = (self.x(*from), self.x(from + lasts));
            let _ = writeln!(
                self.out,
                r##"<rect x="{a:.1}" y="{top:.1}" width="{:.1}" height="{height:.1}" fill="#fde2c4"/><text x="{:.1}" y="{:.1}" class="s">429, Retry-After {lasts}</text>"##,
                b - a,
                a + 3.0,
                top - 5.0
            );
        }
        let step = if self.seconds > 24.0 { 5 } else { 1 };
        for second in (0..=self.seconds as u32).step_by(step) {
            let x = self.x(f64::from(second));
            let _ = writeln!(
                self.out,
                r##"<line x1="{x:.1}" y1="{top:.1}" x2="{x:.1}" y2="{:.1}" stroke="#ddd"/><text x="{x:.1}" y="{:.1}" class="n">{second}</text>"##,
                top + height,
                top + height + 12.0
            );
        }
        for (row, (call, end)) in calls.iter().zip(ends).enumerate() {
            let y = top + row as f64 * ROW + 3.0;
            let name = match call.within {
                Some(within) => format!("call {}, {within} s", row + 1),
                None => format!("call {}", row + 1),
            };
            let _ = writeln!(
                self.out,
                r##"<text x="{:.1}" y="{:.1}" class="r">{name}</text>"##,
                LEFT - 8.0,
                y + 9.0
            );
            let came = self.x(call.at);
            let (until, running) = match end {
                End::Done(from, until) => (self.x(*from), Some(self.x(*until))),
                End::Refused(when) => (self.x(*when), None),
            };
            let _ = writeln!(
                self.out,
                r##"<rect x="{came:.1}" y="{:.1}" width="{:.1}" height="4" fill="#bbb"/>"##,
                y + 3.0,
                until - came
            );
            let _ = match running {
                Some(end) => writeln!(
                    self.out,
                    r##"<rect x="{until:.1}" y="{y:.1}" width="{:.1}" height="10" fill="#3b7dd8"/>"##,
                    (end - until).max(2.0)
                ),
                None => writeln!(
                    self.out,
                    r##"<path d="M{:.1} {y:.1}l10 10m0 -10l-10 10" stroke="#c0392b" stroke-width="2"/>"##,
                    until - 5.0
                ),
            };
        }
        self.y = top + height + 18.0;
        self
    }

    /// The whole drawing.
    pub(crate) fn finish(self, about: &str) -> String {
        let (width, height) = (LEFT + WIDTH + 20.0, self.y + 18.0);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>{about}</title>
<style>text{{font:11px sans-serif;fill:#333}}.t{{font-weight:bold;font-size:13px}}.n{{text-anchor:middle;fill:#777}}.r{{text-anchor:end}}.s{{fill:#a65e00}}</style>
<rect width="100%" height="100%" fill="#fff"/>
{}<text x="{LEFT}" y="{:.1}" class="n" style="text-anchor:start">seconds; grey: waiting, blue: in flight, red cross: refused</text>
</svg>
"##,
            self.out,
            height - 6.0
        )
    }
}
