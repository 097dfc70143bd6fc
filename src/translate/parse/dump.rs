//! Parses the requests of CheckpointContainer, CheckpointPod and RestorePod.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use super::{
    container::container_spec,
    error::{At, ParseError},
    id::object_id,
    sandbox::sandbox_spec,
    text,
};
use crate::{
    model::{
        container::ContainerSpec,
        dump::DumpSpec,
        restore::{PodRestoreSpec, archive_name},
    },
    wire::cri,
};

/// Reads the container, the path of the archive and the timeout.
///
/// # Errors
/// Refuses an empty id, a negative timeout, and a path that is relative, has a component `..` or ends with a slash.
pub fn dump_spec(request: &cri::CheckpointContainerRequest) -> Result<DumpSpec, ParseError> {
    let container = object_id("container_id", &request.container_id)?;
    let location = text::path(&request.location).at("location")?;
    if location.ends_with('/') {
        return Err(ParseError::invalid("must not end with '/'")).at("location");
    }
    let seconds = u64::try_from(request.timeout)
        .map_err(|_| ParseError::invalid("must not be negative"))
        .at("timeout")?;
    let timeout = (seconds > 0).then(|| Duration::from_secs(seconds));
    let (sandbox, containers) = (None, vec![container]);
    Ok(DumpSpec { sandbox, containers, location: PathBuf::from(location), timeout })
}

/// Reads the pod, the containers and the directory.
///
/// # Errors
/// Refuses an empty id, a request without containers or with repeated containers, a path that is relative or has
/// a component `..`, and all options.
pub fn pod_dump_spec(request: &cri::CheckpointPodRequest) -> Result<DumpSpec, ParseError> {
    let sandbox = Some(object_id("pod_sandbox_id", &request.pod_sandbox_id)?);
    let location = text::path(&request.output_path).at("output_path")?.into();
    let containers = text::each(&request.container_ids, |id| text::required(id));
    let containers = containers.at("container_ids")?;
    unique(&containers).at("container_ids")?;
    no_options(&request.options)?;
    Ok(DumpSpec { sandbox, containers, location, timeout: None })
}

/// Reads the directory of a pod checkpoint, and the configurations of the pod and its containers.
///
/// # Errors
/// Refuses what [`sandbox_spec`] and [`container_spec`] refuse, a path that is not absolute or has a component `..`,
/// a request without containers or with two containers of the same name, and all options.
pub fn pod_restore_spec(request: &cri::RestorePodRequest) -> Result<PodRestoreSpec, ParseError> {
    let checkpoint = PathBuf::from(text::path(&request.checkpoint_path).at("checkpoint_path")?);
    no_options(&request.options)?;
    let pod = request.config.as_ref();
    let sandbox = sandbox_spec(pod, &request.runtime_handler)?;
    let containers = text::each(&request.container_configs, |config| {
        let spec = container_spec(Some(config), pod)?;
        let archive = checkpoint.join(archive_name(&spec.metadata.name));
        Ok(ContainerSpec { checkpoint: Some(archive), ..spec })
    });
    let containers = containers.at("container_configs")?;
    let names = containers.iter().map(|spec| spec.metadata.name.clone()).collect::<Vec<_>>();
    unique(&names).at("container_configs")?;
    Ok(PodRestoreSpec { checkpoint, sandbox, containers })
}

fn unique(items: &[String]) -> Result<(), ParseError> {
    ParseError::unless(!items.is_empty(), "is required")?;
    let is_unique = items.iter().collect::<BTreeSet<_>>().len() == items.len();
    ParseError::unless(is_unique, "must not name a container twice")
}

