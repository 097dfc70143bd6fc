//! Writes the page with the results of all runs as Markdown.

use std::{collections::BTreeMap, fmt::Write as _};

use super::run::{Outcome, Run};

/// The test suites in the order of the table's columns, with their headings.
const SUITES: [(&str, &str); 5] = [
    ("critest", "critest"),
    ("critest-runtime", "critest, runtime and NRI"),
    ("stories", "stories"),
    ("stories-runtime", "stories, runtime"),
    ("e2e", "node e2e"),
];

/// The order of `runs` does not matter.
pub(crate) fn markdown(runs: &[Run], commit: &str) -> String {
    let rows = rows(runs);
    let ordered: Vec<&Run> = rows.iter().flatten().copied().flatten().collect();
    let ran = ordered.iter().filter(|run| matches!(run.outcome, Outcome::Ended(_))).count();
    let mut page = format!(
        "# Conformance\n\n`make conformance` wrote this page for commit `{commit}`. {ran} of {} runs have a result. \
         Each suite that was not run has a reason in the table.\n\n",
        rows.len() * SUITES.len()
    );
    write_table(&mut page, &rows);
    write_failures(&mut page, &ordered);
    write_skips(&mut page, &ordered);
    write_runs(&mut page, &ordered);
    page
}

/// The rows of the table: one for each pair of engine and cgroup version.
fn rows(runs: &[Run]) -> Vec<[Option<&Run>; SUITES.len()]> {
    let mut rows: BTreeMap<_, [Option<&Run>; SUITES.len()]> = BTreeMap::new();
    for run in runs {
        let Some(column) = SUITES.iter().position(|(suite, _)| *suite == run.fact("suite")) else {
            continue;
        };
        let row = rows.entry((run.fact("cgroup"), run.fact("engine"))).or_default();
        row[column] = Some(run);
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    rows.sort_by_key(|row| {
        let version = known(row, "docker").split('.').map(|part| part.parse().unwrap_or(0));
        (known(row, "cgroup").to_owned(), version.collect::<Vec<u32>>())
    });
    rows
}

/// The value of a fact from the row's first run that has it, or an empty text. A run that did not begin can lack facts.
fn known<'a>(row: &[Option<&'a Run>], name: &str) -> &'a str {
    let mut facts = row.iter().flatten().map(|run| run.fact(name));
    facts.find(|fact| !fact.is_empty()).unwrap_or("")
}

fn write_table(page: &mut String, rows: &[[Option<&Run>; SUITES.len()]]) {
    let headings: Vec<&str> = SUITES.iter().map(|(_, heading)| *heading).collect();
    *page += &format!("| engine | {} |\n", headings.join(" | "));
    *page += &format!("|{}\n", "---|".repeat(1 + SUITES.len()));
    for row in rows {
        let engine = known(row, "engine");
        // If no run of this row reported the engine's name, a run of the same engine in another row may have done so.
        let same = |name| {
            let others = rows.iter().filter(|other| known(*other, "engine") == engine);
            others.map(|other| known(other, name)).find(|fact| !fact.is_empty()).unwrap_or("")
        };
        let name = Some(same("name")).filter(|name| !name.is_empty()).unwrap_or(engine);
        let docker = Some(same("docker")).filter(|version| !version.is_empty());
        let docker = docker.map(|version| format!("Docker {version}, {}, ", same("store")));
        let docker = docker.unwrap_or_default();
        let cells = row.map(|run| run.map_or("not run: it was not planned".to_owned(), cell));
        let cgroup = known(row, "cgroup");
        *page += &format!("| {name}: {docker}cgroup {cgroup} | {} |\n", cells.join(" | "));
    }
}

fn cell(run: &Run) -> String {
    match &run.outcome {
        Outcome::NotRun(why) => format!("not run: {why}"),
        Outcome::Broken(why) => format!("**no result**: {why}"),
        Outcome::Ended(results) => {
            let failed = results.failures.len();
            let failed =
                if failed == 0 { "none failed".to_owned() } else { format!("**{failed} failed**") };
            format!("{} passed, {failed}, {} skipped", results.passed, results.skipped)
        }
    }
}

fn write_failures(page: &mut String, runs: &[&Run]) {
    *page += "\n## Failures\n\n";
    let before = page.len();
    for run in runs {
        let Outcome::Ended(results) = &run.outcome else { continue };
        if results.failures.is_empty() {
            continue;
        }
        writeln!(page, "{}:\n\n| test | what it reported |\n|---|---|", title(run)).ok();
        for (name, why) in &results.failures {
            writeln!(page, "| {} | {} |", code(name), code(why)).ok();
        }
        page.push('\n');
    }
    if page.len() == before {
        *page += "None in the runs that have a result.\n\n";
    }
}

/// Writes the reasons for skips. Runs with the same reasons and numbers share a list.
fn write_skips(page: &mut String, runs: &[&Run]) {
    *page += "## Skipped\n\nA story that skips a part, or is skipped as a whole, also counts as passed unless it fails.\n\n";
    let mut lists: Vec<(&BTreeMap<String, usize>, Vec<String>)> = Vec::new();
    for run in runs {
        let Outcome::Ended(results) = &run.outcome else { continue };
        match lists.iter_mut().find(|(reasons, _)| *reasons == &results.reasons) {
            Some((_, titles)) => titles.push(title(run)),
            None => lists.push((&results.reasons, vec![title(run)])),
        }
    }
    for (reasons, titles) in lists.into_iter().filter(|(reasons, _)| !reasons.is_empty()) {
        writeln!(page, "{}:\n\n| skipped | reason |\n|---|---|", titles.join("; ")).ok();
        for (why, count) in reasons {
            writeln!(page, "| {count} | {} |", code(why)).ok();
        }
        page.push('\n');
    }
}

fn write_runs(page: &mut String, runs: &[&Run]) {
    *page +=
        "## Runs\n\n| run | program | kernel | begun (UTC) | seconds |\n|---|---|---|---|---|\n";
    for run in runs.iter().filter(|run| !matches!(run.outcome, Outcome::NotRun(_))) {
        let facts = ["program", "kernel", "begun", "seconds"].map(|name| run.fact(name));
        writeln!(page, "| {} | {} |", title(run), facts.join(" | ")).ok();
    }
}

fn title(run: &Run) -> String {
    format!("{} on {}, cgroup {}", run.fact("suite"), run.engine(), run.fact("cgroup"))
}

/// The text as code, so that nothing in it is markup. In a Markdown table, a bar would end a cell.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'").replace('|', "\\|"))
}
