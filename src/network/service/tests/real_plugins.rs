//! Tests with the reference CNI plugins, if they are installed. The plugins add and remove an address, a
//! route and a host port. Each test runs in a new network namespace, which stands for the node's.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::*;
use crate::skips::{Lack, skip};
use crate::{
    config::live::LiveSettings,
    host::{
        netns::{self, netns_thread::enter_new_namespace},
        process::{self, ProcessExit, Program},
    },
    model::network::PortMapping,
    network::fixture::TestNode,
};

const INSTALLED: [&str; 2] = ["/opt/cni/bin", "/usr/lib/cni"];

fn installed() -> Option<PathBuf> {
    let complete = |place: &&&str| {
        ["bridge", "host-local", "portmap"].iter().all(|name| Path::new(place).join(name).exists())
    };
    let found = INSTALLED.iter().find(complete).map(PathBuf::from);
    if found.is_none() {
        skip(Lack::Plugins);
    }
    found
}

/// Runs a test on a Tokio runtime whose threads are in a new network namespace. The plugins inherit this namespace.
fn in_a_new_namespace(story: impl AsyncFnOnce() + Send + 'static) {
    let node = thread::spawn(move || {
        if !enter_new_namespace() {
            return;
        }
        netns::raise_loopback(Path::new("/proc/thread-self/ns/net")).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(story());
    });
    node.join().unwrap();
}

fn bridge(node: &TestNode, version: &str, ranges: &Value) -> Value {
    let ipam = json!({
        "type": "host-local", "dataDir": node.path("ipam"), "ranges": ranges,
        "routes": [{"dst": "0.0.0.0/0"}],
    });
    json!({
        "name": "pods", "cniVersion": version,
        "plugins": [
            {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": ipam},
            {"type": "portmap", "snat": true, "capabilities": {"portMappings": true}},
        ],
    })
}

fn start(node: &TestNode, plugins: PathBuf) -> Network {
    let mut settings = (*node.live().current()).clone();
    settings.cni.bin_dirs = vec![plugins];
    Network::start(LiveSettings::new(settings), Duration::from_secs(300))
}

fn reservations(node: &TestNode) -> Vec<String> {
    let Ok(entries) = fs::read_dir(node.path("ipam/pods")) else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.parse::<IpAddr>().is_ok()).collect()
}

/// Whether `iptables`, with which plugins map ports, works in the network namespace of this thread.
async fn has_iptables() -> bool {
    let job = Program {
        executable: Path::new("iptables"),
        arguments: &["-w", "-t", "nat", "-S"],
        environment: &[],
        input: &[],
        time_limit: Duration::from_secs(300),
        output_limit: 1 << 20,
    };
    process::run(job).await.is_ok_and(|done| done.exit == ProcessExit::Code(0))
}

/// Accepts connections in the pod, one after the other, and sends a greeting to each. All connections use the
/// same listener, because a second listener could find the port in use: a child process that another thread
/// starts has a copy of the first listener until its execve.
fn serve(pod: &Path, connections: usize) -> thread::JoinHandle<()> {
    let listener = netns::within(pod, || TcpListener::bind("0.0.0.0:80")).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(connections) {
            stream.unwrap().write_all(b"hello").unwrap();
        }
    })
}

