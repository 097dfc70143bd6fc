//! Every fixture has a known origin. `tests/fixtures/README.md` has a row for each directory of fixtures, and each file
//! of data for the pictures begins with its origin.

use std::{fs, path::Path};

use super::hold;

#[test]
fn every_fixture_says_where_it_comes_from() {
    let page = fs::read_to_string(root().join("tests/fixtures/README.md")).unwrap();
    let unnamed = names("tests/fixtures")
        .into_iter()
        .filter(|name| !name.ends_with(".md"))
        .flat_map(|name| if name == "cgroup" { below(&name) } else { vec![name] })
        .filter(|name| !page.contains(&format!("`{name}`")));
    hold("no row in tests/fixtures/README.md", &unnamed.collect::<Vec<_>>());
    let headless = names("tests/pictures/data").into_iter().filter(|name| {
        let text = fs::read_to_string(root().join("tests/pictures/data").join(name)).unwrap();
        let head: Vec<&str> = text.lines().take(4).collect();
        !HEAD.iter().zip(&head).all(|(word, line)| line.starts_with(word))
    });
    hold("does not say where it was recorded", &headless.collect::<Vec<_>>());
}

fn below(name: &str) -> Vec<String> {
    let folder = format!("tests/fixtures/{name}");
    names(&folder).into_iter().map(|inner| format!("{name}/{inner}")).collect()
}

fn names(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

const HEAD: [&str; 4] = ["# recorded by ", "# date ", "# machine ", "# engine "];
