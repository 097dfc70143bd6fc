//! Limits of the CRI, where zero and empty mean "not set", except zero in a limit for huge pages. This module checks
//! each value alone. The module `docker` refuses contradictions between limits for memory and swap.

use std::collections::BTreeMap;

use crate::{
    model::resources::{HugepageLimit, PodResources, Resources, UNLIMITED},
    translate::parse::{
        error::{At, ParseError},
        text,
    },
    wire::cri,
};

/// Reads `LinuxContainerResources`. The error names one field with an invalid value.
pub fn resources(given: &cri::LinuxContainerResources) -> Result<Resources, ParseError> {
    at_least(0, given.memory_limit_in_bytes).at("memory_limit_in_bytes")?;
    changed(given)
}

/// Reads an UpdateContainerResourcesRequest. An empty request changes nothing.
///
/// # Errors
/// Fails as [`resources`] does, but accepts the memory limit -1 (no limit). Refuses limits for Windows.
pub fn update(request: &cri::UpdateContainerResourcesRequest) -> Result<Resources, ParseError> {
    ParseError::unless(request.windows.is_none(), "is not supported on Linux").at("windows")?;
    request.linux.as_ref().map(changed).transpose().at("linux").map(Option::unwrap_or_default)
}

/// Reads an UpdatePodSandboxResourcesRequest.
pub fn pod_update(
    request: &cri::UpdatePodSandboxResourcesRequest,
) -> Result<PodResources, ParseError> {
    let without_overhead = |given: &cri::LinuxContainerResources| {
        changed(&cri::LinuxContainerResources {
            // kubelet has subtracted the pod's overhead from these limits, even from -1 (no limit).
            cpu_quota: match given.cpu_quota {
                ..0 => UNLIMITED,
                0 => 0,
                quota => quota.max(MIN_QUOTA),
            },
            memory_limit_in_bytes: given.memory_limit_in_bytes.max(UNLIMITED),
            ..given.clone()
        })
    };
    Ok(PodResources {
        overhead: request.overhead.as_ref().map(changed).transpose().at("overhead")?,
        resources: request.resources.as_ref().map(without_overhead).transpose().at("resources")?,
    })
}

fn changed(given: &cri::LinuxContainerResources) -> Result<Resources, ParseError> {
    let unified = text::pairs(&given.unified).and_then(|pairs| {
        check_count(&pairs)?;
        let check = |(key, value): (&String, &String)| {
            cgroup_key(key).and_then(|()| cgroup_value(key, value)).at(format_args!("[{key:?}]"))
        };
        pairs.iter().try_for_each(check)?;
        Ok(pairs)
    });
    Ok(Resources {
        cpu_period: cpu_period(given.cpu_period).at("cpu_period")?,
        cpu_quota: cpu_quota(given.cpu_quota).at("cpu_quota")?,
        cpu_shares: cpu_shares(given.cpu_shares).at("cpu_shares")?,
        memory_limit: at_least(UNLIMITED, given.memory_limit_in_bytes)
            .at("memory_limit_in_bytes")?,
        memory_swap_limit: at_least(UNLIMITED, given.memory_swap_limit_in_bytes)
            .at("memory_swap_limit_in_bytes")?,
        oom_score_adj: oom_score(given.oom_score_adj).at("oom_score_adj")?,
        cpuset_cpus: cpu_list(&given.cpuset_cpus).at("cpuset_cpus")?,
        cpuset_mems: cpu_list(&given.cpuset_mems).at("cpuset_mems")?,
        hugepage_limits: text::each(&given.hugepage_limits, hugepages).at("hugepage_limits")?,
        unified: unified.at("unified")?,
        ..Resources::default()
    })
}

/// Requested or current limits, as CRI shows them.
pub fn rendered(given: &Resources) -> cri::ContainerResources {
    let hugepage = |limit: &HugepageLimit| cri::HugepageLimit {
        page_size: limit.page_size.clone(),
        limit: limit.limit,
    };
    let linux = cri::LinuxContainerResources {
        cpu_period: given.cpu_period,
        cpu_quota: given.cpu_quota,
        cpu_shares: given.cpu_shares,
        memory_limit_in_bytes: given.memory_limit,
        oom_score_adj: given.oom_score_adj,
        cpuset_cpus: given.cpuset_cpus.clone(),
        cpuset_mems: given.cpuset_mems.clone(),
        hugepage_limits: given.hugepage_limits.iter().map(hugepage).collect(),
        unified: given.unified.clone(),
        memory_swap_limit_in_bytes: given.memory_swap_limit,
    };
    cri::ContainerResources { linux: Some(linux), windows: None }
}

