//! Tests of the checks of users, capabilities, priorities and seccomp filters of threads.

use serde_json::{Value, json};

use super::{
    super::{
        image::{decoded, merged},
        messages::{Core, Credentials, Filter, Limits, Seccomp, Task, Thread, TreeEntry},
    },
    FILTER, change, change_thread, change_thread_of, credentials, fit, fit_with, fixture,
};

#[test]
fn threads_get_the_filter_with_and_without_filters_of_their_own() {
    let chains = |filters: &[(Option<u32>, &[u8])]| {
        let filters = filters.iter().map(|(previous, program)| Filter {
            program: program.to_vec(),
            previous: *previous,
            flags: None,
        });
        super::super::seccomp::Chains::new(Seccomp { filters: filters.collect() }, FILTER)
    };
    let thread = |filter: Option<u32>| Thread {
        seccomp_mode: Some(if filter.is_some() { 2 } else { 0 }),
        seccomp_filter: filter,
        ..Thread::default()
    };
    let put = |mut chains: super::super::seccomp::Chains, threads: &[Option<u32>]| {
        let mut threads = (5..).zip(threads).map(|(id, filter)| (id, thread(*filter))).collect();
        chains.put_below(5, &mut threads)?;
        let filters: Vec<_> = threads.values().map(|thread| thread.seccomp_filter).collect();
        let previous =
            chains.filters().filters.iter().skip(2).map(|it| it.previous).collect::<Vec<_>>();
        Ok::<_, String>((filters, previous))
    };
    // CRIU gives the seccomp filters of the first thread to the other threads if these have no filters.
    assert_eq!(put(chains(&[]), &[None, None]).unwrap(), (vec![Some(1), None], vec![]));
    let one: &[(Option<u32>, &[u8])] = &[(None, b"a"), (Some(0), b"b")];
    assert_eq!(
        put(chains(one), &[Some(1), None]).unwrap(),
        (vec![Some(3), None], vec![Some(1), Some(2)])
    );
    // The new container's filter is also put below a filter that no thread uses.
    let unused: &[(Option<u32>, &[u8])] = &[(None, b"a"), (None, b"b")];
    assert_eq!(put(chains(unused), &[Some(1)]).unwrap(), (vec![Some(3)], vec![Some(0), Some(1)]));
    // The second thread has filters, and the first has none.
    assert_eq!(
        put(chains(one), &[None, Some(1), None]).unwrap(),
        (vec![Some(0), Some(3), Some(0)], vec![Some(0), Some(2)])
    );
    for wrong in
        [&[(Some(0), &b"a"[..])][..], &[(Some(1), b"a"), (Some(0), b"b")], &[(Some(9), b"a")]]
    {
        put(chains(wrong), &[Some(0)]).unwrap_err();
    }
    put(chains(one), &[Some(7)]).unwrap_err();
}

#[test]
fn more_rights_than_those_of_the_new_container_are_refused() {
    let word = |bit: u32| vec![1_u32 << bit, 0];
    type Change = Box<dyn Fn(&mut Credentials)>;
    let cases: [(&str, Value, Change); 12] = [
        ("user id 7, but", json!(["CAP_SETGID"]), Box::new(|it| it.saved_uid = 7)),
        ("group id 7", json!(["CAP_SETUID"]), Box::new(|it| it.file_gid = 7)),
        ("group id 9", json!([]), Box::new(|it| it.groups = vec![0, 9])),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.effective = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.permitted = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.bounding = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.inheritable = word(21))),
        ("CAP_SYS_ADMIN", json!(null), Box::new(move |it| it.ambient = word(21))),
        ("CAP_CHOWN", json!([]), Box::new(|_| {})),
        ("an unknown one", json!(null), Box::new(|it| it.permitted = vec![0, 1 << 31])),
        (
            "CAP_SETPCAP",
            json!(["CAP_CHOWN"]),
            Box::new(|it| {
                it.secure_bits = 1;
                for set in [&mut it.permitted, &mut it.effective, &mut it.bounding] {
                    set.clear();
                }
            }),
        ),
        ("AppArmor", json!(null), Box::new(|it| it.apparmor_namespaces = Some(vec![1]))),
    ];
    for (reason, bounding, mutate) in cases {
        let (mut images, mut config) = fixture();
        let mut has = credentials(&images);
        if !bounding.is_null() {
            config["process"]["capabilities"]["bounding"] = bounding;
            if reason != "CAP_CHOWN" {
                for name in images.names("core-") {
                    change(&mut images, &name, &|entry| {
                        let mut core: Core = decoded(entry).unwrap();
                        let credentials = Some(Credentials {
                            permitted: vec![],
                            effective: vec![],
                            bounding: vec![],
                            ..has.clone()
                        });
                        let none = Thread { credentials, ..Thread::default() };
                        core.thread = core.thread.map(|thread| merged(&thread, &none).unwrap());
                        merged(entry, &core).unwrap()
                    });
                }
                has = credentials(&images);
            }
        }
        mutate(&mut has);
        change_thread(&mut images, &Thread { credentials: Some(has), ..Thread::default() });
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{reason}: {refused}");
    }
}

