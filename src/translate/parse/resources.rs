//! Limits: zero and empty mean "not set" all through CRI, so only what no kernel could mean is
//! refused here. What the engine itself bounds (minimum memory, CPUs that exist) it says itself.

use super::{
    error::{At, ParseError},
    text,
};
use crate::{
    model::resources::{HugepageLimit, Resources},
    wire::cri,
};

/// Reads `LinuxContainerResources`.
///
/// # Errors
/// Names the field that is out of the kernel's range.
pub fn resources(given: &cri::LinuxContainerResources) -> Result<Resources, ParseError> {
    let unified = text::pairs(&given.unified).and_then(|pairs| {
        pairs.keys().try_for_each(|key| cgroup_key(key).at(format_args!("[{key:?}]")))?;
        Ok(pairs)
    });
    Ok(Resources {
        cpu_period: cpu_period(given.cpu_period).at("cpu_period")?,
        cpu_quota: cpu_quota(given.cpu_quota).at("cpu_quota")?,
        cpu_shares: at_least(0, given.cpu_shares).at("cpu_shares")?,
        memory_limit: at_least(0, given.memory_limit_in_bytes).at("memory_limit_in_bytes")?,
        memory_swap_limit: at_least(-1, given.memory_swap_limit_in_bytes)
            .at("memory_swap_limit_in_bytes")?,
        oom_score_adj: oom_score(given.oom_score_adj).at("oom_score_adj")?,
        cpuset_cpus: cpu_list(&given.cpuset_cpus).at("cpuset_cpus")?,
        cpuset_mems: cpu_list(&given.cpuset_mems).at("cpuset_mems")?,
        hugepage_limits: text::each(&given.hugepage_limits, hugepages).at("hugepage_limits")?,
        unified: unified.at("unified")?,
    })
}

fn at_least(least: i64, value: i64) -> Result<i64, ParseError> {
    if value >= least { Ok(value) } else { Err(out_of_range(value)) }
}

/// The kernel takes 1 ms to 1 s.
fn cpu_period(value: i64) -> Result<i64, ParseError> {
    if value == 0 || (1_000..=1_000_000).contains(&value) {
        Ok(value)
    } else {
        Err(out_of_range(value))
    }
}

/// The kernel takes 1 ms and up; -1 lifts the limit.
fn cpu_quota(value: i64) -> Result<i64, ParseError> {
    if matches!(value, -1 | 0) || value >= 1_000 { Ok(value) } else { Err(out_of_range(value)) }
}

fn oom_score(value: i64) -> Result<i64, ParseError> {
    if (-1000..=1000).contains(&value) { Ok(value) } else { Err(out_of_range(value)) }
}

fn out_of_range(value: i64) -> ParseError {
    ParseError::invalid(format!("is out of range: {value}"))
}

/// The kernel's list format: `0-3,8`.
fn cpu_list(list: &str) -> Result<String, ParseError> {
    let valid = list.is_empty() || list.split(',').all(is_cpu_range);
    if valid {
        Ok(list.to_owned())
    } else {
        Err(ParseError::invalid(format!("is no list like 0-3,8: {}", text::shown(list))))
    }
}

fn is_cpu_range(range: &str) -> bool {
    let number = |text: &str| -> Option<u32> {
        // `parse` would also take a sign.
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
    };
    match range.split_once('-') {
        Some((first, last)) => {
            matches!((number(first), number(last)), (Some(first), Some(last)) if first <= last)
        }
        None => number(range).is_some(),
    }
}

/// The size becomes part of a cgroup file's name.
fn hugepages(given: &cri::HugepageLimit) -> Result<HugepageLimit, ParseError> {
    let size = given.page_size.as_str();
    let number = size.trim_end_matches('B').trim_end_matches(['K', 'M', 'G']);
    let unit = size.strip_prefix(number).unwrap_or_default();
    let counted = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    if !counted || !matches!(unit, "KB" | "MB" | "GB") {
        let reason = format!("is no page size like 2MB: {}", text::shown(size));
        return Err(ParseError::invalid(reason)).at("page_size");
    }
    Ok(HugepageLimit { page_size: size.to_owned(), limit: given.limit })
}

/// A key of the unified hierarchy is the name of a file in the container's own cgroup.
fn cgroup_key(key: &str) -> Result<(), ParseError> {
    let valid = key.contains('.')
        && !key.starts_with('.')
        && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    if valid { Ok(()) } else { Err(ParseError::invalid("is no cgroup file like memory.high")) }
}
