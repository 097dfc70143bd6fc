//! The engine sends the entries several times, from an earlier time on.

use std::{fs, path::Path};

use proptest::prelude::*;

use super::*;
use crate::{logs::line, model::stream::Source};

/// The parts of every third line have the same time.
fn told() -> Vec<(String, String)> {
    let time =
        |id: usize| format!("2026-01-01T00:{:02}:{:02}.000000001Z", id / 3 / 60, id / 3 % 60);
    (0..60).map(|id| (time(id), format!("line {id}\n"))).collect()
}

fn entries<'a>(told: &'a [(String, String)], feed: &ApiLog) -> Vec<LogEntry<'a>> {
    let since = feed.since(Timestamp::MAX);
    let wanted = told
        .iter()
        .filter(|(time, _)| since.is_none_or(|since| time.parse::<Timestamp>().unwrap() >= since));
    wanted.map(|(time, content)| LogEntry::new(time, Source::Stdout, content.as_bytes())).collect()
}

fn resume(dir: &Path, position: Option<Position>) -> ApiLog {
    ApiLog::resume(LogPath::of(&dir.join("main/0.log"), None).unwrap(), position).unwrap()
}

proptest! {
    #[test]
    fn every_entry_comes_once(
        rounds in prop::collection::vec((0_usize..30, 0_u64..500, any::<bool>(), any::<bool>(), any::<bool>()), 0..8),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let (told, mut buffers, mut saved) = (told(), Buffers::default(), None);
        let mut feed = resume(dir.path(), None);
        for (count, room, save, crash, lost) in rounds {
            feed.writer.room = Some(room);
            let given = entries(&told, &feed);
            for entry in given.iter().take(count) {
                if feed.take(&[*entry], &mut buffers).is_err() {
                    break;
                }
            }
            if save {
                saved = feed.position();
            }
            if crash {
                feed = resume(dir.path(), if lost { None } else { saved.clone() });
            } else {
                // The engine has ended its answer and receives the next request.
                feed = resume(dir.path(), feed.position());
            }
        }
        feed.writer.room = None;
        let given = entries(&told, &feed);
        feed.take(&given, &mut buffers).unwrap();
        let mut expected = Vec::new();
        for (time, content) in &told {
            line::append(&LogEntry::new(time, Source::Stdout, content.as_bytes()), &mut expected);
        }
        let written = fs::read_to_string(dir.path().join("main/0.log")).unwrap();
        prop_assert_eq!(written, String::from_utf8(expected).unwrap());
    }
}

#[test]
fn all_entries_are_asked_for_when_the_clock_was_set_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut feed = resume(dir.path(), None);
    let entry = LogEntry::new("2026-01-01T12:00:00Z", Source::Stdout, b"text\n");
    feed.take(&[entry], &mut Buffers::default()).unwrap();
    let [before, after] =
        ["2026-01-01T11:59:59Z", "2026-01-01T12:00:00Z"].map(|now| now.parse().unwrap());
    assert_eq!(feed.since(before), None);
    assert_eq!(feed.since(after), Some(before));
}
