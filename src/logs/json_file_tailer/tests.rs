//! A log through everything that happens to logs, against what its entries make.

mod beginnings;
mod clock;
mod truncation;

use std::{fs, io::Write, path::PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::{
    logs::{entry::LogEntry, line, position::Identity},
    model::stream::Source,
};

#[derive(Clone, Debug)]
enum Event {
    /// The container writes: which stream, what, and what a crash left before it.
    LogEntry(Source, String, Scar),
    /// Bytes of what it wrote reach the engine's file.
    Flush(usize),
    RotateEngine,
    Step,
    Save,
    Crash,
    Rename,
    RenameBack,
    Reopen,
    DiskTakes(u64),
    DiskFree,
}

#[derive(Clone, Debug)]
enum Scar {
    None,
    Torn(usize),
    Nuls(usize),
}

/// An engine, a kubelet and a disk, and what the log has to become.
struct World {
    dir: TempDir,
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
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("engine")).unwrap();
        fs::write(dir.path().join("engine/json.log"), "").unwrap();
        Self {
            dir,
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

    fn source(&self) -> PathBuf {
        self.dir.path().join("engine/json.log")
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("pod/main/0.log")
    }

    fn tailer(&mut self) -> &mut JsonFileTailer {
        if self.tailer.is_none() {
            let place = LogPath::of(&self.path(), None).unwrap();
            let tailer = JsonFileTailer::resume(&self.source(), place, self.saved.clone()).unwrap();
            self.tailer = Some(tailer);
            self.look();
        }
        let tailer = self.tailer.as_mut().unwrap();
        tailer.writer.room = self.room;
        tailer
    }

    /// Takes note of new files in the order in which they come.
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
            Event::RotateEngine => self.rotate_engine(),
            Event::Step => drop(self.step()),
            Event::Save => self.saved = Some(self.tailer().position()),
            Event::Crash => self.tailer = None,
            Event::Rename if self.path().exists() => {
                let name = self.path().with_file_name(format!("0.log.{}", self.renamed.len()));
                fs::rename(self.path(), &name).unwrap();
                self.renamed.push(name);
            }
            Event::RenameBack if !self.path().exists() => {
                if let Some(name) = self.renamed.last().filter(|name| name.exists()) {
                    fs::rename(name, self.path()).unwrap();
                }
            }
            Event::Rename | Event::RenameBack => {}
            Event::Reopen => {
                self.tailer().reopen().unwrap();
                self.look();
                assert!(self.path().exists());
            }
            Event::DiskTakes(room) => self.room = Some(*room),
            Event::DiskFree => self.room = None,
        }
    }

    fn entry(&mut self, stream: Source, content: &str, scar: &Scar) {
        // The parts of a long line have one time.
        let (id, content) = (self.entries / 2, format!("{} {content}", self.entries));
        self.entries += 1;
        let time = format!("2026-01-01T00:{:02}:{:02}.5Z", id / 60, id % 60);
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

    fn rotate_engine(&mut self) {
        self.flush(usize::MAX);
        let name = |number: usize| self.dir.path().join(format!("engine/json.log.{number}"));
        let last = (1..).find(|number| !name(*number).exists()).unwrap();
        for number in (1..last).rev() {
            fs::rename(name(number), name(number + 1)).unwrap();
        }
        fs::rename(self.source(), name(1)).unwrap();
        fs::write(self.source(), "").unwrap();
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
        while !matches!(self.step().unwrap(), ReadProgress::CaughtUp(_)) {}
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
        1 => Just(Event::RotateEngine),
        8 => Just(Event::Step),
        2 => Just(Event::Save),
        2 => Just(Event::Crash),
        2 => Just(Event::Rename),
        1 => Just(Event::RenameBack),
        2 => Just(Event::Reopen),
        1 => (0_u64..300).prop_map(Event::DiskTakes),
        1 => Just(Event::DiskFree),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_line_comes_once_in_order_and_whole(events in prop::collection::vec(event(), 1..120)) {
        let mut world = World::new();
        for event in &events {
            world.happen(event);
        }
        let written = world.finish();
        let (written, expected) = (String::from_utf8(written).unwrap(), String::from_utf8(world.expected).unwrap());
        prop_assert_eq!(written, expected);
    }
}
