//! Tests access to the streaming server: tokens, their single use, and the negotiation of protocols.

use std::time::Duration;

use dockbridge::wire::cri;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tonic::Code;

use super::Scene;
use crate::{
    pods::until_exited,
    support::{
        failure::{Outcome, ensure, ensure_eq, fail},
        remote::{SPDY, Session, USUAL, WEBSOCKET, Wish, exec_request},
        upgrade::{self, Answered, Place},
        world::World,
    },
};

/// dockbridge refuses Exec and Attach calls that cannot work, with a gRPC code for the reason.
pub(crate) async fn wrong_requests(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "stream_refusals").await?;
    let cri = &scene.stage.cri;
    let over = scene.add(&scene.stage.recipes.container("over", "true")).await?;
    until_exited(cri, &over).await?;
    let valid = exec_request(&scene.container, &["true"], Wish::Output);
    let with = |change: &dyn Fn(&mut cri::ExecRequest)| {
        let mut request = valid.clone();
        change(&mut request);
        request
    };
    let table = [
        (Code::InvalidArgument, with(&|request| request.container_id = String::new())),
        (Code::InvalidArgument, with(&|request| (request.stdout, request.stderr) = (false, false))),
        (Code::InvalidArgument, with(&|request| request.tty = true)),
        (Code::InvalidArgument, with(&|request| request.cmd = Vec::new())),
        (Code::NotFound, with(&|request| request.container_id = "0123456789abcdef".to_owned())),
        (Code::FailedPrecondition, with(&|request| request.container_id.clone_from(&over))),
    ];
    for (code, request) in table {
        let answer = cri.exec(&request).await.map_err(|refused| refused.code);
        ensure_eq!(answer, Err(code), "exec {request:?}");
        if request.cmd.is_empty() {
            continue;
        }
        let request = cri::AttachRequest {
            container_id: request.container_id,
            stdin: request.stdin,
            tty: request.tty,
            stdout: request.stdout,
            stderr: request.stderr,
        };
        let answer = cri.attach(&request).await.map_err(|refused| refused.code);
        ensure_eq!(answer, Err(code), "attach {request:?}");
    }
    scene.ends().await
}

/// A token is valid for one path and for one use.
pub(crate) async fn used_once(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "token_once").await?;
    for way in USUAL {
        let place = fresh(&scene).await?;
        let token = place.token();
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        ensure!(token.len() >= 8 && token.bytes().all(letters), "the token is {token:?}");
        ensure!(place.path.starts_with("/cri/exec/"), "the path is {}", place.path);
        ensure!(place.authority.starts_with("127.0.0.1:"), "the host is {}", place.authority);
        for kind in ["attach", "portforward", "other"] {
            let path = format!("/cri/{kind}/{token}");
            let other = Place { authority: place.authority.clone(), path };
            ensure_eq!(ask_spdy(&other, &[V4]).await?.status, 404, "{kind}");
        }
        let place = fresh(&scene).await?;
        let mut session = Session::open(way, &place, Wish::Output).await?;
        ensure_eq!(ask_spdy(&place, &[V4]).await?.status, 404, "(while it is used)");
        ensure_eq!(session.collect().await?.code()?, 0);
        ensure_eq!(ask_spdy(&place, &[V4]).await?.status, 404, "(after it was used)");
    }
    let place = fresh(&scene).await?;
    for path in ["/", "/cri/exec/", "/cri/exec/AAAAAAAA", "/cri/exec/../exec/x", "/metrics"] {
        let other = Place { authority: place.authority.clone(), path: path.to_owned() };
        ensure_eq!(ask_spdy(&other, &[V4]).await?.status, 404, "{path}");
    }
    scene.ends().await
}

