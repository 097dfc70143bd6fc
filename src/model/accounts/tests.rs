//! Parses valid and invalid `/etc/passwd` and `/etc/group` files.

use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

use super::Accounts;

const PASSWD: &str = "\
root:x:0:0:root:/root:/bin/sh

  app:x:1000:1001:app:/home/app:/bin/sh\r
twin:x:1000:7::/:
short:x:5:6
";
const GROUP: &str = "\
root:x:0:root
app:x:1001:
extra:x:2000:app,other
bare:x:3
more:x:2001:,root,,app
";

#[test]
fn lines_are_found_by_name_and_number() {
    let accounts = Accounts::parse(PASSWD.as_bytes(), GROUP.as_bytes());
    let found = |name: &str| accounts.named(name).map(|user| (user.uid, user.gid));
    assert_eq!(found("root"), Some((0, 0)));
    assert_eq!(found("app"), Some((1000, 1001)));
    assert_eq!(found("short"), Some((5, 6)));
    assert_eq!(found("nobody"), None);
    assert_eq!(accounts.numbered(1000).unwrap().name, "app", "the first of two counts");
    assert_eq!(accounts.group_named("bare"), Some(3));
    assert_eq!(accounts.group_named("extras"), None);
    assert_eq!(accounts.groups_of("app").collect::<Vec<_>>(), [2000, 2001]);
    assert_eq!(accounts.groups_of("").count(), 0);
    assert!(!accounts.is_ambiguous);
}

#[test]
fn ambiguous_account_lines_are_ignored() {
    for line in [
        "# root:x:0:0",
        "#",
        "+::::::",
        "bad:x:abc:5",
        "bad:x:4294967296:5",
        "bad:x:-1:5",
        "bad:x::5",
        "bad:x:5",
        "bad",
    ] {
        let file = format!("{line}\nroot:x:0:0::/root:\n");
        let accounts = Accounts::parse(file.as_bytes(), b"");
        assert!(accounts.is_ambiguous, "{line}");
        assert_eq!(accounts.users.len(), 1, "{line}");
        let group = format!("{}\nroot:x:0:root\n", line.replace(":5", ":x"));
        let accounts = Accounts::parse(b"", group.as_bytes());
        assert!(accounts.is_ambiguous, "{group}");
        assert_eq!(accounts.groups.len(), 1, "{group}");
    }
}

#[test]
fn missing_files_have_no_accounts() {
    assert_eq!(Accounts::parse(b"", b"\n\n"), Accounts::default());
}

proptest! {
    #[test]
    fn no_bytes_are_an_error(passwd in any::<Vec<u8>>(), group in any::<Vec<u8>>()) {
        let accounts = Accounts::parse(&passwd, &group);
        let lines = passwd.split(|byte| *byte == b'\n').count();
        prop_assert!(accounts.users.len() <= lines);
    }

    #[test]
    fn what_is_written_is_read(
        users in prop::collection::vec(("[a-z_][a-z0-9_-]{0,8}", any::<u32>(), any::<u32>()), 0..8),
        blanks in "[ \t]{0,3}",
    ) {
        let text = |(name, uid, gid): &(String, u32, u32)| {
            format!("{blanks}{name}:x:{uid}:{gid}:,,:/:\n{blanks}\n")
        };
        let file: String = users.iter().map(text).collect();
        let accounts = Accounts::parse(file.as_bytes(), b"");
        let read: Vec<_> =
            accounts.users.into_iter().map(|user| (user.name, user.uid, user.gid)).collect();
        prop_assert_eq!(read, users);
        prop_assert!(!accounts.is_ambiguous);
    }
}
