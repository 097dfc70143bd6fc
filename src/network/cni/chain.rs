//! Runs the plugins of a network configuration. For ADD the plugins run in order, and each gets the result of
//! the previous plugin. For DEL the plugins run in reverse order.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    config::{NetworkConfigList, PluginConfig},
    plugin::{Plugins, RuntimeConf, malformed},
    plugin_error::PluginError,
    version::Version,
};

/// The plugins of a network configuration.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a> {
    pub plugins: &'a Plugins,
    pub list: &'a NetworkConfigList,
    /// Limit for the calls of all plugins together, for one command.
    pub timeout: Duration,
}

impl Chain<'_> {
    /// Runs ADD and returns the last plugin's result.
    ///
    /// # Errors
    /// The error of the first plugin that fails. The ADD must then be undone with [`Chain::del`].
    pub async fn add(&self, conf: &RuntimeConf) -> Result<Value, PluginError> {
        let end = Instant::now() + self.timeout;
        let mut result = None;
        for plugin in &self.list.plugins {
            let input = plugin.input(self.list, &conf.capabilities, result.as_ref());
            let call = self.plugins.call(&plugin.kind, ("ADD", conf), &input, remaining(end));
            let printed = call.await?;
            result = Some(self.result(plugin, &printed)?);
        }
        Ok(result.unwrap_or_default())
    }

    /// Runs DEL and returns the failures. While the namespace exists, the first failure ends the DEL, as CNI requires:
    /// the next plugins would release what the failed one may still use, such as the address behind a host port.
    ///
    /// If the namespace is gone, calls every plugin, because some plugins then fail each time. Divides the remaining
    /// time among the remaining plugins, so that a plugin that hangs leaves time for the next ones.
    pub async fn del(&self, conf: &RuntimeConf, previous: Option<&Value>) -> Vec<PluginError> {
        let end = Instant::now() + self.timeout;
        let previous = previous.filter(|result| {
            self.list.version >= Version::HAS_PREVIOUS_ON_DEL && !result.is_null()
        });
        let mut failures = Vec::new();
        let plugins = self.list.plugins.iter().rev();
        let count = u32::try_from(plugins.len()).unwrap_or(u32::MAX);
        for (plugin, left) in plugins.zip((1..=count).rev()) {
            let input = plugin.input(self.list, &conf.capabilities, previous);
            let timeout = remaining(end) / left;
            let called = self.plugins.call(&plugin.kind, ("DEL", conf), &input, timeout).await;
            failures.extend(called.err());
            if !failures.is_empty() && !conf.netns.is_empty() {
                break;
            }
        }
        failures
    }

    /// Runs STATUS if the configuration's CNI version has STATUS. Fails with the error of the first plugin that fails.
    pub async fn status(&self) -> Result<(), PluginError> {
        if self.list.version < Version::HAS_STATUS {
            return Ok(());
        }
        let end = Instant::now() + self.timeout;
        for plugin in &self.list.plugins {
            let input = plugin.input(self.list, &Map::new(), None);
            let call = ("STATUS", &RuntimeConf::default());
            self.plugins.call(&plugin.kind, call, &input, remaining(end)).await?;
        }
        Ok(())
    }

    /// Parses a plugin's output. As in libcni, an output without a CNI version gets the configuration's version.
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
}

fn remaining(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests;
