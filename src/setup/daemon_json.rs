//! Adds dockbridge-runtime to the text of `daemon.json`, and removes it.
//!
//! The file belongs to the administrator, so the values of other settings and of other runtimes keep their bytes and
//! their order: the file and its `runtimes` are parsed as lists of names with unparsed values.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::model::oci_edits::RUNTIME;

/// The entry for dockbridge-runtime in the engine's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub path: String,
    #[serde(rename = "runtimeArgs", default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
}

impl Entry {
    /// The entry for the program at `path`. The entry names the lower runtime unless that is runc.
    pub fn new(path: String, lower: Option<&str>) -> Self {
        let lower = lower.filter(|name| *name != DEFAULT_LOWER);
        let arguments = lower.map(|name| vec![LOWER_FLAG.to_owned(), name.to_owned()]);
        Self { path, arguments: arguments.unwrap_or_default() }
    }

    /// The lower runtime; `None` if `dockbridge setup` did not write these arguments.
    pub fn lower_runtime(&self) -> Option<&str> {
        match self.arguments.as_slice() {
            [] => Some(DEFAULT_LOWER),
            [flag, name] if flag == LOWER_FLAG => Some(name),
            _ => None,
        }
    }

    /// Whether `dockbridge setup` could have written this entry, with the program in any directory.
    fn is_ours(&self) -> bool {
        let name = self.path.rsplit('/').next();
        name == Some(PROGRAM) && self.lower_runtime().is_some()
    }
}

/// The text of `daemon.json` with our entry; `None` if `text` already has this entry.
///
/// # Errors
/// Fails if the text is not valid, or has another runtime with the name of ours.
pub fn with_entry(text: &str, entry: &Entry) -> Result<Option<String>, String> {
    let members = parse(text)?;
    let runtimes = runtimes(&members)?.unwrap_or_default();
    if our_entry(&runtimes)?.as_ref() == Some(entry) {
        return Ok(None);
    }
    let json = serde_json::to_string(entry).map_err(|e| e.to_string())?;
    let layout = Layout::of(text);
    let runtimes = render(&runtimes.replaced(RUNTIME, &json), &layout, 2);
    Ok(Some(layout.file(&render(&members.replaced(RUNTIMES, &runtimes), &layout, 1))))
}

/// The text without our entry, and without an empty `runtimes`. `None` if `text` does not have our entry.
///
/// # Errors
/// Fails if the text is invalid, has another runtime with the name of ours, or makes our runtime the default.
pub fn without_entry(text: &str) -> Result<Option<String>, String> {
    let members = parse(text)?;
    let Some(runtimes) = runtimes(&members)? else { return Ok(None) };
    if our_entry(&runtimes)?.is_none() {
        return Ok(None);
    }
    let is_default =
        |value: &str| serde_json::from_str::<String>(value).is_ok_and(|it| it == RUNTIME);
    if members.value(DEFAULT_RUNTIME).is_some_and(is_default) {
        // Docker does not start if its default runtime is not registered.
        return Err(format!(
            "\"{DEFAULT_RUNTIME}\" is \"{RUNTIME}\": set another default runtime first"
        ));
    }
    let layout = Layout::of(text);
    let rest = runtimes.without(RUNTIME);
    let members = if rest.0.is_empty() {
        members.without(RUNTIMES)
    } else {
        members.replaced(RUNTIMES, &render(&rest, &layout, 2))
    };
    Ok(Some(layout.file(&render(&members, &layout, 1))))
}

/// The text with an empty `runtimes`; `None` if `text` already has `runtimes` or is not valid.
pub fn with_runtimes(text: &str) -> Option<String> {
    let members = parse(text).ok().filter(|members| members.value(RUNTIMES).is_none())?;
    let layout = Layout::of(text);
    Some(layout.file(&render(&members.replaced(RUNTIMES, "{}"), &layout, 1)))
}

/// Whether both texts have the same settings, whatever their layout is.
pub fn is_equal(one: &str, other: &str) -> bool {
    let value = |text: &str| {
        let text = text.trim_start_matches(BYTE_ORDER_MARK);
        serde_json::from_str::<serde_json::Value>(if text.trim().is_empty() { "{}" } else { text })
    };
    matches!((value(one), value(other)), (Ok(one), Ok(other)) if one == other)
}