/// The CRI demands that servers refuse unknown options, and dockbridge knows none.
fn no_options(options: &BTreeMap<String, String>) -> Result<(), ParseError> {
    let Some(name) = options.keys().next() else { return Ok(()) };
    Err(ParseError::invalid(format!("there is no option {}", text::quoted(name)))).at("options")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_absolute_and_the_timeout_is_not_negative() {
        let parsed = |location: &str, timeout| {
            let (container_id, location) = ("c".to_owned(), location.to_owned());
            dump_spec(&cri::CheckpointContainerRequest { container_id, location, timeout })
        };
        let spec = parsed("/var/lib/kubelet/checkpoints/a.tar", 7).unwrap();
        let (location, timeout) =
            ("/var/lib/kubelet/checkpoints/a.tar".into(), Duration::from_secs(7));
        let (sandbox, containers) = (None, vec!["c".to_owned()]);
        assert_eq!(spec, DumpSpec { sandbox, containers, location, timeout: Some(timeout) });
        assert_eq!(parsed("/a", 0).unwrap().timeout, None);
        for (location, timeout, field) in [
            ("", 0, "location"),
            ("a.tar", 0, "location"),
            ("/a/../b", 0, "location"),
            ("/a/", 0, "location"),
            ("/a\0", 0, "location"),
            ("/a", -1, "timeout"),
        ] {
            assert_eq!(parsed(location, timeout).unwrap_err().field, field, "{location:?}");
        }
        let empty =
            cri::CheckpointContainerRequest { location: "/a".to_owned(), ..Default::default() };
        assert_eq!(dump_spec(&empty).unwrap_err().field, "container_id");
    }

    #[test]
    fn each_container_of_a_restored_pod_has_its_archive() {
        let container = |name: &str| cri::ContainerConfig {
            metadata: Some(cri::ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(cri::ImageSpec { image: "busybox".to_owned(), ..Default::default() }),
            ..Default::default()
        };
        let metadata = cri::PodSandboxMetadata {
            name: "web".to_owned(),
            namespace: "default".to_owned(),
            uid: "u".to_owned(),
            attempt: 0,
        };
        let config = cri::PodSandboxConfig { metadata: Some(metadata), ..Default::default() };
        let request = cri::RestorePodRequest {
            checkpoint_path: "/var/lib/checkpoints/web".to_owned(),
            config: Some(config),
            container_configs: vec![container("a"), container("b")],
            ..Default::default()
        };
        let spec = pod_restore_spec(&request).unwrap();
        assert_eq!(spec.checkpoint, PathBuf::from("/var/lib/checkpoints/web"));
        let archives: Vec<_> = spec.containers.into_iter().flat_map(|it| it.checkpoint).collect();
        let wanted = ["/var/lib/checkpoints/web/a.tar", "/var/lib/checkpoints/web/b.tar"];
        assert_eq!(archives, wanted.map(PathBuf::from));
        let refused = |change: &dyn Fn(&mut cri::RestorePodRequest)| {
            let mut request = request.clone();
            change(&mut request);
            pod_restore_spec(&request).unwrap_err().field
        };
        assert_eq!(refused(&|it| it.config = None), "config");
        assert_eq!(refused(&|it| it.container_configs.clear()), "container_configs");
        assert_eq!(refused(&|it| it.container_configs[1] = container("a")), "container_configs");
        assert_eq!(refused(&|it| it.checkpoint_path = "/a/../b".to_owned()), "checkpoint_path");
        let option = ("a".to_owned(), "b".to_owned());
        assert_eq!(refused(&|it| it.options = [option.clone()].into()), "options");
        let outside = container("../a");
        assert_eq!(
            refused(&|it| it.container_configs[0] = outside.clone()),
            "container_configs[0].config.metadata.name"
        );
    }

    #[test]
    fn the_containers_of_a_pod_are_named_once_and_there_are_no_options() {
        let request = |ids: &[&str], path: &str| cri::CheckpointPodRequest {
            pod_sandbox_id: "p".to_owned(),
            output_path: path.to_owned(),
            container_ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            options: BTreeMap::new(),
        };
        let refused =
            |request: &cri::CheckpointPodRequest| pod_dump_spec(request).unwrap_err().to_string();
        let spec = pod_dump_spec(&request(&["a", "b"], "/out")).unwrap();
        let (sandbox, containers) = (Some("p".to_owned()), vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(spec, DumpSpec { sandbox, containers, location: "/out".into(), timeout: None });
        assert_eq!(refused(&request(&[], "/out")), "container_ids: is required");
        assert_eq!(refused(&request(&["a", ""], "/out")), "container_ids[1]: is required");
        let twice = refused(&request(&["a", "a"], "/out"));
        assert_eq!(twice, "container_ids: must not name a container twice");
        assert!(refused(&request(&["a"], "out")).starts_with("output_path: "));
        let mut with_option = request(&["a"], "/out");
        with_option.options.insert("leaveRunning".to_owned(), "false".to_owned());
        assert_eq!(refused(&with_option), r#"options: there is no option "leaveRunning""#);
        with_option.pod_sandbox_id.clear();
        assert!(refused(&with_option).starts_with("pod_sandbox_id: "));
    }
}
