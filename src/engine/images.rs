//! Calls about images, except pulls.

use std::{collections::HashSet, path::PathBuf};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;

use super::{
    client::{Engine, LARGEST_IMAGE},
    error::{Call, EngineError, Subject},
    stream::{Messages, error_text},
};
use crate::{
    model::{engine::ApiVersion, id::ImageId, record::ImageRecord},
    translate::observe,
    wire::docker::{self, summary::ImageSummary},
};

impl Engine {
    /// Lists all images except intermediate ones, without duplicates. The records lack what only an inspect shows.
    pub async fn list_images(&self) -> Result<Vec<ImageRecord>, EngineError> {
        let list = self.request(Method::GET, "list images", Subject::Engine, "/images/json")?;
        let mut seen = HashSet::new();
        self.list(list, LARGEST_IMAGE, |entry: ImageSummary| {
            observe::listed::observe_image(entry).filter(|image| seen.insert(image.id.clone()))
        })
        .await
    }

    /// Inspects an image, by id or reference. [`EngineError::NotFound`] if the image does not exist.
    ///
    /// The engine also accepts the prefix of an id, so the returned image need not have the reference `name`.
    pub async fn inspect_image(&self, name: &str) -> Result<ImageRecord, EngineError> {
        let subject = Subject::Image(name.to_owned());
        // Engines before Docker 28.0, and engines with graph drivers, ignore `manifests`.
        let request = self.request(Method::GET, Call::INSPECT, subject, "/json?manifests=1")?;
        let call = request.call.clone();
        let inspect: docker::ImageInspect = self.json(request).await?;
        observe::image::observe(&inspect).ok_or_else(|| call.garbled("the image has no usable id"))
    }

    /// Removes a name of an image; with the last name or the id, also the image and its nameless parents.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] if the image is missing, [`EngineError::Conflict`] if containers or
    /// other images need it, or if `name` is the id of an image with several names.
    pub async fn remove_image(&self, name: &str) -> Result<(), EngineError> {
        let (subject, how) = (Subject::Image(name.to_owned()), "?force=0&noprune=0");
        let removal = self.request(Method::DELETE, "remove", subject, how)?;
        self.done(removal.repeatable()).await
    }

    /// Loads an archive in the format of `docker save`. [`EngineError::Failed`] if the engine cannot load it.
    pub async fn load_image(&self, archive: Bytes) -> Result<(), EngineError> {
        let load = self
            .request(Method::POST, "load an image", Subject::Engine, "/images/load?quiet=1")?
            .with_body("application/x-tar", archive)
            .repeatable();
        let reading = async {
            let body = self.begin(&load).await?;
            let mut messages = Messages::new(self.clone(), load.call.clone(), body);
            while let Some(message) = messages.next::<docker::Progress>().await {
                // The engine answers with the status 200 before it knows whether the archive is valid.
                if let Some(text) = error_text(&message?) {
                    let (call, message) = (load.call.clone(), text.to_owned());
                    return Err(EngineError::Failed { call, status: 200, message });
                }
            }
            Ok(())
        };
        let loaded = tokio::time::timeout(load.timeout, reading).await;
        loaded.unwrap_or_else(|_| Err(load.call.late(load.timeout)))
    }

    /// The size of all images together in bytes. Layers that several images share count once.
    ///
    /// This call is slow: the engine walks its image store, before Docker 23.0 also containers and volumes.
    pub async fn image_bytes(&self) -> Result<u64, EngineError> {
        let by_type = self.version().await? >= ApiVersion::DISK_USAGE_BY_TYPE;
        let target = if by_type { "/system/df?type=image" } else { "/system/df" };
        let measure = self.request(Method::GET, "measure images", Subject::Engine, target)?;
        let usage: Usage = self.json(measure).await?;
        let stated = usage.image_usage.and_then(|part| part.total_size).or(usage.layers_size);
        Ok(stated.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or_default())
    }

    /// The directories of an image's layers, topmost first. None if the layers are unknown, or the storage
    /// driver is not overlay2. [`EngineError::NotFound`] if the image does not exist.
    pub async fn image_layers(&self, image: &ImageId) -> Result<Option<Vec<PathBuf>>, EngineError> {
        let subject = Subject::Image(image.to_string());
        let request = self.request(Method::GET, Call::INSPECT, subject, "/json")?;
        let inspect: docker::ImageInspect = self.json(request).await?;
        Ok(layers(&inspect.graph_driver))
    }
}

/// The answer to `GET /system/df`: the old field for the size, and the one that replaces it since API 1.52.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct Usage {
    layers_size: Option<i64>,
    image_usage: Option<UsagePart>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct UsagePart {
    total_size: Option<i64>,
}

fn layers(driver: &docker::GraphDriver) -> Option<Vec<PathBuf>> {
    let top = driver.data.get("UpperDir").filter(|_| driver.name == "overlay2")?;
    let below = driver.data.get("LowerDir").map(String::as_str).unwrap_or_default();
    let below = below.split(':').filter(|path| !path.is_empty());
    Some(std::iter::once(top.as_str()).chain(below).map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::{PathBuf, docker::GraphDriver, layers};

    fn listed(text: &str) -> Option<Vec<String>> {
        let driver: GraphDriver = serde_json::from_str(text).unwrap();
        let shown = |path: PathBuf| path.display().to_string();
        layers(&driver).map(|all| all.into_iter().map(shown).collect())
    }

    #[test]
    fn layers_come_topmost_first() {
        let one =
            r#"{"Name":"overlay2","Data":{"MergedDir":"/d/a/merged","UpperDir":"/d/a/diff"}}"#;
        assert_eq!(listed(one), Some(vec!["/d/a/diff".to_owned()]));
        let three = r#"{"Name":"overlay2","Data":{"UpperDir":"/c","LowerDir":"/b:/a"}}"#;
        assert_eq!(listed(three), Some(["/c", "/b", "/a"].map(str::to_owned).to_vec()));
        for other in [
            r#"{"Name":"overlayfs","Data":null}"#,
            r#"{"Name":"vfs","Data":{"UpperDir":"/a"}}"#,
            r#"{"Name":"overlay2","Data":{}}"#,
            "{}",
        ] {
            assert_eq!(listed(other), None, "{other}");
        }
    }
}
