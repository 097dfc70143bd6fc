//! Entry points for `make fuzz`: texts from outside, such as image references, names, ids and accounts.

use super::{
    accounts::Accounts,
    id::{ContainerId, ImageId},
    name,
    pinned_images::NamePattern,
    reference::{ImageReference, names_id},
};
use crate::fuzz_input::texts;

/// `bytes` are the files `passwd` and `group` of an image, separated by a NUL byte.
pub(crate) fn accounts(bytes: &[u8]) {
    let mut files = bytes.splitn(2, |byte| *byte == 0);
    let [passwd, group] = [(); 2].map(|()| files.next().unwrap_or_default());
    let accounts = Accounts::parse(passwd, group);
    for user in &accounts.users {
        let named = accounts.named(&user.name).map(|found| &found.name);
        assert_eq!(named, Some(&user.name));
        assert_eq!(accounts.numbered(user.uid).map(|found| found.uid), Some(user.uid));
        let known = accounts.groups.len();
        assert!(accounts.groups_of(&user.name).count() <= known);
    }
    for group in &accounts.groups {
        assert!(accounts.group_named(&group.name).is_some());
        assert!(!group.members.contains(&String::new()));
    }
}

/// Parses texts as image references, names and ids. A printed reference must parse to the same reference, and
/// an image name must never be an id.
pub(crate) fn texts_of_names(bytes: &[u8]) {
    for text in texts(bytes) {
        match ImageReference::parse(text) {
            Ok(reference) => {
                assert!(!names_id(text));
                let printed = reference.to_string();
                assert_eq!(ImageReference::parse(&printed), Ok(reference.clone()), "{printed}");
                assert!(printed.starts_with(&reference.repository()));
                let tagged = reference.with_default_tag();
                assert!(tagged.tag().or(tagged.digest()).is_some());
                assert_eq!(ImageReference::parse(&tagged.to_string()), Ok(tagged.clone()));
                let _ = NamePattern::parse(text);
            }
            Err(error) => assert!(error.text.chars().count() <= 128),
        }
        if let Some(parsed) = name::parse(text) {
            assert!(!parsed.pod.contains('_'));
        }
        assert_eq!(
            ContainerId::try_from(text).is_ok() || ImageId::try_from(text).is_ok(),
            names_id(text)
        );
    }
}
