//! Tests the signal that StopContainer sends, which the container's configuration or the image names.

use dockbridge::wire::cri;

use crate::{
    pods::until_exited,
    support::{
        failure::{Outcome, ensure_eq},
        stage::Stage,
        world::World,
    },
};

/// The signal in the container's configuration has priority over the image's signal, and the image's signal over
/// SIGTERM. ContainerStatus shows the signal that StopContainer later sends to the container's process.
pub(crate) async fn to_stop(world: World) -> Outcome {
    let stage = Stage::cni(&world, "to_stop").await?;
    let image = "dockbridge.test/signal:1";
    // `docker commit` copies the stop signal of the container into the image. Docker 20.10 does not support
    // `STOPSIGNAL` as a change in a commit.
    let empty = stage.engine.docker(&["create", "--stop-signal", "SIGUSR2", &world.image]).await?;
    stage.engine.docker(&["commit", &empty, image]).await?;
    stage.engine.docker(&["rm", &empty]).await?;
    let line = "trap 'exit 1' USR1; trap 'exit 2' USR2; trap 'exit 3' TERM; echo up; \
                while :; do sleep 1 & wait $!; done";
    let pod = stage.recipes.pod("pod");
    let sandbox = stage.cri.run(&pod).await?;
    for (name, image, asked, told, code) in [
        ("usual", world.image.as_str(), cri::Signal::RuntimeDefault, cri::Signal::Sigterm, 3),
        ("image", image, cri::Signal::RuntimeDefault, cri::Signal::Sigusr2, 2),
        ("asked", image, cri::Signal::Sigusr1, cri::Signal::Sigusr1, 1),
    ] {
        let mut container = stage.recipes.container(name, line);
        container.image = Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() });
        container.stop_signal = asked.into();
        let ids = stage.up(&sandbox, &pod, &[container]).await?;
        ensure_eq!(stage.cri.container(&ids[0]).await?.stop_signal(), told, "{name}");
        // The test waits for the shell's traps, because the kernel ignores signals for which process 1 has no trap.
        stage
            .engine
            .inside(&ids[0], "until grep -q 'SigCgt:.*4a02' /proc/1/status; do :; done")
            .await?;
        stage.cri.stop_container(&ids[0], 30).await?;
        ensure_eq!(until_exited(&stage.cri, &ids[0]).await?.exit_code, code, "{name}");
    }
    stage.cri.clear().await?;
    stage.cri.remove_image(image).await?;
    stage.leaves_nothing().await
}
