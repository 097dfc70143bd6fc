//! Runs the plugins of a configuration: ADD in order, each with the result of the previous one, and DEL in
//! reverse order.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    config::{NetworkConfigList, PluginConfig},
    plugin::{Plugins, RuntimeConf, malformed},
    plugin_error::PluginError,
    version::Version,
};

/// A network and its plugins. `timeout` applies to all calls of one command together.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    pub plugins: &'a Plugins,
    pub list: &'a NetworkConfigList,
    /// How long the whole chain may take.
    pub timeout: Duration,
}

impl Chain<'_> {
    /// Runs ADD and returns the last plugin's result.
    ///
    /// # Errors
    /// The first plugin that fails. [`Chain::del`] undoes what the plugins before it did.
    pub async fn add(&self, conf: &RuntimeConf) -> Result<Value, PluginError> {
        let end = Instant::now() + self.timeout;
        let mut result = None;
        for plugin in &self.list.plugins {
            let input = plugin.input(self.list, &conf.capabilities, result.as_ref());
            let printed = self.call(plugin, ("ADD", conf), &input, remaining(end)).await?;
            result = Some(self.result(plugin, &printed)?);
        }
        Ok(result.unwrap_or_default())
    }

    /// Runs DEL. Every plugin is called, even if others failed. The remaining time is divided among
    /// the remaining plugins, so that one that hangs cannot use all of it. Returns the failures.
    pub async fn del(&self, conf: &RuntimeConf, previous: Option<&Value>) -> Vec<PluginError> {
        let end = Instant::now() + self.timeout;
        let previous = previous.filter(|result| {
            self.list.version >= Version::HAS_PREVIOUS_ON_DEL && !result.is_null()
        });
        let mut failures = Vec::new();
        let plugins = self.list.plugins.iter().rev();
        for (plugin, left) in plugins.zip((1..=self.count()).rev()) {
            let input = plugin.input(self.list, &conf.capabilities, previous);
            let timeout = remaining(end) / left;
            failures.extend(self.call(plugin, ("DEL", conf), &input, timeout).await.err());
        }
        failures
    }

    /// Runs STATUS. Does nothing if the configuration is too old for it. Fails with the error of the first
    /// plugin that is not ready.
    pub async fn status(&self) -> Result<(), PluginError> {
        if self.list.version < Version::HAS_STATUS {
            return Ok(());
        }
        let end = Instant::now() + self.timeout;
        for plugin in &self.list.plugins {
            let input = plugin.input(self.list, &Map::new(), None);
            let call = ("STATUS", &RuntimeConf::default());
            self.call(plugin, call, &input, remaining(end)).await?;
        }
        Ok(())
    }

    async fn call(
        &self,
        plugin: &PluginConfig,
        call: (&'static str, &RuntimeConf),
        input: &Map<String, Value>,
        timeout: Duration,
    ) -> Result<Vec<u8>, PluginError> {
        self.plugins.call(&plugin.kind, call, input, timeout).await
    }

    /// A result without a version has the requested one. An empty result counts as none, as in libcni.
    fn result(&self, plugin: &PluginConfig, printed: &[u8]) -> Result<Value, PluginError> {
        let result = serde_json::from_slice(printed);
        let mut result: Map<String, Value> =
            result.map_err(|e| PluginError::new(&plugin.kind, "ADD", malformed(&e, printed)))?;
        let has_version =
            result.get("cniVersion").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
        if !has_version {
            result.insert("cniVersion".to_owned(), self.list.version.to_string().into());
        }
        Ok(Value::Object(result))
    }

    fn count(&self) -> u32 {
        u32::try_from(self.list.plugins.len()).unwrap_or(u32::MAX)
    }
}

fn remaining(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests;
