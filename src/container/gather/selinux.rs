//! SELinux options: whether the loaded policy knows them.

use tracing::debug;

use crate::{
    error::Failure,
    host::selinux::is_valid,
    model::{engine::EngineInfo, security::SelinuxLabel},
};

/// Refuses SELinux options that the loaded policy does not know. If dockbridge cannot ask the kernel, refuses only a
/// colon in user, role or type. If the engine runs without SELinux, the options are ignored, because Helm charts set
/// them without regard to the node.
pub(super) fn check(label: Option<&SelinuxLabel>, engine: &EngineInfo) -> Result<(), Failure> {
    let Some(label) = label else { return Ok(()) };
    let context = context(label);
    if !engine.has_selinux() {
        debug!(context, "Docker runs without SELinux; ignoring the requested SELinux options");
        return Ok(());
    }
    let has_separator =
        [&label.user, &label.role, &label.kind].iter().any(|part| part.contains(':'));
    let refused = match is_valid(&context) {
        Ok(known) => known == Some(false),
        Err(error) => {
            debug!(context, %error, "cannot ask the kernel whether the SELinux policy has this context; skipping this check");
            false
        }
    };
    if has_separator || refused {
        let text = format!(
            "{FIELD}: the SELinux policy has no such combination of user, role, type and level: {context:?}"
        );
        return Err(Failure::invalid(text));
    }
    Ok(())
}

/// The context to check, in which options that are not set have the usual values of containers.
fn context(label: &SelinuxLabel) -> String {
    let SelinuxLabel { user, role, kind, level } = label;
    let usual = [(user, "system_u"), (role, "system_r"), (kind, "container_t"), (level, "s0")];
    usual.map(|(stated, usual)| if stated.is_empty() { usual } else { stated }).join(":")
}

const FIELD: &str = "config.linux.security_context.selinux_options";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_stated_is_usual() {
        let label = SelinuxLabel { level: "s0:c1,c2".to_owned(), ..SelinuxLabel::default() };
        assert_eq!(context(&label), "system_u:system_r:container_t:s0:c1,c2");
    }
}
