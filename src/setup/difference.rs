//! Shows what changes in a small file.

use std::fmt::Write as _;

/// The changed lines with up to three lines around them. We make only one change, so the common start and
/// end of both texts are left out.
pub(super) fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(one, other)| one == other).count()
    };
    let head = same(&mut old.iter().zip(&new));
    let rest = old.len().min(new.len()) - head;
    let tail = same(&mut old.iter().rev().zip(new.iter().rev())).min(rest);
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let mut text = String::new();
    for (mark, lines) in [
        (' ', old.get(head.saturating_sub(CONTEXT)..head)),
        ('-', old.get(head..old_end)),
        ('+', new.get(head..new_end)),
        (' ', old.get(old_end..old.len().min(old_end + CONTEXT))),
    ] {
        for line in lines.unwrap_or_default() {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    text
}

const CONTEXT: usize = 3;
