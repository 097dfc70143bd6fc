//! Which file of a directory is chosen, and what is said of the others.

use serde_json::json;

use super::*;
use crate::network::stage::Stage;

async fn look(stage: &Stage) -> Choice {
    let plugins = Plugins::new(stage.settings().bin_dirs);
    choose(&stage.path("conf"), &plugins, Duration::from_secs(10)).await
}

fn reasons(choice: &Choice) -> String {
    let texts: Vec<String> = choice.refused.iter().map(ToString::to_string).collect();
    texts.join("\n")
}

#[tokio::test]
async fn the_first_usable_by_name_wins() {
    let stage = Stage::new();
    stage.plugin("bridge", "");
    stage.list("20-b.conflist", "1.0.0", &["bridge"]);
    stage.conf("10-a.conf", &json!({"name": "single", "cniVersion": "0.4.0", "type": "bridge"}));
    stage.conf("05-x.txt", &json!({"not": "looked at"}));
    fs::create_dir(stage.path("conf/01-dir.conf")).unwrap();
    let chosen = look(&stage).await.chosen.unwrap();
    assert_eq!((chosen.file.as_str(), chosen.list.name.as_str()), ("10-a.conf", "single"));
    stage.conf("05-j.json", &json!({"name": "j", "cniVersion": "0.4.0", "type": "bridge"}));
    assert_eq!(look(&stage).await.chosen.unwrap().list.name, "j");
}

#[tokio::test]
async fn every_refusal_is_kept() {
    let stage = Stage::new();
    stage.plugin("good", "");
    stage.script("old", r#"echo '{"supportedVersions":["0.3.1"]}'"#);
    stage.script("mute", "exit 1");
    stage.list("01.conflist", "1.0.0", &["good", "absent"]);
    stage.list("02.conflist", "1.0.0", &["good", "old"]);
    stage.list("03.conflist", "1.0.0", &["mute"]);
    stage.list("04.conflist", "1.0.0", &["../good"]);
    stage.conf("05.conflist", &json!("text"));
    fs::write(stage.path("conf/06.conf"), [0xff, 0xfe]).unwrap();
    fs::write(stage.path("conf/07.conf"), "").unwrap();
    nix::unistd::mkfifo(&stage.path("conf/08.conf"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::symlink("nowhere", stage.path("conf/09.conf")).unwrap();
    fs::write(stage.path("conf/10.conf"), vec![b' '; 2 << 20]).unwrap();
    stage.list("11.conflist", "1.0.0", &["good"]);
    stage.list("12.conflist", "1.0.0", &["never looked at"]);
    let choice = look(&stage).await;
    assert_eq!(choice.chosen.as_ref().unwrap().file, "11.conflist");
    let reasons = reasons(&choice);
    for (line, part) in [
        (0, "01.conflist: network plugin absent, VERSION: not found in"),
        (1, "02.conflist: plugin old does not speak CNI 1.0.0 (it speaks 0.3.1)"),
        (2, "03.conflist: network plugin mute, VERSION: exit code 1"),
        (3, "04.conflist: plugin type \"../good\" is not a plain file name"),
        (4, "05.conflist: not a network configuration"),
        (5, "06.conf: invalid utf-8"),
        (6, "07.conf: not a network configuration: EOF"),
        (7, "08.conf: not a regular file"),
        (8, "09.conf: it does not exist"),
        (9, "10.conf: longer than a file of its kind"),
    ] {
        assert!(reasons.lines().nth(line).unwrap().starts_with(part), "{reasons}");
    }
    assert_eq!(choice.refused.len(), 10);
}

#[tokio::test]
async fn versions_are_negotiated() {
    let stage = Stage::new();
    stage.script("old", r#"echo '{"supportedVersions":["0.3.1","0.4.0","1.0.0"]}'"#);
    let text = json!({
        "name": "pods", "cniVersion": "0.4.0", "cniVersions": ["1.0.0", "1.1.0"],
        "plugins": [{"type": "old"}],
    });
    stage.conf("10.conflist", &text);
    let list = look(&stage).await.chosen.unwrap().list;
    assert_eq!(list.version.to_string(), "1.0.0");
    assert!(list.text().contains(r#""cniVersion":"1.0.0""#));
    assert!(!list.text().contains("cniVersions"));
}

#[tokio::test]
async fn an_absent_directory_is_a_problem_of_its_own() {
    let stage = Stage::new();
    assert_eq!(look(&stage).await, Choice::default());
    fs::remove_dir(stage.path("conf")).unwrap();
    assert_eq!(look(&stage).await.problem.as_deref(), Some("it does not exist"));
    fs::write(stage.path("conf"), "").unwrap();
    assert!(look(&stage).await.problem.unwrap().contains("Not a directory"));
}
