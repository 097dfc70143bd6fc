//! Selects the seccomp profile of a container, and checks the text of a profile.
//!
//! dockbridge passes the text to the engine unchanged, because an engine may know more keys. The checks find
//! errors that engines report late or never: with the profile `{}`, a container would run unconfined.

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::{
    error::Failure,
    model::{
        engine::{ApiVersion, EngineInfo},
        sandbox::SandboxSecurity,
        security::Profile,
    },
    wire::nullable::nullable,
};

/// The engine's security option with a container's seccomp profile. `text` is a localhost profile's text.
///
/// Privileged containers are always unconfined: newer engines would apply a requested profile even to them.
pub(super) fn container(
    profile: Option<&Profile>,
    privileged: bool,
    engine: &EngineInfo,
    text: Option<&str>,
) -> Result<Option<String>, Failure> {
    match profile {
        _ if privileged => Ok(Some(UNCONFINED.to_owned())),
        None | Some(Profile::Unconfined) => Ok(Some(UNCONFINED.to_owned())),
        Some(Profile::RuntimeDefault) => default(engine),
        Some(Profile::Localhost(path)) => localhost(path, text, engine).map(Some),
    }
}

/// The security option of a pause container. Without a requested profile, a pause container that is not
/// privileged gets the default profile, because the pause program needs no special system calls. If the engine
/// cannot apply the default profile, the pause container runs unconfined.
pub(super) fn sandbox(
    security: &SandboxSecurity,
    engine: &EngineInfo,
    text: Option<&str>,
) -> Result<Option<String>, Failure> {
    match &security.seccomp {
        None | Some(Profile::RuntimeDefault) if !security.privileged => {
            Ok(default(engine).unwrap_or(None))
        }
        profile => container(profile.as_ref(), security.privileged, engine, text),
    }
}

/// The option for the engine's built-in profile, whatever profile Docker is configured with. An engine that
/// does not know `builtin` gets no option, and uses the profile that Docker is configured with, usually the
/// built-in profile. Fails if the engine lacks seccomp, or does not know `builtin` and is configured as unconfined.
fn default(engine: &EngineInfo) -> Result<Option<String>, Failure> {
    match default_profile(engine) {
        None => Err(without_seccomp("RuntimeDefault")),
        Some(_) if engine.api >= ApiVersion::SECCOMP_BUILTIN => {
            Ok(Some("seccomp=builtin".to_owned()))
        }
        Some("unconfined") => Err(without_seccomp("RuntimeDefault")),
        Some(_) => Ok(None),
    }
}

fn localhost(path: &str, text: Option<&str>, engine: &EngineInfo) -> Result<String, Failure> {
    let refused = |what: &str| Failure::invalid(format!("seccomp profile {path:?} {what}"));
    let text = text.ok_or_else(|| refused("could not be read"))?;
    if default_profile(engine).is_none() {
        return Err(without_seccomp(path));
    }
    check(text).map_err(|reason| refused(&format!("cannot be used: {reason}")))?;
    Ok(format!("seccomp={text}"))
}

fn without_seccomp(profile: &str) -> Failure {
    Failure::unmet(format!(
        "seccomp profile {profile} is requested but the engine runs without seccomp, or with an \
         unconfined default"
    ))
}

/// The profile of Docker's configuration (`name=seccomp,profile=…`). `None` if the engine lacks seccomp.
fn default_profile(engine: &EngineInfo) -> Option<&str> {
    engine
        .security_options
        .iter()
        .find_map(|option| option.strip_prefix("name=seccomp"))
        .map(|rest| rest.strip_prefix(",profile=").unwrap_or_default())
}

/// Checks that a text is a seccomp profile in Docker's format or that of OCI.
pub(in crate::translate) fn check(text: &str) -> Result<(), String> {
    let document: Document = serde_json::from_str(text).map_err(|e| e.to_string())?;
    known(&document.default_action, "defaultAction", ACTIONS)?;
    let listed = |list: &Option<Vec<_>>| list.as_ref().is_some_and(|items| !items.is_empty());
    if listed(&document.architectures) && listed(&document.arch_map) {
        return Err("the profile has both architectures and archMap".to_owned());
    }
    for (at, call) in document.syscalls.iter().flatten().enumerate() {
        check_call(call).map_err(|reason| format!("syscalls[{at}]: {reason}"))?;
    }
    Ok(())
}

fn check_call(call: &SystemCall) -> Result<(), String> {
    let name = call.name.as_deref().unwrap_or_default();
    let names = call.names.as_deref().unwrap_or_default();
    match (name, names) {
        ("", []) => return Err("the rule names no system call".to_owned()),
        ("", names) if names.iter().any(String::is_empty) => {
            return Err("the name of a system call is empty".to_owned());
        }
        ("", _) | (_, []) => {}
        _ => return Err("the rule has both name and names".to_owned()),
    }
    known(&call.action, "action", ACTIONS)?;
    for argument in call.args.iter().flatten().flatten() {
        if argument.index > HIGHEST_ARGUMENT {
            return Err(format!("the index of an argument must be at most 5: {}", argument.index));
        }
        known(&argument.op, "op", COMPARISONS)?;
    }
    Ok(())
}

fn known(word: &str, key: &str, words: &str) -> Result<(), String> {
    if words.split(", ").any(|known| known == word) {
        return Ok(());
    }
    let beginning: String = word.chars().take(EXCERPT).collect();
    Err(format!("{key} {beginning:?} is not one of {words}"))
}

/// The fields of a profile that dockbridge checks. dockbridge ignores all other fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    default_action: String,
    architectures: Option<Vec<serde_json::Value>>,
    arch_map: Option<Vec<serde_json::Value>>,
    syscalls: Option<Vec<SystemCall>>,
    /// With this field, serde refuses a JSON list in place of an object.
    #[serde(flatten)]
    _rest: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
struct SystemCall {
    name: Option<String>,
    names: Option<Vec<String>>,
    action: String,
    args: Option<Vec<Option<Argument>>>,
    #[serde(flatten)]
    _rest: BTreeMap<String, IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Argument {
    #[serde(default, deserialize_with = "nullable")]
    index: u32,
    #[serde(default, rename = "value", deserialize_with = "nullable")]
    _value: u64,
    #[serde(default, rename = "valueTwo", deserialize_with = "nullable")]
    _value_two: u64,
    op: String,
    #[serde(flatten)]
    _rest: BTreeMap<String, IgnoredAny>,
}

const UNCONFINED: &str = "seccomp=unconfined";
/// The highest index of an argument, because a system call has six arguments.
const HIGHEST_ARGUMENT: u32 = 5;
const EXCERPT: usize = 40;
const ACTIONS: &str = "\
    SCMP_ACT_ALLOW, SCMP_ACT_ERRNO, SCMP_ACT_KILL, SCMP_ACT_KILL_PROCESS, SCMP_ACT_KILL_THREAD, \
    SCMP_ACT_LOG, SCMP_ACT_NOTIFY, SCMP_ACT_TRACE, SCMP_ACT_TRAP";
const COMPARISONS: &str = "\
    SCMP_CMP_EQ, SCMP_CMP_GE, SCMP_CMP_GT, SCMP_CMP_LE, SCMP_CMP_LT, SCMP_CMP_MASKED_EQ, \
    SCMP_CMP_NE";

#[cfg(test)]
mod tests;
