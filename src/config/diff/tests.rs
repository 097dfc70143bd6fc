//! Tests which settings count as changed, which of them a reload applies, and how a difference is printed.

use super::{
    super::{raw::Source, resolve::resolve},
    *,
};

fn resolved(values: &[(Key, &str)]) -> Resolved {
    let given = values.iter().map(|(key, text)| RawValue {
        key: *key,
        text: (*text).to_owned(),
        source: Source::Flag(key.name()),
    });
    resolve(given.collect(), None, &|_| None).unwrap()
}

fn lines(running: &[(Key, &str)], new: &[(Key, &str)]) -> Vec<String> {
    let found = differences(&resolved(running).values, &resolved(new));
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn a_difference_is_named_with_both_values_and_its_source() {
    let nothing: [&str; 0] = [];
    assert_eq!(lines(&[], &[]), nothing);
    assert_eq!(
        lines(&[(Key::LogLevel, "warn")], &[(Key::LogLevel, "debug"), (Key::StateDir, "/s")]),
        [
            "state-dir: \"/var/lib/dockbridge\" -> \"/s\" (flag --state-dir), needs a restart",
            "log-level: \"warn\" -> \"debug\" (flag --log-level)",
        ]
    );
    assert_eq!(
        lines(&[(Key::LogFormat, "json")], &[]),
        ["log-format: \"json\" -> \"text\" (default), needs a restart"]
    );
}

#[test]
fn another_spelling_is_no_difference() {
    let running = [(Key::LogLevel, "warn"), (Key::RuntimeRequestTimeout, "110s")];
    let new = [(Key::LogLevel, " warning "), (Key::RuntimeRequestTimeout, "1m50s")];
    assert!(lines(&running, &new).is_empty());
}

#[test]
fn every_setting_can_differ_and_a_reload_takes_over_the_live_ones_only() {
    let others = Key::ALL.map(|key| {
        let text = match key {
            Key::Network => "docker",
            Key::ContainerLogFormat => "docker",
            Key::PodCidr => "10.0.0.0/8",
            Key::StreamingAddr | Key::MetricsAddr => ":1",
            Key::ImagePullProgressDeadline | Key::RuntimeRequestTimeout => "7s",
            Key::PinnedImages | Key::PinnedImageLabels | Key::SandboxImage => "busybox",
            Key::CollectImages => "pulled",
            Key::LogFormat => "json",
            Key::LogLevel => "debug",
            Key::TracingEndpoint => "h:1",
            Key::TracingSamplingRatePerMillion => "3",
            Key::Nri => "on",
            Key::NriRegistrationTimeout | Key::NriRequestTimeout => "7s",
            Key::NriRequiredPlugins => "quota",
            _ => "/other",
        };
        (key, text)
    });
    let (running, new) = (resolved(&[]), resolved(&others));
    let all = differences(&running.values, &new);
    assert_eq!(all.iter().map(|one| one.key).collect::<Vec<_>>(), Key::ALL);
    let after = reloaded(&running.values, &new).unwrap();
    let left = differences(&after.values, &new);
    assert!(left.iter().all(Difference::needs_restart), "{left:?}");
    assert_eq!(left.len(), all.iter().filter(|one| one.needs_restart()).count());
    assert_eq!(after.settings.state_dir, running.settings.state_dir);
    assert_eq!(after.settings.metrics_addr, running.settings.metrics_addr);
    assert_eq!(after.settings.log.format, running.settings.log.format);
    assert_eq!(after.settings.log.level, new.settings.log.level);
    assert_eq!(names(left.iter().take(2)), "listen, docker");
}