fn at_least(least: i64, value: i64) -> Result<i64, ParseError> {
    in_range(value, value >= least)
}

/// Limits the number and length of the entries of `unified`, because a label stores them.
fn check_count(pairs: &BTreeMap<String, String>) -> Result<(), ParseError> {
    ParseError::unless(pairs.len() <= MAX_KEYS, format!("has more than {MAX_KEYS} keys"))?;
    let are_short = pairs.iter().all(|(key, value)| key.len() + value.len() <= MAX_PAIR);
    ParseError::unless(are_short, format!("has a key and value of over {MAX_PAIR} bytes together"))
}

/// The kernel accepts a CPU period of 1 ms to 1 s.
fn cpu_period(value: i64) -> Result<i64, ParseError> {
    in_range(value, value == 0 || (1_000..=1_000_000).contains(&value))
}

/// The quota -1 means that there is no limit.
fn cpu_quota(value: i64) -> Result<i64, ParseError> {
    in_range(value, matches!(value, -1 | 0) || (MIN_QUOTA..=MAX_QUOTA).contains(&value))
}

/// Refuses CPU shares outside of the range of cgroup v1, because the kernel would silently change them.
fn cpu_shares(value: i64) -> Result<i64, ParseError> {
    in_range(value, value == 0 || (2..=1 << 18).contains(&value))
}

/// The kernel accepts an OOM score adjustment of -1000 to 1000.
pub fn oom_score(value: i64) -> Result<i64, ParseError> {
    in_range(value, (-1000..=1000).contains(&value))
}

fn in_range(value: i64, is_valid: bool) -> Result<i64, ParseError> {
    ParseError::unless(is_valid, format!("is out of range: {value}")).map(|()| value)
}

/// Checks a list of CPUs or memory nodes, such as `0-3,8`.
fn cpu_list(list: &str) -> Result<String, ParseError> {
    let valid = list.is_empty() || list.split(',').all(is_cpu_range);
    text::checked(valid, "is not a list like 0-3,8", list)
}

fn is_cpu_range(range: &str) -> bool {
    let number = |text: &str| -> Option<u32> {
        // The digits are checked because `parse` would also accept a sign.
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    match range.split_once('-') {
        Some((first, last)) => {
            matches!((number(first), number(last)), (Some(first), Some(last)) if first <= last)
        }
        None => number(range).is_some(),
    }
}

/// Checks the page size, because it becomes part of the name of a cgroup file.
fn hugepages(given: &cri::HugepageLimit) -> Result<HugepageLimit, ParseError> {
    let size = given.page_size.as_str();
    let number = size.trim_end_matches('B').trim_end_matches(['K', 'M', 'G']);
    let unit = size.strip_prefix(number).unwrap_or_default();
    let counted = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let valid = counted && matches!(unit, "KB" | "MB" | "GB");
    let page_size = text::checked(valid, "is not a page size like 2MB", size).at("page_size")?;
    Ok(HugepageLimit { page_size, limit: given.limit })
}

/// Checks that a key of `unified` has the form of a cgroup file's name, and so cannot name a file in another directory.
fn cgroup_key(key: &str) -> Result<(), ParseError> {
    let valid = key.contains('.')
        && !key.starts_with('.')
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    ParseError::unless(valid, "is not the name of a cgroup file, such as memory.high")
}

fn cgroup_value(key: &str, value: &str) -> Result<(), ParseError> {
    text::line(value)?;
    let number = || value.parse::<u64>().is_ok();
    let valid = match key {
        "memory.oom.group" => matches!(value, "0" | "1"),
        "memory.min" | "memory.low" | "memory.high" | "memory.max" | "memory.swap.max"
        | "memory.swap.high" | "pids.max" => value == "max" || number(),
        "cpu.weight" => value.parse().is_ok_and(|weight: u64| (1..=10_000).contains(&weight)),
        _ => !value.is_empty(),
    };
    ParseError::unless(valid, format!("cannot be {}", text::quoted(value)))
}

const MAX_KEYS: usize = 256;
const MAX_PAIR: usize = 1024;
/// The smallest and the largest CPU quota that the kernel accepts, in microseconds.
const MIN_QUOTA: i64 = 1000;
const MAX_QUOTA: i64 = (1 << 44) - 1;
