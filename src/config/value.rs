//! Parses the text of each setting. Parsing uses no file system and no name resolution.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use thiserror::Error;
use tracing::level_filters::LevelFilter;

use crate::{
    model::{
        container::ContainerLogFormat,
        listen::Listen,
        network::{NetworkMode, is_cidr},
        pinned_images::{CollectImages, LabelPattern, NamePattern},
        reference::{ImageReference, names_id},
    },
    telemetry::log::Format,
};

/// Why a text is not valid for its setting, and which texts are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Invalid {
    #[error("give an address without user name and password: dockbridge sends no password")]
    CollectorCredentials,
    #[error("{0}")]
    Other(&'static str),
}

/// `unix:///path`, `unix:/path` or `/path`; `fd://` or `fd://*` as in dockerd; or `fd://NAME` with the
/// `FileDescriptorName` of a systemd socket or, as in dockerd, the number of a descriptor.
pub(super) fn listen_socket(text: &str) -> Result<Listen, Invalid> {
    match text.strip_prefix("fd://") {
        Some("" | "*") => Ok(Listen::Inherited(None)),
        Some(name) => Ok(Listen::Inherited(Some(name.to_owned()))),
        None => socket(text, LISTEN_SCHEME).map(Listen::Path),
    }
}

pub(super) fn engine_socket(text: &str) -> Result<PathBuf, Invalid> {
    socket(text, ENGINE_SCHEME)
}

pub(super) fn directory(text: &str) -> Result<PathBuf, Invalid> {
    if text.starts_with('/') { Ok(PathBuf::from(text)) } else { wrong("give an absolute path") }
}

pub(super) fn file(text: &str) -> Result<Option<PathBuf>, Invalid> {
    if text.is_empty() { Ok(None) } else { directory(text).map(Some) }
}

/// At least one absolute path; commas separate several paths.
pub(super) fn directories(text: &str) -> Result<Vec<PathBuf>, Invalid> {
    let paths: Vec<PathBuf> = parts(text).map(directory).collect::<Result<_, _>>()?;
    if paths.is_empty() { wrong("give at least one path") } else { Ok(paths) }
}

pub(super) fn network(text: &str) -> Result<NetworkMode, Invalid> {
    match text {
        "cni" => Ok(NetworkMode::Cni),
        "docker" => Ok(NetworkMode::Docker),
        "kubenet" => wrong(KUBENET),
        _ => wrong("choose cni or docker"),
    }
}

pub(super) fn cidrs(text: &str) -> Result<Vec<String>, Invalid> {
    let range = |part: &str| is_cidr(part).then(|| part.to_owned());
    each(text, range, "give address ranges such as 10.88.0.0/16, separated by commas")
}

pub(super) fn image(text: &str) -> Result<Option<String>, Invalid> {
    match text {
        "" => Ok(None),
        _ if names_id(text) || ImageReference::parse(text).is_ok() => Ok(Some(text.to_owned())),
        _ => wrong(IMAGE),
    }
}

pub(super) fn name_patterns(text: &str) -> Result<Vec<NamePattern>, Invalid> {
    each(text, NamePattern::parse, NAME_PATTERNS)
}

pub(super) fn label_patterns(text: &str) -> Result<Vec<LabelPattern>, Invalid> {
    each(text, LabelPattern::parse, "give labels as key or key=value, separated by commas")
}

pub(super) fn collect(text: &str) -> Result<CollectImages, Invalid> {
    let words = [("all", CollectImages::All), ("pulled", CollectImages::Pulled)];
    chosen(text, &words, "choose all or pulled")
}

/// `address`, `address:port`, `:port` or nothing. The default address is 127.0.0.1, the default port any free port.
pub(super) fn streaming_address(text: &str) -> Result<SocketAddr, Invalid> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Ok(SocketAddr::new(address, 0));
    }
    let port = match text.strip_prefix(':') {
        Some(port) => port.parse().map_err(|_| Invalid::Other(ADDRESS))?,
        None if text.is_empty() => 0,
        None => return wrong(ADDRESS),
    };
    Ok(SocketAddr::new(loopback, port))
}

pub(super) fn metrics_address(text: &str) -> Result<Option<SocketAddr>, Invalid> {
    if text.is_empty() { Ok(None) } else { streaming_address(text).map(Some) }
}

pub(super) fn optional_duration(text: &str) -> Result<Option<Duration>, Invalid> {
    Ok(Some(duration(text)?).filter(|duration| !duration.is_zero()))
}

/// A duration; zero means dockbridge's default, because cri-dockerd's flag has 0 as its default.
pub(super) fn request_timeout(text: &str) -> Result<Duration, Invalid> {
    Ok(optional_duration(text)?.unwrap_or(REQUEST_TIMEOUT))
}

pub(super) fn container_log_format(text: &str) -> Result<ContainerLogFormat, Invalid> {
    let words = [("cri", ContainerLogFormat::Cri), ("docker", ContainerLogFormat::Docker)];
    chosen(
        text,
        &words,
        "choose cri, or docker; with docker, log files are symlinks to Docker's own logs",
    )
}

pub(super) fn log_format(text: &str) -> Result<Format, Invalid> {
    chosen(text, &[("text", Format::Text), ("json", Format::Json)], "choose text or json")
}

/// dockbridge's five log levels, and cri-dockerd's names for them. Case does not matter.
pub fn log_level(text: &str) -> Result<LevelFilter, Invalid> {
    match text.to_ascii_lowercase().as_str() {
        "panic" | "fatal" | "error" => Ok(LevelFilter::ERROR),
        "warn" | "warning" => Ok(LevelFilter::WARN),
        // An empty text also means the default level.
        "info" | "" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        "trace" => Ok(LevelFilter::TRACE),
        _ => wrong("choose error, warn, info, debug or trace"),
    }
}

