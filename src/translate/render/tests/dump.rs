//! Tests of the metadata files in a checkpoint archive, which containerd, CRI-O and checkpointctl can read.

use serde_json::json;

use super::records::{container_record, image_record, running, sandbox_record};
use crate::{
    model::{
        dump::{BindMount, DumpedContainer},
        label::OCI_SHIM_GROUP,
        time::Nanos,
    },
    translate::render::dump::files,
};

#[test]
fn the_files_have_the_names_and_fields_of_other_runtimes() {
    let record = container_record(running());
    let mount = BindMount {
        source: "/srv".to_owned(),
        destination: "/data".to_owned(),
        is_directory: true,
        permissions: 0o755,
    };
    let dumped = DumpedContainer {
        record: record.clone().into(),
        image: Some(image_record(&["nginx:1.27"]).into()),
        sandbox: Some(sandbox_record().into()),
        config: json!({
            "ociVersion": "1.0.2",
            "annotations": { "kept": "yes", OCI_SHIM_GROUP: "dockbridge-00" },
        }),
        runtime: "runc".to_owned(),
        mounts: vec![mount],
        at: Nanos(1_700_000_000_000_000_001),
    };
    let [config, spec, status, mounts] = files(&dumped);
    let names = [config.0, spec.0, status.0, mounts.0];
    assert_eq!(names, ["config.dump", "spec.dump", "status.dump", "bind.mounts"]);

    let config = config.1;
    assert_eq!(config["id"], "c".repeat(64));
    assert_eq!(config["name"], record.name);
    assert_eq!(config["rootfsImageRef"], "nginx@sha256:00");
    assert_eq!(config["runtime"], "runc");
    assert_eq!(config["checkpointedTime"], "2023-11-14T22:13:20.000000001Z");
    assert_eq!(config["restoredTime"], "0001-01-01T00:00:00Z");
    assert_eq!(config["restored"], false);

    assert_eq!(spec.1["ociVersion"], "1.0.2");
    let wanted = json!({
        "kept": "yes",
        "io.kubernetes.cri.container-name": "nginx",
        "io.kubernetes.cri.container-type": "container",
        "io.kubernetes.cri.image-name": "nginx:1.27",
        "io.kubernetes.cri.sandbox-id": "5".repeat(64),
        "io.kubernetes.cri.sandbox-name": "web-0",
        "io.kubernetes.cri.sandbox-namespace": "shop",
        "io.kubernetes.cri.sandbox-uid": "6f2a",
    });
    assert_eq!(spec.1["annotations"], wanted);

    let status = status.1;
    assert_eq!(status["metadata"], json!({ "name": "nginx", "attempt": 2 }));
    assert_eq!((&status["state"], &status["started_at"]), (&json!(1), &json!(2_000_000_001)));
    assert_eq!(status["log_path"], "/var/log/pods/shop_web-0_6f2a/nginx/2.log");
    let wanted = json!([
        { "source": "/srv", "destination": "/data", "file_type": "directory", "permissions": 493 },
    ]);
    assert_eq!(mounts.1, wanted);
}

/// Neither an invalid `config.json` nor a container without its pod must make the container checkpoint fail.
#[test]
fn an_odd_configuration_is_kept() {
    for odd in [json!(null), json!([]), json!({ "annotations": "none" })] {
        let dumped = DumpedContainer {
            record: container_record(running()).into(),
            image: None,
            sandbox: None,
            config: odd.clone(),
            runtime: "runc".to_owned(),
            mounts: Vec::new(),
            at: Nanos::UNSET,
        };
        let [_, spec, ..] = files(&dumped);
        assert_eq!(spec.1, odd);
    }
}
