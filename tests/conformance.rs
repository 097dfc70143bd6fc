//! Tests how `make conformance` reads the output of its test suites, and the page that it writes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "conformance/html.rs"]
mod html;
#[path = "conformance/page.rs"]
mod page;
#[path = "conformance/run.rs"]
#[allow(dead_code, reason = "only the program reads folders")]
mod run;

use run::{Outcome, Run};

/// A report in Ginkgo's format, with some names of critest's specs.
const REPORT: &str = include_str!("fixtures/conformance/critest.json");
/// The output of `make test-runtime`, in which one end-to-end test failed.
const STORIES: &str = include_str!("fixtures/conformance/stories.txt");

fn run(facts: &str, output: &str) -> Run {
    let facts = facts.replace(' ', "\n");
    Run::new(&format!("{facts}\ncgroup=v1\n"), "abc", |_| output.to_owned())
}

#[test]
fn reports_of_ginkgo_are_read() {
    let run = run("suite=critest commit=abc code=1", REPORT);
    let Outcome::Ended(results) = run.outcome else { panic!("{run:?}") };
    assert_eq!((results.passed, results.skipped, results.failures.len()), (2, 3, 1));
    let (name, why) = &results.failures[0];
    assert!(
        name.starts_with("[k8s.io] ") && !why.contains('\n') && !why.is_empty(),
        "{name}: {why}"
    );
    let reasons: Vec<_> =
        results.reasons.iter().map(|(why, count)| (why.as_str(), *count)).collect();
    assert_eq!(reasons[0], ("AppArmor is disabled on this host", 2));
    assert!(reasons[1].0.starts_with("not selected"), "{reasons:?}");
}

#[test]
fn the_output_of_stories_is_read() {
    let run = run("suite=stories commit=abc code=1", STORIES);
    let Outcome::Ended(results) = run.outcome else { panic!("{run:?}") };
    assert_eq!((results.passed, results.failures.len()), (58, 1));
    let (name, why) = &results.failures[0];
    assert_eq!(name, "user_namespaces::with_the_hosts_network");
    assert_eq!(why, "(passed when repeated alone)");
    assert_eq!(results.reasons["cgroup v1; make test-vm has v2"], 1);
}

#[test]
fn a_run_without_a_complete_result_has_none() {
    let passed = REPORT.replace("\"failed\"", "\"passed\"");
    for (facts, output, told) in [
        ("suite=critest missing=why", passed.as_str(), "not run: why"),
        ("suite=critest commit=def code=0", &passed, "not run: last run at commit def"),
        ("suite=critest commit=abc code=124", &passed, "**no result**: exit code 124"),
        ("suite=critest commit=abc", &passed, "**no result**: exit code"),
        ("suite=e2e commit=abc code=0", "", "**no result**: its report"),
        ("suite=stories commit=abc code=0", "test a ... ok (1.0 s)", "**no result**: its log"),
        ("suite=critest commit=abc code=0", &passed, "3 passed, none failed, 3 skipped"),
    ] {
        let page = page::markdown(&[run(facts, output)], "abc");
        assert!(page.contains(&format!("| {told}")), "{facts}: {page}");
    }
}

#[test]
fn the_page_has_a_row_for_each_engine_and_all_failures() {
    let facts = "commit=abc store=overlay2 code=1";
    let runs = [
        run(&format!("engine=sid suite=stories docker=28.5.2 {facts}"), STORIES),
        run(&format!("engine=sid suite=critest docker=28.5.2 {facts}"), REPORT),
        run("engine=trixie suite=critest missing=because", ""),
        run(&format!("engine=b suite=critest docker=9.1 {facts}"), REPORT),
    ];
    let page = page::markdown(&runs, "abc");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows[1].starts_with("| trixie: cgroup v1 | not run: because | not run: "), "{page}");
    assert!(rows[2].starts_with("| b: Docker 9.1, overlay2, cgroup v1 |"), "{page}");
    assert!(
        rows[3].starts_with("| sid: Docker 28.5.2, overlay2, cgroup v1 | 2 passed, **1 failed**, "),
        "{page}"
    );
    assert!(
        page.contains("\n| `user_namespaces::with_the_hosts_network` | `(passed when"),
        "{page}"
    );
    assert!(page.contains("\ncritest on b, cgroup v1; critest on sid, cgroup v1:\n"), "{page}");
}

/// If `ENGINES` gives the folder of an engine's programs, the engine's name is known only after a run.
#[test]
fn a_row_without_a_run_has_the_name_of_its_engine() {
    let facts = "commit=abc name=29.7.2 docker=29.7.2 store=containerd code=0";
    let runs = [
        run(&format!("engine=folder suite=stories {facts}"), STORIES),
        Run::new("engine=folder\ncgroup=v2\nsuite=stories\nmissing=why", "abc", |_| String::new()),
    ];
    let page = page::markdown(&runs, "abc");
    assert!(
        page.contains("| 29.7.2: Docker 29.7.2, containerd, cgroup v2 | not run: it was"),
        "{page}"
    );
}

#[test]
fn the_page_is_also_html() {
    let html = html::from("# A\n\n`a<b|c` is **bad**.\n\n| a | b |\n|---|---|\n| 1 | `**\\|` |\n");
    assert!(html.contains("<h1>A</h1>"), "{html}");
    assert!(html.contains("<p><code>a&lt;b|c</code> is <b>bad</b>.</p>"), "{html}");
    assert!(
        html.contains(
            "<tr><th>a</th><th>b</th></tr>\n<tr><td>1</td><td><code>**|</code></td></tr>"
        ),
        "{html}"
    );
}