/// `http://host:port`, or `host:port` which means the same; an empty text means no collector.
pub(super) fn collector(text: &str) -> Result<Option<String>, Invalid> {
    if text.is_empty() {
        return Ok(None);
    }
    if text.contains('@') {
        return Err(Invalid::CollectorCredentials);
    }
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let parsed: http::Uri = url.parse().map_err(|_| Invalid::Other(COLLECTOR))?;
    let bare = matches!(parsed.path(), "" | "/") && parsed.query().is_none();
    match (parsed.scheme_str(), parsed.authority()) {
        (Some("https"), _) => wrong(COLLECTOR_TLS),
        (Some("http"), Some(authority)) if bare && authority.port_u16().is_some() => {
            Ok(Some(format!("http://{authority}")))
        }
        _ => wrong(COLLECTOR),
    }
}

pub(super) fn switch(text: &str) -> Result<bool, Invalid> {
    let words = [("on", true), ("true", true), ("off", false), ("false", false)];
    chosen(text, &words, "choose on or off")
}

pub(super) fn plugin_socket(text: &str) -> Result<PathBuf, Invalid> {
    socket(text, "give a unix socket: NRI plugins run on this node")
}

pub(super) fn plugins(text: &str) -> Result<Vec<String>, Invalid> {
    let permitted = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    let name = |name: &str| name.bytes().all(permitted).then(|| name.to_owned());
    each(text, name, "give names such as logger or 10-logger, separated by commas")
}

pub(super) fn plugin_timeout(text: &str) -> Result<Duration, Invalid> {
    let limit = duration(text)?;
    // A shorter timeout would fail calls to plugins that work. With a longer one, a hanging plugin would delay calls.
    let bounds = Duration::from_millis(100)..=Duration::from_secs(60);
    if bounds.contains(&limit) { Ok(limit) } else { wrong("give a duration from 100ms to 1m") }
}

pub(super) fn per_million(text: &str) -> Result<u32, Invalid> {
    let number = text.parse().ok().filter(|&part| part <= 1_000_000);
    number.ok_or(Invalid::Other("give a number from 0 to 1000000"))
}

/// A duration in Go's notation: whole numbers with `h`, `m`, `s`, `ms`, or `0` without a unit.
pub(super) fn duration(text: &str) -> Result<Duration, Invalid> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or(Invalid::Other(DURATION))?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(unit);
        total = total.checked_add(span(number, unit)?).ok_or(Invalid::Other(DURATION))?;
        rest = after;
    }
    if text.is_empty() { wrong(DURATION) } else { Ok(total) }
}

fn span(number: &str, unit: &str) -> Result<Duration, Invalid> {
    let number: u64 = number.parse().map_err(|_| Invalid::Other(DURATION))?;
    let seconds = match unit {
        "ms" => return Ok(Duration::from_millis(number)),
        "s" => Some(number),
        "m" => number.checked_mul(60),
        "h" => number.checked_mul(3600),
        _ => None,
    };
    seconds.map(Duration::from_secs).ok_or(Invalid::Other(DURATION))
}

fn socket(text: &str, scheme: &'static str) -> Result<PathBuf, Invalid> {
    let path = match text.split_once("://") {
        Some(("unix", path)) => path,
        Some(_) => return wrong(scheme),
        None => text.strip_prefix("unix:").unwrap_or(text),
    };
    if path.len() > MAX_SOCKET_PATH {
        return wrong(LONG_SOCKET_PATH);
    }
    directory(path)
}

fn chosen<T: Copy>(text: &str, words: &[(&str, T)], usage: &'static str) -> Result<T, Invalid> {
    let word = words.iter().find(|(word, _)| *word == text);
    word.map(|(_, value)| *value).ok_or(Invalid::Other(usage))
}

fn each<T>(
    text: &str,
    read: impl Fn(&str) -> Option<T>,
    usage: &'static str,
) -> Result<Vec<T>, Invalid> {
    parts(text).map(|part| read(part).ok_or(Invalid::Other(usage))).collect()
}

const fn wrong<T>(usage: &'static str) -> Result<T, Invalid> {
    Err(Invalid::Other(usage))
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// A socket address has 108 bytes for a path and the zero that ends it (unix(7)).
const MAX_SOCKET_PATH: usize = 107;
pub(super) const LONG_SOCKET_PATH: &str = "a socket path can have at most 107 bytes";
pub(super) const IMAGE: &str =
    "give an image reference, such as registry.k8s.io/pause:3.10, or an image id";

/// dockbridge's default: less than kubelet's default of two minutes, so that kubelet still receives dockbridge's error.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(110);

const LISTEN_SCHEME: &str =
    "the CRI is served on a unix socket only: unix:///path, or fd:// for a systemd socket unit";
const ENGINE_SCHEME: &str = "the engine must be on this host, behind a unix socket (unix:///path): \
                             dockbridge needs the namespaces and files of pods, which tcp, ssh and npipe \
                             cannot reach";
const KUBENET: &str = "kubenet is not supported: use a CNI configuration (the bridge plugin with host-local does \
     the same), or docker for the engine's own bridge";
const NAME_PATTERNS: &str =
    "give image names such as registry.k8s.io/coredns/* or busybox:1, separated by commas";
const ADDRESS: &str =
    "give a numeric address with an optional port, such as 127.0.0.1:0 or [::1]:10010";
const DURATION: &str = "give a duration such as 90s, 2m or 1m30s";
const COLLECTOR: &str = "give the collector's address as http://host:4317 or host:4317";
const COLLECTOR_TLS: &str =
    "TLS is not supported: give an http address, such as that of a collector on this node";
