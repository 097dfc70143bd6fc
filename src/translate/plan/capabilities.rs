//! Determines the capabilities to add to the engine's default set, and those to drop from it.

use crate::model::security::Capabilities;

/// The capabilities to add, without those that the request also drops by name. In the engine an addition by name has
/// priority over a drop, but in containerd a drop by name has priority.
pub(super) fn added(requested: &Capabilities) -> Vec<String> {
    without_dropped(&requested.add, requested)
}

pub(super) fn ambient(requested: &Capabilities) -> Vec<String> {
    without_dropped(&requested.ambient, requested)
}

fn without_dropped(names: &[String], requested: &Capabilities) -> Vec<String> {
    names.iter().filter(|name| !requested.drop.contains(name)).cloned().collect()
}

/// The capabilities to drop. If `ALL` is among them, only `ALL`, because `ALL` includes the others.
pub(super) fn dropped(requested: &Capabilities) -> Vec<String> {
    let all = requested.drop.iter().find(|name| *name == ALL);
    all.map_or_else(|| requested.drop.clone(), |all| vec![all.clone()])
}

const ALL: &str = "ALL";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_added_and_dropped_by_name_is_dropped() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (add, drop, added, dropped) in [
            ("", "", "", ""),
            ("SYS_TIME", "CHOWN", "SYS_TIME", "CHOWN"),
            ("ALL", "CHOWN", "ALL", "CHOWN"),
            ("CHOWN", "ALL", "CHOWN", "ALL"),
            ("CHOWN KILL", "ALL KILL", "CHOWN", "ALL"),
            ("ALL", "ALL", "", "ALL"),
            ("ALL CHOWN", "ALL", "CHOWN", "ALL"),
            ("CHOWN", "CHOWN", "", "CHOWN"),
        ] {
            let requested =
                Capabilities { add: words(add), drop: words(drop), ..Capabilities::default() };
            let found = (super::added(&requested), super::dropped(&requested));
            let expected = (words(added), words(dropped));
            assert_eq!(
                found, expected,
                "capabilities for a request that adds {add:?} and drops {drop:?}"
            );
            let requested =
                Capabilities { ambient: words(add), drop: words(drop), ..Capabilities::default() };
            let found = super::ambient(&requested);
            assert_eq!(
                found,
                words(added),
                "the request adds the ambient capabilities {add:?} and drops {drop:?}"
            );
        }
    }
}
