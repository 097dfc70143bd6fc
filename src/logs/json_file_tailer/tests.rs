//! Runs random sequences of events that can happen to a log, and compares the CRI files with the expected lines.

mod beginnings;
mod clock;
mod truncation;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use jiff::{SignedDuration, Timestamp};
use proptest::{prelude::*, sample::Index, test_runner::TestRunner};
use tempfile::TempDir;

use super::*;
use crate::{
    logs::{entry::LogEntry, line, position::Identity},
    model::stream::Source,
};

#[derive(Clone, Debug)]
enum Event {
    /// The container writes an entry: the entry's stream and text, and the damage that a crash has left before the
    /// entry.
    LogEntry(Source, String, Scar),
    /// The given number of bytes of the container's pending output reach the engine's file.
    Flush(usize),
    /// The engine rotates its file. The new file's birth time may be earlier than that of other files.
    RotateEngine(Index),
    /// Sets the clock to this number of seconds after [`BEGIN`]. The number can be negative.
    SetClock(i64),
    Step,
    Save,
    Crash,
    /// A crash of dockbridge that loses the saved position.
    Forget,
    /// kubelet renames the CRI file. With [`World::mixed_names`], the new name contains this time of kubelet's clock.
    Rename(u16),
    RenameBack,
    /// kubelet calls ReopenContainerLog. The new file's birth time may be earlier than that of other files.
    Reopen(Index),
    /// dockbridge is killed right after it has created the next CRI file.
    KilledInReopen(Index),
    DiskTakes(u64),
    DiskFree,
}

#[derive(Clone, Debug)]
enum Scar {
    None,
    Torn(usize),
    Nuls(usize),
}

/// The simulated engine, kubelet and disk, and the expected log.
struct World {
    dir: TempDir,
    /// Empty files to use later, in the order of their birth times.
    spare: Vec<PathBuf>,
    /// Whether the names that kubelet gives can have another order than the files. If true, the test saves a
    /// position after each reopen, as the service does.
    mixed_names: bool,
    clock: Timestamp,
    /// The time of the last entry.
    time: Timestamp,
    tailer: Option<JsonFileTailer>,
    saved: Option<Position>,
    room: Option<u64>,
    pending: Vec<u8>,
    entries: u32,
    expected: Vec<u8>,
    renamed: Vec<PathBuf>,
    files: Vec<Identity>,
}