fn read_greeting(address: &str) -> std::io::Result<String> {
    let address: SocketAddr = address.parse().unwrap();
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// A node on which pods get addresses of 10.9.0.0/24.
fn start_ipv4(plugins: PathBuf) -> (TestNode, Network) {
    let node = TestNode::new();
    let ranges = json!([[{"subnet": "10.9.0.0/24"}]]);
    node.conf("10-pods.conflist", &bridge(&node, "1.0.0", &ranges));
    let network = start(&node, plugins);
    (node, network)
}

#[test]
fn a_pod_gets_an_address_and_a_host_port_and_releases_them() {
    let Some(plugins) = installed() else { return };
    in_a_new_namespace(async move || {
        let (node, network) = start_ipv4(plugins);
        let mut pod = node.pod('a');
        pod.ports =
            vec![PortMapping { container_port: 80, host_port: 12000, ..PortMapping::default() }];
        let Some((cni, pinned)) = prepare_pinned(&network, pod).await else { return };
        if !has_iptables().await {
            return skip(Lack::Plugins);
        }
        let attached = network.attach(&cni).await.unwrap();
        assert_eq!(attached.addresses, ["10.9.0.2".parse::<IpAddr>().unwrap()]);
        assert_eq!(reservations(&node), ["10.9.0.2"]);
        let addresses = ["10.9.0.2:80", "127.0.0.1:12000"];
        let server = serve(&cni.pod.netns, addresses.len());
        for address in addresses {
            assert_eq!(read_greeting(address).unwrap(), "hello", "{address}");
        }
        server.join().unwrap();
        network.detach(&cni).await.unwrap();
        assert!(reservations(&node).is_empty());
        assert!(read_greeting("127.0.0.1:12000").is_err());
        network.detach(&cni).await.unwrap();
        drop(pinned);
        network.detach(&cni).await.unwrap();
    });
}

#[test]
fn a_pod_that_died_still_releases_its_addresses() {
    let Some(plugins) = installed() else { return };
    in_a_new_namespace(async move || {
        let node = TestNode::new();
        let ranges = json!([[{"subnet": "fd00:9::/64"}], [{"subnet": "10.9.0.0/24"}]]);
        node.conf("10-pods.conflist", &bridge(&node, "0.4.0", &ranges));
        let network = start(&node, plugins);
        network.set_pod_cidrs(vec!["10.9.0.0/24".to_owned(), "fd00:9::/64".to_owned()]);
        let Some((cni, pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
        let attached = network.attach(&cni).await.unwrap();
        let expected: Vec<IpAddr> =
            ["10.9.0.2", "fd00:9::2"].map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(attached.addresses, expected);
        assert_eq!(reservations(&node).len(), 2);
        drop(pinned);
        fs::remove_file(node.path("conf/10-pods.conflist")).unwrap();
        network.detach(&cni).await.unwrap();
        assert!(reservations(&node).is_empty());
    });
}

#[test]
fn a_lost_pod_is_found_by_garbage_collection() {
    let Some(plugins) = installed() else { return };
    in_a_new_namespace(async move || {
        let (node, network) = start_ipv4(plugins);
        let Some((cni, pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
        network.attach(&cni).await.unwrap();
        network.release_stale(&[]).await.unwrap();
        assert_eq!(reservations(&node).len(), 1);
        drop(pinned);
        network.release_stale(&[]).await.unwrap();
        assert!(reservations(&node).is_empty());
    });
}

/// Many failed ADDs, then a successful ADD, each followed by a DEL: no address may stay reserved.
#[test]
fn many_failures_in_a_row_leak_nothing() {
    let Some(plugins) = installed() else { return };
    in_a_new_namespace(async move || {
        let node = TestNode::new();
        for name in ["bridge", "host-local", "portmap"] {
            std::os::unix::fs::symlink(plugins.join(name), node.path("bin").join(name)).unwrap();
        }
        node.plugin("moody", "if [ $CNI_COMMAND = ADD ]; then exit 1; fi");
        let mut text = bridge(&node, "1.0.0", &json!([[{"subnet": "10.9.0.0/29"}]]));
        text["plugins"].as_array_mut().unwrap().push(json!({"type": "moody"}));
        node.conf("10-pods.conflist", &text);
        let network = start(&node, node.path("bin"));
        let Some((cni, _pinned)) = prepare_pinned(&network, node.pod('a')).await else { return };
        for _ in 0..20 {
            network.attach(&cni).await.unwrap_err();
            network.detach(&cni).await.unwrap();
        }
        node.plugin("moody", "cat > /dev/null; echo '{\"ips\":[{\"address\":\"10.9.0.2/29\"}]}'");
        network.attach(&cni).await.unwrap();
        network.detach(&cni).await.unwrap();
        assert!(reservations(&node).is_empty());
    });
}
