//! Writable layers: when they are measured, and in which steps.

use super::*;

#[test]
fn layers_are_due_a_while_after_they_were_tried() {
    let (layers, begin) = (Layers::default(), Instant::now());
    assert!(layers.is_due(ID, begin));
    let upper = Some(Upper { pid: 7, directory: "/x".into() });
    layers.set(ID, Measurement { upper, ..measured(7) }, begin);
    let second = Duration::from_secs(1);
    let rests = |rest| {
        let (early, late) = (begin + rest - second, begin + rest);
        !layers.is_due(ID, early) && layers.is_due(ID, late)
    };
    assert!(rests(SHORTEST_REST), "soon enough for kubelet to see who fills a disk");
    assert_eq!((layers.upper(ID, 7), layers.upper(ID, 8)), (Some("/x".into()), None));
    layers.set(ID, Measurement::default(), begin);
    assert!(rests(LONGEST_REST), "a failure is not tried again at once");
    assert_eq!(layers.of(ID).map(|layer| layer.bytes), Some(7), "what was known stays");
    assert_eq!(layers.upper(ID, 7), None, "but not where it was");
    for (took, rest) in [(1, 20), (2, 30)] {
        layers.set(ID, Measurement { took: second * took, ..measured(8) }, begin);
        assert!(rests(second * rest), "what takes {took} s rests {rest} s");
    }
    layers.set(OTHER, measured(5), begin);
    assert_eq!(layers.bytes(), 13);
}

#[test]
fn a_layer_is_measured_in_steps() {
    let root = tempfile::tempdir().unwrap();
    let upper = root.path().join("home/x/diff");
    for options in [format!("upperdir={}", upper.display()), "upperdir=x/diff".to_owned()] {
        let proc = machine(root.path(), &options);
        let homes = [PathBuf::from("/nowhere"), root.path().join("home")];
        let storage = Arc::new(Storage {
            mountpoint: "/layers".into(),
            homes,
            cgroups: Cgroups::from_proc(&proc),
        });
        let mut job = LayerJob {
            record: container(ID, 7),
            storage,
            upper: None,
            walk: None,
            took: Duration::ZERO,
        };
        let mut steps = 0;
        let reading = loop {
            steps += 1;
            match job.go_on(&proc, 1) {
                StepResult::More(same) => job = same,
                StepResult::Done { id, measured: Measurement { reading, upper: found, .. } } => {
                    assert_eq!(
                        (id.as_str(), found),
                        (ID, Some(Upper { pid: 7, directory: upper.clone() }))
                    );
                    break reading.unwrap();
                }
            }
        };
        assert!(steps > 3, "{steps}");
        assert_eq!((reading.mountpoint.as_path(), reading.inodes), (Path::new("/layers"), 4));
        assert!(reading.bytes >= 15_000 && reading.at.is_set());
    }
}

#[test]
fn a_layer_of_an_unknown_container_is_not_measured() {
    let root = tempfile::tempdir().unwrap();
    let proc = machine(root.path(), "upperdir=x/diff");
    let homes = [root.path().join("home"), PathBuf::from("/nowhere")];
    let storage = Arc::new(Storage {
        mountpoint: "/layers".into(),
        homes,
        cgroups: Cgroups::from_proc(&proc),
    });
    for record in [container(OTHER, 7), container(ID, 8)] {
        let job = LayerJob {
            record,
            storage: Arc::clone(&storage),
            upper: None,
            walk: None,
            took: Duration::ZERO,
        };
        let turn = job.go_on(&proc, 100);
        assert!(
            matches!(&turn, StepResult::Done { measured, .. } if measured.reading.is_none() && measured.upper.is_none()),
            "{turn:?}"
        );
    }
}
