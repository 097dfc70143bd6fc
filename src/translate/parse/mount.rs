//! Mounts and devices. `plan` checks whether the engine supports them.

use std::collections::BTreeSet;

use super::{
    error::{At, ParseError},
    image, text, user_namespace,
};
use crate::{
    model::{
        container::{Device, Mount, Propagation},
        path::parts,
    },
    wire::cri,
};

pub(super) fn mounts(given: &[cri::Mount]) -> Result<Vec<Mount>, ParseError> {
    let mut taken = BTreeSet::new();
    for (at, mount) in given.iter().enumerate() {
        if !taken.insert(parts(&mount.container_path)) {
            let reason = format!("is mounted twice: {}", text::quoted(&mount.container_path));
            return Err(ParseError::invalid(reason)).at(format_args!("[{at}].container_path"));
        }
    }
    text::each(given, mount)
}

pub(super) fn device(given: &cri::Device) -> Result<Device, ParseError> {
    let permissions = &given.permissions;
    if !permissions.bytes().all(|b| matches!(b, b'r' | b'w' | b'm')) || permissions.len() > 3 {
        let reason = format!("may contain only r, w and m: {}", text::quoted(permissions));
        return Err(ParseError::invalid(reason)).at("permissions");
    }
    Ok(Device {
        container_path: node(&given.container_path).at("container_path")?,
        host_path: text::path(&given.host_path).at("host_path")?,
        permissions: permissions.clone(),
    })
}

/// Path of a device in the container. Runtimes resolve a relative path from the root. It is made
/// absolute here, so that it can be compared with the paths of CDI devices.
fn node(path: &str) -> Result<String, ParseError> {
    if path.is_empty() || path.starts_with('/') {
        return text::path(path);
    }
    text::path(&format!("/{path}"))
}

fn mount(given: &cri::Mount) -> Result<Mount, ParseError> {
    let propagation = propagation(given.propagation).at("propagation")?;
    let image = given.image.as_ref().map(|spec| image::name(spec).at("image")).transpose()?;
    let host_path = match image {
        Some(_) => image_mount_host_path(given)?,
        None => text::path(&given.host_path).at("host_path")?,
    };
    Ok(Mount {
        container_path: target(&given.container_path).at("container_path")?,
        host_path,
        readonly: given.readonly,
        selinux_relabel: given.selinux_relabel,
        propagation,
        recursive_read_only: given.recursive_read_only,
        image_sub_path: sub_path(given, image.is_some()).at("image_sub_path")?,
        image,
        id_mappings: user_namespace::of_mount(given)?,
        options: text::each(&given.mount_options, |option| user_namespace::mount_option(option))
            .at("mount_options")?,
    })
}

fn propagation(number: i32) -> Result<Propagation, ParseError> {
    match cri::MountPropagation::try_from(number) {
        Ok(cri::MountPropagation::PropagationPrivate) => Ok(Propagation::Private),
        Ok(cri::MountPropagation::PropagationHostToContainer) => Ok(Propagation::HostToContainer),
        Ok(cri::MountPropagation::PropagationBidirectional) => Ok(Propagation::Bidirectional),
        Err(_) => Err(ParseError::invalid(format!("is not a known propagation: {number}"))),
    }
}

fn image_mount_host_path(given: &cri::Mount) -> Result<String, ParseError> {
    if !given.readonly {
        return Err(ParseError::invalid("must be set: an image is mounted read-only"))
            .at("readonly");
    }
    if !given.host_path.is_empty() {
        return Err(ParseError::invalid("conflicts with image")).at("host_path");
    }
    Ok(String::new())
}

fn sub_path(given: &cri::Mount, has_image: bool) -> Result<String, ParseError> {
    let path = given.image_sub_path.as_str();
    if path.is_empty() {
        return Ok(String::new());
    }
    if !has_image {
        return Err(ParseError::invalid("needs an image"));
    }
    if path.starts_with('/') {
        return Err(ParseError::invalid(format!("must be relative: {}", text::quoted(path))));
    }
    text::no_parent(path)?;
    text::plain(path)
}

/// The engine refuses to mount over the root. It cleans any other path.
fn target(path: &str) -> Result<String, ParseError> {
    if !path.is_empty() && parts(path).is_empty() {
        return Err(ParseError::invalid("must not be the root"));
    }
    text::absolute(path)
}