#[test]
fn priorities_and_strict_seccomp_are_refused() {
    for (thread, reason) in [
        (Thread { nice: Some(-1), ..Thread::default() }, "CAP_SYS_NICE"),
        (Thread { policy: Some(1), ..Thread::default() }, "CAP_SYS_NICE"),
    ] {
        let (mut images, config) = fixture();
        change_thread(&mut images, &thread);
        let refused = fit(&mut images, &config).unwrap_err();
        assert!(refused.contains(reason), "{refused}");
    }
    let (mut images, config) = fixture();
    change_thread(&mut images, &Thread { seccomp_mode: Some(1), ..Thread::default() });
    assert!(fit(&mut images.clone(), &config).unwrap_err().contains("strict mode of seccomp"));
    fit_with(&mut images, &config, None).unwrap();
    // Process 7 gets a second thread, which has the image of process 29.
    let second = TreeEntry { pid: 7, threads: vec![7, 29] };
    change(&mut images, "pstree.img", &|entry| {
        let entry_of = decoded::<TreeEntry>(entry).unwrap();
        if entry_of.pid == 7 { merged(entry, &second).unwrap() } else { entry.to_vec() }
    });
    let refused = fit_with(&mut images, &config, None).unwrap_err();
    assert!(refused.contains("strict mode of seccomp"), "{refused}");
    let (mut images, mut config) = fixture();
    config["process"]["noNewPrivileges"] = json!(true);
    assert!(fit(&mut images, &config).unwrap_err().contains("no_new_privs"));
}

#[test]
fn a_confined_container_needs_processes_with_a_label() {
    for (key, value, is_confined) in [
        ("apparmorProfile", "docker-default", true),
        ("selinuxLabel", "system_u:system_r:container_t:s0", true),
        ("apparmorProfile", "unconfined", false),
    ] {
        for label in [None, Some(""), Some("docker-default")] {
            let (mut images, mut config) = fixture();
            config["process"][key] = json!(value);
            for id in [1, 7, 8, 29] {
                // The other threads always have a label.
                let label = if id == 7 { label } else { Some("docker-default") };
                let label = label.map(str::to_owned);
                let has = Credentials { label, ..credentials(&images) };
                let labelled = Thread { credentials: Some(has), ..Thread::default() };
                change_thread_of(&mut images, id, &labelled);
            }
            match fit(&mut images, &config) {
                Err(refused) => {
                    assert!(refused.contains("has no AppArmor profile"), "{refused}");
                }
                Ok(_) => assert!(!is_confined || label == Some("docker-default"), "{label:?}"),
            }
        }
    }
}

#[test]
fn another_user_without_capabilities_is_refused() {
    let (mut images, mut config) = fixture();
    config["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
    assert!(fit(&mut images, &config).unwrap_err().contains("is 1000"));
}

/// CRIU 4.2 writes uninitialised memory as the numbers of the threads of a process that has ended.
#[test]
fn threads_of_a_process_that_has_ended_are_not_read() {
    for (state, is_read) in [(1, true), (2, false), (3, true)] {
        let (mut images, config) = fixture();
        let other = TreeEntry { pid: 8, threads: vec![4_031_690_960] };
        change(&mut images, "pstree.img", &|entry| {
            let entry_of = decoded::<TreeEntry>(entry).unwrap();
            if entry_of.pid == 8 { merged(entry, &other).unwrap() } else { entry.to_vec() }
        });
        change(&mut images, "core-8.img", &|entry| {
            let mut core: Core = decoded(entry).unwrap();
            let state =
                Task { state: Some(state), limits: Some(Limits::default()), ..Task::default() };
            core.task = core.task.map(|task| merged(&task, &state).unwrap());
            merged(entry, &core).unwrap()
        });
        let fits = fit(&mut images, &config);
        let refused = fits.err().is_some_and(|it| it.contains("has no core-4031690960.img"));
        assert_eq!(refused, is_read, "{state}");
    }
}
