//! Findings: what was checked, the result with its severity, and what to do about it.

use std::fmt;

use serde_json::{Value, json};

use super::subject::Subject;
use crate::error::without_numbers;

/// How severe a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Ok,
    /// Pods can run, but something may fail.
    Warn,
    Fail,
}

/// One result of `dockbridge check`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub subject: Subject,
    pub seen: String,
    /// What the operator should do; empty if there is nothing to do.
    pub advice: String,
}

/// The findings of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

impl Finding {
    /// A finding after which the operator has nothing to do.
    pub fn ok(subject: Subject, seen: impl Into<String>) -> Self {
        Self::new(Severity::Ok, subject, seen, "")
    }

    /// A finding about something that may fail.
    pub fn warn(subject: Subject, seen: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Severity::Warn, subject, seen, advice)
    }

    /// A finding about something that prevents pods from running.
    pub fn fail(subject: Subject, seen: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::new(Severity::Fail, subject, seen, advice)
    }

    fn new(
        severity: Severity,
        subject: Subject,
        seen: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self { severity, subject, seen: without_numbers(&seen.into()), advice: advice.into() }
    }
}

impl Findings {
    /// The highest severity of the findings.
    pub fn worst(&self) -> Severity {
        self.0.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// Says whether pods can run, with the number of warnings or failures.
    pub fn verdict(&self) -> String {
        match (self.count(Severity::Warn), self.count(Severity::Fail)) {
            (0, 0) => "This host is ready.".to_owned(),
            (warn, 0) => format!("This host is ready, with {}.", counted(warn, "warning")),
            (_, fail) => format!("This host is not ready: {}.", counted(fail, "failure")),
        }
    }

    /// A JSON value for programs: whether nothing failed, and each finding.
    pub fn to_json(&self) -> Value {
        let each = self.0.iter().map(|Finding { severity, subject, seen, advice }| {
            let (severity, subject) = (severity.to_string(), subject.name());
            json!({ "severity": severity, "subject": subject, "seen": seen, "advice": advice })
        });
        let findings: Vec<Value> = each.collect();
        json!({ "ready": self.worst() < Severity::Fail, "findings": findings })
    }

    fn count(&self, severity: Severity) -> usize {
        self.0.iter().filter(|finding| finding.severity == severity).count()
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        })
    }
}

impl fmt::Display for Finding {
    /// Writes one line with the result, and if there is advice, one line with an arrow and the advice. The alternate
    /// form (`{:#}`) marks the severity with `*`: if root runs the check, the finding may differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = format!("{}{}", self.severity, if f.alternate() { "*" } else { "" });
        writeln!(f, "{severity:<5} {:<13} {}", self.subject, self.seen)?;
        if !self.advice.is_empty() {
            writeln!(f, "{:19} -> {}", "", self.advice)?;
        }
        Ok(())
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.0 {
            finding.fmt(f)?;
        }
        writeln!(f, "{}", self.verdict())
    }
}

fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
