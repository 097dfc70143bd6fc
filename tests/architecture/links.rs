//! Every relative link in the documents leads to an existing file, and to an existing heading if the link
//! names one. The book contains every page below `docs`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use super::hold;

/// One Markdown file.
pub(crate) struct Page {
    /// The page's path relative to the crate's root, e.g. `docs/guides/k3s.md`.
    pub(crate) path: PathBuf,
    /// The page's text without blocks of code and, except in headings, without spans between backticks.
    pub(crate) prose: String,
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    for page in pages() {
        for link in page.links() {
            if let Some(why) = page.breach(&link) {
                broken.push(format!("{}: {link}: {why}", page.path.display()));
            }
        }
    }
    hold("links that lead nowhere", &broken);
}

#[test]
fn the_book_has_every_page() {
    let summary = Page::read("docs/SUMMARY.md".into());
    let listed: BTreeSet<PathBuf> =
        summary.links().iter().filter_map(|link| summary.target(link)).collect();
    let missing = pages()
        .into_iter()
        .map(|page| page.path)
        .filter(|path| path.starts_with("docs") && *path != summary.path && !listed.contains(path));
    let missing: Vec<String> = missing.map(|path| path.display().to_string()).collect();
    hold("pages that docs/SUMMARY.md does not list", &missing);
}

impl Page {
    fn read(path: PathBuf) -> Self {
        let text = fs::read_to_string(root().join(&path)).unwrap();
        Self { path, prose: without_code(&text) }
    }

    /// The targets of links and pictures, without those outside of this repository.
    fn links(&self) -> Vec<String> {
        let inline = self.prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let html = [" href=\"", " src=\"", " srcset=\""].into_iter().flat_map(|mark| {
            self.prose.split(mark).skip(1).filter_map(|rest| rest.split('"').next())
        });
        let foreign = |link: &&str| !link.contains("://") && !link.starts_with("mailto:");
        inline.chain(html).filter(foreign).map(str::to_owned).collect()
    }

    /// The file that a link names, relative to the crate's root.
    fn target(&self, link: &str) -> Option<PathBuf> {
        let file = link.split('#').next().filter(|file| !file.is_empty());
        let Some(file) = file else { return Some(self.path.clone()) };
        let mut path = self.path.parent()?.to_owned();
        for part in Path::new(file).components() {
            match part {
                Component::ParentDir if !path.pop() => return None,
                Component::Normal(name) => path.push(name),
                _ => {}
            }
        }
        Some(path)
    }

    fn breach(&self, link: &str) -> Option<&'static str> {
        let target = self.target(link).filter(|path| root().join(path).exists());
        let Some(target) = target else { return Some("there is no such file") };
        let heading = link.split_once('#')?.1;
        let known = Self::read(target).headings();
        (!known.contains(heading)).then_some("the file has no such heading")
    }

    /// The anchors of the page's headings, as GitHub and mdBook make them.
    fn headings(&self) -> BTreeSet<String> {
        let lines = self.prose.lines().filter(|line| line.starts_with('#'));
        lines.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }
}

fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading
        .chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect::<String>()
        .to_lowercase()
}

/// Removes code from Markdown. Headings keep their words between backticks, which are part of the anchor.
fn without_code(text: &str) -> String {
    let mut prose = String::new();
    let mut fenced = false;
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if fence || fenced || line.starts_with("    ") {
            continue;
        }
        let spans = line.split('`').enumerate();
        let heading = line.starts_with('#');
        prose.extend(spans.filter(|(place, _)| heading || place % 2 == 0).map(|(_, span)| span));
        prose.push('\n');
    }
    prose
}

/// All Markdown files in the root of the repository and below `docs`.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    let mut directories = vec![PathBuf::from("docs")];
    let here = fs::read_dir(root()).unwrap().flatten();
    paths.extend(here.map(|entry| PathBuf::from(entry.file_name())).filter(|path| is_page(path)));
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root().join(&directory)).unwrap().flatten() {
            let path = directory.join(entry.file_name());
            if entry.path().is_dir() {
                directories.push(path);
            } else if is_page(&path) {
                paths.push(path);
            }
        }
    }
    paths.sort();
    assert!(paths.len() > 10, "the documents were not found");
    paths.into_iter().map(Page::read).collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn links_are_read_outside_of_code() {
    let text =
        "# One `two`: three-four\n[a](b.md#c) `[x](y)`\n```\n[x](y)\n```\n    [x](y)\n![p](q.svg)";
    let page = Page { path: "docs/page.md".into(), prose: without_code(text) };
    assert_eq!(page.links(), ["b.md#c", "q.svg"]);
    assert!(page.headings().contains("one-two-three-four"));
    assert_eq!(page.target("../README.md"), Some("README.md".into()));
    assert_eq!(page.target("../../x.md"), None);
}