impl World {
    fn new(spare: &[PathBuf], mixed_names: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("engine")).unwrap();
        fs::create_dir_all(dir.path().join("pod/main")).unwrap();
        for file in spare {
            fs::File::create(file).unwrap();
        }
        let mut spare = spare.to_vec();
        fs::hard_link(spare.remove(SPARE / 2), dir.path().join("engine/json.log")).unwrap();
        Self {
            dir,
            spare,
            mixed_names,
            clock: BEGIN,
            time: BEGIN,
            tailer: None,
            saved: None,
            room: None,
            pending: Vec::new(),
            entries: 0,
            expected: Vec::new(),
            renamed: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Creates a file at `path` from a spare file with any birth time; without a spare file, creates a new one.
    fn make(&mut self, path: &Path, which: Index) {
        if self.spare.is_empty() {
            fs::write(path, "").unwrap();
        } else {
            let file = self.spare.remove(which.index(self.spare.len()));
            fs::hard_link(file, path).unwrap();
        }
    }

    fn source(&self) -> PathBuf {
        self.dir.path().join("engine/json.log")
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("pod/main/0.log")
    }

    fn tailer(&mut self) -> &mut JsonFileTailer {
        if self.tailer.is_none() {
            let place = LogPath::of(&self.path(), None).unwrap();
            let tailer =
                JsonFileTailer::resume(&self.source(), place, self.saved.clone(), Nanos(1))
                    .unwrap();
            self.tailer = Some(tailer);
            self.look();
        }
        let tailer = self.tailer.as_mut().unwrap();
        tailer.writer.room = self.room;
        tailer
    }

    /// Records new files of the log in the order in which they appear.
    fn look(&mut self) {
        for file in fs::read_dir(self.path().parent().unwrap()).unwrap() {
            let identity = Identity::of(&file.unwrap().metadata().unwrap());
            if !self.files.contains(&identity) {
                self.files.push(identity);
            }
        }
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::LogEntry(stream, content, scar) => self.entry(*stream, content, scar),
            Event::Flush(count) => self.flush(*count),
            Event::RotateEngine(which) => self.rotate_engine(*which),
            Event::SetClock(seconds) => {
                self.clock = BEGIN + SignedDuration::from_secs(*seconds);
            }
            Event::Step => drop(self.step()),
            Event::Save => self.saved = Some(self.tailer().position()),
            Event::Crash => self.tailer = None,
            // The test does not lose the position after a full disk cut an entry short: then only a saved
            // position says how much of the entry was written.
            Event::Forget => {
                if self.tailer.take_if(|tailer| !tailer.writer.is_behind()).is_some() {
                    self.saved = None;
                }
            }
            Event::Rename(time) if self.path().exists() => {
                let (number, time) = (self.renamed.len(), if self.mixed_names { *time } else { 0 });
                let name = self.path().with_file_name(format!("0.log.{time:05}-{number:03}"));
                fs::rename(self.path(), &name).unwrap();
                self.renamed.push(name);
            }
            Event::RenameBack if !self.path().exists() => {
                if let Some(name) = self.renamed.last().filter(|name| name.exists()) {
                    fs::rename(name, self.path()).unwrap();
                }
            }
            Event::Rename(_) | Event::RenameBack => {}
            Event::Reopen(which) => {
                self.tailer();
                self.reopen(*which);
            }
            Event::KilledInReopen(which) => {
                self.tailer = None;
                self.reopen(*which);
            }
            Event::DiskTakes(room) => self.room = Some(*room),
            Event::DiskFree => self.room = None,
        }
    }

    fn reopen(&mut self, which: Index) {
        let path = self.path();
        if !path.exists() {
            self.make(&path, which);
        }
        self.tailer().reopen().unwrap();
        self.look();
        if self.mixed_names {
            self.saved = Some(self.tailer().position());
        }
    }

