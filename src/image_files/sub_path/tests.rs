//! Tests paths in an image with hostile links: each path stays inside the image.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use proptest::prelude::*;

use super::{PathEntry, resolve};

type Image = BTreeMap<&'static str, PathEntry>;

fn link(to: &str) -> PathEntry {
    PathEntry::Link(PathBuf::from(to))
}

fn image() -> Image {
    BTreeMap::from([
        ("dir", PathEntry::Directory),
        ("dir/sub", PathEntry::Directory),
        ("dir/sub/file", PathEntry::File),
        ("etc", PathEntry::Directory),
        ("etc/passwd", PathEntry::File),
        ("relative", link("dir/sub")),
        ("absolute", link("/dir/sub")),
        ("file", link("relative/file")),
        ("dir/up", link("../../../../etc/passwd")),
        ("out", link("../../../..")),
        ("root", link("/")),
        ("self", link("self")),
        ("ping", link("pong")),
        ("pong", link("/ping")),
        ("grow", link("grow/x")),
        ("dangling", link("/nowhere")),
        ("empty", link("")),
    ])
}

fn lead(image: &Image, sub_path: &str) -> Result<String, String> {
    let look = |path: PathBuf| {
        let seen = path.to_str().and_then(|path| image.get(path)).cloned();
        std::future::ready(Ok(seen.unwrap_or(PathEntry::Nothing)))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    match runtime.block_on(resolve(sub_path, look)) {
        Ok(path) => Ok(path.to_str().unwrap().to_owned()),
        Err(error) => Err(error.to_string().rsplit_once(": ").unwrap().1.to_owned()),
    }
}

#[test]
fn links_mean_the_image() {
    for (sub_path, leads_to) in [
        ("", ""),
        (".", ""),
        ("dir", "dir"),
        ("dir//./sub/", "dir/sub"),
        ("dir/sub/file", "dir/sub/file"),
        ("relative", "dir/sub"),
        ("absolute/file", "dir/sub/file"),
        ("file", "dir/sub/file"),
        ("dir/up", "etc/passwd"),
        ("out", ""),
        ("out/etc", "etc"),
        ("root/root/out/root/dir", "dir"),
        ("empty", ""),
        ("..", ""),
        ("dir/../../etc", "etc"),
    ] {
        assert_eq!(lead(&image(), sub_path), Ok(leads_to.to_owned()), "{sub_path}");
    }
}

#[test]
fn failed_paths_have_their_own_errors() {
    for (sub_path, reason) in [
        ("nowhere", "the path does not exist"),
        ("dir/nowhere", "the path does not exist"),
        ("dangling", "the path does not exist"),
        ("dangling/..", "the path does not exist"),
        ("etc/passwd/x", "the path leads through a file"),
        ("file/x", "the path leads through a file"),
        ("self", "the path has too many symbolic links"),
        ("ping", "the path has too many symbolic links"),
        ("grow", "the path has too many symbolic links"),
    ] {
        assert_eq!(lead(&image(), sub_path), Err(reason.to_owned()), "{sub_path}");
    }
}

proptest! {
    #[test]
    fn nothing_leads_out(
        steps in prop::collection::vec(
            prop::sample::select(vec!["dir", "sub", "..", "out", "root", "relative", "absolute", "up", ".", "self", "grow"]),
            0..12,
        ),
        slash in "/?",
    ) {
        let image = image();
        let sub_path = slash + &steps.join("/");
        if let Ok(end) = lead(&image, &sub_path) {
            let plain = |step: Component<'_>| matches!(step, Component::Normal(_));
            prop_assert!(Path::new(&end).components().all(plain), "{} led to {}", sub_path, end);
            prop_assert!(end.is_empty() || matches!(image.get(end.as_str()), Some(PathEntry::Directory | PathEntry::File)));
        }
    }
}
