//! Tests of combinations of user, group, groups and policy. A model in this file interprets `User` and
//! `GroupAdd` as Docker 20.10, 26.1 and 28.5 do, as measured.

use std::collections::BTreeSet;

use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};

use super::{PlannedIdentity, needs_accounts, resolve};
use crate::{
    error::Kind,
    model::{
        accounts::{Accounts, ProcessUser},
        security::{GroupsPolicy, Identity, RunAs},
    },
};

const PASSWD: &str = "root:x:0:0::/root:\napp:x:1000:1001::/:\nhigh:x:4000000000:5::/:\n";
const GROUP: &str = "root:x:0:root\napp:x:1001:\nextra:x:2000:app\nmore:x:2001:root,app\n";

fn accounts() -> Accounts {
    Accounts::parse(PASSWD.as_bytes(), GROUP.as_bytes())
}

fn identity(
    user: &RunAs,
    group: Option<i64>,
    supplemental: &[i64],
    groups_policy: GroupsPolicy,
) -> Identity {
    let (user, supplemental_groups) = (user.clone(), supplemental.to_vec());
    Identity { user, group, supplemental_groups, groups_policy }
}

/// A test case: requested user, image user, requested group, the resulting user and group, and, if the request has no
/// supplemental groups, the resulting groups with Merge and with Strict.
type Row<'a> = (RunAs, &'a str, Option<i64>, (u32, u32), &'a [u32], &'a [u32]);

