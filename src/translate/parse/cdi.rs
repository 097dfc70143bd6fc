//! Names of CDI devices, from the field and from annotations, which are the older way.

use std::collections::BTreeMap;

use super::{
    error::{At, ParseError},
    text,
};
use crate::wire::cri;

/// The devices of the field, then those of the annotations, without duplicates.
pub(super) fn devices(config: &cri::ContainerConfig) -> Result<Vec<String>, ParseError> {
    let named = text::each(&config.cdi_devices, |given| device(&given.name).at("name"));
    let mut devices: Vec<String> = Vec::new();
    let mut add = |device: String| {
        if !devices.contains(&device) {
            devices.push(device);
        }
    };
    named.at("CDI_devices")?.into_iter().for_each(&mut add);
    let sorted: BTreeMap<_, _> = config.annotations.iter().collect();
    for (key, list) in sorted.into_iter().filter(|(key, _)| key.starts_with(ANNOTATION)) {
        for name in list.split(',') {
            add(device(name).at(format!("annotations[{}]", text::quoted(key)))?);
        }
    }
    Ok(devices)
}

/// A fully qualified device: `vendor/class=name`.
fn device(name: &str) -> Result<String, ParseError> {
    let qualified = name
        .split_once('=')
        .and_then(|(kind, name)| Some((kind.split_once('/')?, name)))
        .is_some_and(|((vendor, class), name)| {
            !vendor.is_empty() && !class.is_empty() && !name.is_empty()
        });
    if !qualified {
        let reason = format!("is not a device like vendor.com/class=name: {}", text::quoted(name));
        return Err(ParseError::invalid(reason));
    }
    text::word(name)
}

/// kubelet before 1.28 does not use the field.
const ANNOTATION: &str = "cdi.k8s.io/";
