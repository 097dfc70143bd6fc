//! Records the two create requests that dockbridge sends for a pod with one container. The benchmark sends them again
//! without dockbridge. So dockbridge and the direct calls send the same create requests to the engine, apart from
//! names, labels, ids, the shim group and `dockbridge-runtime`.

use dockbridge::model::{
    label::OCI_SHIM_GROUP,
    oci_edits::{REQUIRED_ANNOTATION, RUNTIME},
};
use serde_json::Value;

use crate::support::{
    failure::{Failure, Outcome},
    proxy::Proxy,
    stage::Stage,
};

/// The recorded requests for one pod with one container.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    /// The start of the requests' paths, with the API version: for example `/v1.41`.
    pub(crate) version: String,
    sandbox: String,
    container: String,
    shim_group: Option<String>,
    sandbox_id: String,
}

impl Recording {
    /// The recorded create request of the pause container, changed for another pod.
    pub(crate) fn sandbox_of(&self, pod: &str) -> String {
        self.in_own_shim(&self.sandbox, pod)
    }

    /// The recorded create request of the container, changed for another pod. The request still mounts the
    /// files of the recorded pod.
    pub(crate) fn container_of(&self, pod: &str, sandbox: &str) -> String {
        let joins = |id: &str| format!("container:{id}");
        let body = self.in_own_shim(&self.container, pod);
        body.replace(&joins(&self.sandbox_id), &joins(sandbox))
    }

    /// Changes the shim group in a request: with the recorded group, containerd would run the container in the shim of
    /// the recorded pod and would not start another shim.
    fn in_own_shim(&self, body: &str, pod: &str) -> String {
        match &self.shim_group {
            Some(group) => body.replace(group, pod),
            None => body.to_owned(),
        }
    }
}

/// Starts one pod through a dockbridge whose engine socket is the proxy, and then stops this dockbridge. The pod is not
/// removed, because the recorded requests name its files.
pub(crate) async fn record(stage: &mut Stage, proxy: &Proxy) -> Outcome<Recording> {
    let pod = stage.recipes.pod("recorded");
    let sandbox_id = stage.cri.run(&pod).await?;
    stage.up(&sandbox_id, &pod, &[stage.recipes.sleeper("main")]).await?;
    stage.bridge.stop().await?;
    let mut bodies = Vec::new();
    for bytes in proxy.take_bytes() {
        bodies.extend(creations(&String::from_utf8_lossy(&bytes)));
    }
    let mut version = String::new();
    let (mut sandbox, mut container, mut shim_group) = (None, None, None);
    for (prefix, mut body) in bodies {
        version = prefix;
        // Without labels, no dockbridge adopts a pod that the benchmark creates with direct engine calls.
        let labels = std::mem::take(&mut body["Labels"]);
        let group = &body["HostConfig"]["Annotations"][OCI_SHIM_GROUP];
        shim_group = group.as_str().map(str::to_owned).or(shim_group);
        leave_out_our_runtime(&mut body["HostConfig"]);
        match labels["io.kubernetes.docker.type"].as_str() {
            Some("podsandbox") => sandbox = Some(body.to_string()),
            Some("container") => container = Some(body.to_string()),
            // Other create requests are for containers that dockbridge creates to read files of an image.
            _ => {}
        }
    }
    let missing = || Failure("dockbridge sent no create request".to_owned());
    Ok(Recording {
        version,
        sandbox: sandbox.ok_or_else(missing)?,
        container: container.ok_or_else(missing)?,
        shim_group,
        sandbox_id,
    })
}

/// Removes `dockbridge-runtime`, whose work direct engine calls do not need, and the annotation that makes it refuse
/// containers that dockbridge did not prepare.
fn leave_out_our_runtime(host: &mut Value) {
    if host["Runtime"] == RUNTIME {
        host["Runtime"].take();
        if let Some(annotations) = host["Annotations"].as_object_mut() {
            annotations.remove(REQUIRED_ANNOTATION);
        }
    }
}

/// The API version in the path, and the body, of each request in `bytes` that creates a container.
fn creations(bytes: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for request in bytes.split("POST ").skip(1) {
        let Some((head, body)) = request.split_once("\r\n\r\n") else { continue };
        let path = head.split(' ').next().unwrap_or_default();
        let Some((version, _name)) = path.split_once("/containers/create?") else { continue };
        let mut values = serde_json::Deserializer::from_str(body).into_iter::<Value>();
        if let Some(Ok(value)) = values.next() {
            found.push((version.to_owned(), value));
        }
    }
    found
}
