//! What came of the checks.

use std::fmt;

/// What came of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It holds.
    Passed,
    /// It does not apply, or the author skipped it; why.
    Skipped(String),
    /// It does not hold.
    Failed {
        /// What the contract asks for.
        expected: String,
        /// What happened.
        seen: String,
    },
}

/// One check and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// The check's name (`stream.split`).
    pub name: &'static str,
    /// What it checks, in a sentence.
    pub checks: &'static str,
    /// What came of it.
    pub status: Status,
}

/// What came of every check, in the order they ran.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The plugin.
    pub provider: String,
    /// The operation.
    pub operation: &'static str,
    /// The checks.
    pub outcomes: Vec<Outcome>,
    pub(super) partial: bool,
}

impl Report {
    /// The checks that hold.
    pub fn passed(&self) -> impl Iterator<Item = &Outcome> {
        self.of(|s| *s == Status::Passed)
    }

    /// The checks that were skipped.
    pub fn skipped(&self) -> impl Iterator<Item = &Outcome> {
        self.of(|s| matches!(s, Status::Skipped(_)))
    }

    /// The checks that do not hold.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.of(|s| matches!(s, Status::Failed { .. }))
    }

    fn of(&self, wanted: impl Fn(&Status) -> bool) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(move |o| wanted(&o.status))
    }

    /// Fails the test unless every check holds or was skipped for a reason.
    ///
    /// # Panics
    /// With the report, when a check failed, or when only some were run.
    pub fn assert(&self) {
        let failed = self.failed().count();
        assert!(failed == 0, "{failed} checks failed\n{self}");
        assert!(
            !self.partial,
            "only some checks were run (`only`): that proves nothing\n{self}"
        );
        assert!(self.passed().count() > 0, "nothing was checked\n{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} {}: {} passed, {} skipped, {} failed",
            self.provider,
            self.operation,
            self.passed().count(),
            self.skipped().count(),
            self.failed().count()
        )?;
        for o in &self.outcomes {
            match &o.status {
                Status::Passed => writeln!(f, "  ok    {}", o.name)?,
                Status::Skipped(why) => writeln!(f, "  skip  {}: {why}", o.name)?,
                Status::Failed { expected, seen } => writeln!(
                    f,
                    "  FAIL  {}: {}\n        expected: {expected}\n        seen:     {seen}",
                    o.name, o.checks
                )?,
            }
        }
        Ok(())
    }
}
