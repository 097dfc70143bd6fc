//! Images from registries, with and without credentials.

use dockbridge::wire::cri;

use crate::{
    pods::until_exited,
    support::{
        failure::{Outcome, ensure, ensure_eq},
        stage::Stage,
        world::World,
    },
};

/// An image behind a password: refused without and with a wrong one, pulled with the right one,
/// run, and removed under every name.
pub(crate) async fn from_a_private_registry(world: World) -> Outcome {
    let stage = Stage::cni(&world, "from_a_private_registry").await?;
    let (cri, registry) = (&stage.cri, &world.private);
    let name = format!("{}/busybox:1", registry.address);
    let auth = |password: &str| cri::AuthConfig {
        username: registry.user.clone(),
        password: password.to_owned(),
        server_address: registry.address.clone(),
        ..Default::default()
    };
    ensure!(cri.pull(&name, None).await.is_err(), "pulled without credentials");
    let refused = cri.pull(&name, Some(auth("wrong"))).await.err();
    let text = refused.map(|refused| refused.to_string()).unwrap_or_default();
    ensure!(!text.is_empty(), "pulled with a wrong password");
    ensure!(!text.contains("wrong"), "the password is in the error: {text}");
    ensure_eq!(cri.image(&name).await?, None);

    let id = cri.pull(&name, Some(auth(&registry.password))).await?;
    let image = cri.image(&name).await?.unwrap_or_default();
    ensure_eq!(image.id, id);
    ensure_eq!(cri.image(&id).await?.unwrap_or_default(), image);
    ensure!(image.size > 0, "the image has no size");
    ensure!(image.repo_tags.contains(&name), "tags are {:?}", image.repo_tags);
    runs(&stage, &name, &id).await?;
    runs(&stage, &id, &id).await?;

    for image in [format!("{}/busybox:1", world.registry), format!("{}/busybox", world.registry)] {
        let outcome = cri.pull(&image, None).await;
        ensure_eq!(outcome.is_ok(), image.ends_with(":1"));
    }
    cri.remove_image(&format!("{}/busybox:1", world.registry)).await?;
    cri.remove_image(&name).await?;
    ensure_eq!(cri.image(&name).await?, None);
    cri.remove_image(&name).await?;
    // Removing one name removes the image, so the world's own name has to be pulled back.
    restore(&stage, &world).await?;
    stage.leaves_nothing().await
}

async fn runs(stage: &Stage, image: &str, id: &str) -> Outcome {
    let pod = stage.recipes.pod("puller");
    let sandbox = stage.cri.run(&pod).await?;
    let mut container = stage.recipes.container("main", "echo ran");
    container.image = Some(cri::ImageSpec { image: image.to_owned(), ..Default::default() });
    let ids = stage.up(&sandbox, &pod, &[container]).await?;
    let status = until_exited(&stage.cri, &ids[0]).await?;
    ensure_eq!(status.image_id, id);
    ensure!(!status.image_ref.is_empty(), "no image_ref");
    stage.cri.clear().await
}

async fn restore(stage: &Stage, world: &World) -> Outcome {
    let name = format!("{}/busybox:1", world.registry);
    stage.engine.docker(&["pull", "-q", &name]).await?;
    stage.engine.docker(&["tag", &name, &world.image]).await?;
    stage.engine.docker(&["rmi", &name]).await?;
    Ok(())
}
