//! Limits that NRI plugins ask for.

use super::{
    error::{At, ParseError},
    resources,
};
use crate::{
    model::resources::Resources,
    wire::{cri, nri},
};

/// Reads the limits of a container; what is absent stays. They are checked as kubelet's are.
///
/// # Errors
/// Names the field that is out of the kernel's range, or that no container can have.
pub fn limits(given: &nri::LinuxResources) -> Result<Resources, ParseError> {
    let (memory, cpu) = (given.memory.as_ref(), given.cpu.as_ref());
    let signed = |value: Option<&nri::OptionalInt64>| value.map_or(0, |value| value.value);
    let unsigned = |value: Option<&nri::OptionalUInt64>| {
        i64::try_from(value.map_or(0, |value| value.value))
            .map_err(|_| ParseError::invalid("is out of range"))
    };
    let as_kubelet = cri::LinuxContainerResources {
        cpu_period: unsigned(cpu.and_then(|cpu| cpu.period.as_ref())).at("cpu.period")?,
        cpu_quota: signed(cpu.and_then(|cpu| cpu.quota.as_ref())),
        cpu_shares: unsigned(cpu.and_then(|cpu| cpu.shares.as_ref())).at("cpu.shares")?,
        memory_limit_in_bytes: signed(memory.and_then(|memory| memory.limit.as_ref())),
        memory_swap_limit_in_bytes: signed(memory.and_then(|memory| memory.swap.as_ref())),
        cpuset_cpus: cpu.map(|cpu| cpu.cpus.clone()).unwrap_or_default(),
        cpuset_mems: cpu.map(|cpu| cpu.mems.clone()).unwrap_or_default(),
        hugepage_limits: (given.hugepage_limits.iter())
            .map(|limit| cri::HugepageLimit {
                page_size: limit.page_size.clone(),
                limit: limit.limit,
            })
            .collect(),
        unified: given.unified.clone(),
        ..cri::LinuxContainerResources::default()
    };
    let asked = cri::UpdateContainerResourcesRequest {
        linux: Some(as_kubelet),
        ..cri::UpdateContainerResourcesRequest::default()
    };
    resources::update(&asked)
}
