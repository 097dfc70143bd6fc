//! Tests of the arguments that CNI plugins get for a pod, and of pods whose arguments dockbridge refuses.

use super::*;
use crate::{
    error::Kind,
    model::{
        network::{DnsConfig, Protocol},
        sandbox::PodMetadata,
    },
};

fn cni() -> CniAttachment {
    let metadata = PodMetadata {
        name: "web".to_owned(),
        namespace: "shop".to_owned(),
        uid: "u-1".to_owned(),
        attempt: 0,
    };
    CniAttachment {
        pod: PodNetwork {
            id: "ab".repeat(32).as_str().try_into().unwrap(),
            metadata,
            netns: "/run/x".into(),
            ports: Vec::new(),
            dns: None,
            annotations: BTreeMap::new(),
            cgroup_parent: String::new(),
        },
        network: "pods".to_owned(),
        interface: "eth0".to_owned(),
        config: String::new(),
        pod_cidrs: Vec::new(),
        capabilities: None,
    }
}

fn values(cni: &CniAttachment) -> Value {
    Value::Object(capabilities(cni).unwrap())
}

#[test]
fn arguments_name_the_pod() {
    let id = "ab".repeat(32);
    let text = joined(&pairs(&cni().pod).unwrap());
    assert_eq!(
        text,
        format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;\
             K8S_POD_INFRA_CONTAINER_ID={id};K8S_POD_UID=u-1"
        )
    );
}

#[test]
fn what_cannot_be_quoted_is_refused() {
    for bad in ["a;K8S_POD_NAME=b", "a=b", "a\0", "a\nb"] {
        let mut cni = cni();
        bad.clone_into(&mut cni.pod.metadata.uid);
        let error = pairs(&cni.pod).unwrap_err();
        assert!(error.to_string().starts_with("the pod's K8S_POD_UID "), "{error}");
    }
}

#[test]
fn a_pod_without_values_has_no_capabilities() {
    let mut cni = cni();
    cni.pod.ports = vec![PortMapping { container_port: 80, ..PortMapping::default() }];
    assert_eq!(values(&cni), json!({}));
    assert!(!wants_host_ports(&cni.pod));
}

#[test]
fn all_fields_are_set() {
    let mut cni = cni();
    cni.pod.ports = vec![
        PortMapping { container_port: 80, host_port: 8080, ..PortMapping::default() },
        PortMapping {
            protocol: Protocol::Sctp,
            container_port: 81,
            host_port: 81,
            host_ip: "::1".to_owned(),
        },
    ];
    cni.pod.dns = Some(DnsConfig {
        servers: vec!["10.0.0.10".to_owned()],
        searches: vec!["svc".to_owned()],
        options: vec!["ndots:5".to_owned()],
    });
    cni.pod.cgroup_parent = "/kubepods/x".to_owned();
    let key = "kubernetes.io/egress-bandwidth".to_owned();
    cni.pod.annotations = BTreeMap::from([(key, "10M".to_owned())]);
    cni.pod_cidrs = ["fd00::/64", "10.1.0.0/24", "10.2.0.0/24"].map(str::to_owned).to_vec();
    assert!(wants_host_ports(&cni.pod));
    assert_eq!(
        values(&cni),
        json!({
            "portMappings": [
                {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
                {"hostPort": 81, "containerPort": 81, "protocol": "sctp", "hostIP": "::1"},
            ],
            "bandwidth": {"egressRate": 10_000_000, "egressBurst": 2_147_483_647},
            "ipRanges": [
                [{"subnet": "fd00::/64"}],
                [{"subnet": "10.1.0.0/24"}, {"subnet": "10.2.0.0/24"}],
            ],
            "dns": {"servers": ["10.0.0.10"], "searches": ["svc"], "options": ["ndots:5"]},
            "io.kubernetes.cri.pod-annotations": {"kubernetes.io/egress-bandwidth": "10M"},
            "cgroupPath": "/kubepods/x",
        })
    );
}

#[test]
fn an_invalid_rate_is_an_invalid_argument() {
    let mut cni = cni();
    let key = "kubernetes.io/ingress-bandwidth".to_owned();
    cni.pod.annotations = BTreeMap::from([(key, "fast".to_owned())]);
    let error = capabilities(&cni).unwrap_err();
    assert_eq!(error.kind(), Kind::InvalidArgument);
    assert_eq!(
        error.to_string(),
        "annotation kubernetes.io/ingress-bandwidth=\"fast\": not a quantity"
    );
}
