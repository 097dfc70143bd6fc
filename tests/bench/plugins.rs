//! Runs the CNI plugins directly, as libcni does.

use std::{path::PathBuf, process::Stdio};

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, process::Command};

use crate::support::{
    failure::{Failure, Outcome, fail},
    world::World,
};

/// The plugins in the world's CNI configuration.
#[derive(Clone, Debug)]
pub(crate) struct Plugins {
    folder: PathBuf,
    name: Value,
    version: Value,
    chain: Vec<Value>,
}

impl Plugins {
    /// Reads the world's CNI configuration.
    pub(crate) fn load(world: &World) -> Outcome<Self> {
        let file = std::fs::read_dir(&world.cni_conf)?.next().ok_or(Failure("no CNI".into()))??;
        let list: Value = serde_json::from_str(&std::fs::read_to_string(file.path())?)?;
        Ok(Self {
            folder: world.cni_bin.clone(),
            name: list["name"].clone(),
            version: list["cniVersion"].clone(),
            chain: list["plugins"].as_array().cloned().unwrap_or_default(),
        })
    }

    /// Connects a namespace, and returns the last plugin's result.
    pub(crate) async fn add(&self, container: &str, netns: &str) -> Outcome<Value> {
        let mut result = Value::Null;
        for plugin in &self.chain {
            let answer = self.run("ADD", plugin, &result, (container, netns)).await?;
            result = serde_json::from_slice(&answer)?;
        }
        Ok(result)
    }

    /// Disconnects the namespace.
    pub(crate) async fn del(&self, container: &str, netns: &str, result: &Value) -> Outcome {
        for plugin in self.chain.iter().rev() {
            self.run("DEL", plugin, result, (container, netns)).await?;
        }
        Ok(())
    }

    async fn run(
        &self,
        verb: &str,
        plugin: &Value,
        previous: &Value,
        (container, netns): (&str, &str),
    ) -> Outcome<Vec<u8>> {
        let mut config = plugin.clone();
        config["name"] = self.name.clone();
        config["cniVersion"] = self.version.clone();
        if !previous.is_null() {
            config["prevResult"] = previous.clone();
        }
        if config["capabilities"].is_object() {
            config["runtimeConfig"] = json!({});
        }
        let program = self.folder.join(plugin["type"].as_str().unwrap_or_default());
        let mut child = Command::new(program)
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", container)
            .env("CNI_NETNS", netns)
            .env("CNI_IFNAME", "eth0")
            .env("CNI_PATH", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(config.to_string().as_bytes()).await?;
        }
        let output = child.wait_with_output().await?;
        if !output.status.success() {
            fail!("{verb} {plugin}: {}", String::from_utf8_lossy(&output.stdout));
        }
        Ok(output.stdout)
    }
}