#[test]
fn every_combination_follows_cri() {
    let (uid, name) = (RunAs::Uid, |name: &str| RunAs::Name(name.to_owned()));
    let rows: &[Row<'_>] = &[
        (RunAs::Image, "", None, (0, 0), &[0, 2001], &[0]),
        (RunAs::Image, "app", None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
        (RunAs::Image, "1000", None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
        (RunAs::Image, "app:extra", None, (1000, 2000), &[2000, 2001], &[2000]),
        (RunAs::Image, "1000:7", None, (1000, 7), &[7, 2000, 2001], &[7]),
        (RunAs::Image, ":7", None, (0, 7), &[0, 7, 2001], &[7]),
        (RunAs::Image, "app:", None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
        (RunAs::Image, "4242", None, (4242, 0), &[0], &[0]),
        (uid(1000), "root:extra", None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
        (uid(1000), "", Some(7), (1000, 7), &[7, 2000, 2001], &[7]),
        (uid(1000), "", Some(2000), (1000, 2000), &[2000, 2001], &[2000]),
        (uid(4242), "", None, (4242, 0), &[0], &[0]),
        (uid(4242), "", Some(7), (4242, 7), &[7], &[7]),
        (name("app"), "", None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
        (name("app"), "", Some(7), (1000, 7), &[7, 2000, 2001], &[7]),
        (name("1000"), "", None, (1000, 1001), &[1001, 2000, 2001], &[1001]),
        (name("high"), "", Some(7), (4_000_000_000, 7), &[7], &[7]),
    ];
    for (user, image, group, (uid, gid), merged, strict) in rows {
        for added in [&[][..], &[5000], &[2000, 5000, 5000]] {
            for (policy, groups) in [(GroupsPolicy::Merge, merged), (GroupsPolicy::Strict, strict)]
            {
                let requested = identity(user, *group, added, policy);
                let more = added.iter().map(|gid| u32::try_from(*gid).unwrap());
                let groups: BTreeSet<u32> = groups.iter().copied().chain(more).collect();
                let expected =
                    ProcessUser { uid: *uid, gid: *gid, groups: groups.into_iter().collect() };
                let user = resolve(&requested, image, Some(&accounts())).unwrap();
                assert_eq!(user.process.as_ref(), Some(&expected), "{requested:?} {image}");
                assert_eq!(engine(&user, image, &accounts()), expected, "{requested:?} {image}");
            }
        }
    }
}

/// The model of the engine: the process's user and groups for a create request.
fn engine(planned: &PlannedIdentity, image_user: &str, accounts: &Accounts) -> ProcessUser {
    let text = planned.user.as_deref().unwrap_or(image_user);
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let user = if user.is_empty() { "0" } else { user };
    let number = user.parse::<u32>().ok();
    let account = match number {
        Some(uid) => accounts.users.iter().find(|one| one.uid == uid),
        None => accounts.users.iter().find(|one| one.name == user),
    };
    let uid = account.map_or_else(|| number.unwrap(), |one| one.uid);
    let mut groups = BTreeSet::new();
    let gid = match (group.parse(), account) {
        (Ok(gid), _) => gid,
        (Err(_), _) if !group.is_empty() => accounts.group_named(group).unwrap(),
        (Err(_), None) => 0,
        (Err(_), Some(one)) => {
            let listed = accounts.groups.iter().filter(|group| group.members.contains(&one.name));
            groups.extend(listed.map(|group| group.gid));
            one.gid
        }
    };
    groups.insert(gid);
    groups.extend(planned.groups.iter().flatten().map(|gid| gid.parse::<u32>().unwrap()));
    ProcessUser { uid, gid, groups: groups.into_iter().collect() }
}

/// With Merge, without a group and with accounts that are not ambiguous, the create request has the user as requested.
/// In the other cases here, the create request has numbers.
#[test]
fn the_request_has_only_what_the_engine_needs() {
    let plan = |requested: Identity, image: &str, accounts: &Accounts| {
        let user = resolve(&requested, image, Some(accounts)).unwrap();
        (user.user.unwrap_or_default(), user.groups.unwrap_or_default().join(","))
    };
    let (merge, strict) = (GroupsPolicy::Merge, GroupsPolicy::Strict);
    let app = RunAs::Name("app".to_owned());
    let planned = |user: &str, groups: &str| (user.to_owned(), groups.to_owned());
    let clear = accounts();
    assert_eq!(plan(Identity::default(), "app", &clear), planned("", ""));
    assert_eq!(plan(identity(&app, None, &[9], merge), "", &clear), planned("app", "9"));
    assert_eq!(plan(identity(&app, None, &[9], strict), "", &clear), planned("1000:1001", "9"));
    let requested = identity(&app, Some(7), &[], merge);
    assert_eq!(plan(requested, "", &clear), planned("1000:7", "2000,2001"));
    // If the image's `User` has a group, the engine does not add the user's other groups, but CRI's Merge demands them,
    // so the create request lists them.
    assert_eq!(plan(Identity::default(), "app:app", &clear), planned("1000:1001", "2000,2001"));

    let odd = Accounts::parse(format!("odd:x:?:?::/:\n{PASSWD}").as_bytes(), GROUP.as_bytes());
    assert_eq!(plan(Identity::default(), "", &odd), planned("0:0", "2001"));
}

#[test]
fn unknown_users_and_groups_are_refused() {
    let name = |name: &str| RunAs::Name(name.to_owned());
    for (user, image, needle) in [
        (name("nobody"), "", "run_as_username: the image's /etc/passwd has no user \"nobody\""),
        (RunAs::Image, "nobody", "the image's User: the image's /etc/passwd has no user"),
        (RunAs::Image, "3000000000", "no user \"3000000000\""),
        (RunAs::Image, "-1", "no user \"-1\""),
        (RunAs::Image, "app:staff", "the image's User: the image's /etc/group has no group"),
    ] {
        let requested = identity(&user, None, &[], GroupsPolicy::Merge);
        let error = resolve(&requested, image, Some(&accounts())).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidArgument);
        assert!(error.to_string().contains(needle), "{error}");
    }
}

/// If a group's name is a number, runc before 1.2 takes the same number in `config.json` for this name, not for a gid.
#[test]
fn a_group_named_by_the_number_of_another_is_refused() {
    let trap = Accounts::parse(PASSWD.as_bytes(), b"2500:x:0:\n2600:x:2600:\n");
    let ask = |gid: i64| {
        let requested = identity(&RunAs::Uid(1000), None, &[gid], GroupsPolicy::Merge);
        resolve(&requested, "", Some(&trap))
    };
    assert!(ask(2500).unwrap_err().to_string().starts_with("group 2500 is ambiguous"));
    assert_eq!(ask(2600).unwrap().process.unwrap().groups, [1001, 2600]);
}

#[test]
fn without_accounts_only_what_needs_none_is_planned() {
    let (uid, none) = (&RunAs::Uid(1000), &RunAs::Image);
    let (merge, strict) = (GroupsPolicy::Merge, GroupsPolicy::Strict);
    for (user, image, group, policy, planned) in [
        (uid, "", None, merge, Some(Some("1000"))),
        (uid, "", Some(7), strict, Some(Some("1000:7"))),
        (uid, "", Some(7), merge, None),
        (uid, "", None, strict, None),
        (uid, "app:staff", None, merge, Some(Some("1000"))),
        (none, "app", None, merge, Some(None)),
        (none, "app:", None, merge, Some(None)),
        (none, "app:staff", None, merge, None),
        (none, ":7", None, merge, None),
    ] {
        let requested = identity(user, group, &[9], policy);
        assert_eq!(needs_accounts(&requested, image), planned.is_none());
        match (resolve(&requested, image, None), planned) {
            (Ok(user), Some(planned)) => {
                assert_eq!(user.user.as_deref(), planned);
                assert_eq!((user.groups, user.process), (Some(vec!["9".to_owned()]), None));
            }
            (Err(error), None) => {
                assert_eq!(error.kind(), Kind::FailedPrecondition);
                assert!(error.to_string().ends_with("/etc/group are not known"), "{error}");
            }
            (outcome, _) => panic!("{outcome:?}"),
        }
    }
}

proptest! {
    /// For every accepted request, the model of the engine has the user and groups that the container's status reports.
    #[test]
    fn status_and_engine_agree(
        user in prop_oneof![
            Just(RunAs::Image),
            (0_i64..5).prop_map(RunAs::Uid),
            "[a-c]".prop_map(RunAs::Name),
        ],
        image in prop_oneof![Just(String::new()), "[a-c0-4](:[a-c0-4])?"],
        group in prop::option::of(0_i64..5),
        added in prop::collection::vec(0_i64..5, 0..3),
        strict in any::<bool>(),
        users in prop::collection::vec("[a-c]:x:[0-4]:[0-4]", 0..4),
        groups in prop::collection::vec("[a-c]:x:[0-4]:([a-c](,[a-c])?)?", 0..4),
    ) {
        let policy = if strict { GroupsPolicy::Strict } else { GroupsPolicy::Merge };
        let accounts =
            Accounts::parse(users.join("\n").as_bytes(), groups.join("\n").as_bytes());
        let requested = identity(&user, group.filter(|_| user != RunAs::Image), &added, policy);
        if let Ok(user) = resolve(&requested, &image, Some(&accounts)) {
            let expected = user.process.clone();
            prop_assert_eq!(Some(engine(&user, &image, &accounts)), expected);
        }
    }
}