/// dockbridge uses the first protocol in the client's list that it supports.
pub(crate) async fn negotiated(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "negotiated").await?;
    let lists: [(&[&str], &str); 5] = [
        (&["v5.channel.k8s.io", V4, "v3.channel.k8s.io"], V4),
        (&["v5.channel.k8s.io, v4.channel.k8s.io,v3.channel.k8s.io"], V4),
        (&["v9.channel.k8s.io,v2.channel.k8s.io", V4], "v2.channel.k8s.io"),
        (&["v3.channel.k8s.io", V4], "v3.channel.k8s.io"),
        (&["channel.k8s.io"], "channel.k8s.io"),
    ];
    for (asked, chosen) in lists {
        let answered = ask_spdy(&fresh(&scene).await?, asked).await?;
        ensure_eq!(answered.status, 101, "{asked:?}");
        ensure_eq!(answered.value(PROTOCOL), Some(chosen), "{asked:?}");
    }
    let answered = ask_spdy(&fresh(&scene).await?, &["v9.channel.k8s.io"]).await?;
    ensure_eq!(answered.status, 403);
    let accepted = answered.values("X-Accepted-Stream-Protocol-Versions").join(",");
    ensure!(accepted.contains(V4), "accepted are {accepted:?}");
    ensure_eq!(ask_spdy(&fresh(&scene).await?, &[]).await?.status, 400);
    for method in ["PUT", "DELETE"] {
        let answered = upgrade::ask(&fresh(&scene).await?, method, &SPDY_HEADERS).await?;
        ensure!((400..500).contains(&answered.status), "{method}: {}", answered.status);
    }
    let answered = upgrade::ask(&fresh(&scene).await?, "GET", &[]).await?;
    ensure!((400..500).contains(&answered.status), "no upgrade: {}", answered.status);
    let mut headers = SPDY_HEADERS.to_vec();
    headers.push((PROTOCOL, V4));
    ensure_eq!(upgrade::ask(&fresh(&scene).await?, "GET", &headers).await?.status, 101);
    scene.ends().await
}

/// At most a thousand tokens may be unused at the same time. Until one of them is used or expires, calls that need
/// another token fail.
pub(crate) async fn a_thousand_and_one(world: World) -> Outcome {
    let scene = Scene::quiet(&world, "token_limit").await?;
    // The test requests many tokens at a time, because all of them must exist before the first one expires.
    let calls = (0..1000).map(|_| fresh(&scene));
    let places: Vec<Place> = stream::iter(calls).buffered(50).try_collect().await?;
    let request = exec_request(&scene.container, &["true"], Wish::Output);
    let refused = scene.stage.cri.exec(&request).await.map_err(|refused| refused.code);
    ensure_eq!(refused, Err(Code::ResourceExhausted));
    let refused = scene.stage.cri.port_forward(&scene.sandbox, &[80]).await;
    ensure_eq!(refused.map_err(|refused| refused.code), Err(Code::ResourceExhausted));
    for (way, place) in [(SPDY, &places[0]), (WEBSOCKET, &places[999])] {
        let mut session = Session::open(way, place, Wish::Output).await?;
        ensure_eq!(session.collect().await?.code()?, 0);
        fresh(&scene).await?;
    }
    // A token expires after a minute. No event reports the expiry, so the test sleeps.
    tokio::time::sleep(Duration::from_secs(61)).await;
    ensure_eq!(ask_spdy(&places[1], &[V4]).await?.status, 404);
    let mut session = Session::open(SPDY, &fresh(&scene).await?, Wish::Output).await?;
    ensure_eq!(session.collect().await?.code()?, 0);
    scene.ends().await
}

async fn fresh(scene: &Scene) -> Outcome<Place> {
    let request = exec_request(&scene.container, &["true"], Wish::Output);
    match scene.stage.cri.exec(&request).await {
        Ok(url) => Place::of(&url),
        Err(refused) => fail!("{refused}"),
    }
}

async fn ask_spdy(place: &Place, protocols: &[&str]) -> Outcome<Answered> {
    let mut headers = SPDY_HEADERS.to_vec();
    headers.extend(protocols.iter().map(|protocol| (PROTOCOL, *protocol)));
    upgrade::ask(place, "POST", &headers).await
}

const SPDY_HEADERS: [(&str, &str); 2] = [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1")];
const PROTOCOL: &str = "X-Stream-Protocol-Version";
const V4: &str = "v4.channel.k8s.io";