    fn entry(&mut self, stream: Source, content: &str, scar: &Scar) {
        // Every second entry has the time of the entry before, like the parts of a long line.
        if self.entries.is_multiple_of(2) {
            self.time = self.clock + SignedDuration::from_nanos(1 + i64::from(self.entries));
        }
        let (time, content) = (self.time.to_string(), format!("{} {content}", self.entries));
        self.entries += 1;
        let log = serde_json::to_string(&content).unwrap();
        let stream_word = stream.as_str();
        let json = format!(r#"{{"log":{log},"stream":"{stream_word}","time":"{time}"}}"#);
        match scar {
            Scar::None => {}
            Scar::Torn(length) => {
                self.pending.extend_from_slice(&json.as_bytes()[..*length % json.len()]);
            }
            Scar::Nuls(count) => self.pending.extend(vec![0; *count]),
        }
        self.pending.extend_from_slice(json.as_bytes());
        self.pending.push(b'\n');
        line::append(&LogEntry::new(&time, stream, content.as_bytes()), &mut self.expected);
    }

    fn flush(&mut self, count: usize) {
        let count = count.min(self.pending.len());
        let mut file = fs::File::options().append(true).open(self.source()).unwrap();
        file.write_all(&self.pending.drain(..count).collect::<Vec<_>>()).unwrap();
    }

    fn rotate_engine(&mut self, which: Index) {
        self.flush(usize::MAX);
        let source = self.source();
        let name = |number: usize| source.with_extension(format!("log.{number}"));
        let last = (1..).find(|number| !name(*number).exists()).unwrap();
        for number in (1..last).rev() {
            fs::rename(name(number), name(number + 1)).unwrap();
        }
        fs::rename(&source, name(1)).unwrap();
        self.make(&source, which);
    }

    fn step(&mut self) -> Result<ReadProgress, LogError> {
        let mut buffers = Buffers::default();
        let done = self.tailer().step(&mut buffers);
        self.room = self.tailer.as_ref().unwrap().writer.room;
        done
    }

    fn finish(&mut self) -> Vec<u8> {
        self.room = None;
        self.flush(usize::MAX);
        while self.step().unwrap().has_more {}
        assert_eq!(self.tailer().take_losses().gaps, 0);
        let mut files = Vec::new();
        for file in fs::read_dir(self.path().parent().unwrap()).unwrap() {
            let file = file.unwrap();
            let place = Identity::of(&file.metadata().unwrap());
            let place = self.files.iter().position(|known| *known == place).unwrap();
            files.push((place, fs::read(file.path()).unwrap()));
        }
        files.sort();
        for (_, bytes) in &files {
            assert!(bytes.is_empty() || bytes.ends_with(b"\n"), "a line is torn between files");
        }
        files.into_iter().flat_map(|(_, bytes)| bytes).collect()
    }
}

/// Creates a file whose birth time is later than the birth time of `other`.
pub(super) fn make_after(path: &Path, other: Option<&Path>) {
    let born = |path: &Path| fs::metadata(path).unwrap().created().unwrap();
    loop {
        fs::write(path, "").unwrap();
        if other.is_none_or(|other| born(other) < born(path)) {
            return;
        }
        // The kernel's clock has not advanced yet, so the test tries again.
        fs::remove_file(path).unwrap();
    }
}

fn event() -> impl Strategy<Value = Event> {
    let stream = prop_oneof![Just(Source::Stdout), Just(Source::Stderr)];
    let text = prop_oneof![
        4 => "[ -~\\n\u{0}\"\\\\é\u{1f600}]{0,40}".prop_map(|text| text.replace('\n', "")),
        1 => (0_usize..40_000).prop_map(|length| "long ".repeat(length / 5)),
    ];
    let content = (text, prop::bool::weighted(0.8))
        .prop_map(|(text, full)| if full { format!("{text}\n") } else { text });
    let scar = prop_oneof![
        8 => Just(Scar::None),
        1 => (0_usize..200).prop_map(Scar::Torn),
        1 => (1_usize..2_000).prop_map(Scar::Nuls),
    ];
    prop_oneof![
        8 => (stream, content, scar).prop_map(|(stream, text, scar)| Event::LogEntry(stream, text, scar)),
        4 => (1_usize..3_000).prop_map(Event::Flush),
        2 => Just(Event::Flush(usize::MAX)),
        1 => any::<Index>().prop_map(Event::RotateEngine),
        1 => (-1_000_i64..1_000).prop_map(Event::SetClock),
        8 => Just(Event::Step),
        2 => Just(Event::Save),
        2 => Just(Event::Crash),
        1 => Just(Event::Forget),
        2 => any::<u16>().prop_map(Event::Rename),
        1 => Just(Event::RenameBack),
        2 => any::<Index>().prop_map(Event::Reopen),
        1 => any::<Index>().prop_map(Event::KilledInReopen),
        1 => (0_u64..300).prop_map(Event::DiskTakes),
        1 => Just(Event::DiskFree),
    ]
}

#[test]
fn every_line_comes_once_in_order_and_whole() {
    let pool = tempfile::tempdir().unwrap();
    let spare: Vec<_> = (0..SPARE).map(|number| pool.path().join(number.to_string())).collect();
    for (number, file) in spare.iter().enumerate() {
        let other = number.checked_sub(1).map(|before| spare[before].as_path());
        make_after(file, other);
    }
    let mut runner = TestRunner::new(ProptestConfig::with_cases(400));
    let cases = (any::<bool>(), prop::collection::vec(event(), 1..120));
    let tested = runner.run(&cases, |(mixed_names, events)| {
        let mut world = World::new(&spare, mixed_names);
        for event in &events {
            world.happen(event);
        }
        let written = String::from_utf8(world.finish()).unwrap();
        prop_assert_eq!(written, String::from_utf8(world.expected).unwrap());
        Ok(())
    });
    tested.unwrap_or_else(|failure| panic!("{failure}"));
}

const BEGIN: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// How many files with known birth times one test case has.
const SPARE: usize = 12;
