//! Finds the unpacked engines with which a story replaces the programs of a world's engine, one after the other.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{
    failure::{Outcome, ensure},
    stated::is_full_size,
    world::World,
};

/// The directories of the engines of a story, in order. The story begins with the first engine.
pub(super) fn chain(world: &World) -> Outcome<Vec<PathBuf>> {
    let own = fs::read_link(world.root.join("engine"))?;
    let folder = |name: String| if name == OWN { Ok(own.clone()) } else { unpacked(&name) };
    names(&world.engine).into_iter().map(folder).collect()
}

/// Unpacks the engines that exchange stories need in a world with this engine, because a world cannot download them.
pub(crate) fn unpack(engine: &str) -> Outcome {
    names(engine).iter().filter(|name| *name != OWN).try_for_each(|name| unpacked(name).map(drop))
}

/// The engines of the chain: names for `tests/env/engines.sh`, directories, and [`OWN`].
fn names(engine: &str) -> Vec<String> {
    if let Ok(stated) = env::var("DOCKBRIDGE_EXCHANGE")
        && !stated.is_empty()
    {
        return stated.split(' ').map(str::to_owned).collect();
    }
    let all: &[&str] = match engine {
        // In a virtual machine, only its own engine exists.
        _ if !Path::new(SCRIPT).exists() => &[OWN, OWN],
        "bookworm" => &[OWN, "trixie", "sid", "trixie"],
        "trixie" => &[OWN, "sid", OWN],
        "sid" | "sid-containerd" => &["trixie", OWN, "trixie"],
        // The host's engine has an unknown version, so no other engine is used.
        "host" => &[OWN, OWN],
        _folder => &["sid", OWN, "sid"],
    };
    let length = if is_full_size() { all.len() } else { 2 };
    all.iter().take(length).map(|name| (*name).to_owned()).collect()
}

fn unpacked(name: &str) -> Outcome<PathBuf> {
    if name.contains('/') {
        return Ok(PathBuf::from(name));
    }
    let output = Command::new(SCRIPT).arg(name).output()?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{SCRIPT} {name}: {told}");
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}

/// The name of the world's own engine.
const OWN: &str = "own";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/env/engines.sh");