fn parse(text: &str) -> Result<Members, String> {
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
    // The engine reads an empty file as one without settings.
    let text = if text.trim().is_empty() { "{}" } else { text };
    serde_json::from_str(text).map_err(|e| format!("not a JSON object: {e}"))
}

fn runtimes(members: &Members) -> Result<Option<Members>, String> {
    let Some(value) = members.only(RUNTIMES)? else { return Ok(None) };
    // The engine reads `null` as no runtimes.
    serde_json::from_str(value).map_err(|e| format!("\"{RUNTIMES}\" is not an object: {e}"))
}

fn our_entry(runtimes: &Members) -> Result<Option<Entry>, String> {
    let Some(value) = runtimes.only(RUNTIME)? else { return Ok(None) };
    let entry = serde_json::from_str(value).ok().filter(Entry::is_ours);
    entry.map(Some).ok_or_else(|| {
        format!(
            "there is a runtime \"{RUNTIME}\" that dockbridge setup did not write: {value}; remove or rename \
             that runtime first"
        )
    })
}

/// The members of an object in their order, with unparsed values.
#[derive(Clone, Debug, Default)]
struct Members(Vec<(String, String)>);

impl Members {
    fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// The value of a member. Fails if the object has the name twice: only one of the two can count.
    fn only(&self, name: &str) -> Result<Option<&str>, String> {
        let count = self.0.iter().filter(|(own, _)| own == name).count();
        let twice = || format!("\"{name}\" appears twice: remove one of the two");
        if count > 1 { Err(twice()) } else { Ok(self.value(name)) }
    }

    /// The members with `value` as the value of `name`. A new member is added at the end.
    fn replaced(&self, name: &str, value: &str) -> Self {
        let mut members = self.clone();
        match members.0.iter_mut().find(|(own, _)| own == name) {
            Some((_, old)) => value.clone_into(old),
            None => members.0.push((name.to_owned(), value.to_owned())),
        }
        members
    }

    fn without(&self, name: &str) -> Self {
        Self(self.0.iter().filter(|(own, _)| own != name).cloned().collect())
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push((name, value.get().to_owned()));
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(InOrder)
    }
}

/// The properties of the layout that `dockbridge setup` keeps when it changes the administrator's file.
struct Layout {
    /// Whether the file begins with a byte order mark, which Docker ignores.
    has_byte_order_mark: bool,
    indent: String,
    newline: &'static str,
    ends_with_newline: bool,
}

impl Layout {
    fn of(text: &str) -> Self {
        let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let first = text.lines().skip(1).find(|line| line.trim_start().starts_with('"'));
        let indent = first.map_or(INDENT, |line| line.split('"').next().unwrap_or_default());
        let ends_with_newline = text.trim().is_empty() || text.ends_with('\n');
        let has_byte_order_mark = text.starts_with(BYTE_ORDER_MARK);
        Self { has_byte_order_mark, indent: indent.to_owned(), newline, ends_with_newline }
    }

    fn file(&self, object: &str) -> String {
        let mark = if self.has_byte_order_mark { BYTE_ORDER_MARK } else { "" };
        let end = if self.ends_with_newline { self.newline } else { "" };
        format!("{mark}{object}{end}")
    }
}

/// Formats the object at nesting level `depth` (1 is the whole file), and begins a line for each member.
fn render(members: &Members, layout: &Layout, depth: usize) -> String {
    if members.0.is_empty() {
        return "{}".to_owned();
    }
    let Layout { indent, newline, .. } = layout;
    let line = |(name, value): &(String, String)| {
        let name = serde_json::Value::from(name.as_str());
        format!("{}{name}: {value}", indent.repeat(depth))
    };
    let lines: Vec<String> = members.0.iter().map(line).collect();
    let lines = lines.join(&format!(",{newline}"));
    format!("{{{newline}{lines}{newline}{}}}", indent.repeat(depth.saturating_sub(1)))
}

/// File name of the program that `dockbridge setup` registers.
pub const PROGRAM: &str = "dockbridge-runtime";
/// The lower runtime if the entry names no other.
pub(super) const DEFAULT_LOWER: &str = "runc";
/// The flag of dockbridge-runtime that names the lower runtime.
const LOWER_FLAG: &str = "--dockbridge-runtime";
const BYTE_ORDER_MARK: &str = "\u{feff}";
const RUNTIMES: &str = "runtimes";
const DEFAULT_RUNTIME: &str = "default-runtime";
const INDENT: &str = "    ";
