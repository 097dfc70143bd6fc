//! Refuses limits of huge pages that the kernel cannot enforce, except a limit of zero.

use crate::{
    concurrency::blocking::blocking,
    error::Failure,
    host::cgroup::{Cgroups, Hierarchy, hugetlb},
    model::{engine::EngineInfo, resources::Resources},
};

pub(in crate::container) async fn check_hugepages(
    cgroups: &Cgroups,
    limits: &Resources,
    engine: &EngineInfo,
) -> Result<(), Failure> {
    let limited = limits.hugepage_limits.iter().filter(|pages| pages.limit > 0);
    let sizes: Vec<String> = limited.map(|pages| pages.page_size.clone()).collect();
    if sizes.is_empty() {
        return Ok(());
    }
    let hierarchy = if engine.cgroup_version == 2 { Hierarchy::V2 } else { Hierarchy::V1 };
    let cgroups = cgroups.clone();
    let read = move || {
        (hugetlb::page_sizes(), cgroups.has_controller(hierarchy, "hugetlb").unwrap_or(true))
    };
    let (known, counted) = blocking(read).await;
    for size in sizes {
        if !known.contains(&size) {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return Err(Failure::invalid(format!(
                "linux.resources.hugepage_limits[{size}].page_size: not a huge page size of this node, which has {known}"
            )));
        }
        if !counted {
            return Err(Failure::unmet(format!(
                "linux.resources.hugepage_limits[{size}]: this node has no hugetlb controller"
            )));
        }
    }
    Ok(())
}
