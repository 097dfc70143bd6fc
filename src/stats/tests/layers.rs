//! Tests of when writable layers are measured, and in which steps.

use super::*;

#[test]
fn layers_are_due_a_while_after_they_were_tried() {
    let (layers, begin) = (Layers::default(), Instant::now());
    assert!(layers.is_due(ID, begin));
    layers.set(ID, Measurement { upper: Some("/x".into()), ..measured(7) }, begin);
    let second = Duration::from_secs(1);
    let rests = |rest| {
        let (early, late) = (begin + rest - second, begin + rest);
        !layers.is_due(ID, early) && layers.is_due(ID, late)
    };
    assert!(rests(SHORTEST_REST), "soon enough for kubelet to see who fills a disk");
    assert_eq!((layers.upper(ID), layers.upper(OTHER)), (Some("/x".into()), None));
    layers.set(ID, Measurement::default(), begin);
    assert!(rests(LONGEST_REST), "a failure is not tried again at once");
    assert_eq!(layers.of(ID).map(|layer| layer.bytes), Some(7), "what was known stays");
    assert_eq!(layers.upper(ID), None, "but not where it was");
    for (took, rest) in [(1, 20), (2, 30)] {
        layers.set(ID, Measurement { took: second * took, ..measured(8) }, begin);
        assert!(rests(second * rest), "what takes {took} s rests {rest} s");
    }
    layers.set(OTHER, measured(5), begin);
    assert_eq!(layers.bytes(), 13);
}

fn job(upper: Option<PathBuf>) -> LayerJob {
    let mountpoint = Path::new("/layers").into();
    LayerJob { id: ID.to_owned(), mountpoint, upper, walk: None, took: Duration::ZERO }
}

#[test]
fn a_layer_is_measured_in_steps() {
    let root = tempfile::tempdir().unwrap();
    machine(root.path());
    let upper = root.path().join("home/x/diff");
    let (mut job, mut steps) = (job(Some(upper.clone())), 0);
    let reading = loop {
        steps += 1;
        match job.go_on(1) {
            StepResult::More(same) => job = same,
            StepResult::Done { id, measured: Measurement { reading, upper: found, .. } } => {
                assert_eq!((id.as_str(), found), (ID, Some(upper)));
                break reading.unwrap();
            }
        }
    };
    assert!(steps > 3, "{steps}");
    assert_eq!((reading.mountpoint.as_path(), reading.inodes), (Path::new("/layers"), 4));
    assert!(reading.bytes >= 15_000 && reading.at.is_set());
}

#[test]
fn a_layer_whose_place_is_not_known_is_not_measured() {
    for upper in [None, Some("/nowhere".into())] {
        let turn = job(upper).go_on(100);
        assert!(
            matches!(&turn, StepResult::Done { measured, .. } if measured.reading.is_none() && measured.upper.is_none()),
            "{turn:?}"
        );
    }
}
