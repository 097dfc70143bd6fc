//! `tests/env/conformance.sh` makes a folder for each run. A run's file `facts` has lines of `name=value`. The results
//! are in `report.json`, which Ginkgo writes, or in `log`, which the stories print.

use std::{collections::BTreeMap, fs, path::Path};

use serde::Deserialize;

/// The run of one test suite on one engine with one cgroup version.
#[derive(Debug, Default)]
pub(crate) struct Run {
    facts: BTreeMap<String, String>,
    pub(crate) outcome: Outcome,
}

/// The results of a run, or why it has none.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// The suite did not run on the commit of the page, for this reason.
    NotRun(String),
    /// The run began, but has no complete result, for this reason.
    Broken(String),
    Ended(Results),
}

/// The results of the tests that the report or the log of a run names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Results {
    pub(crate) passed: usize,
    pub(crate) skipped: usize,
    /// The name of each failed test, and one line about its failure.
    pub(crate) failures: Vec<(String, String)>,
    /// Why tests, or parts of stories, were skipped, and how often for each reason.
    pub(crate) reasons: BTreeMap<String, usize>,
}

impl Default for Outcome {
    fn default() -> Self {
        Self::NotRun("it has no result".to_owned())
    }
}

impl Run {
    /// Reads a run's folder. A run of another commit counts as not run.
    pub(crate) fn read(folder: &Path, commit: &str) -> Self {
        let file = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        Self::new(&file("facts"), commit, file)
    }

    /// The run whose file `facts` has this text. `file` reads the other files of its folder.
    pub(crate) fn new(facts: &str, commit: &str, file: impl Fn(&str) -> String) -> Self {
        let facts = facts.lines().filter_map(|line| line.split_once('='));
        let facts = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut run = Self { facts, ..Self::default() };
        run.outcome = run.judge(commit, file);
        run
    }

    fn judge(&self, commit: &str, file: impl Fn(&str) -> String) -> Outcome {
        if let Some(why) = self.facts.get("missing") {
            return Outcome::NotRun(why.clone());
        }
        let (tested, code) = (self.fact("commit"), self.fact("code"));
        if tested != commit {
            return Outcome::NotRun(format!("last run at commit {tested}"));
        }
        let outcome = match self.fact("suite").starts_with("stories") {
            true => from_stories(&file("log")),
            false => from_ginkgo(&file("report.json")),
        };
        match outcome {
            // The report of a suite that was stopped has only the tests that ended before the stop. So a run without a
            // failed test is broken unless its exit code is 0.
            Outcome::Ended(results) if code != "0" && results.failures.is_empty() => {
                Outcome::Broken(format!("exit code {code} without a failed test"))
            }
            outcome => outcome,
        }
    }

    /// The engine's name, or the fact `engine` if the run has not reported the name.
    pub(crate) fn engine(&self) -> &str {
        self.facts.get("name").map_or_else(|| self.fact("engine"), String::as_str)
    }

    /// The value of a fact, or an empty text.
    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts.get(name).map_or("", String::as_str)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    #[serde(default)]
    spec_reports: Vec<Spec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    #[serde(default)]
    failure: Failure,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct Failure {
    message: String,
}

/// Reads a report in Ginkgo's JSON format.
pub(crate) fn from_ginkgo(report: &str) -> Outcome {
    let suites: Vec<Suite> = match serde_json::from_str(report) {
        Ok(suites) => suites,
        Err(error) => return Outcome::Broken(format!("its report cannot be read: {error}")),
    };
    let mut results = Results::default();
    for spec in suites.into_iter().flat_map(|suite| suite.spec_reports) {
        let why = spec.failure.message.lines().next().unwrap_or_default().to_owned();
        match spec.state.as_str() {
            "passed" if spec.leaf_node_type == "It" => results.passed += 1,
            "passed" => {}
            "skipped" | "pending" => {
                let why = if why.is_empty() { NOT_SELECTED.to_owned() } else { why };
                results.skipped += 1;
                *results.reasons.entry(why).or_default() += 1;
            }
            _ => {
                let mut name = spec.container_hierarchy_texts.unwrap_or_default();
                name.extend([spec.leaf_node_text]);
                name.retain(|part| !part.is_empty());
                // A step without a text, such as the set-up of the whole suite, gets its type as its name.
                let name = if name.is_empty() { spec.leaf_node_type } else { name.join(" ") };
                results.failures.push((name, why));
            }
        }
    }
    Outcome::Ended(results)
}

/// Reads the output of the stories.
pub(crate) fn from_stories(log: &str) -> Outcome {
    if !log.lines().any(|line| line.starts_with("test result: ")) {
        return Outcome::Broken("its log has no verdict".to_owned());
    }
    let mut results = Results::default();
    for line in log.lines() {
        if let Some(failure) = line.strip_prefix("failed: ") {
            let (name, why) = failure.split_once(' ').unwrap_or((failure, ""));
            results.failures.push((name.trim_end_matches(':').to_owned(), why.to_owned()));
        } else if line.starts_with("test ") && line.contains(" ... ok (") {
            results.passed += 1;
        } else if let Some(why) = line.trim_start().strip_prefix("skipped: ") {
            results.skipped += 1;
            *results.reasons.entry(why.to_owned()).or_default() += 1;
        } else if line.ends_with(", because no world started") {
            results.failures.push(("worlds".to_owned(), line.to_owned()));
        }
    }
    Outcome::Ended(results)
}

const NOT_SELECTED: &str = "not selected by the filters of the suite or of the run";
