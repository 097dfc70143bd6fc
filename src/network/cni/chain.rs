//! A configuration's plugins in order: ADD forwards, DEL backwards, each fed the result before.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    config::{NetworkList, Plugin},
    exec::{Call, PluginError, Plugins, garbled},
    version::Version,
};

/// One container's interface on one network, in the words of the specification.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// The container.
    pub container: String,
    /// Path of its namespace; empty when it has gone.
    pub netns: String,
    /// Name of the interface in it.
    pub interface: String,
    /// `CNI_ARGS`.
    pub arguments: String,
    /// Values of capabilities.
    pub capabilities: Map<String, Value>,
}

/// A network whose plugins are to be called, all together within `patience`.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    /// Where the plugins are.
    pub plugins: &'a Plugins,
    /// The network.
    pub list: &'a NetworkList,
    /// How long the whole chain may take.
    pub patience: Duration,
}

impl Chain<'_> {
    /// Connects a link and returns the last plugin's result.
    ///
    /// # Errors
    /// The first plugin that fails. What those before it did is undone by [`Chain::del`].
    pub async fn add(&self, link: &Link) -> Result<Value, PluginError> {
        let end = Instant::now() + self.patience;
        let mut result = None;
        for plugin in &self.list.plugins {
            let input = plugin.input(self.list, &link.capabilities, result.as_ref());
            let printed = self.call(plugin, link.call("ADD"), &input, until(end)).await?;
            result = Some(self.result(plugin, &printed)?);
        }
        Ok(result.unwrap_or_default())
    }

    /// Disconnects a link. Every plugin is called, whatever the others did; one that hangs
    /// leaves the others their share of the time. Returns the failures, none when all is well.
    pub async fn del(&self, link: &Link, previous: Option<&Value>) -> Vec<PluginError> {
        let end = Instant::now() + self.patience;
        let previous = previous.filter(|_| self.list.version >= Version::KEEPS_RESULT);
        let mut failures = Vec::new();
        let plugins = self.list.plugins.iter().rev();
        for (plugin, left) in plugins.zip((1..=self.count()).rev()) {
            let input = plugin.input(self.list, &link.capabilities, previous);
            let patience = until(end) / left;
            match self.call(plugin, link.call("DEL"), &input, patience).await {
                Err(error) if !error.is_about_gone_namespace(&link.netns) => failures.push(error),
                _ => {}
            }
        }
        failures
    }

    /// Asks whether a link is still as `previous` says. Without a word where the configuration
    /// is too old for the question or forbids it.
    ///
    /// # Errors
    /// The first plugin that finds it is not.
    pub async fn check(&self, link: &Link, previous: &Value) -> Result<(), PluginError> {
        if self.list.version < Version::KEEPS_RESULT || self.list.check_disabled {
            return Ok(());
        }
        let end = Instant::now() + self.patience;
        for plugin in &self.list.plugins {
            let input = plugin.input(self.list, &link.capabilities, Some(previous));
            self.call(plugin, link.call("CHECK"), &input, until(end)).await?;
        }
        Ok(())
    }

    /// Tells every plugin which links (container, interface) are in use; they may drop all
    /// others of this network. Returns the failures.
    pub async fn gc(&self, valid: &[(String, String)]) -> Vec<PluginError> {
        if self.list.version < Version::REPORTS || self.list.gc_disabled {
            return Vec::new();
        }
        let end = Instant::now() + self.patience;
        let valid: Value = valid
            .iter()
            .map(|(container, interface)| json!({"containerID": container, "ifname": interface}))
            .collect();
        let mut failures = Vec::new();
        for (plugin, left) in self.list.plugins.iter().zip((1..=self.count()).rev()) {
            let mut input = plugin.input(self.list, &Map::new(), None);
            input.insert("cni.dev/valid-attachments".to_owned(), valid.clone());
            let call = Call { command: "GC", ..Call::default() };
            failures.extend(self.call(plugin, call, &input, until(end) / left).await.err());
        }
        failures
    }

    /// Asks whether new links can be made. Yes where the configuration is too old to ask.
    ///
    /// # Errors
    /// The first plugin that says no.
    pub async fn status(&self) -> Result<(), PluginError> {
        if self.list.version < Version::REPORTS {
            return Ok(());
        }
        let end = Instant::now() + self.patience;
        for plugin in &self.list.plugins {
            let input = plugin.input(self.list, &Map::new(), None);
            let call = Call { command: "STATUS", ..Call::default() };
            self.call(plugin, call, &input, until(end)).await?;
        }
        Ok(())
    }

    async fn call(
        &self,
        plugin: &Plugin,
        call: Call<'_>,
        input: &Map<String, Value>,
        patience: Duration,
    ) -> Result<Vec<u8>, PluginError> {
        self.plugins.call(&plugin.kind, call, input, patience).await
    }

    /// Results say their version; one that does not is meant to be of the asked one.
    fn result(&self, plugin: &Plugin, printed: &[u8]) -> Result<Value, PluginError> {
        let mut result: Map<String, Value> =
            serde_json::from_slice(printed).map_err(|e| PluginError {
                plugin: plugin.kind.clone(),
                command: "ADD",
                failure: Box::new(garbled(&e, printed)),
            })?;
        result.entry("cniVersion").or_insert_with(|| self.list.version.to_string().into());
        Ok(Value::Object(result))
    }

    fn count(&self) -> u32 {
        u32::try_from(self.list.plugins.len()).unwrap_or(u32::MAX)
    }
}

impl Link {
    fn call(&self, command: &'static str) -> Call<'_> {
        Call {
            command,
            container: &self.container,
            netns: &self.netns,
            interface: &self.interface,
            arguments: &self.arguments,
        }
    }
}

fn until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests;
