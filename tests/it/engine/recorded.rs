//! The fake dockerd sends answers that were recorded from engines (`tests/fixtures/answers`) to dockbridge's
//! engine client. The test fails if the client reads an answer in another way than before.
//!
//! With `DOCKBRIDGE_BLESS=1`, the test writes the values that the client reads into the fixtures. Read the
//! diff before you commit the fixtures.

use std::{env, fmt::Debug, fs, path::Path, time::Duration};

use bytes::Bytes;
use dockbridge::{
    engine::{client::Engine, error::EngineError, exec::ExecRequest},
    error::WithKind,
    model::{engine::ApiVersion, image::PullRequest, reference::ImageReference, stream::Streams},
    wire::docker::{ContainerCreateBody, ContainerUpdateBody},
};
use serde_json::{Value, json};

use super::engine;
use crate::support::fake_dockerd::{
    fault::{Fault, Rule},
    server::FakeDockerd,
};

#[tokio::test]
async fn recorded_answers_are_read_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/answers");
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.len() >= 4, "{files:?}");
    for file in files {
        let recorded: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let mut read = recorded.clone();
        read_again(&mut read).await;
        if env::var_os("DOCKBRIDGE_BLESS").is_some() {
            fs::write(&file, serde_json::to_string_pretty(&read).unwrap() + "\n").unwrap();
            continue;
        }
        for (part, now) in read.as_object().unwrap() {
            for (index, one) in now.as_array().into_iter().flatten().enumerate() {
                assert_eq!(&recorded[part][index], one, "{part}, {index}, {}", file.display());
            }
            assert_eq!(&recorded[part], now, "{part}, {}", file.display());
        }
    }
}

/// Reads the recorded answers with the client, and stores the results next to the answers.
async fn read_again(answers: &mut Value) {
    let newest: ApiVersion = answers["version"]["ApiVersion"].as_str().unwrap().parse().unwrap();
    let docker = FakeDockerd::start_speaking(newest.minor, 40).await;
    let client = engine(&docker);
    let events: String =
        answers["events"].as_array().unwrap().iter().map(|event| format!("{event}\n")).collect();
    docker.inject(Rule::new("GET /events", Fault::Stream(vec![events.into_bytes()])));
    for (request, part) in [
        ("GET /version", "version"),
        ("GET /info", "info"),
        ("GET /containers/json", "containers"),
        ("GET /images/json", "images"),
        ("GET /images/*/json", "image"),
        ("GET /system/df", "disk_usage"),
    ] {
        docker.inject(Rule::new(request, Fault::Answer(200, answers[part].clone())));
    }
    let mut stream = client.events().await.unwrap();
    let mut seen = Vec::new();
    while let Some(Ok(event)) = stream.next().await {
        seen.push(line(&event));
    }
    let (listed, image) = (client.list_images().await, client.inspect_image("busybox:1").await);
    let (listed, image) = (listed.unwrap(), image.unwrap());
    assert_eq!(listed[0].size, image.size, "an image has one size, whatever was asked");
    answers["observed"] = json!({
        "engine": line(&client.info().await.unwrap()),
        "containers": lines(&client.list_containers().await.unwrap()),
        "images": lines(&listed),
        "image": line(&image),
        "image_bytes": client.image_bytes().await.unwrap(),
        "events": seen,
    });
    assert_eq!(client.api(), newest, "ApiVersion::NEWEST is older than what was recorded");
    for case in answers["inspects"].as_array_mut().unwrap() {
        docker.clear_faults();
        let answer = Fault::Answer(200, case["inspect"].clone());
        docker.inject(Rule::new("GET /containers/*/json", answer));
        let id = case["inspect"]["Id"].as_str().unwrap();
        case["observed"] = json!(line(&client.inspect_container(id).await.unwrap()));
    }
    for case in answers["execs"].as_array_mut().unwrap() {
        docker.clear_faults();
        docker.inject(Rule::new("GET /exec/*/json", Fault::Answer(200, case["inspect"].clone())));
        case["observed"] = json!(line(&client.inspect_exec("1f").await.unwrap()));
    }
    for failure in answers["errors"].as_array_mut().unwrap() {
        docker.clear_faults();
        let status = u16::try_from(failure["status"].as_u64().unwrap()).unwrap();
        let body = failure["body"].as_str().unwrap().to_owned();
        docker.inject(Rule::new(failure["request"].as_str().unwrap(), Fault::Text(status, body)));
        let (call, subject) = (failure["call"].as_str().unwrap(), &failure["subject"]);
        let error = fails(&client, call, subject.as_str().unwrap()).await;
        let error = error.unwrap_or_else(|| panic!("no error: {failure}"));
        failure["observed"] = json!([line(&error.kind()), line(&error), error.to_string()]);
    }
}

/// Makes the engine call `call`, and returns its error.
async fn fails(client: &Engine, call: &str, subject: &str) -> Option<EngineError> {
    match call {
        "inspect_container" => client.inspect_container(subject).await.err(),
        "create" => client.create_container(subject, &ContainerCreateBody::default()).await.err(),
        "start" => client.start_container(subject, Duration::ZERO).await.err(),
        "stop" => client.stop_container(subject, Duration::ZERO).await.err(),
        "kill" => client.kill_container(subject, "SIGKILL").await.err(),
        "update" => client.update_container(subject, &ContainerUpdateBody::default()).await.err(),
        "exec" => {
            let command = ["true".to_owned()];
            let streams = Streams::default();
            let exec = ExecRequest { command: &command, streams, env: &[], size: None };
            client.create_exec(subject, &exec).await.err()
        }
        "inspect_exec" => client.inspect_exec(subject).await.err(),
        "inspect_image" => client.inspect_image(subject).await.err(),
        "remove_image" => client.remove_image(subject).await.err(),
        "list_images" => client.list_images().await.err(),
        "load" => client.load_image(Bytes::from_static(b"no archive")).await.err(),
        "pull" => {
            let reference = ImageReference::parse(subject).unwrap();
            let request = PullRequest { reference, credentials: None };
            let mut pull = match client.pull_image(&request).await {
                Ok(pull) => pull,
                Err(error) => return Some(error),
            };
            loop {
                match pull.next().await? {
                    Ok(_) => {}
                    Err(error) => return Some(error),
                }
            }
        }
        other => panic!("no such call: {other}"),
    }
}

fn line(value: &impl Debug) -> String {
    format!("{value:?}")
}

fn lines<T: Debug>(values: &[T]) -> Vec<String> {
    values.iter().map(line).collect()
}
