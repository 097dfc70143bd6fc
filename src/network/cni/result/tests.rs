//! Tests of a plugin's result in each format of the CNI specification, and of invalid results.

use serde_json::json;

use super::*;

fn texts(result: &Value) -> Vec<String> {
    addresses(result, "eth0").unwrap().iter().map(ToString::to_string).collect()
}

#[test]
fn reads_every_format() {
    let v020 =
        json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.2/16"}, "ip6": {"ip": "fd00::2/64"}});
    assert_eq!(texts(&v020), ["10.1.0.2", "fd00::2"]);
    let v031 = json!({
        "cniVersion": "0.3.1",
        "interfaces": [{"name": "cni0"}, {"name": "veth1"}, {"name": "eth0", "sandbox": "/n"}],
        "ips": [
            {"version": "6", "address": "fd00::2/64", "interface": 2},
            {"version": "4", "address": "10.1.0.2/16", "interface": 2},
        ],
    });
    assert_eq!(texts(&v031), ["fd00::2", "10.1.0.2"]);
    let v100 = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.1.0.2/32"}], "dns": {}});
    assert_eq!(texts(&v100), ["10.1.0.2"]);
    let v110 = json!({
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0", "sandbox": "/n", "mtu": 1500, "socketPath": ""}],
        "ips": [{"address": "10.1.0.2/32", "interface": 0, "gateway": "10.1.0.1"}],
        "routes": [{"dst": "0.0.0.0/0", "mtu": 9000}],
    });
    assert_eq!(texts(&v110), ["10.1.0.2"]);
}

#[test]
fn only_the_pods_interface_counts() {
    let result = json!({
        "interfaces": [
            {"name": "eth0"}, {"name": "net1", "sandbox": "/n"}, {"name": "eth0", "sandbox": "/n"},
        ],
        "ips": [
            {"address": "192.0.2.1/24", "interface": 0},
            {"address": "192.0.2.2/24", "interface": 1},
            {"address": "192.0.2.3/24", "interface": 2},
        ],
    });
    assert_eq!(texts(&result), ["192.0.2.3"]);
    assert_eq!(namespace_path(&result).as_deref(), Some("/n"));
    let shy = json!({
        "interfaces": [{"name": "eth0"}], "ips": [{"address": "192.0.2.1", "interface": 0}],
    });
    assert_eq!(texts(&shy), ["192.0.2.1"]);
    assert_eq!(namespace_path(&shy), None);
}

#[test]
fn each_malformed_result_has_its_own_error() {
    let fails = |result: Value| addresses(&result, "eth0").unwrap_err().to_string();
    assert_eq!(fails(json!({})), "no address for interface eth0");
    assert_eq!(fails(json!({"ips": null})), "no address for interface eth0");
    let null = json!({"interfaces": [{"name": null, "sandbox": null}], "ip4": null,
        "ips": [{"address": "192.0.2.1", "interface": null}]});
    assert_eq!(texts(&null), ["192.0.2.1"]);
    assert!(fails(json!({"ips": [{"address": "10.0.0.300/8"}]})).contains("is not an IP address"));
    assert!(
        fails(json!({"ips": [{"address": "x", "interface": 3}]}))
            .contains("interface 3, but the result has only 0")
    );
    assert!(
        fails(json!({"ips": [{"address": "x", "interface": -1}]}))
            .contains("interface -1, but the result has only 0")
    );
    assert!(fails(json!({"ips": 7})).contains("not a CNI result"));
    assert!(fails(json!([])).contains("no address") || fails(json!([])).contains("not a CNI"));
    assert!(fails(json!("text")).contains("not a CNI result"));
}

#[test]
fn the_nodes_primary_family_comes_first() {
    let both: Vec<IpAddr> = vec!["10.0.0.2".parse().unwrap(), "fd00::2".parse().unwrap()];
    let six = ["fd00::/64".to_owned(), "10.0.0.0/24".to_owned()];
    assert_eq!(primary_first(both.clone(), &[]), both);
    assert_eq!(primary_first(both.clone(), &["10.0.0.0/24".to_owned()]), both);
    assert!(primary_first(both, &six)[0].is_ipv6());
}
